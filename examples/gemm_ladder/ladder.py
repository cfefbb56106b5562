"""The GEMM ladder: schedules of one program, C = A·B, each of which adds one idea to the last.

python -m examples.gemm_ladder.ladder            prints the CUDA C of the last fp32 step
python -m examples.gemm_ladder.ladder NAME       that of another step

Every step is written with primitives of ``tir.Schedule`` alone, so that its trace can be kept and
replayed, and takes its sizes from a ``Tiling``: tests run small ones in the interpreter. The sizes
of a program are multiples of the tile of a thread block. README.md explains the steps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import tilesmith as ts
from examples.gemm_ladder.launch_order import launch_order
from examples.gemm_ladder.tensor_cores import TensorTiling, tensor_cores
from tilesmith.script import tir as T

Schedule = ts.tir.Schedule
VECTOR = 4  # fp32 elements of a 128-bit access


def product(rows: int, columns: int, depth: int, dtype: str = "float32") -> ts.tir.PrimFunc:
    """Return the program: the product of two matrices, summed in float32."""

    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        A = T.match_buffer(a, (rows, depth), dtype)
        B = T.match_buffer(b, (depth, columns), dtype)
        C = T.match_buffer(c, (rows, columns), "float32")
        for i, j, k in T.grid(rows, columns, depth):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])

    return main


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

    def pieces(self, axis: int, vector: int = VECTOR) -> int:
        """Return how many pieces of ``vector`` rows (axis 0) or columns a thread has."""
        return self.tile[axis] // (self.warps[axis] * self.lanes[axis] * vector)


class Loops(NamedTuple):
    """The loops of a tiled product: a block's threads, and the steps of the sum."""

    thread: Any
    outer: Any  # steps of ``depth``
    inner: Any  # within such a step
    rows: Any  # a thread's rows in one piece
    columns: Any


# The steps.


def naive(sch: Schedule, tiling: Tiling) -> None:
    """One thread per element of C; neighbouring threads take neighbouring columns."""
    i, j, _ = sch.get_loops(sch.get_block("C"))
    by, ty = sch.split(i, [None, 16])
    bx, tx = sch.split(j, [None, 16])
    sch.reorder(by, bx, ty, tx)
    for loop, axis in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y")):
        sch.bind(loop, axis)
    sch.bind(tx, "threadIdx.x")


def wide_loads(sch: Schedule, tiling: Tiling) -> None:
    """Four columns per thread: B is loaded and C stored 128 bits at a time."""
    block = sch.get_block("C")
    results = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    by, ty = sch.split(i, [None, 16])
    bx, tx, v = sch.split(j, [None, 16, VECTOR])
    sch.reorder(by, bx, ty, tx, k, v)
    for loop, axis in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y")):
        sch.bind(loop, axis)
    sch.bind(tx, "threadIdx.x")
    sch.reverse_compute_at(results, tx)
    row = sch.cache_read(block, 1, "local")
    sch.compute_at(row, k)
    for copy in (results, row):
        sch.vectorize(sch.get_loops(copy)[-1])
    sch.decompose_reduction(block, k)


def register_tiles(sch: Schedule, tiling: Tiling) -> None:
    """A tile of C in each thread's registers: every loaded value is used several times."""
    block, results = sch.get_block("C"), sch.cache_write(sch.get_block("C"), 0, "local")
    loops = tile(sch, block, replace(tiling, warps=(1, 1), lanes=(16, 16)))
    write_back(sch, results, loops)
    for operand in (0, 1):
        fragment = sch.cache_read(block, operand, "local")
        sch.compute_at(fragment, loops.inner)
        if operand == 1:
            sch.vectorize(sch.get_loops(fragment)[-1])
    finish(sch, block, loops)


def shared_memory(sch: Schedule, tiling: Tiling) -> None:
    """The threads of a block load the tiles of A and B once, and read them from shared memory."""
    block, results = sch.get_block("C"), sch.cache_write(sch.get_block("C"), 0, "local")
    tiling = replace(tiling, warps=(1, 1), lanes=(16, 16))
    loops = tile(sch, block, tiling)
    write_back(sch, results, loops)
    for operand in (0, 1):
        shared = sch.cache_read(block, operand, "shared")
        fragment = sch.cache_read(block, operand, "local")
        sch.compute_at(fragment, loops.inner)
        sch.compute_at(shared, loops.outer)
        copy_by_threads(sch, shared, tiling)
        if operand == 1:
            sch.vectorize(sch.get_loops(fragment)[-1])
    finish(sch, block, loops)


def no_bank_conflicts(sch: Schedule, tiling: Tiling) -> None:
    """A lies transposed in shared memory, its rows padded: all reads there are 128 bits wide, and
    no two threads that read or write at once use the same bank.
    """
    tiling = replace(tiling, warps=(1, 1), lanes=(16, 16))
    with_transposed_tile(sch, tiling, pipelined=False)


