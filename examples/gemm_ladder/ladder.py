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
from typing import Any

import tilesmith as ts
from examples.gemm_ladder.tensor_cores import TensorTiling, tensor_cores
from examples.gemm_ladder.warpgroups import WarpgroupTiling, warpgroup_products
from tilesmith.schedule_rules.gpu.product_tiles import (
    VECTOR,
    Tiling,
    copy_by_threads,
    finish,
    pipeline,
    tile,
    write_back,
)
from tilesmith.script import tir as T

Schedule = ts.tir.Schedule


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
    with_transposed_tile(sch, tiling)


def warp_tiles(sch: Schedule, tiling: Tiling) -> None:
    """The threads of a warp form a rectangle: together they read fewer different values."""
    with_transposed_tile(sch, tiling)


def asynchronous_copies(sch: Schedule, tiling: Tiling) -> None:
    """Tiles go to shared memory directly (``cp.async``), ``stages - 1`` steps ahead, without
    registers on the way. A is transposed by copies of 4 bytes, B copied 16 bytes at a time.
    """
    with_transposed_tile(sch, tiling, is_async=True)


def double_buffering(sch: Schedule, tiling: Tiling) -> None:
    """While a tile is multiplied, the next one is on its way in registers; one barrier a step."""
    with_transposed_tile(sch, tiling, pipelined=True)


def with_transposed_tile(
    sch: Schedule, tiling: Tiling, pipelined: bool = False, is_async: bool = False
) -> None:
    """Schedule the product with A transposed in shared memory."""
    block, results = sch.get_block("C"), sch.cache_write(sch.get_block("C"), 0, "local")
    loops = tile(sch, block, tiling)
    write_back(sch, results, loops)
    tiles = []
    for operand in (0, 1):
        shared = sch.cache_read(block, operand, "shared" if tiling.stages < 3 else "shared.dyn")
        fragment = sch.cache_read(block, operand, "local")
        sch.compute_at(fragment, loops.inner)
        sch.compute_at(shared, loops.outer)
        if operand == 0:
            sch.transform_layout(shared, ("write", 0), lambda i, k: (k, i))
            sch.storage_align(shared, 0, 0, 32, tiling.padding)
        sch.vectorize(sch.get_loops(fragment)[-1])
        copy_by_threads(sch, shared, tiling, 1 if is_async and operand == 0 else VECTOR)
        tiles.append(shared)
    finish(sch, block, loops)
    if pipelined:
        pipeline(sch, (tiles[0], tiles[1]), loops)
    if is_async:
        for shared in tiles if tiling.stages == 2 else []:
            sch.annotate(shared, "double_buffer_scope", 0)
        sch.annotate(loops.outer, "software_pipeline_stage", [0, 0, tiling.stages - 1])
        # The copies come after the product: the barrier before it then serves both.
        sch.annotate(loops.outer, "software_pipeline_order", [1, 2, 0])
        sch.annotate(loops.outer, "software_pipeline_async_stages", [0])


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
    """Share of the peak of the operands' dtype that the README derives."""
    remark: str = ""
    """What is new, where that is only sizes."""
    arch: str = ""
    """The only architecture that runs the step, as "sm_90a"; "" for all."""

    def architecture(self, arch: str) -> str:
        """Return what to compile the step for on a device of an architecture, or "" where it cannot
        run there: what "sm_90a" has, a GPU of "sm_90" has.
        """
        return (self.arch or arch) if self.arch.rstrip("af") in ("", arch.rstrip("af")) else ""

    def schedule(self, rows: int, columns: int, depth: int) -> Schedule:
        """Return the schedule of a product of this size."""
        program = product(rows, columns, depth, self.dtype)
        sch = Schedule(program)
        self.apply(sch, self.tiling)
        return sch

    def build(self, sch: Schedule, target: str = "") -> Any:
        """Compile a schedule of the step, for an H100 where no target is given."""
        target = target or f"cuda -arch={self.architecture('sm_90')}"
        with ts.transform.PassContext(config=dict(self.options)):
            return ts.build(sch.mod, target=target)


