"""Loops that do not become vectors are told, with the function that they are in."""

import tilesmith as ts
from tilesmith.script import tir as T
from tilesmith.support.fallbacks import collect_fallbacks


def told(function):
    with collect_fallbacks() as report:
        ts.build(function, target="llvm").get_source("ll")
    return {(one.kind, one.subject, one.reason) for one, _ in report.rows()}


def test_lanes_that_write_one_element_run_in_turn():
    @T.prim_func
    def total(A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "float32")):
        T.func_attr({"global_symbol": "total"})
        for i in T.vectorized(8):
            B[0] = B[0] + A[i]

    reason = "lanes write different values to one element"
    assert told(total) == {("vectorization", "total: loop 'i'", reason)}


def test_loops_that_llvm_must_not_vectorise():
    @T.prim_func
    def turned(A: T.Buffer((8,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"global_symbol": "turned"})
        for i in range(64):
            B[i] = A[i % 8]

    ((kind, subject, reason),) = told(turned)
    assert kind == "vectorization" and "turned" in subject and subject.endswith(": loop 'i'")
    assert reason == "its variable is reduced by a mask; LLVM would vectorize it wrongly"


def test_loops_that_become_vectors_are_not_told():
    @T.prim_func
    def copied(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(8):
            for j in T.vectorized(8):
                B[i * 8 + j] = A[i * 8 + j]

    assert told(copied) == set()