def warp_tiles(sch: Schedule, tiling: Tiling) -> None:
    """The threads of a warp form a rectangle: together they read fewer different values."""
    with_transposed_tile(sch, tiling, pipelined=False)


def double_buffering(sch: Schedule, tiling: Tiling) -> None:
    """While a tile is multiplied, the next one is on its way in registers; one barrier a step."""
    with_transposed_tile(sch, tiling, pipelined=True)


def asynchronous_copies(sch: Schedule, tiling: Tiling) -> None:
    """Tiles go to shared memory directly (``cp.async``), ``stages - 1`` steps ahead.

    Such a copy cannot transpose, so A keeps its layout: a thread reads four steps of the sum at
    once, and the padding keeps the rows that a warp reads in different banks.
    """
    block, results = sch.get_block("C"), sch.cache_write(sch.get_block("C"), 0, "local")
    loops = tile(sch, block, tiling, row_vector=1)
    steps, step = sch.split(loops.inner, [None, VECTOR])
    write_back(sch, results, loops)
    for operand, place in ((0, steps), (1, step)):
        shared = sch.cache_read(block, operand, "shared" if tiling.stages < 3 else "shared.dyn")
        fragment = sch.cache_read(block, operand, "local")
        sch.compute_at(fragment, place)
        sch.compute_at(shared, loops.outer)
        sch.vectorize(sch.get_loops(fragment)[-1])
        if operand == 0:
            sch.storage_align(shared, 0, 0, 32, tiling.depth + tiling.padding)
        copy_by_threads(sch, shared, tiling)
        if tiling.stages == 2:
            sch.annotate(shared, "double_buffer_scope", 0)
    finish(sch, block, loops._replace(inner=step))
    unroll(sch, steps)
    sch.annotate(loops.outer, "software_pipeline_stage", [0, 0, tiling.stages - 1])
    # The copies come after the product: the barrier before it then serves both.
    sch.annotate(loops.outer, "software_pipeline_order", [1, 2, 0])
    sch.annotate(loops.outer, "software_pipeline_async_stages", [0])


# What the steps are made of.


