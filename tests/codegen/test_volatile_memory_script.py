"""Volatile memory: each access is made, once, and whole."""

import numpy as np
import pytest

import tilesmith
from tilesmith.script import from_source
from tilesmith.script import tir as T
from tilesmith.support.errors import TilesmithError


@T.prim_func
def program(A: T.Buffer((8,), "float32"), B: T.Buffer((2,), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    with T.attr(A.data, "volatile_scope", 1):
        B[0] = A[3]
        A[3] = T.float32(5)
        A[3] = T.float32(7)
        B[1] = A[3]


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_results(target):
    module = tilesmith.build(program, target=target)
    a, b = np.arange(8, dtype="float32"), np.zeros(2, "float32")
    module["main"](a, b)
    assert b.tolist() == [3, 7] and a[3] == 7


def test_llvm_keeps_all_accesses():
    module = tilesmith.build(program, target="llvm")
    for form in ("ll", "ll.opt"):
        functions = module.get_source(form).split("define")  # the body may be inlined elsewhere
        parts = [one for one in functions if "volatile" in one]
        assert parts
        for part in parts:
            assert part.count("load volatile float") == part.count("store volatile float") == 2


def test_c_marks_all_accesses():
    module = tilesmith.build(program, target="c")
    assert module.get_source().count("((volatile float*)A)[3]") == 4


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_inside_of_parallel_loops(target):
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        with T.attr(A.data, "volatile_scope", 1):
            for i in T.parallel(8):
                B[i] = A[i] * T.float32(2)

    module = tilesmith.build(main, target=target)
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    module["main"](a, b)
    assert b.tolist() == (2 * a).tolist()
    word = "load volatile float" if target == "llvm" else "((volatile float*)A)["
    assert word in module.get_source()


REFUSED = {
    "under a predicate": (
        "B.vstore([T.Ramp(0, 1, 8)], A.vload([T.Ramp(0, 1, 8)], "
        "predicate=T.get_active_lane_mask('uint1x8', n, 6)))"
    ),
    "scattered": "B[T.Ramp(0, 1, 4)] = A[T.Ramp(0, 2, 4)]",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_llvm_cannot_do_is_refused(what):
    source = f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
    with T.attr(A.data, "volatile_scope", 1):
        {REFUSED[what]}
"""
    with pytest.raises(TilesmithError, match=f"{what}.* of 'A', which is volatile"):
        tilesmith.build(from_source(source), target="llvm")
