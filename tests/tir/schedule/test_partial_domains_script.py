"""Blocks that run for a part of their iterators' values: primitives that would run them for all of
them are refused, the others keep the results."""

import pytest

from tests.tir.schedule.harness import check, refused
from tilesmith.script import tir as T


@T.prim_func
def triangle(
    A: T.Buffer((10, 10), "int32"), Q: T.Buffer((10,), "int32"), R: T.Buffer((10, 10), "int32")
):
    T.func_attr({"global_symbol": "main"})
    P = T.alloc_buffer((10, 10), "int32")
    for i, j in T.grid(10, 10):
        with T.block("pre"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = A[vi, vj] + 1
    for i in range(10):
        for j in range(i + 1):
            with T.block("lower"):
                vi = T.axis.spatial(10, i)
                vj = T.axis.reduce(10, j)
                with T.init():
                    Q[vi] = 0
                Q[vi] = Q[vi] + P[vi, vj]
    for i in range(10):
        for j in range(i + 1):
            with T.block("copy"):
                vi = T.axis.spatial(10, i)
                vj = T.axis.spatial(10, j)
                R[vi, vj] = P[vi, vj]


def loop(sch, block, depth):
    return sch.get_loops(sch.get_block(block))[depth]


LEFT_OUT = "may leave out some values of its iterators, or some combinations"
PART = "may take only a part of the values of its iterators 'vi', 'vj'"
REFUSED = {
    "reverse_compute_at of a reduction": (
        lambda s: s.reverse_compute_at(s.get_block("lower"), loop(s, "pre", 0)),
        LEFT_OUT,
    ),
    "reverse_compute_at": (
        lambda s: s.reverse_compute_at(s.get_block("copy"), loop(s, "pre", 0)),
        LEFT_OUT,
    ),
    "cache_write": (lambda s: s.cache_write(s.get_block("copy"), 0, "global"), PART),
    "reindex": (lambda s: s.reindex(s.get_block("copy"), ("write", 0)), PART),
    "reindex_cache_write": (
        lambda s: s.reindex_cache_write(s.get_block("copy"), 0, "global", lambda i, j: (j, i)),
        PART,
    ),
    "rfactor": (lambda s: s.rfactor(loop(s, "lower", 1), 0), "depends on other loops"),
    "transform_block_layout": (
        lambda s: s.transform_block_layout(s.get_block("copy"), lambda i, j: [j, i]),
        "a part of the iterators' values only",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_primitives_that_would_fill_a_triangle_up(name):
    steps, text = REFUSED[name]
    refused(triangle, steps, text)


KEPT = {
    "write_at": lambda s: s.write_at(loop(s, "copy", 0), s.get_block("copy"), 0, "global"),
    "read_at": lambda s: s.read_at(loop(s, "copy", 0), s.get_block("copy"), 0, "global"),
    "decompose_reduction": lambda s: s.decompose_reduction(
        s.get_block("lower"), loop(s, "lower", 0)
    ),
    "blockize": lambda s: s.blockize(loop(s, "copy", 1)),
    "vectorize": lambda s: s.vectorize(s.split(loop(s, "copy", 1), [None, 4])[1]),
    "compute_at of the producer": lambda s: s.compute_inline(s.get_block("pre")),
}


@pytest.mark.parametrize("name", KEPT)
def test_primitives_that_keep_a_triangle(name):
    check(triangle, KEPT[name])


def test_a_diagonal_is_not_a_square():
    @T.prim_func
    def diagonal(A: T.Buffer((6, 6), "int32"), R: T.Buffer((6, 6), "int32")):
        T.func_attr({"global_symbol": "main"})
        P = T.alloc_buffer((6, 6), "int32")
        for i, j in T.grid(6, 6):
            with T.block("pre"):
                vi, vj = T.axis.remap("SS", [i, j])
                P[vi, vj] = A[vi, vj] + 1
        for i in range(6):
            with T.block("copy"):
                vi = T.axis.spatial(6, i)
                vj = T.axis.spatial(6, i)
                R[vi, vj] = P[vi, vj]

    def steps(sch):
        sch.reverse_compute_at(sch.get_block("copy"), loop(sch, "pre", 0))

    refused(diagonal, steps, LEFT_OUT)


def test_loops_that_leave_out_the_start_of_a_reduction():
    @T.prim_func
    def later(A: T.Buffer((4, 8), "int32"), S: T.Buffer((4,), "int32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            for j in range(3, 8):
                with T.block("sum"):
                    vi = T.axis.spatial(4, i)
                    vj = T.axis.reduce(8, j)
                    with T.init():
                        S[vi] = 0
                    S[vi] = S[vi] + A[vi, vj]

    text = "may leave out the start of its reduction iterator 'vj'"
    refused(later, lambda s: s.rfactor(loop(s, "sum", 1), 0), text)
    refused(later, lambda s: s.decompose_reduction(s.get_block("sum"), loop(s, "sum", 0)), text)


def test_a_consumer_of_two_rows_waits_for_both():
    @T.prim_func
    def rows(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        T.func_attr({"global_symbol": "main"})
        P = T.alloc_buffer((8, 4), "float32")
        for i, j in T.grid(8, 4):
            with T.block("pre"):
                vi, vj = T.axis.remap("SS", [i, j])
                P[vi, vj] = A[vi, vj] * T.float32(3)
        for i, j in T.grid(8, 4):
            with T.block("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = P[vi, vj] + T.float32(1)

    def tile(sch):
        _, inner = sch.split(loop(sch, "copy", 0), [None, 2])
        sch.blockize(inner)

    def move(sch):
        sch.reverse_compute_at(sch.get_block("copy_o"), loop(sch, "pre", 0))

    def steps(rows_at_once):
        def carry_out(sch):
            tile(sch)
            sch.split(loop(sch, "pre", 0), [None, rows_at_once])
            move(sch)

        return carry_out

    refused(rows, [tile, move], "reads 'P' over several iterations")
    check(rows, steps(2))
    check(rows, steps(4))
