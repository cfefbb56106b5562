"""The step of the GEMM ladder for Hopper GPUs: four warps multiply tiles of shared memory at once.

Tensor cores read both operands from shared memory by themselves (``wgmma``, needs sm_90a), so no
registers hold them, and no instruction loads them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilesmith as ts
from tilesmith.schedule_rules.gpu.product_tiles import launch_order
from tilesmith.schedule_rules.intrinsics import cuda_wgmma

Schedule = ts.tir.Schedule
ROWS, THREADS = 64, 128  # of results of a warpgroup, its threads
ROW = 64  # columns of B in a row of shared memory
VECTOR = 8  # float16 elements of a 128-bit access
SCOPE = "shared.dyn"


@dataclass(frozen=True)
class WarpgroupTiling:
    """The sizes: a block's tile, steps of the sum in it, tiles in flight, rows of blocks together.

    Each warpgroup of a block has ``64 * rows`` rows of the tile, and all of its columns.
    ``blocks``: thread blocks that are to fit on a multiprocessor (0: no limit).
    """

    tile: tuple[int, int] = (128, 256)
    depth: int = 64
    rows: int = 1
    stages: int = 4
    group: int = 8
    blocks: int = 0


def warpgroup_products(sch: Schedule, tiling: WarpgroupTiling) -> None:
    """Warpgroups multiply tiles of shared memory by ``wgmma``; copies run some steps ahead."""
    block = sch.get_block("C")
    columns, depth = tiling.tile[1], tiling.depth
    outer, inner = zip(*[
        sch.split(loop, [None, size])
        for loop, size in zip(sch.get_loops(block), (ROWS, columns, depth))
    ])  # fmt: skip
    sch.reorder(*outer, *inner)
    product = sch.blockize(inner[0])
    warpgroups = tiling.tile[0] // (ROWS * tiling.rows)
    by, warpgroup, rows = sch.split(outer[0], [None, warpgroups, tiling.rows])
    bx, steps = outer[1], outer[2]
    sch.reorder(by, bx, warpgroup, steps, rows)
    launch_order(sch, by, bx, tiling.group)
    sch.bind(warpgroup, "threadIdx.y")
    if tiling.blocks:
        sch.annotate(warpgroup, "pragma_min_blocks_per_multiprocessor", tiling.blocks)
    for operand in (0, 1):
        _load(sch, product, operand, steps, warpgroups)
    results = sch.cache_write(product, 0, "warpgroup")
    sch.reverse_compute_at(results, warpgroup)
    zero = sch.decompose_reduction(product, steps)
    _tensorize(sch, product, zero, results, tiling)
    sch.annotate(steps, "software_pipeline_stage", [0, 0, tiling.stages - 1])
    # The copies come after the product: the barrier before it then serves both.
    sch.annotate(steps, "software_pipeline_order", [1, 2, 0])
    sch.annotate(steps, "software_pipeline_async_stages", [0])


def _load(sch: Schedule, product: Any, operand: int, place: Any, warpgroups: int) -> None:
    """Bring an operand to shared memory, 128 bits at a time, in rows of 128 bytes whose pieces lie
    in the order that the hardware reads.
    """
    shared = sch.cache_read(product, operand, SCOPE)
    sch.compute_at(shared, place)
    fused = sch.fuse(*sch.get_loops(shared)[-2:])
    if operand == 1:
        sch.transform_layout(shared, ("write", 0), lambda k, j: [j // ROW, k, j % ROW])
    _, group, thread, lanes = sch.split(fused, [None, warpgroups, THREADS, VECTOR])
    sch.bind(group, "threadIdx.y")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lanes)
    sch.annotate(shared, "permuted_layout", 1)


def _tensorize(sch: Schedule, product: Any, zero: Any, results: Any, t: WarpgroupTiling) -> None:
    """Replace the loops over a warpgroup's tile by its instructions."""
    columns = t.tile[1]
    names = cuda_wgmma.get_wgmma_intrin_group(columns, t.depth, SCOPE)
    i, j = sch.get_loops(results)[-2:]
    i0, i1 = sch.split(i, [None, ROWS])
    j0, j1 = sch.split(j, [None, columns])
    sch.reorder(i0, j0, i1, j1)
    sch.transform_layout(results, ("read", 0), lambda i, j: [
        i // ROWS, j // columns, *cuda_wgmma.results_of_warpgroup(i % ROWS, j % columns)
    ])  # fmt: skip
    sch.tensorize(i1, names["store"])
    sch.tensorize(product, names["compute"])
    sch.tensorize(zero, names["init"])
