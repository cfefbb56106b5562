"""Reductions over nothing store the first values, however the loops are scheduled."""

import numpy as np
import pytest

import tilesmith
from tilesmith import te, tir
from tilesmith.script import tir as T
from tilesmith.tir import interpreter
from tilesmith.tir.empty_reductions import complete_reductions

ROWS = 6


def sums(depth=None):
    n = tir.Var("n", "int32") if depth is None else depth
    a = te.placeholder((ROWS, n), "float32", "A")
    k = te.reduce_axis((0, n), "k")
    return te.create_prim_func([a, te.compute((ROWS,), lambda i: te.sum(a[i, k], k), "C")])


def plain(schedule):
    pass


def reduction_outside(schedule):
    i, k = schedule.get_loops("C")
    schedule.reorder(k, i)


def tiles(schedule):
    i, k = schedule.get_loops("C")
    i0, i1 = schedule.split(i, [None, 4])
    k0, k1 = schedule.split(k, [None, 4])
    schedule.reorder(k0, i0, k1, i1)
    schedule.vectorize(i1)


def factors(schedule):
    _, k = schedule.get_loops("C")
    _, k1 = schedule.split(k, [None, 4])
    schedule.rfactor(k1, 0)


def fused(schedule):
    schedule.fuse(*schedule.get_loops("C"))


def fused_in_tiles(schedule):
    loop = schedule.fuse(*schedule.get_loops("C"))
    schedule.split(loop, [None, 4])


def fused_in_part(schedule):
    i, k = schedule.get_loops("C")
    i0, i1 = schedule.split(i, [None, 4])
    schedule.fuse(i1, k)


def threads(schedule):
    i, _ = schedule.get_loops("C")
    schedule.parallel(i)


ARRANGED = [
    plain, reduction_outside, tiles, factors, fused, fused_in_tiles, fused_in_part, threads,
]  # fmt: skip


@pytest.mark.parametrize("rearrange", ARRANGED)
def test_symbolic_extents(rearrange):
    schedule = tir.Schedule(sums())
    rearrange(schedule)
    built = tilesmith.build(schedule.mod)
    for depth in (0, 1, 3, 8):
        data = np.random.default_rng(0).random((ROWS, depth)).astype("float32")
        for run in (built, lambda *arrays: interpreter.run(schedule.mod, *arrays)):
            result = np.full(ROWS, 7, "float32")
            run(data, result)
            np.testing.assert_allclose(result, data.sum(1), rtol=1e-6)


def test_known_extents():
    """A reduction that is known to have iterations stays as it is."""
    full, empty = sums(3), sums(0)
    assert complete_reductions(full.body) is full.body
    assert "C_init" in str(empty.with_body(complete_reductions(empty.body)))


def test_extents_that_depend_on_rows():
    @T.prim_func
    def triangle(A: T.Buffer((ROWS, ROWS), "float32"), C: T.Buffer((ROWS,), "float32")):
        for i in range(ROWS):
            for k in range(i):
                with T.block("C"):
                    vi = T.axis.spatial(ROWS, i)
                    vk = T.axis.reduce(ROWS, k)
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vi, vk]

    data = np.random.default_rng(0).random((ROWS, ROWS)).astype("float32")
    for run in (tilesmith.build(triangle), lambda *arrays: interpreter.run(triangle, *arrays)):
        result = np.full(ROWS, 7, "float32")
        run(data, result)
        np.testing.assert_allclose(result, np.tril(data, -1).sum(1), rtol=1e-6)


def test_fused_loops_whose_extent_depends_on_rows():
    @T.prim_func
    def steps(A: T.Buffer((ROWS, ROWS), "float32"), C: T.Buffer((ROWS,), "float32")):
        for i, r in T.grid(ROWS // 2, 2):
            for k in range(i):
                with T.block("C"):
                    vi = T.axis.spatial(ROWS, i * 2 + r)
                    vk = T.axis.reduce(ROWS, k)
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + A[vi, vk]

    schedule = tir.Schedule(steps)
    schedule.fuse(*schedule.get_loops("C")[1:])
    data = np.random.default_rng(0).random((ROWS, ROWS)).astype("float32")
    expected = [data[row, : row // 2].sum() for row in range(ROWS)]
    for run in (
        tilesmith.build(schedule.mod),
        lambda *arrays: interpreter.run(schedule.mod, *arrays),
    ):
        result = np.full(ROWS, 7, "float32")
        run(data, result)
        np.testing.assert_allclose(result, expected, rtol=1e-6)
