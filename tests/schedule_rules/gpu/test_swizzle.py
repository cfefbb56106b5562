"""Orders of blocks on schedules: products stay right, also where the grid has no even sizes."""

from dataclasses import replace

import numpy as np
import pytest

import tilesmith as ts
from examples.gemm_ladder.ladder import STEPS, Tiling
from tilesmith.schedule_rules.gpu.swizzle import order_grid, swizzle_blocks
from tilesmith.support.errors import ConfigError, ScheduleError
from tilesmith.tir.interpreter import run

SMALL = Tiling(tile=(16, 32), warps=(1, 1), lanes=(4, 8), depth=4)


@pytest.mark.parametrize(("order", "bits"), [("rows", 1), ("columns", 2), ("morton", 1)])
def test_products_stay_right(order, bits):
    """A grid of 3 x 5 tiles: no multiple of any group."""
    sch = replace(STEPS["double_buffering"], tiling=SMALL).schedule(48, 160, 8)
    order_grid(sch, sch.get_block("C_update"), order, bits)
    rng = np.random.default_rng(0)
    a, b = rng.random((48, 8), "float32"), rng.random((8, 160), "float32")
    c = np.zeros((48, 160), "float32")
    lowered = ts.lower(sch.mod)["main"]
    run(lowered, a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    text = lowered.script()
    assert 'T.launch_thread("blockIdx.x", 15)' in text and "tile_row" in text


def test_loops_are_bound_and_marked():
    sch = ts.tir.Schedule(ts.te.create_prim_func(elementwise()))
    i, j = sch.get_loops(sch.get_block("B"))
    swizzle_blocks(sch, i, j, "columns", 2)
    outer, inner = [sch.get(loop) for loop in sch.get_loops(sch.get_block("B"))]
    assert outer.thread_binding.thread_tag == "blockIdx.y"
    assert inner.thread_binding.thread_tag == "blockIdx.x"
    assert [getattr(one, "value", one) for one in outer.annotations["launch_order"]] == [
        "columns",
        2,
    ]
    again = ts.tir.Schedule(ts.te.create_prim_func(elementwise()))
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    ts.ir.assert_structural_equal(again.mod, sch.mod)


def elementwise():
    a = ts.te.placeholder((6, 10), name="A")
    return [a, ts.te.compute(a.shape, lambda i, j: a[i, j] + 1, name="B")]


def test_wrong_orders_are_refused():
    sch = ts.tir.Schedule(ts.te.create_prim_func(elementwise()))
    block = sch.get_block("B")
    with pytest.raises(ConfigError, match="no order of blocks"):
        swizzle_blocks(sch, *sch.get_loops(block), order="hilbert")
    with pytest.raises(ScheduleError, match=r"bound to blockIdx\.y"):
        order_grid(sch, block)
