"""OrderBlocks: each tile is made by one block, whatever the order; bad orders are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilesmith as ts
from tilesmith.script import tir as T
from tilesmith.support.errors import ConfigError, UnsupportedError
from tilesmith.tir.interpreter import run
from tilesmith.tir.transform.threads.order_blocks import ORDERS, tile_of

SIZES = st.integers(1, 40)


@given(st.sampled_from(ORDERS), st.integers(0, 4), SIZES, SIZES)
@settings(deadline=None, max_examples=60)
def test_orders_are_bijections(order, bits, rows, columns):
    tiles = [tile_of(order, bits, rows, columns, number) for number in range(rows * columns)]
    assert sorted(tiles) == [(row, column) for row in range(rows) for column in range(columns)]


def test_orders_are_what_they_are_called():
    def first(order, bits, count):
        return [tile_of(order, bits, 6, 6, number) for number in range(count)]

    assert first("columns", 1, 4) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert first("rows", 1, 4) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert first("morton", 1, 6) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]
    assert first("morton", 2, 8)[4:] == [(0, 2), (0, 3), (1, 2), (1, 3)]


def copy_of(rows, columns, annotations):
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (rows, columns * 4), "float32")
        B = T.match_buffer(b, (rows, columns * 4), "float32")
        for i in T.thread_binding(rows, "blockIdx.y", annotations=annotations):
            for j in T.thread_binding(columns, "blockIdx.x"):
                for t in T.thread_binding(4, "threadIdx.x"):
                    with T.block("B"):
                        vi = T.axis.spatial(rows, i)
                        vj = T.axis.spatial(columns * 4, j * 4 + t)
                        B[vi, vj] = A[vi, vj] + T.float32(1)

    return main


@pytest.mark.parametrize(
    ("order", "bits"), [("columns", 2), ("rows", 1), ("morton", 1), ("morton", 3)]
)
@pytest.mark.parametrize("shape", [(5, 7), (4, 8), (1, 3)])
def test_kernels_make_all_tiles(order, bits, shape):
    """The interpreter, which checks races between blocks: no tile is made twice."""
    lowered = ts.lower(copy_of(*shape, {"launch_order": [order, bits]}))["main"]
    assert "blockIdx.y" not in lowered.script()
    a = np.random.default_rng(0).random((shape[0], shape[1] * 4), "float32")
    b = np.zeros_like(a)
    run(lowered, a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_without_an_order_nothing_changes():
    lowered = ts.lower(copy_of(3, 4, {}))["main"]
    assert 'T.launch_thread("blockIdx.y", 3)' in lowered.script()


@pytest.mark.parametrize("wrong", [["spiral", 1], ["rows", -1], ["rows", 99]])
def test_unknown_orders_are_refused(wrong):
    with pytest.raises(ConfigError, match="no order of blocks"):
        ts.lower(copy_of(3, 4, {"launch_order": wrong}))


def test_an_order_needs_rows_and_columns():
    @T.prim_func
    def main(B: T.Buffer((8,), "float32")):
        for i in T.thread_binding(8, "blockIdx.x", annotations={"launch_order": ["rows", 1]}):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.float32(1)

    with pytest.raises(UnsupportedError, match=r"rows bound to blockIdx\.y"):
        ts.lower(main)
