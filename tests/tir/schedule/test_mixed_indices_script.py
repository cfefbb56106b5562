"""Loops and iterators of 32 bits beside those of 64."""

import numpy as np
import pytest

import tilesmith
from tilesmith import te, tir
from tilesmith.driver.schedule import schedule_function
from tilesmith.script import tir as T
from tilesmith.target import Target
from tilesmith.tir import interpreter


@T.prim_func
def turned(xh: T.handle, yh: T.handle):
    n = T.int64()
    x = T.match_buffer(xh, (n, 2, 8), "float32")
    y = T.match_buffer(yh, (n, 2, 8), "float32")
    for i in range(n):
        for h in range(2):
            for d in range(8):
                with T.block("turn"):
                    vi, vh, vd = T.axis.remap("SSS", [i, h, d])
                    y[vi, vh, vd] = T.if_then_else(vd < 4, x[vi, vh, vd + 4], x[vi, vh, vd - 4])


X = np.random.default_rng(0).random((3, 2, 8), dtype="float32")
EXPECTED = np.roll(X, 4, 2)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize("count", [2, 3])
def test_loops_of_both_widths_are_fused(order, count):
    schedule = tir.Schedule(turned, debug_mask="all")
    loops = schedule.get_loops("turn")
    schedule.reorder(*[loops[place] for place in order])
    fused = schedule.fuse(*schedule.get_loops("turn")[:count])
    schedule.split(fused, [None, 4])
    found = np.zeros_like(X)
    interpreter.run(schedule.mod["main"], X, found)
    np.testing.assert_array_equal(found, EXPECTED)
    result = tilesmith.nd.array(np.zeros_like(X))
    tilesmith.build(schedule.mod, target="llvm")(tilesmith.nd.array(X), result)
    np.testing.assert_array_equal(result.numpy(), EXPECTED)


def test_default_schedules_of_functions_with_both_widths():
    n = te.var("n", "int64")
    x = te.placeholder((n, 2, 8), "float32", "x")
    y = te.compute(
        (n, 2, 8),
        lambda i, h, d: tir.if_then_else(d < 4, -x[i, h, d + 4], x[i, h, d - 4]),
        "y",
    )
    z = te.compute((n, 2, 8), lambda i, h, d: y[i, h, d] + x[i, h, d], "z")
    function = te.create_prim_func([x, z]).with_attr("global_symbol", "main")
    result = tilesmith.nd.array(np.zeros_like(X))
    scheduled = schedule_function(function, Target("llvm"))
    tilesmith.build(scheduled, target="llvm")(tilesmith.nd.array(X), result)
    expected = np.concatenate([-X[..., 4:], X[..., :4]], -1) + X
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("place", ["top", "loop"])
def test_copies_count_in_one_width(place):
    schedule = tir.Schedule(turned, debug_mask="all")
    copy = schedule.cache_write("turn", 0, "global")
    if place == "loop":
        schedule.reverse_compute_at(copy, schedule.get_loops("turn")[0])
    loops = schedule.get_loops(copy)
    variables = [schedule.get(loop).loop_var for loop in loops]
    variables += [iterator.var for iterator in schedule.get(copy).iter_vars]
    assert {str(variable.dtype) for variable in variables} == {"int64"}
    found = np.zeros_like(X)
    interpreter.run(schedule.mod["main"], X, found)
    np.testing.assert_array_equal(found, EXPECTED)
