"""Blocks do not move to where the memory that they use is not declared."""

import pytest

from tilesmith.script import tir as T
from tilesmith.support.errors import ScheduleError
from tilesmith.tir import Schedule


@T.prim_func
def program(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,), "float32")
    with T.allocate_const([1.0, 2.0, 4.0, 8.0], "float32", (4,)) as data:
        K = T.decl_buffer((4,), "float32", data=data)
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi] * K[vi]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi] + T.float32(1)


@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.compute_inline("B"),
        lambda sch: sch.compute_at("B", sch.get_loops("C")[0]),
    ],
    ids=["compute_inline", "compute_at"],
)
def test_a_block_stays_where_its_memory_is_declared(step):
    sch = Schedule(program, debug_mask="all")
    with pytest.raises(ScheduleError, match="'K', which is declared around its loops only"):
        step(sch)


@T.prim_func
def conditional(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    if A[0] > T.float32(0):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                A[vi] = A[vi] + T.float32(1)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = T.float32(1)


@pytest.mark.parametrize("func", [program, conditional])
def test_loops_of_which_one_stands_inside_of_another_statement_are_not_merged(func):
    sch = Schedule(func, debug_mask="all")
    with pytest.raises(ScheduleError, match="not directly consecutive"):
        sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])


def test_others_move_into_the_declaration():
    sch = Schedule(program, debug_mask="all")
    sch.reverse_compute_inline("C")
    assert "C[vi] = A[vi] * K[vi] + T.float32(1.0)" in sch.mod.script()
