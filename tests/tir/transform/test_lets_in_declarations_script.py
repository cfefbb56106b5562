"""Lets whose variables stand in the shape, strides or offset of a declared buffer."""

import numpy as np
import pytest

from tilesmith.ir import IRModule
from tilesmith.script import tir as T
from tilesmith.tir import transform
from tilesmith.tir.analysis import verify_well_formed
from tilesmith.tir.interpreter import run


@T.prim_func
def shape(A: T.Buffer((64,), "float32"), n: T.int64):
    with T.LetStmt(T.int64(4)) as m:
        B = T.decl_buffer((2, m), "float32", data=A.data)
        for i in range(T.int64(4)):
            B[1, i] = 1.0


@T.prim_func
def offset(A: T.Buffer((64,), "float32"), n: T.int64):
    for j in range(T.int64(3)):
        with T.LetStmt(j * T.int64(8)) as m:
            B = T.decl_buffer((2, 4), "float32", data=A.data, elem_offset=m)
            if n > T.int64(3):
                B[1, j] = 1.0


@T.prim_func
def strides(A: T.Buffer((64,), "float32"), n: T.int64):
    with T.LetStmt(n * T.int64(2)) as m, T.LetStmt(n * T.int64(3)) as k:
        B = T.decl_buffer((2, 4), "float32", data=A.data, strides=[m, 1], elem_offset=k)
        B[1, 0] = 1.0


PASSES = [
    transform.Simplify(), transform.RemoveNoOp(), transform.NarrowDataType(32),
    transform.CommonSubexprElimTIR(), transform.ConvertSSA(), transform.FlattenBuffer(),
    transform.UnrollLoop(), transform.HoistExpression(), transform.LoopPartition(),
]  # fmt: skip


@pytest.mark.parametrize("step", PASSES, ids=lambda step: step.info.name)
@pytest.mark.parametrize("function", [shape, offset, strides])
def test_a_declaration_keeps_what_it_names(function, step):
    before, after = np.zeros(64, "float32"), np.zeros(64, "float32")
    run(function, before, 4)
    module = step(IRModule({"main": function}))
    verify_well_formed(module)
    run(module, after, 4)
    assert before.any()
    np.testing.assert_array_equal(after, before)
