"""Functions with one reduction: sums along rows, along columns, of everything; products with a
vector.

    rows      a warp (or a block of threads) per row reads it in vectors; its threads then add up
    columns   each thread adds up a strip of some columns; a second kernel adds the strips
    all       a row for each of many blocks of threads; a second kernel adds their sums
    windows   each thread adds up the few terms of one result (pooling, depthwise convolutions)
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any

from tilesmith.ir import Call, IntImm
from tilesmith.ir.queries import called_name
from tilesmith.schedule_rules.elementwise.inline import inline_elementwise
from tilesmith.schedule_rules.gpu import facts
from tilesmith.schedule_rules.gpu.elementwise import spread
from tilesmith.target import Target
from tilesmith.tir import Block, BufferLoad, BufferStore
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["gemv", "reduction"]

ROWS_IN_BLOCK = 8  # rows of one block of threads, a warp for each
PARTS = 1024  # in which everything is added up
SHORTEST_STRIP = 16  # rows that a thread adds up at least
THREADS_IN_COLUMNS = 128
THREADS_AT_ONCE = 1024  # of a multiprocessor; each has several loads on their way
LOADS_AT_ONCE = 8  # of a thread
FEW_STRIPS = 64  # which one thread adds up for a column
MOST_TERMS = 31  # of a window: with more, a warp adds up a row


def gemv(sch: Schedule, target: Target) -> Schedule | None:
    """Schedule a product of a matrix and a vector."""
    blocks = sch.get_child_blocks(sch.get_block("root"))
    main = [block for block in blocks if facts.is_reduction(sch.get(block))]
    if len(main) != 1:
        return None
    node: Block = sch.get(main[0])
    sizes = sorted(len(_used(node, load.indices)) for load in facts.inputs(node))
    if len(sizes) != 2 or not sizes[0] < sizes[1] == len(_long(node)):
        return None
    return reduction(sch, target)


def reduction(sch: Schedule, target: Target) -> Schedule | None:
    """Schedule a function of reductions, each of which reads its inputs once, and elementwise
    blocks; each gets a kernel.
    """
    inline_elementwise(sch)
    blocks = sch.get_child_blocks(sch.get_block("root"))
    nodes: list[Block] = [sch.get(block) for block in blocks]
    patterns = [None if facts.is_spatial(node) else _pattern(node) for node in nodes]
    known = [pattern or facts.is_spatial(node) for pattern, node in zip(patterns, nodes)]
    if not any(patterns) or not all(known):
        return None
    ways = {"rows": _rows, "columns": _columns, "all": _everything, None: spread}
    is_window = [_is_window(sch, one, pattern) for one, pattern in zip(blocks, patterns)]
    padded = [_paddings(sch, block) if yes else [] for block, yes in zip(blocks, is_window)]
    behind = [_behind(sch, block) if yes else [] for block, yes in zip(blocks, is_window)]
    gone = {id(sch.get(one)) for found in (*padded, *behind) for one in found}
    for number, (block, pattern) in enumerate(zip(blocks, patterns)):
        if is_window[number]:
            _windows(sch, block, padded[number], behind[number], target)
        elif id(nodes[number]) not in gone:
            ways[pattern](sch, block, target)
    return sch


def _used(block: Block, indices: object) -> set[object]:
    """Return the iterators of more than one value that indices depend on."""
    return {
        one.var
        for one in _long(block)
        if any(facts.mentions_variable(index, one.var) for index in indices)  # type: ignore[attr-defined]
    }


def _long(block: Block) -> list[facts.IterVar]:
    return [one for one in block.iter_vars if one.dom is None or not facts.is_one(one.dom.extent)]


def _pattern(block: Block) -> str | None:
    """Return the direction of a reduction in the input that most iterators index."""
    if not facts.is_reduction(block):
        return None
    found = facts.contiguous_iterators(block)
    if not found:
        return None
    load, along = max(found, key=lambda one: len(_used(block, one[0].indices)))
    iterated = _long(block)
    if len(_used(block, load.indices)) < len(iterated):
        return None  # every input is read several times: a product of matrices
    if not any(one is other for one in facts.spatial(block) for other in iterated):
        return "all"
    reduces = any(one.var is along for one in facts.reduced(block))
    return None if along is None else "rows" if reduces else "columns"


def _is_window(sch: Schedule, block: BlockRV, pattern: str | None) -> bool:
    """Return whether a reduction has fewer terms than a warp has threads, and is not a sum of
    columns, which vectors read faster; only the number of images may be open.
    """
    if pattern not in ("rows", "columns"):
        return False
    node: Block = sch.get(block)
    terms = [one.dom.extent for one in facts.reduced(node) if one.dom is not None]
    count = prod([size.value if isinstance(size, IntImm) else MOST_TERMS + 1 for size in terms])
    sizes = [one.dom.extent for one in facts.spatial(node)[1:] if one.dom is not None]
    if not all(isinstance(size, IntImm) for size in sizes):
        return False
    is_plane = len(terms) > 1 or bool(_paddings(sch, block))
    return count <= MOST_TERMS and (pattern == "rows" or is_plane)


def _paddings(sch: Schedule, block: BlockRV) -> list[BlockRV]:
    """Return the blocks that put a border around what a block alone reads."""
    found = []
    for one in sch.get_producers(block):
        node: Block = sch.get(one)
        value = node.body.value if isinstance(node.body, BufferStore) else None
        if not isinstance(value, Call) or called_name(value) != "tir.if_then_else":
            continue
        is_border = isinstance(value.args[1], BufferLoad) and facts.is_spatial(node)
        if is_border and len(sch.get_consumers(one)) == 1:
            found.append(one)
    return found


def _behind(sch: Schedule, block: BlockRV) -> list[BlockRV]:
    """Return the block that computes from each result by itself, if nothing else reads them."""
    consumers = sch.get_consumers(block)
    if len(consumers) != 1:
        return []
    result: Block = sch.get(block)
    node: Block = sch.get(consumers[0])
    reads = list(loads(node.body, result.writes[0].buffer))
    if not facts.is_spatial(node) or len(reads) != 1:
        return []
    indices, variables = reads[0].indices, [one.var for one in node.iter_vars]
    is_same = len(indices) == len(variables) and all(
        index is variable for index, variable in zip(indices, variables)
    )
    return list(consumers) if is_same else []


def _windows(
    sch: Schedule, block: BlockRV, before: list[BlockRV], behind: list[BlockRV], target: Target
) -> None:
    """Let each thread add up one result; borders and sums are not written to memory."""
    for one in before:
        sch.compute_inline(one)
    results = facts.spatial(sch.get(block))
    count, sizes = len(results), [one.dom.extent for one in results if one.dom is not None]

    def place(*indices: Any) -> list[Any]:
        """Number the results in the order of memory; what follows stays."""
        number = indices[0]
        for index, size in zip(indices[1:count], sizes[1:]):
            number = number * size + index
        return [number, *indices[count:]]

    local = sch.cache_write(block, 0, "local")
    for one in behind:
        sch.reverse_compute_inline(one)
    sch.transform_layout(block, ("write", 0), place)
    sch.transform_block_layout(local, place)
    sch.transform_block_layout(block, place)
    threads = min(THREADS_IN_COLUMNS, facts.thread_limit(target))
    result, *terms = sch.get_loops(block)
    bx, tx = sch.split(result, [None, threads])
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")
    sch.reverse_compute_at(local, tx)
    for loop in terms:
        sch.unroll(loop)
        sch.annotate(loop, "pragma_unroll_explicit", 0)
    sch.decompose_reduction(block, terms[0])


def _split_kinds(sch: Schedule, block: BlockRV) -> tuple[LoopRV | None, LoopRV]:
    """Return one loop over the results (None for a single one), one over the terms of a sum."""
    loops = sch.get_loops(block)
    node: Block = sch.get(block)
    count = len(facts.spatial(node))
    if count >= len(loops):  # the loops over results are one already
        count = len(loops) - len(facts.reduced(node))
    if count == 0:
        return None, sch.fuse(*loops) if len(loops) > 1 else loops[0]
    return sch.fuse(*loops[:count]), sch.fuse(*loops[count:])


def _rows(sch: Schedule, block: BlockRV, target: Target) -> None:
    """Let a warp, or a block of threads where there are few rows, add up a row."""
    node: Block = sch.get(block)
    last = facts.constant_extent(sch, sch.get_loops(block)[-1])
    row, terms = _split_kinds(sch, block)
    rows = 1 if row is None else facts.constant_extent(sch, row)
    count = facts.constant_extent(sch, terms)
    warp, limit = facts.warp_size(target), facts.thread_limit(target)
    dtypes = [load.buffer.dtype for load in facts.inputs(node)]
    vector = facts.vector_length(last, *dtypes)
    together, threads = gcd(rows or 1, ROWS_IN_BLOCK), warp
    enough = facts.multiprocessors(target) * ROWS_IN_BLOCK
    if together < ROWS_IN_BLOCK or (rows or 0) < enough:
        threads, together = _threads_of_long_row(count, vector, warp, limit), 1
    if count is not None and count % (threads * vector):
        vector = 1  # vectors would need a condition for each element
    outer, tx, lanes = sch.split(terms, [None, threads, vector])
    if vector > 1:
        sch.reorder(tx, outer, lanes)
    if row is None:
        row = sch.add_unit_loop(tx if vector > 1 else outer)
    bx, ty = sch.split(row, [None, together])
    if vector > 1:
        partial = sch.rfactor(tx, 0)
        bx, ty, tx = sch.get_loops(block)
        sch.compute_at(partial, tx)
        sch.set_scope(partial, 0, "local")
        _load_vectors(sch, partial)
        sch.decompose_reduction(partial, sch.get_loops(partial)[-2])
    sch.bind(bx, "blockIdx.x")
    sch.bind(ty, "threadIdx.y")
    sch.bind(tx, "threadIdx.x")


def _threads_of_long_row(count: int | None, vector: int, warp: int, limit: int) -> int:
    """Return how many threads share a row: each should read a few vectors, all of them whole."""
    threads = warp
    while threads * 2 <= limit and (count is None or threads * 2 * vector * 2 <= count):
        if count is not None and count % (threads * vector) == 0 and (
            count % (threads * 2 * vector)
        ):  # fmt: skip
            break
        threads *= 2
    return threads


def _load_vectors(sch: Schedule, block: BlockRV) -> None:
    """Load the inputs that are contiguous along the sum by vectors."""
    node: Block = sch.get(block)
    loop = sch.get_loops(block)[-2]
    terms = {one.var for one in facts.reduced(node)}
    wanted = [load.buffer for load, along in facts.contiguous_iterators(node) if along in terms]
    reads = [region.buffer for region in node.reads]
    for position, buffer in enumerate(reads):
        if buffer in wanted:
            copy = sch.cache_read(block, position, "local", [block])
            sch.compute_at(copy, loop)
            sch.vectorize(sch.get_loops(copy)[-1])


def _columns(sch: Schedule, block: BlockRV, target: Target) -> None:
    """Let each thread add up a strip of rows for some columns, and then the strips."""
    node: Block = sch.get(block)
    columns, terms = _split_kinds(sch, block)
    assert columns is not None  # the pattern says so
    width, count = facts.constant_extent(sch, columns), facts.constant_extent(sch, terms)
    last = facts.spatial(node)[-1].dom
    dtypes = [load.buffer.dtype for load in facts.inputs(node)]
    extent = last.extent.value if last and isinstance(last.extent, IntImm) else None
    vector = facts.vector_length(extent, *dtypes)
    wanted = facts.multiprocessors(target) * THREADS_AT_ONCE
    strips = _power_of_two(wanted * vector // (width or wanted), (count or 1) // SHORTEST_STRIP)
    if strips > 1:
        strip, _ = sch.split(terms, [strips, None])
        partial = _strips(sch, block, strip, strips, target)
        loops = sch.get_loops(partial)
        block, (columns, strip, terms) = partial, (loops[0], loops[1], loops[2])
        sch.reorder(strip, columns, terms)
        sch.bind(strip, "blockIdx.y")
    local = sch.cache_write(block, 0, "local")
    tx, lanes = _spread_columns(sch, columns, vector, target)
    sch.reverse_compute_at(local, tx)
    if vector > 1:
        sch.reorder(terms, lanes)
        _add_vectors(sch, block, terms)
        if strips <= FEW_STRIPS:  # else the sums of columns lie apart
            sch.vectorize(sch.get_loops(local)[-1])


def _strips(sch: Schedule, block: BlockRV, strip: LoopRV, strips: int, target: Target) -> BlockRV:
    """Add up the sums of strips: by a thread for each column, or by a warp where there are many,
    for which the sums of a column are neighbours in memory. Return the block that makes them.
    """
    if strips > FEW_STRIPS:
        partial = sch.rfactor(strip, len(facts.spatial(sch.get(block))))
        _rows(sch, block, target)
        return partial
    partial = sch.rfactor(strip, 0)
    local = sch.cache_write(block, 0, "local")
    results, terms = _split_kinds(sch, block)
    assert results is not None  # the pattern says so
    thread, _ = _spread_columns(sch, results, 1, target)
    sch.reverse_compute_at(local, thread)
    sch.decompose_reduction(block, _several_at_once(sch, terms))
    return partial


def _add_vectors(sch: Schedule, block: BlockRV, terms: LoopRV) -> None:
    """Add up vectors: the start values are set before, by a loop of their own."""
    sch.decompose_reduction(block, _several_at_once(sch, terms))
    sch.vectorize(sch.get_loops(block)[-1])


def _several_at_once(sch: Schedule, terms: LoopRV) -> LoopRV:
    """Let several loads of a sum be on their way at once; return the loop over such groups."""
    count = facts.constant_extent(sch, terms)
    if count is None or count <= LOADS_AT_ONCE or count % LOADS_AT_ONCE:
        return terms
    terms, together = sch.split(terms, [None, LOADS_AT_ONCE])
    sch.unroll(together)
    sch.annotate(together, "pragma_unroll_explicit", 0)
    return terms


def _spread_columns(
    sch: Schedule, columns: LoopRV, vector: int, target: Target
) -> tuple[LoopRV, LoopRV]:
    """Divide columns among threads; return the loop over threads and the one in a vector."""
    threads = min(THREADS_IN_COLUMNS, facts.thread_limit(target))
    bx, tx, lanes = sch.split(columns, [None, threads, vector])
    sch.bind(bx, "blockIdx.x")
    sch.bind(tx, "threadIdx.x")
    return tx, lanes


def _everything(sch: Schedule, block: BlockRV, target: Target) -> None:
    """Add up parts by a block of threads each, and then the parts."""
    loops = sch.get_loops(block)
    sizes = [facts.constant_extent(sch, loop) for loop in loops]
    count = prod(size for size in sizes if size is not None) if None not in sizes else None
    if count is not None and count <= PARTS * 4:
        _rows(sch, block, target)
        return
    terms = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    parts = PARTS
    part, _ = sch.split(terms, [parts, None])
    partial = sch.rfactor(part, 0)
    _rows(sch, partial, target)
    _rows(sch, block, target)


def _power_of_two(wanted: int, limit: int) -> int:
    """Return the largest power of two that is neither above ``wanted`` nor above ``limit``."""
    most = min(wanted, limit)
    return 1 << (most.bit_length() - 1) if most > 0 else 1
