"""Parallel regions: several parallel loops between one start and one end of the threads."""

import numpy as np
import pytest

from tests.te.schedule.programs import interpreted, rng
from tilesmith import build, lower, nd, te, tir
from tilesmith.runtime import threads
from tilesmith.support.errors import ScheduleError, TilesmithError
from tilesmith.support.fallbacks import collect_fallbacks

LATE = """
#include <unistd.h>
float late(int i, float x) { if (i == 0) usleep(20000); return x * 2.0f; }
"""


@pytest.fixture(autouse=True)
def four_workers():
    threads.set_num_threads(4)
    yield
    threads.set_num_threads(None)


def reversed_in_steps(n, strided, barriers, value=lambda i, x: x * 2.0, dtype="float32"):
    """A serial loop around two stages: what one worker writes another one reads."""
    A = te.placeholder((n,), dtype, name="A")
    D = te.compute((n,), lambda i: value(i, A[i]), name="D")
    C = te.compute((3, n), lambda t, i: D[n - 1 - i] + tir.Cast(dtype, t), name="C")
    s = te.create_schedule(C.op)
    step, i = C.op.axis
    region, step = s[C].split(step, nparts=1)
    s[C].pragma(region, "parallel_launch_point")
    s[D].compute_at(s[C], step)
    for stage, axis in ((C, i), (D, D.op.axis[0])):
        s[stage].parallel(axis)
        if strided:
            s[stage].pragma(axis, "parallel_stride_pattern")
        if barriers:
            s[stage].pragma(axis, "parallel_barrier_when_finish")
    return s, region, A, D, C


def wanted_of(a):
    return a[::-1] * 2 + np.arange(3, dtype=a.dtype)[:, None]


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("n", [1, 7, 64])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_workers_divide_all_loops_of_a_region(target, n, strided):
    s, _, A, D, C = reversed_in_steps(n, strided, True)
    a = rng.random(n, dtype="float32")
    np.testing.assert_allclose(interpreted(s, [A, C], a), wanted_of(a), rtol=1e-6)
    function = build(s, [A, C], target=target)
    for _ in range(5):
        a, found = rng.random(n, dtype="float32"), nd.array(np.zeros((3, n), "float32"))
        function(nd.array(a), found)
        np.testing.assert_allclose(found.numpy(), wanted_of(a), rtol=1e-6)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_workers_wait_at_barriers(target):
    """The first element comes late: who does not wait for it reads what was there before."""
    late = lambda i, x: tir.call_extern("float32", "late", i, x)
    s, region, A, D, C = reversed_in_steps(9, True, True, late)
    s[C].pragma(region, "import_c", LATE)
    a, found = rng.random(9, dtype="float32") + 1, nd.array(np.zeros((3, 9), "float32"))
    build(s, [A, C], target=target)(nd.array(a), found)
    np.testing.assert_allclose(found.numpy(), wanted_of(a), rtol=1e-6)


@pytest.mark.parametrize("barriers", [False, True])
def test_a_region_starts_its_threads_once(barriers):
    s, _, A, D, C = reversed_in_steps(64, True, barriers)
    text = build(s, [A, C], target="llvm").get_source()
    assert text.count("load ptr, ptr @__tilesmith_parallel_launch") == 1
    calls = text.count("call i1 @__tilesmith_parallel_barrier")
    assert calls == (2 if barriers else 0)


def test_the_loops_of_a_worker():
    s, _, A, D, C = reversed_in_steps(7, True, True)
    lowered = tir.transform.LowerParallelRegions()(lower(s, [A, C]))
    text = str(lowered)
    assert "i: T.int32 = task + i_turn * tasks" in text
    assert text.count("tir.parallel_barrier") == 2 and text.count("T.parallel(") == 1
    assert text.index("D = T.allocate") < text.index("for task in")  # memory of all workers


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("bad", [None, 3, 60])
def test_the_error_of_one_worker_ends_all(target, bad):
    s, _, A, D, C = reversed_in_steps(
        64, False, True, lambda i, x: te.indexdiv(128, x), dtype="int32"
    )
    a, found = np.full(64, 2, "int32"), nd.array(np.zeros((3, 64), "int32"))
    if bad is not None:
        a[bad] = 0
    function = build(s, [A, C], target=target)
    if bad is None:
        function(nd.array(a), found)
        np.testing.assert_array_equal(found.numpy(), 64 + np.arange(3)[:, None] + 0 * a)
        return
    with pytest.raises(TilesmithError, match="division by zero"):
        function(nd.array(a), found)


def test_what_one_worker_has_to_do_keeps_loops_of_their_own():
    """A stage that is computed in the region by a serial loop would be computed by all workers."""
    s, region, A, D, C = reversed_in_steps(8, True, True)
    s = te.create_schedule(C.op)
    region, step = s[C].split(C.op.axis[0], nparts=1)
    s[C].pragma(region, "parallel_launch_point")
    s[D].compute_at(s[C], step)
    s[C].parallel(C.op.axis[1])
    with collect_fallbacks() as report:
        function = build(s, [A, C], target="llvm")
    assert any("stores outside of its parallel loops" in one.reason for one, _ in report.rows())
    a, found = rng.random(8, dtype="float32"), nd.array(np.zeros((3, 8), "float32"))
    function(nd.array(a), found)
    np.testing.assert_allclose(found.numpy(), wanted_of(a), rtol=1e-6)


def test_a_stride_without_a_region_makes_one():
    A = te.placeholder((12,), name="A")
    C = te.compute((12,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].parallel(C.op.axis[0])
    s[C].pragma(C.op.axis[0], "parallel_stride_pattern")
    assert "task + i_turn * tasks" in str(tir.transform.LowerParallelRegions()(lower(s, [A, C])))


def serial_stride(s, C, i):
    s[C].pragma(i, "parallel_stride_pattern")


def barrier_inside(s, C, i):
    outer, inner = s[C].split(i, 4)
    s[C].parallel(outer)
    s[C].pragma(outer, "parallel_stride_pattern")
    s[C].pragma(inner, "parallel_barrier_when_finish")


REFUSED = {"there is none": serial_stride, "wait for each other forever": barrier_inside}


@pytest.mark.parametrize("message", REFUSED)
def test_pragmas_that_cannot_be_kept_are_refused(message):
    A = te.placeholder((12,), name="A")
    C = te.compute((12,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    REFUSED[message](s, C, C.op.axis[0])
    with pytest.raises(ScheduleError, match=message):
        build(s, [A, C], target="llvm")
