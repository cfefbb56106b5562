"""How a product of matrices is divided among blocks, warps and threads, and its operands copied.

The pieces of the matmul rule and of the steps of examples/gemm_ladder: each is a few primitives.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, NamedTuple

from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = [
    "VECTOR", "Loops", "Tiling", "copy_by_threads", "finish", "launch_order", "pipeline", "tile",
    "unroll", "write_back",
]  # fmt: skip

VECTOR = 4  # fp32 elements of a 128-bit access


@dataclass(frozen=True)
class Tiling:
    """The sizes of a schedule; pairs are of rows and columns.

    A thread block makes ``tile`` of C in steps of ``depth``. Its warps form a grid ``warps``, the
    threads of a warp a grid ``lanes``. A thread has several pieces of ``VECTOR`` columns (and of as
    many rows where A lies transposed), which lie apart so that the threads of a warp read
    neighbouring vectors. ``interleave``: rows of the lanes that take turns, so that a quarter of a
    warp is 2 x 4 threads instead of 1 x 8. ``stages``: tiles in shared memory at once. ``group``:
    rows of blocks that run together (1: in the order of the grid). ``blocks``: thread blocks that
    are to fit on a multiprocessor, which limits the registers (0: no limit).
    """

    tile: tuple[int, int] = (128, 128)
    depth: int = 8
    warps: tuple[int, int] = (4, 2)
    lanes: tuple[int, int] = (4, 8)
    interleave: int = 1
    padding: int = 4
    stages: int = 2
    group: int = 1
    blocks: int = 0

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.warps[0] * self.warps[1] * self.lanes[0] * self.lanes[1]

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block at most, for float32."""
        return 4 * self.stages * self.depth * (sum(self.tile) + 2 * self.padding)

    def pieces(self, axis: int, vector: int = VECTOR) -> int:
        """Return how many pieces of ``vector`` rows (axis 0) or columns a thread has."""
        return self.tile[axis] // (self.warps[axis] * self.lanes[axis] * vector)


class Loops(NamedTuple):
    """The loops of a tiled product: a block's threads, and the steps of the sum."""

    thread: LoopRV
    outer: LoopRV  # steps of ``depth``
    inner: LoopRV  # within such a step
    rows: LoopRV  # a thread's rows in one piece
    columns: LoopRV


def tile(sch: Schedule, block: BlockRV, tiling: Tiling, row_vector: int = VECTOR) -> Loops:
    """Divide the last three loops of a product among blocks, virtual threads, threads and a
    thread's rows and columns.

    The pieces of a thread are virtual threads: each is a whole tile away from the next one.
    """
    i, j, k = sch.get_loops(block)[-3:]
    warps, lanes, turns = tiling.warps, tiling.lanes, tiling.interleave
    by, vy, wy, ly, turn, rows = sch.split(
        i, [None, tiling.pieces(0, row_vector), warps[0], lanes[0] // turns, turns, row_vector]
    )
    bx, vx, wx, lx, columns = sch.split(j, [None, tiling.pieces(1), warps[1], lanes[1], VECTOR])
    outer, inner = sch.split(k, [None, tiling.depth])
    sch.reorder(by, bx, vy, vx, wy, wx, ly, lx, turn, outer, inner, rows, columns)
    launch_order(sch, by, bx, tiling.group)
    sch.bind(vy, "vthread.y")
    sch.bind(vx, "vthread.x")
    thread = sch.fuse(wy, wx, ly, lx, turn)
    sch.bind(thread, "threadIdx.x")
    if tiling.blocks:
        sch.annotate(thread, "pragma_min_blocks_per_multiprocessor", tiling.blocks)
    return Loops(thread, outer, inner, rows, columns)


def launch_order(sch: Schedule, by: LoopRV, bx: LoopRV, group: int) -> None:
    """Bind the loops over blocks: row by row, or ``group`` rows together, column by column.

    Blocks that run at the same time then form a rectangle of C, so that they share more of what
    they read; with powers of two, the two numbers of a block are bits of its place in the order.
    """
    group = gcd(group, int(sch.get(by).extent))
    if group == 1:
        sch.bind(by, "blockIdx.y")
        sch.bind(bx, "blockIdx.x")
        return
    groups, row = sch.split(by, [None, group])
    sch.reorder(groups, bx, row)
    sch.bind(sch.fuse(groups, bx, row), "blockIdx.x")


def write_back(sch: Schedule, results: BlockRV, loops: Loops, vector: int = VECTOR) -> None:
    """Let each thread store its pieces of C, 128 bits at a time where rows allow it."""
    sch.reverse_compute_at(results, loops.thread)
    if vector > 1:
        sch.vectorize(sch.get_loops(results)[-1])


def copy_by_threads(sch: Schedule, copy: BlockRV, tiling: Tiling, vector: int = VECTOR) -> None:
    """Divide a copy of a tile among all threads of a block, ``vector`` elements at a time."""
    fused = sch.fuse(*sch.get_loops(copy)[-2:])
    _, thread, lanes = sch.split(fused, [None, tiling.threads, vector])
    sch.bind(thread, "threadIdx.x")
    if vector > 1:
        sch.vectorize(lanes)


def finish(sch: Schedule, block: BlockRV, loops: Loops) -> None:
    """Set the sums to zero before the loop over steps, and unroll what indexes registers."""
    sch.decompose_reduction(block, loops.outer)
    for loop in (loops.inner, loops.rows, loops.columns):
        unroll(sch, loop)


def pipeline(sch: Schedule, shared: tuple[BlockRV, BlockRV], loops: Loops) -> None:
    """Bring the next tiles to registers while these ones are multiplied; one barrier a step.

    Statements: load A, store A, load B, store B, multiply. In a turn, the next tiles are loaded,
    this one is multiplied, and then the next ones are stored.
    """
    for copy in shared:
        sch.annotate(copy, "tir.manifest_shared_memory_local_stage", 1)
        sch.annotate(copy, "double_buffer_scope", 0)
    sch.annotate(loops.outer, "software_pipeline_stage", [0, 0, 0, 0, 1])
    sch.annotate(loops.outer, "software_pipeline_order", [0, 3, 1, 4, 2])


def unroll(sch: Schedule, loop: Any) -> None:
    """Let the compiler of CUDA C unroll a loop: the source stays short."""
    sch.unroll(loop)
    sch.annotate(loop, "pragma_unroll_explicit", 0)
