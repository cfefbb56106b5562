"""Schedules products of matrices for GPUs: tiles in shared memory, results in registers.

    C[m, n] += A[m, k] * B[k, n]        also batched, transposed, and convolutions, whose m are the
                                        places of the result and whose k are the places of a window

The iterators of a product are sorted (`product_iterators`), fused, and padded to whole tiles: what
is read beyond the ends is zero, and what is computed there is not stored. Operands are copied to
shared memory in tiles, in whatever order their indices say, and each thread sums up a few results
in registers.
"""

from __future__ import annotations

from typing import Any

from tilesmith.schedule_rules.elementwise.inline import inline_elementwise
from tilesmith.schedule_rules.gpu import facts
from tilesmith.schedule_rules.gpu.elementwise import spread
from tilesmith.schedule_rules.gpu.product_iterators import (
    BATCH,
    COLUMNS,
    ROWS,
    SUM,
    ProductIterators,
    product_iterators,
)
from tilesmith.target import Target
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.stmt import Block, ForKind

__all__ = ["product"]

_PER_THREAD = 4  # rows and columns that a thread computes
_LARGEST_TILE, _DEPTH = 64, 16
_MOST_BATCHES = 65_535  # what the third axis of a grid may have
_KINDS = (BATCH, ROWS, COLUMNS, SUM)
_FEWEST = 8  # below so many rows, columns or terms, tiles are mostly padding


def product(sch: Schedule, target: Target) -> Schedule | None:
    """Schedule a function with one product, and elementwise blocks before and behind it."""
    inline_elementwise(sch)
    found = _find(sch)
    if found is None:
        return None
    if facts.thread_limit(target) < (_LARGEST_TILE // _PER_THREAD) ** 2:
        return None
    _schedule(sch, *found)
    for block in sch.get_child_blocks(sch.get_block("root")):
        if not _is_on_threads(sch, block):
            spread(sch, block, target)
    return sch


def _find(sch: Schedule) -> tuple[BlockRV, ProductIterators] | None:
    """Return the block of a function's product, with its iterators."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    main = [block for block in blocks if facts.is_reduction(sch.get(block))]
    if len(main) != 1 or sum([not facts.is_spatial(sch.get(block)) for block in blocks]) != 1:
        return None
    if len(blocks) - blocks.index(main[0]) > 2:
        return None  # several blocks read the result
    node: Block = sch.get(main[0])
    loads = facts.inputs(node)
    if len(loads) != 2 or loads[0].buffer is loads[1].buffer or len(node.reads) != 2:
        return None
    found = product_iterators(node, loads[0], loads[1])
    if found is None:
        return None
    batches, *sizes = [found.size(kind) for kind in _KINDS]
    if batches is not None and batches > _MOST_BATCHES:
        return None
    is_large = all(size is None or size >= _FEWEST for size in sizes)
    return (main[0], found) if is_large else None


def _tile(size: int | None) -> int:
    """Return the rows of a tile: few where the matrix has few."""
    tile = _LARGEST_TILE
    while size is not None and tile >= 2 * _PER_THREAD * 2 and size <= tile // 2:
        tile //= 2
    return tile


def _schedule(sch: Schedule, main: BlockRV, iterators: ProductIterators) -> None:
    """Tile the product, and let the blocks around it compute where it reads and writes."""
    node: Block = sch.get(main)
    along = [one for _, one in facts.contiguous_iterators(node)]
    last = [_is_summed(node, one) for one in along]  # operands that are contiguous along k
    forms = {
        ("read", 0): (BATCH, ROWS, SUM),
        ("read", 1): (BATCH, COLUMNS, SUM),
        ("write", 0): (BATCH, ROWS, COLUMNS),
    }
    around = {place: sch.reindex(main, place) for place in forms}
    stored = [around["write", 0]]
    for behind in sch.get_consumers(stored[0]):
        sch.reverse_compute_inline(behind)
    for place, kinds in forms.items():
        fused = iterators.fused(kinds)
        sch.transform_layout(main, place, fused)
        sch.transform_block_layout(around[place], fused)
    sch.transform_block_layout(main, iterators.fused(_KINDS))
    rows, columns = _tile(iterators.size(ROWS)), _tile(iterators.size(COLUMNS))
    sch.pad_einsum(main, [1, rows, columns, _DEPTH])
    if sch.get_consumers(main) and not _is(sch, sch.get_consumers(main)[0], stored[0]):
        stored.insert(0, sch.get_consumers(main)[0])
    batch, m, n, k = sch.get_loops(main)
    m0, m1, m2 = sch.split(m, [None, rows // _PER_THREAD, _PER_THREAD])
    n0, n1, n2 = sch.split(n, [None, columns // _PER_THREAD, _PER_THREAD])
    k0, k1 = sch.split(k, [None, _DEPTH])
    sch.reorder(batch, m0, n0, m1, n1, k0, k1, m2, n2)
    sch.bind(batch, "blockIdx.z")
    sch.bind(m0, "blockIdx.y")
    sch.bind(n0, "blockIdx.x")
    sch.bind(m1, "threadIdx.y")
    sch.bind(n1, "threadIdx.x")
    sums = sch.cache_write(main, 0, "local")
    sch.reverse_compute_at(sums, n1, preserve_unit_loops=True)
    threads = (rows // _PER_THREAD, columns // _PER_THREAD)
    for number in (0, 1):
        _share(sch, main, number, k0, threads, last[number])
    for behind in stored:
        sch.reverse_compute_inline(behind)
    for loop in sch.get_loops(main)[-2:]:
        sch.unroll(loop)
    sch.decompose_reduction(main, k0)


def _is_on_threads(sch: Schedule, block: BlockRV) -> bool:
    return any(sch.get(loop).kind is ForKind.THREAD_BINDING for loop in sch.get_loops(block))


def _is(sch: Schedule, one: BlockRV, other: BlockRV) -> bool:
    return sch.get(one) is sch.get(other)


def _is_summed(node: Block, variable: Any) -> bool:
    return any(one.var is variable for one in facts.reduced(node))


def _share(
    sch: Schedule,
    main: BlockRV,
    number: int,
    at: LoopRV,
    threads: tuple[int, int],
    is_last: bool,
) -> None:
    """Copy tiles of an operand to shared memory, k first, so that a thread finds its rows side by
    side; neighbouring threads read what is contiguous in the operand.
    """
    copy = sch.cache_read(main, number, "shared")
    sch.compute_at(copy, at, preserve_unit_loops=True)
    sch.transform_layout(copy, ("write", 0), lambda b, row, term: (b, term, row))
    sch.storage_align(copy, 0, 1, 32, 4)
    *_, row, term = sch.get_loops(copy)
    if not is_last:
        sch.reorder(term, row)
    fused = sch.fuse(*sch.get_loops(copy)[-2:])
    _, ty, tx = sch.split(fused, [None, *threads])
    sch.bind(ty, "threadIdx.y")
    sch.bind(tx, "threadIdx.x")
    for block in reversed(_before(sch, copy)):
        sch.compute_inline(block)


def _before(sch: Schedule, copy: BlockRV) -> list[BlockRV]:
    """Return the blocks that rearrange and pad an operand, in order: they are computed where it is
    copied, as nothing else reads what they write.
    """
    found: list[BlockRV] = []
    block = copy
    while len(producers := sch.get_producers(block)) == 1:
        block = producers[0]
        if not facts.is_spatial(sch.get(block)) or len(sch.get_consumers(block)) > 1:
            break
        found.insert(0, block)
    return found
