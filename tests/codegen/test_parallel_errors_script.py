"""Parallel loops in which something can fail: the first error reaches the caller."""

import numpy as np
import pytest

import tilesmith
from tests.codegen.harness import compile_strictly
from tilesmith.codegen.c_compiler import find_compiler
from tilesmith.script import tir as T
from tilesmith.support.errors import ExecutionError

TARGETS = ["llvm", "c"]
SIZE = 64


def built(function, target):
    if target == "c" and find_compiler() is None:
        pytest.skip("no C compiler here")
    module = tilesmith.build(function, target=target)
    if target == "c":
        assert "ts_launch(" in module.get_source("c")
        compile_strictly(module.get_source("c"))
    return module


@pytest.mark.parametrize("target", TARGETS)
def test_assertions(target):
    @T.prim_func
    def copy(A: T.Buffer((SIZE,), "int32"), B: T.Buffer((SIZE,), "int32")):
        for i in T.parallel(SIZE):
            assert A[i] >= 0, "a negative number"
            B[i] = A[i]

    module = built(copy, target)
    source, result = np.arange(SIZE, dtype="i4"), np.zeros(SIZE, "i4")
    module(source, result)
    np.testing.assert_array_equal(result, source)
    for start in (1, SIZE // 2, SIZE):
        with pytest.raises(ExecutionError, match="a negative number"):
            module(source - start, result)
    module(source + 1, result)  # an error leaves nothing behind
    np.testing.assert_array_equal(result, source + 1)


@pytest.mark.parametrize("target", TARGETS)
def test_memory_of_each_iteration(target):
    @T.prim_func
    def last(A: T.Buffer((SIZE,), "int32"), B: T.Buffer((SIZE,), "int32")):
        for i in T.parallel(SIZE):
            numbers = T.allocate([30000], "int32", "global")
            N = T.Buffer((30000,), "int32", data=numbers)
            for j in range(30000):
                N[j] = A[i] + j
            B[i] = N[29999]

    source, result = np.arange(SIZE, dtype="i4"), np.zeros(SIZE, "i4")
    built(last, target)(source, result)
    np.testing.assert_array_equal(result, source + 29999)


@pytest.mark.parametrize("target", TARGETS)
def test_errors_of_the_users_functions_keep_their_class(target):
    def more(number):
        if number == 13:
            raise KeyError("thirteen")
        return number + 1

    tilesmith.register_func("tests.parallel.more", more, override=True)

    @T.prim_func
    def call(A: T.Buffer((SIZE,), "int32"), B: T.Buffer((SIZE,), "int32")):
        kept = T.allocate([30000], "int32", "global")
        K = T.Buffer((30000,), "int32", data=kept)
        K[0] = 5
        for i in T.parallel(SIZE):
            B[i] = T.call_packed("tests.parallel.more", A[i]) + K[0]

    module = built(call, target)
    source, result = np.arange(SIZE, dtype="i4"), np.zeros(SIZE, "i4")
    with pytest.raises(KeyError, match="thirteen") as caught:
        module(source, result)
    assert any(entry.name == "more" for entry in caught.traceback)
    module(source + 100, result)
    np.testing.assert_array_equal(result, source + 106)


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("target", TARGETS)
def test_memory_that_no_stack_holds(target, scope):
    @T.prim_func
    def last(B: T.Buffer((4,), "int32")):
        for i in T.parallel(4):
            numbers = T.allocate([4000000], "int32", scope)
            N = T.Buffer((4000000,), "int32", data=numbers, scope=scope)
            for j in T.serial(4000000):
                N[j] = i + j
            B[i] = N[B[i]]

    result = np.array([0, 3999999, 7, 8], "i4")
    built(last, target)(result)
    np.testing.assert_array_equal(result, [0, 4000000, 9, 11])
