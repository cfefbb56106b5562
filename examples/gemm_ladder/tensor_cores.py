"""The step of the GEMM ladder that multiplies on tensor cores: float16 operands, float32 sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilesmith as ts
from tilesmith.schedule_rules.gpu.product_tiles import launch_order
from tilesmith.schedule_rules.intrinsics import cuda

Schedule = ts.tir.Schedule
TILE, WARP = 16, 32  # rows, columns and steps of one matrix instruction; threads that issue it
VECTOR = 8  # float16 elements of a 128-bit access


@dataclass(frozen=True)
class TensorTiling:
    """The sizes: a block's tile, steps of the sum in it, the grid of its warps, tiles in flight.

    ``padding``: elements between the rows of tiles in shared memory; 0: rows are swizzled instead.
    """

    tile: tuple[int, int] = (128, 128)
    depth: int = 32
    warps: tuple[int, int] = (2, 2)
    padding: int = 8
    stages: int = 4
    group: int = 1


def tensor_cores(sch: Schedule, tiling: TensorTiling) -> None:
    """Warps load tiles of 16 x 16 by ``ldmatrix`` and multiply them by ``mma``."""
    block = sch.get_block("C")
    loops = sch.get_loops(block)
    outer, inner = zip(*[sch.split(loop, [None, TILE]) for loop in loops])
    sch.reorder(*outer, *inner)
    product = sch.blockize(inner[0])
    rows, columns = (tiling.tile[a] // (tiling.warps[a] * TILE) for a in (0, 1))
    by, wy, rows = sch.split(outer[0], [None, tiling.warps[0], rows])
    bx, wx, columns = sch.split(outer[1], [None, tiling.warps[1], columns])
    steps, step = sch.split(outer[2], [None, tiling.depth // TILE])
    sch.reorder(by, bx, wy, wx, steps, step, rows, columns)
    launch_order(sch, by, bx, tiling.group)
    warp = sch.fuse(wy, wx)
    sch.bind(warp, "threadIdx.y")
    scope = "shared" if tiling.stages < 3 else "shared.dyn"
    fragments = [_load(sch, product, operand, (steps, step), scope, tiling) for operand in (0, 1)]
    results = sch.cache_write(product, 0, "warp")
    sch.reverse_compute_at(results, warp)
    zero = sch.decompose_reduction(product, steps)
    _tensorize(sch, (product, zero, results, *fragments), scope)
    sch.annotate(steps, "software_pipeline_stage", [0, 0, tiling.stages - 1])
    sch.annotate(steps, "software_pipeline_order", [1, 2, 0])
    sch.annotate(steps, "software_pipeline_async_stages", [0])
    for loop in (step, rows, columns):  # they index the registers
        sch.unroll(loop)
        sch.annotate(loop, "pragma_unroll_explicit", 0)


def _load(
    sch: Schedule, product: Any, operand: int, places: tuple[Any, Any], scope: str, t: TensorTiling
) -> Any:
    """Bring an operand to shared memory for all warps, and from there to a warp's registers."""
    shared = sch.cache_read(product, operand, scope)
    fragment = sch.cache_read(product, operand, "warp")
    sch.compute_at(fragment, places[1])
    sch.compute_at(shared, places[0])
    fused = sch.fuse(*sch.get_loops(shared)[-2:])
    _, warp, thread, lanes = sch.split(fused, [None, t.warps[0] * t.warps[1], WARP, VECTOR])
    sch.bind(warp, "threadIdx.y")
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lanes)
    # The eight rows that ldmatrix reads at once are to lie in all banks: 16 bytes further apart, or
    # with their pieces of 16 bytes in an order that differs from row to row (an exclusive or).
    if t.padding:
        sch.storage_align(shared, 0, axis=-2, factor=2 * t.padding, offset=t.padding)
    else:
        sch.annotate(shared, "permuted_layout", 1)
    if t.stages == 2:
        sch.annotate(shared, "double_buffer_scope", 0)
    return fragment


def _tensorize(sch: Schedule, blocks: tuple[Any, ...], scope: str) -> None:
    """Replace the loops over tiles by the instructions of a warp."""
    product, zero, results, left, right = blocks
    names = cuda.get_mma_intrin_group(
        scope, "global", "float16", "float32", not_use_mma_store_intrinic=False
    )
    straight = cuda.shared_16x16_to_ldmatrix_32x8_layout
    layouts = (straight, cuda.shared_16x16_to_ldmatrix_32x8_trans_layout, straight)
    copies = (
        (left, "load_a", "write"), (right, "load_b", "write"), (results, "store", "read"),
    )  # fmt: skip
    for (copy, name, side), layout in zip(copies, layouts):
        i, j = sch.get_loops(copy)[-2:]
        i0, i1 = sch.split(i, [None, TILE])
        j0, j1 = sch.split(j, [None, TILE])
        sch.reorder(i0, j0, i1, j1)
        sch.transform_layout(copy, (side, 0), _in_tiles(layout))
        sch.tensorize(i1, names[name])
    sch.tensorize(product, names["compute"])
    sch.tensorize(zero, names["init"])


def _in_tiles(layout: Any) -> Any:
    """Return the map of an element to its tile, its thread and its place there."""
    return lambda i, j: [i // TILE, j // TILE, *layout(i % TILE, j % TILE)]
