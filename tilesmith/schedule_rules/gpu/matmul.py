"""Products of matrices of known sizes: batched, with operands and results in any layout.
``products.py`` has those of other sizes.

The two operands and the result are brought to plain matrices by copies that are later part of other
copies: of those of tiles to shared memory (with zeros around where tiles do not divide the sizes),
and of those of sums from registers to the result, elementwise blocks behind the product included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilesmith.arith import detect_linear_equation
from tilesmith.ir import Add, Cast, IntImm, Mul, PrimExpr, Var
from tilesmith.schedule_rules.elementwise.inline import inline_elementwise
from tilesmith.schedule_rules.gpu import facts
from tilesmith.schedule_rules.gpu.product_iterators import (
    BATCH,
    COLUMNS,
    ROWS,
    SUM,
    ProductIterators,
    product_iterators,
)
from tilesmith.schedule_rules.gpu.product_tiles import (
    VECTOR,
    Loops,
    Tiling,
    copy_by_threads,
    finish,
    pipeline,
    tile,
    write_back,
)
from tilesmith.target import Target
from tilesmith.tir import Block, BufferLoad, BufferStore
from tilesmith.tir.schedule import BlockRV, Schedule

__all__ = ["matmul"]

TILINGS = (
    Tiling((128, 128), depth=16, warps=(4, 2), interleave=2, group=8, blocks=2),
    Tiling((128, 64), depth=16, warps=(4, 1), interleave=2, group=8, blocks=3),
    Tiling((64, 64), depth=16, warps=(2, 1), interleave=2, group=8, blocks=4),
    Tiling((32, 32), depth=16, warps=(1, 1), interleave=2, group=8),
)
"""From the fastest for large products on; smaller tiles make more blocks of threads."""
SMALLEST = 16
"""Rows and columns of a product: with fewer, tiles would be mostly empty."""
MOST_BATCHES = 65_535  # what the third axis of a grid may have
STEP = 8  # of the sum, at least
MOST_PADDING = 1.4
"""What larger tiles may compute in place of one result that smaller ones compute."""


@dataclass(frozen=True)
class _Product:
    """A product: the places of its operands among what the block reads, and its iterators; rows and
    columns are those of the result in the order of its memory.
    """

    left: int
    right: int
    iterators: ProductIterators
    inner: dict[int, tuple[int, int]]
    """By operand: the iterator along which it lies in memory (-1: none), and the length of rows."""

    def size(self, kind: str) -> int:
        """Return the product of the extents of a kind, which are known."""
        return self.iterators.size(kind) or 0

    def fused(self, kinds: Sequence[str]) -> Callable[..., list[Any]]:
        """Return the map of iterators to one for each of the kinds that the product has."""
        return self.iterators.fused([one for one in kinds if one in self.iterators.kinds])


def matmul(sch: Schedule, target: Target) -> Schedule | None:
    """Schedule a product of matrices and what is computed from each of its elements."""
    inline_elementwise(sch)
    blocks = sch.get_child_blocks(sch.get_block("root"))
    nodes: list[Block] = [sch.get(block) for block in blocks]
    main = [block for block, node in zip(blocks, nodes) if not facts.is_spatial(node)]
    if len(main) != 1 or not facts.is_reduction(sch.get(main[0])):
        return None
    found = _recognised(sch.get(main[0]))
    if found is None or any(not _is_chain(sch, block, main[0]) for block in blocks):
        return None
    _to_matrices(sch, main[0], found)
    _schedule(sch, main[0], found, _tiling(found, target))
    return sch


def _is_chain(sch: Schedule, block: BlockRV, main: BlockRV) -> bool:
    """Return whether a block is the product, makes one of its operands, or is the only one behind
    it.
    """
    if sch.get(block) is sch.get(main):
        return True
    around = sch.get_consumers(main)
    if any(sch.get(one) is sch.get(block) for one in around):
        return len(around) == 1 and not sch.get_consumers(block)
    readers = sch.get_consumers(block)
    return len(readers) == 1 and sch.get(readers[0]) is sch.get(main)


# Which product it is.


def _recognised(block: Block) -> _Product | None:
    """Return what kind of product a block is; None for other blocks, and for small ones."""
    operands = _operands(block)
    store = block.body
    if operands is None or not isinstance(store, BufferStore) or not store.indices:
        return None
    last = [
        one.var for one in block.iter_vars if facts.mentions_variable(store.indices[-1], one.var)
    ]
    # Columns are contiguous in the result: the operand with its last iterator is the right one.
    if last and not _mentions(operands[1], last[-1]):
        operands = (operands[1], operands[0])
    iterators = product_iterators(block, *operands)
    if iterators is None:
        return None
    batches, *sizes = [iterators.size(kind) or 0 for kind in (BATCH, ROWS, COLUMNS, SUM)]
    if min(sizes[:2]) < SMALLEST or sizes[2] < STEP or not 0 < batches <= MOST_BATCHES:
        return None
    buffers = [region.buffer for region in block.reads if region.buffer is not store.buffer]
    places = [buffers.index(operand.buffer) for operand in operands]
    inner = {place: _along(block, load) for place, load in zip(places, operands)}
    return _Product(places[0], places[1], iterators, inner)


def _operands(block: Block) -> tuple[BufferLoad, BufferLoad] | None:
    """Return the factors of ``C[...] = C[...] + A[...] * B[...]``."""
    body = block.body
    if not isinstance(body, BufferStore) or not isinstance(body.value, Add):
        return None
    own, term = body.value.a, body.value.b
    if not isinstance(own, BufferLoad) or own.buffer is not body.buffer:
        return None
    term = term.value if isinstance(term, Cast) else term
    if not isinstance(term, Mul) or body.buffer.dtype != "float32":
        return None
    left, right = [one.value if isinstance(one, Cast) else one for one in (term.a, term.b)]
    if not isinstance(left, BufferLoad) or not isinstance(right, BufferLoad):
        return None
    return None if left.buffer is right.buffer else (left, right)


def _along(block: Block, load: BufferLoad) -> tuple[int, int]:
    """Return the iterator that is the last index of a load, and the size of that dimension; -1 if
    the last index is something else.
    """
    *outer, last = load.indices
    size = load.buffer.shape[-1]
    places = [place for place, one in enumerate(block.iter_vars) if one.var is last]
    if not places or not isinstance(last, Var) or _is_used(outer, last):
        return -1, 0
    return places[0], size.value if isinstance(size, IntImm) else 0


def _mentions(load: BufferLoad, variable: Var) -> bool:
    return _is_used(load.indices, variable)


def _is_used(indices: Sequence[PrimExpr], variable: Var) -> bool:
    return any(facts.mentions_variable(index, variable) for index in indices)


def _tiling(product: _Product, target: Target) -> Tiling:
    """Return the largest tiles that fit, of which there are enough for all multiprocessors, and
    which are not mostly padding where smaller ones are not.
    """
    rows, columns, steps = [product.size(kind) for kind in (ROWS, COLUMNS, SUM)]
    limit = facts.shared_limit(target)

    def blocks(tiling: Tiling) -> int:
        tiles = -(-rows // tiling.tile[0]) * -(-columns // tiling.tile[1])
        return tiles * product.size(BATCH)

    fitting = [
        one if one.shared_bytes <= limit else replace(one, depth=STEP)
        for one in TILINGS
        if one.threads <= facts.thread_limit(target)
        and replace(one, depth=STEP).shared_bytes <= limit
    ]
    enough = [one for one in fitting if blocks(one) >= facts.multiprocessors(target)]
    computed = [blocks(one) * one.tile[0] * one.tile[1] for one in enough]
    least = min(computed, default=0)
    chosen = next(
        (one for one, size in zip(enough, computed) if size <= MOST_PADDING * least),
        fitting[-1] if fitting else TILINGS[-1],
    )
    return replace(chosen, depth=STEP) if steps % chosen.depth and steps % STEP == 0 else chosen


# The schedule.


def _to_matrices(sch: Schedule, main: BlockRV, product: _Product) -> None:
    """Let the block read and write matrices, whose rows are those of memory."""
    ways = {
        ("read", product.left): (BATCH, ROWS, SUM),
        ("read", product.right): (BATCH, SUM, COLUMNS),
        ("write", 0): (BATCH, ROWS, COLUMNS),
    }
    for place, kinds in ways.items():
        number = place[1]
        if place[0] == "read" and _along_sum(product, number) != (kinds[-1] == SUM):
            kinds = (kinds[0], kinds[2], kinds[1])
        copy, index_map = sch.reindex(main, place), product.fused(kinds)
        sch.transform_layout(main, place, index_map)
        sch.transform_block_layout(copy, index_map)
    sch.transform_block_layout(main, product.fused((BATCH, ROWS, COLUMNS, SUM)))


def _along_sum(product: _Product, operand: int) -> bool:
    """Return whether the terms of a sum lie one after the other in memory."""
    place, _ = product.inner[operand]
    return place >= 0 and product.iterators.kinds[place] == SUM


def _schedule(sch: Schedule, main: BlockRV, product: _Product, tiling: Tiling) -> None:
    """Tile the product; read operands through shared memory, write results from registers."""
    has_batch = bool(product.iterators.places(BATCH))
    sch.pad_einsum(main, [1] * has_batch + [*tiling.tile, tiling.depth])
    results = sch.cache_write(main, 0, "local")
    if has_batch:
        sch.bind(sch.get_loops(main)[0], "blockIdx.z")
    loops = tile(sch, main, tiling)
    shared = [_bring(sch, main, product, number, tiling, loops)
              for number in (product.left, product.right)]  # fmt: skip
    for block in shared:
        _inline_before(sch, block)
    _inline_behind(sch, results)
    write_back(sch, results, loops, _vector_of_results(sch, results, product))
    finish(sch, main, loops)
    pipeline(sch, (shared[0], shared[1]), loops)


def _bring(
    sch: Schedule, main: BlockRV, product: _Product, operand: int, tiling: Tiling, loops: Loops
) -> BlockRV:
    """Copy the tiles of an operand to shared memory, transposed if a sum runs along its memory."""
    shared = sch.cache_read(main, operand, "shared")
    fragment = sch.cache_read(main, operand, "local")
    sch.compute_at(fragment, loops.inner)
    sch.compute_at(shared, loops.outer)
    if _along_sum(product, operand):
        sch.transform_layout(shared, ("write", 0), lambda *i: [*i[:-2], i[-1], i[-2]])
        sch.storage_align(shared, 0, -2, 32, tiling.padding)
    sch.vectorize(sch.get_loops(fragment)[-1])
    copy_by_threads(sch, shared, tiling, _vector(product, operand, tiling))
    return shared


def _vector(product: _Product, operand: int, tiling: Tiling) -> int:
    """Return how many elements of an operand a thread loads at once: one, unless all rows of tiles
    are whole vectors in memory.
    """
    place, extent = product.inner[operand]
    if place < 0 or extent % VECTOR:
        return 1
    kind = product.iterators.kinds[place]
    if place != product.iterators.places(kind)[-1]:
        return 1
    axis = 0 if operand == product.left else 1
    step = tiling.depth if kind == SUM else tiling.tile[axis]
    return VECTOR if product.size(kind) % step == 0 else 1


def _inline_before(sch: Schedule, block: BlockRV) -> None:
    """Compute what a copy reads within the copy."""
    while producers := sch.get_producers(block):
        sch.compute_inline(producers[0])


def _inline_behind(sch: Schedule, results: BlockRV) -> None:
    """Compute what is behind a copy of results within the copy."""
    while consumers := sch.get_consumers(results):
        sch.reverse_compute_inline(consumers[0])


def _vector_of_results(sch: Schedule, results: BlockRV, product: _Product) -> int:
    """Return how many results a thread stores at once: one, unless rows of the result in memory are
    whole vectors of its columns.
    """
    node: Block = sch.get(results)
    if not isinstance(node.body, BufferStore):
        return 1
    *outer, last = node.body.indices
    column = node.iter_vars[-1].var
    apart = _is_used(outer, column)
    is_whole = product.iterators.extents[product.iterators.places(COLUMNS)[-1]] % VECTOR == 0
    form = detect_linear_equation(last, [column])
    steps_by_one = form and isinstance(form[0], IntImm) and form[0].value == 1
    return VECTOR if steps_by_one and is_whole and not apart else 1
