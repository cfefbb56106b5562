"""The order of blocks: what it saves of the memory's traffic, by the model of the caches.

python examples/gpu_convolution/block_order.py       prints the tables of README.md
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tilesmith as ts
from examples.gemm_ladder.ladder import STEPS, Tiling
from tilesmith.inspect.gpu_cache import KernelTraffic, cache_report
from tilesmith.schedule_rules.gpu.swizzle import order_grid

ORDERS = (
    ("rows", 0),
    ("rows", 2),
    ("rows", 3),
    ("rows", 4),
    ("columns", 3),
    ("columns", 4),
    ("morton", 4),
)
"""Orders and bits that are compared; 0 bits: row by row."""
SMALL = Tiling(tile=(32, 32), warps=(1, 1), lanes=(4, 8), depth=16)
"""A tile that is 4 x 4 times smaller than that of the ladder."""
BEST = Tiling(depth=16, blocks=2, interleave=2)
"""The tile that measure.py measures."""
SCALE = 4 * 16
"""How many times smaller the panels of such tiles are, where the sum is 16 times shorter, too."""

L2_BYTES = 52_428_800 // SCALE
"""The L2 of an H100, smaller by as much as the panels."""
GRIDS = ((32, 32), (16, 128), (37, 61))
"""Rows and columns of tiles: a square, a wide product, and sizes that nothing divides."""


def name_of(order: str, bits: int) -> str:
    """Return an order in words."""
    if bits == 0:
        return "row by row"
    return (
        f"squares of {1 << bits}, Z-curve"
        if order == "morton"
        else f"groups of {1 << bits} {order}"
    )


def product(
    rows: int, columns: int, depth: int, order: str, bits: int, tiling: Tiling
) -> ts.tir.Schedule:
    """Return the ladder's product with double buffers, its grid in an order."""
    sch = replace(STEPS["double_buffering"], tiling=tiling).schedule(rows, columns, depth)
    order_grid(sch, sch.get_block("C_update"), order, bits)
    return sch


def traffic(
    grid: tuple[int, int], depth: int, order: str, bits: int, l2_bytes: int
) -> KernelTraffic:
    """Return the traffic of a product of small tiles on an H100 with a smaller L2."""
    rows, columns = grid[0] * SMALL.tile[0], grid[1] * SMALL.tile[1]
    sch = product(rows, columns, depth, order, bits, SMALL)
    return cache_report(sch, "H100", l2_bytes=l2_bytes, resident=2).kernels[0]


def table(grid: tuple[int, int], depth: int, l2_bytes: int) -> list[tuple[str, float, float]]:
    """Return of each order its name, the share of hits in L2, and MB read from memory."""
    found = []
    for order, bits in ORDERS:
        one = traffic(grid, depth, order, bits, l2_bytes)
        found.append((name_of(order, bits), one.l2_hit_rate, one.total("read_bytes") / 1e6))
    return found


if __name__ == "__main__":
    for grid in GRIDS:
        print(f"grid {grid[0]} x {grid[1]}")
        for label, hits, megabytes in table(grid, 256, L2_BYTES):
            print(f"  {label:24}{hits:8.1%}{megabytes:10.1f} MB")
