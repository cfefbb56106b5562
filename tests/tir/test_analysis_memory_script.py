"""Analyses of memory: accesses outside of buffers, scopes of arguments, tightly coupled memory."""

import pytest

from tilesmith.ir import FuncType, IRModule, PrimType, TupleType
from tilesmith.ir.transform import Sequential
from tilesmith.script import tir as T
from tilesmith.support.errors import ShapeError, TypeMismatchError, VerifyError
from tilesmith.tir.analysis import (
    OOBChecker,
    apply_prim_func_arg_and_result_memory_constraints,
    calculate_allocated_bytes,
    get_prim_func_arg_and_result_memory_constraints,
    get_vtcm_compaction_passes,
    verify_ssa,
)
from tilesmith.tir.analysis.out_of_bounds import find_out_of_bounds


def check_bounds(func):
    return OOBChecker()(IRModule({"main": func}))


@T.prim_func
def reads_behind_the_end(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi + 1]


@T.prim_func
def writes_before_the_beginning(A: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(8, 4):
        A[i, j - 1] = T.float32(0)


@T.prim_func
def symbolic_size(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    for i in range(n):
        A[n + i] = T.float32(0)


@T.prim_func
def a_row(A: T.Buffer((30,), "float32")):
    for i in range(8):
        A[T.Ramp(i * 4, 1, 4)] = T.Broadcast(T.float32(0), 4)


@pytest.mark.parametrize(
    ("func", "axis", "interval"),
    [
        (reads_behind_the_end, 0, "[1, 8]"),
        (writes_before_the_beginning, 1, "[-1, 2]"),
        (symbolic_size, 0, ""),
        (a_row, 0, "[3, 31]"),
    ],
)
def test_accesses_outside_are_found(func, axis, interval):
    with pytest.raises(VerifyError, match=f"axis {axis}") as caught:
        check_bounds(func)
    assert interval in str(caught.value) and "'main'" in str(caught.value)


def test_what_conditions_protect_is_inside():
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        for i in range(8):
            if i + 1 < 8:
                B[i] = A[i + 1]
            B[i] = T.if_then_else(i > 2, A[i - 3], T.float32(0))
            B[i] = T.Select(2 < i, A[i - 3], T.float32(0))
            x: T.int32 = i % 4
            B[x + 4] = A[i * 2 // 2]
            if n < 8 and n >= 0:
                B[n] = A[7 - n]

    assert not find_out_of_bounds(func)
    assert check_bounds(func)["main"] is func


# Scopes of arguments.

ARGUMENT = PrimType("float32")


def function_type(arguments, results):
    result = TupleType((ARGUMENT,) * results) if results > 1 else ARGUMENT
    return FuncType([ARGUMENT] * arguments, result)


@T.prim_func
def in_scopes(a: T.handle, b: T.handle, c: T.handle, n: T.int32):
    T.func_attr({"global_symbol": "in_scopes"})
    A = T.match_buffer(a, (8,), scope="global.texture")
    B = T.match_buffer(b, (8,))
    C = T.match_buffer(c, (8,))
    for i in range(8):
        B[i] = A[i] + T.Cast("float32", n)
        C[i] = A[i]


@pytest.mark.parametrize(("arguments", "results"), [(1, 2), (2, 1)])
def test_scopes_of_arguments_and_results(arguments, results):
    kind = function_type(arguments, results)
    found = get_prim_func_arg_and_result_memory_constraints(in_scopes, kind)
    assert found == ["global.texture", "", ""]
    scopes = ["global.texture", "global.vtcm", ""]
    new = apply_prim_func_arg_and_result_memory_constraints(in_scopes, kind, scopes)
    assert get_prim_func_arg_and_result_memory_constraints(new, kind) == scopes
    assert new.body.body.seq[0].buffer is new.buffers[1] and verify_ssa(new)
    same = apply_prim_func_arg_and_result_memory_constraints(new, kind, ["", "", ""])
    assert same is new


def test_scopes_that_do_not_fit():
    kind = function_type(1, 2)
    apply = apply_prim_func_arg_and_result_memory_constraints
    with pytest.raises(ShapeError, match="3 scopes"):
        apply(in_scopes, kind, ["", ""])
    with pytest.raises(TypeMismatchError, match="'A'"):
        apply(in_scopes, kind, ["global.vtcm", "", ""])
    with pytest.raises(ShapeError, match="5 tensors"):
        apply(in_scopes, function_type(4, 1), [""] * 5)
    with pytest.raises(TypeMismatchError, match="function type"):
        apply(in_scopes, ARGUMENT, [""])


def test_tightly_coupled_memory_of_a_schedule():
    @T.prim_func
    def func(A: T.Buffer((64,), "int8"), B: T.Buffer((64,), "int8")):
        T.func_attr({"global_symbol": "main"})
        X = T.alloc_buffer((64,), "int8", scope="global.vtcm")
        for i in range(4):
            for j in range(16):
                with T.block("X"):
                    v = T.axis.spatial(64, i * 16 + j)
                    X[v] = A[v]
            for j in range(16):
                with T.block("B"):
                    v = T.axis.spatial(64, i * 16 + j)
                    B[v] = X[v] + T.int8(1)

    mod = IRModule({"main": func})
    assert calculate_allocated_bytes(mod)["main"] == {"global.vtcm": 64}
    compact = Sequential(get_vtcm_compaction_passes())(mod)
    assert calculate_allocated_bytes(compact)["main"] == {"global.vtcm": 16}
