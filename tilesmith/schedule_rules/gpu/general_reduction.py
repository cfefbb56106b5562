"""Chains of reductions over rows (softmax, layer norm): a block of threads keeps a row.

The row is read once, by vectors where its length allows it, into shared memory; the sums and what
lies between them stay there; the results are written once.
"""

from __future__ import annotations

from tilesmith.ir import IntImm
from tilesmith.schedule_rules.gpu import facts
from tilesmith.schedule_rules.gpu.joined_sums import joined_sums
from tilesmith.target import Target
from tilesmith.tir import Block
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["general_reduction"]

MOST_SHARED = 48 * 1024
"""Bytes of shared memory for rows; longer rows are read from memory again."""
FOR_SUMS = 4 * 1024  # of the target's limit, what threads need to add up
MOST_UNROLLED = 32  # steps of a thread
PER_THREAD = 8  # elements that a thread should have at least


def general_reduction(sch: Schedule, target: Target) -> Schedule | None:
    """Schedule reductions over the same rows, and an elementwise block behind them."""
    (func,) = sch.mod.functions.values()
    if isinstance(func, PrimFunc) and (joined := joined_sums(func)) is not func:
        sch = Schedule(joined)
    blocks = sch.get_child_blocks(sch.get_block("root"))
    nodes: list[Block] = [sch.get(block) for block in blocks]
    outer = _common_rows(nodes)
    if outer is None:
        return None
    for block, node in zip(blocks[:-1], nodes):
        if facts.is_spatial(node) and len(node.iter_vars) == outer:  # one value for a row
            sch.compute_inline(block)
    blocks = sch.get_child_blocks(sch.get_block("root"))
    nodes = [sch.get(block) for block in blocks]
    *before, last = blocks
    shared, budget = [], min(MOST_SHARED, facts.shared_limit(target) - FOR_SUMS)
    for block, node in zip(before, nodes):
        size = _bytes_of_row(node.writes[0].buffer, outer)
        if size is None or size > budget:
            return None
        budget -= size
        shared.append(block)
    loops = sch.get_loops(last)
    row, rest = sch.fuse(*loops[:outer]), sch.fuse(*loops[outer:])
    width = facts.constant_extent(sch, rest)
    vector = facts.vector_length(width, *[region.buffer.dtype for region in nodes[-1].writes])
    threads = _threads(width, vector, target)
    sch.bind(row, "blockIdx.x")
    for block in reversed(shared):
        for number in range(len(sch.get(block).writes)):
            sch.set_scope(block, number, "shared")
        sch.compute_at(block, row, preserve_unit_loops=True)
        _share(sch, block, 1, threads)
    _share_vectors(sch, rest, threads, vector)
    _keep_inputs(sch, before, row, (threads, outer, budget))
    return sch


def _common_rows(nodes: list[Block]) -> int | None:
    """Return how many leading iterators all blocks have in common; None for other functions."""
    reductions = [node for node in nodes if facts.is_reduction(node)]
    if not reductions or len(nodes) < 2 or not facts.is_spatial(nodes[-1]):
        return None
    outer = min(len(facts.spatial(node)) for node in reductions)
    if outer == 0:
        return None
    for node in nodes:
        if not (facts.is_reduction(node) or facts.is_spatial(node)):
            return None
        if len(node.iter_vars) < outer or len(node.writes) < 1:
            return None
    return outer if len(nodes[-1].iter_vars) > outer else None


def _bytes_of_row(buffer: Buffer, outer: int) -> int | None:
    """Return the size of the part of a buffer that belongs to one row."""
    size: int = buffer.dtype.nbytes
    for extent in buffer.shape[outer:]:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size


def _threads(width: int | None, vector: int, target: Target) -> int:
    """Return how many threads share a row."""
    limit = facts.thread_limit(target)
    threads = facts.warp_size(target)
    while threads * 2 <= min(limit, 256) and (width is None or threads * 2 * PER_THREAD <= width):
        threads *= 2
    return threads


def _share(sch: Schedule, block: BlockRV, outer: int, threads: int) -> None:
    """Divide what a block does for a row among the threads: of a reduction the terms."""
    inner = sch.get_loops(block)[outer:]
    if count := len(facts.reduced(sch.get(block))):
        inner = inner[-count:]
    if not inner:
        return
    fused = sch.fuse(*inner) if len(inner) > 1 else inner[0]
    steps, tx = sch.split(fused, [None, threads])
    sch.bind(tx, "threadIdx.x")
    if not count:
        _unroll(sch, steps)


def _share_vectors(sch: Schedule, loop: LoopRV, threads: int, vector: int) -> None:
    """Divide a loop over a row among threads, in vectors."""
    width = facts.constant_extent(sch, loop)
    if vector == 1 or width is None or width % (threads * vector):
        steps, tx = sch.split(loop, [None, threads])
    else:
        steps, tx, lanes = sch.split(loop, [None, threads, vector])
        sch.vectorize(lanes)
    sch.bind(tx, "threadIdx.x")
    _unroll(sch, steps)


def _unroll(sch: Schedule, loop: LoopRV) -> None:
    """Let the compiler unroll a short loop over a thread's elements: all loads are on their way at
    once.
    """
    if (facts.constant_extent(sch, loop) or MOST_UNROLLED + 1) <= MOST_UNROLLED:
        sch.unroll(loop)
        sch.annotate(loop, "pragma_unroll_explicit", 0)


def _keep_inputs(
    sch: Schedule, blocks: list[BlockRV], row: LoopRV, limits: tuple[int, int, int]
) -> None:
    """Bring the inputs that several blocks read along a row to shared memory."""
    threads, outer, budget = limits
    made = {region.buffer for block in blocks for region in sch.get(block).writes}
    readers: dict[Buffer, list[BlockRV]] = {}
    for block in (*blocks, *sch.get_consumers(blocks[-1])):
        for region in sch.get(block).reads:
            if region.buffer not in made and len(region.buffer.shape) > outer:
                readers.setdefault(region.buffer, []).append(block)
    for buffer, users in readers.items():
        size = _bytes_of_row(buffer, outer)
        if len(users) < 2 or size is None or size > budget:
            continue
        budget -= size
        reads = [region.buffer for region in sch.get(users[0]).reads]
        copy = sch.cache_read(users[0], reads.index(buffer), "shared", users)
        sch.compute_at(copy, row, preserve_unit_loops=True)
        inner = sch.get_loops(copy)[1:]
        fused = sch.fuse(*inner) if len(inner) > 1 else inner[0]
        width = facts.constant_extent(sch, fused)
        _share_vectors(sch, fused, threads, facts.vector_length(width, buffer.dtype))