def tile(sch: Schedule, block: Any, tiling: Tiling, row_vector: int = VECTOR) -> Loops:
    """Divide the loops among blocks, virtual threads, threads and a thread's rows and columns.

    The pieces of a thread are virtual threads: each is a whole tile away from the next one.
    """
    i, j, k = sch.get_loops(block)
    (wy, wx), (ly, lx) = tiling.warps, tiling.lanes
    turns = tiling.interleave
    rows = [None, tiling.pieces(0, row_vector), wy, ly // turns, turns, row_vector]
    columns = [None, tiling.pieces(1), wx, lx, VECTOR]
    by, vy, wy, ly, turn, rows = sch.split(i, rows)
    bx, vx, wx, lx, columns = sch.split(j, columns)
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


def with_transposed_tile(sch: Schedule, tiling: Tiling, pipelined: bool) -> None:
    """Schedule the product with A transposed in shared memory."""
    block, results = sch.get_block("C"), sch.cache_write(sch.get_block("C"), 0, "local")
    loops = tile(sch, block, tiling)
    write_back(sch, results, loops)
    for operand in (0, 1):
        shared = sch.cache_read(block, operand, "shared")
        fragment = sch.cache_read(block, operand, "local")
        sch.compute_at(fragment, loops.inner)
        sch.compute_at(shared, loops.outer)
        if operand == 0:
            sch.transform_layout(shared, ("write", 0), lambda i, k: (k, i))
            sch.storage_align(shared, 0, 0, 32, tiling.padding)
        sch.vectorize(sch.get_loops(fragment)[-1])
        copy_by_threads(sch, shared, tiling)
        if pipelined:
            sch.annotate(shared, "tir.manifest_shared_memory_local_stage", 1)
            sch.annotate(shared, "double_buffer_scope", 0)
    finish(sch, block, loops)
    if pipelined:
        # Statements: load A, store A, load B, store B, multiply. In a turn, the next tiles are
        # loaded, this one is multiplied, and then the next ones are stored.
        sch.annotate(loops.outer, "software_pipeline_stage", [0, 0, 0, 0, 1])
        sch.annotate(loops.outer, "software_pipeline_order", [0, 3, 1, 4, 2])


def write_back(sch: Schedule, results: Any, loops: Loops) -> None:
    """Let each thread store its pieces of C, 128 bits at a time."""
    sch.reverse_compute_at(results, loops.thread)
    sch.vectorize(sch.get_loops(results)[-1])


def copy_by_threads(sch: Schedule, copy: Any, tiling: Tiling, vector: int = VECTOR) -> None:
    """Divide a copy of a tile among all threads of a block, 128 bits at a time."""
    fused = sch.fuse(*sch.get_loops(copy)[-2:])
    _, thread, lanes = sch.split(fused, [None, tiling.threads, vector])
    sch.bind(thread, "threadIdx.x")
    sch.vectorize(lanes)


def finish(sch: Schedule, block: Any, loops: Loops) -> None:
    """Set the sums to zero before the loop over steps, and unroll what indexes registers."""
    sch.decompose_reduction(block, loops.outer)
    for loop in (loops.inner, loops.rows, loops.columns):
        unroll(sch, loop)


def unroll(sch: Schedule, loop: Any) -> None:
    """Let the compiler of CUDA C unroll a loop: the source stays short."""
    sch.unroll(loop)
    sch.annotate(loop, "pragma_unroll_explicit", 0)


# The table of steps.


@dataclass(frozen=True)
class Step:
    """One step: its schedule, its sizes, and what it is expected to reach."""

    name: str
    apply: Callable[[Schedule, Any], None]
    tiling: Any = Tiling()
    dtype: str = "float32"
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the PassContext that the step is built with."""
    predicted: str = ""
    """Share of the fp32 peak (of the tensor cores' for the last one) that the README derives."""

    def schedule(self, rows: int, columns: int, depth: int) -> Schedule:
        """Return the schedule of a product of this size."""
        program = product(rows, columns, depth, self.dtype)
        sch = Schedule(program)
        self.apply(sch, self.tiling)
        return sch

    def build(self, sch: Schedule, target: str = "cuda -arch=sm_90") -> Any:
        """Compile a schedule of the step."""
        with ts.transform.PassContext(config=dict(self.options)):
            return ts.build(sch.mod, target=target)


ASYNC = (("tir.use_async_copy", True),)
WARPS = Tiling()
LAST = replace(WARPS, group=8)

STEPS = {
    step.name: step
    for step in (
        Step("naive", naive, predicted="5-10 %"),
        Step("wide_loads", wide_loads, predicted="10-15 %"),
        Step("register_tiles", register_tiles, predicted="20-40 %"),
        Step("shared_memory", shared_memory, predicted="40-55 %"),
        Step("no_bank_conflicts", no_bank_conflicts, predicted="60-70 %"),
        Step("warp_tiles", warp_tiles, predicted="60-75 %"),
        Step("double_buffering", double_buffering, predicted="75-82 %"),
        Step("block_swizzle", double_buffering, LAST, predicted="76-83 %"),
        Step(
            "asynchronous_copies", asynchronous_copies, replace(LAST, stages=4), options=ASYNC,
            predicted="75-82 %",
        ),
        Step(
            "tensor_cores", tensor_cores, TensorTiling(group=8), "float16", ASYNC,
            predicted="30-50 %",
        ),
    )
}  # fmt: skip
"""The steps of the ladder, in their order."""

FINAL = "asynchronous_copies"
"""The last step in float32."""

_DEEP = replace(LAST, depth=16, blocks=2)
_AHEAD = replace(LAST, stages=4)

VARIANTS = {
    "registers 128x128x8": Step("r8", double_buffering, LAST),
    "registers 128x128x8, lanes in turns": Step(
        "r8i", double_buffering, replace(LAST, interleave=2)
    ),
    "registers 128x128x16": Step("r16", double_buffering, _DEEP),
    "registers 128x128x16, lanes in turns": Step(
        "r16i", double_buffering, replace(_DEEP, interleave=2)
    ),
    "registers 256x128x8": Step("r256", double_buffering, replace(LAST, tile=(256, 128))),
    "registers 128x128x8, 16x8 a thread": Step(
        "r8t", double_buffering, replace(LAST, warps=(2, 2))
    ),
    "registers 128x128x16, 16x8 a thread": Step(
        "r16t", double_buffering, replace(LAST, warps=(2, 2), depth=16)
    ),
    "async 128x128x8, 2 tiles": Step("a2", asynchronous_copies, LAST, options=ASYNC),
    "async 128x128x8, 4 tiles": Step("a4", asynchronous_copies, _AHEAD, options=ASYNC),
    "async 128x128x8, 4 tiles, lanes in turns": Step(
        "a4i", asynchronous_copies, replace(_AHEAD, interleave=2), options=ASYNC
    ),
    "tensor cores, swizzled": Step(
        "t0", tensor_cores, TensorTiling(group=8, padding=0), "float16", ASYNC
    ),
    "tensor cores, 4x2 warps, 3 tiles": Step(
        "t8", tensor_cores, TensorTiling(group=8, warps=(4, 2), stages=3), "float16", ASYNC
    ),
}  # fmt: skip
"""Other sizes of the last steps, which sweep.py measures."""


if __name__ == "__main__":
    wanted = STEPS[sys.argv[1] if len(sys.argv) > 1 else FINAL]
    print(wanted.build(wanted.schedule(1024, 1024, 1024)).imported_modules[0].get_source())