ASYNC = (("tir.use_async_copy", True),)
WARPS = Tiling()
GROUPS = replace(WARPS, group=8)
LAST = replace(GROUPS, depth=16, interleave=2, blocks=2)

STEPS = {
    step.name: step
    for step in (
        Step("naive", naive, predicted="5-10 %"),
        Step("wide_loads", wide_loads, predicted="10-15 %"),
        Step("register_tiles", register_tiles, predicted="20-40 %"),
        Step("shared_memory", shared_memory, predicted="40-55 %"),
        Step("no_bank_conflicts", no_bank_conflicts, predicted="60-70 %"),
        Step("warp_tiles", warp_tiles, predicted="60-75 %"),
        Step(
            "asynchronous_copies", asynchronous_copies, replace(WARPS, stages=4), options=ASYNC,
            predicted="70-80 %",
        ),
        Step("double_buffering", double_buffering, predicted="75-82 %"),
        Step(
            "block_swizzle", double_buffering, GROUPS, predicted="76-83 %",
            remark="Blocks start in groups of 8 rows, column by column.",
        ),
        Step(
            "deeper_tiles", double_buffering, LAST, predicted="76-83 %",
            remark="Tiles of 16 steps of the sum, which halves the barriers; the compiler is told "
            "that two blocks have to fit on a multiprocessor; rows of lanes take turns, so that a "
            "quarter of a warp reads 2 x 4 different vectors instead of 1 x 8.",
        ),
        Step(
            "tensor_cores", tensor_cores, TensorTiling(group=8), "float16", ASYNC,
            predicted="30-50 %",
        ),
        Step(
            "warpgroups", warpgroup_products, WarpgroupTiling(), "float16", ASYNC,
            predicted="40-50 %", arch="sm_90a",
        ),
    )
}  # fmt: skip
"""The steps of the ladder, in their order."""

FINAL = "deeper_tiles"
"""The last step in float32."""

VARIANTS = {
    "registers 128x128x8, lanes in turns": Step(
        "r8i", double_buffering, replace(GROUPS, interleave=2)
    ),
    "registers 128x128x16": Step("r16", double_buffering, replace(LAST, interleave=1)),
    "registers 128x128x16, lanes in turns, no groups": Step(
        "r16g", double_buffering, replace(LAST, group=1)
    ),
    "registers 128x128x16, lanes in turns, groups of 4": Step(
        "r16g", double_buffering, replace(LAST, group=4)
    ),
    "registers 256x128x8": Step("r256", double_buffering, replace(GROUPS, tile=(256, 128))),
    "async 128x128x8, 2 tiles": Step("a2", asynchronous_copies, WARPS, options=ASYNC),
    "async 128x128x8, 3 tiles, lanes in turns": Step(
        "a3i", asynchronous_copies, replace(WARPS, stages=3, interleave=2, blocks=2), options=ASYNC
    ),
    "async 128x128x16, 3 tiles, lanes in turns": Step(
        "a16i", asynchronous_copies, replace(LAST, stages=3), options=ASYNC
    ),
    "tensor cores, 4x2 warps, 3 tiles": Step(
        "t8", tensor_cores, TensorTiling(group=8, warps=(4, 2), stages=3), "float16", ASYNC
    ),
    "warpgroups 128x128, 2 blocks": Step(
        "w128", warpgroup_products, WarpgroupTiling((128, 128), stages=3, blocks=2), "float16",
        ASYNC, arch="sm_90a",
    ),
    "warpgroups 256x128, 2 tiles each": Step(
        "w256", warpgroup_products, WarpgroupTiling((256, 128), rows=2), "float16", ASYNC,
        arch="sm_90a",
    ),
}  # fmt: skip
"""Other sizes of the last steps, which sweep.py measures."""


if __name__ == "__main__":
    wanted = STEPS[sys.argv[1] if len(sys.argv) > 1 else FINAL]
    print(wanted.build(wanted.schedule(1024, 1024, 1024)).imported_modules[0].get_source())
