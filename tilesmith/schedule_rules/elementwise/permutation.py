"""Schedules copies between layouts: tiles that are transposed in registers.

A block whose loads are contiguous along another iterator than its store would load or store
element by element. Both iterators are divided by the lanes of a vector:

    for i, j: Y[i, j] = f(X[j, i])
  becomes
    for i_0, j_0:
        for j_1, i_1: L[j_1, i_1] = f(X[j_0 * 16 + j_1, i_0 * 16 + i_1])     (vectors of i)
        T[i_1, j_1] = L[j_1, i_1]                                             (shuffles)
        for i_1, j_1: Y[i_0 * 16 + i_1, j_0 * 16 + j_1] = T[i_1, j_1]        (vectors of j)

``L`` and ``T`` are registers. What the block computes belongs to the first loop, or to the last one
if other operands lie as the result does. Iterators that follow each other in memory on both sides
are one (height and width of an image). What is left of extents that the lanes do not divide are
smaller tiles of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, gcd, prod

from tilesmith.arith import Analyzer
from tilesmith.ir import (
    FloorDiv,
    FloorMod,
    IntImm,
    PrimExpr,
    Range,
    Var,
    const,
    structural_equal,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import calls, mentions, nodes, variables
from tilesmith.schedule_rules.contractions.tiles import MANY
from tilesmith.schedule_rules.intrinsics.transposes import FEW, transpose_intrin
from tilesmith.schedule_rules.loops import PARTITIONED
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, Buffer, BufferLoad, BufferStore, IndexMap, IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.transform.storage.view_binder import row_major_strides

__all__ = ["Permutation", "find_permutation", "schedule_permutation"]

_FEWEST_ELEMENTS = 16
_SHORT_ROWS = 6
"""Rows of the result of so few tiles are written one column of tiles after the other: all rows are
near each other in memory, and what is read runs on."""
_GREATEST_IDLENESS = 1.2
"""How much longer outer tiles may take that threads cannot share evenly."""
_CONDITIONAL = "tir.if_then_else"


@dataclass(frozen=True, eq=False)
class Permutation:
    """A block between two layouts, and the iterators that it gets: any number of outer ones, then
    the one along which the operands are contiguous, then that of the result.
    """

    iterators: IndexMap
    turned: tuple[Buffer, ...]
    """The operands that are contiguous along the last but one."""
    computes_last: bool
    """Whether operands are transposed before the computation, not the result after it."""
    is_dense: bool
    """Whether one of the two is short, and follows the other one in memory without gaps."""
    bits: int
    """Bits of the widest element."""


@dataclass(frozen=True, eq=False)
class _Iterator:
    """An iterator of a block, or a digit of one; ``value`` is it in terms of the block's own."""

    var: Var
    extent: PrimExpr
    value: PrimExpr


def find_permutation(block: Block) -> Permutation | None:
    """Return how a block goes between two layouts; None if it does not, or is no plain
    computation of elements.
    """
    store = _plain_store(block)
    if store is None or not _may_turn(store, block):
        return None
    return _Search(store, block).found()


def _plain_store(block: Block) -> BufferStore | None:
    store = block.body
    if not isinstance(store, BufferStore) or not store.indices or block.init is not None:
        return None
    if any(one.iter_type != IterVar.DataPar for one in block.iter_vars):
        return None
    accessed = [store.buffer, *[load.buffer for load in loads(store.value)]]
    is_plain = store.predicate is None and all(_is_plain(buffer) for buffer in accessed)
    return store if is_plain and store.buffer not in accessed[1:] else None


def _is_plain(buffer: Buffer) -> bool:
    dtype = buffer.dtype
    is_bytes = dtype.is_bool or (
        dtype.bits in (8, 16, 32, 64) and not str(dtype).startswith("float8")
    )
    return is_bytes and dtype.lanes == 1 and not buffer.strides and bool(buffer.shape)


def _may_turn(store: BufferStore, block: Block) -> bool:
    """Return whether some load ends in another index than the store: quick, for most blocks."""
    own = {one.var for one in block.iter_vars}
    last = store.indices[-1]
    return any(
        load.indices[-1] is not last and mentions(load.indices, own)
        for load in loads(store.value)
        if load.indices
    )


def _digits(store: BufferStore, block: Block) -> tuple[list[_Iterator], dict[Var, PrimExpr]]:
    """Divide the iterators that loads divide (`i // 4`, `i % 4`) into digits; return what they
    make up as well.
    """
    analyzer = Analyzer()
    for iterator in block.iter_vars:
        analyzer.bind(iterator.var, iterator.domain)
    indices = [analyzer.simplify(index) for load in loads(store.value) for index in load.indices]
    divisors: dict[Var, set[int]] = {}
    for node in [*nodes(indices, FloorDiv), *nodes(indices, FloorMod)]:
        scale, var = _scale(node)
        if var is not None:
            divisors.setdefault(var, set()).add(scale)
    found, places = [], {}
    for iterator in block.iter_vars:
        var, extent = iterator.var, iterator.domain.extent
        chain = _chain(divisors.get(var, set()), extent)
        if not chain:
            found.append(_Iterator(var, extent, var))
            continue
        places[var] = const(0, var.dtype)
        for low, high in reversed(list(zip([1, *chain[:-1]], chain))):
            digit = Var(f"{var.name}_{low}", var.dtype)
            value: PrimExpr = ops.floordiv(var, low) if low > 1 else var
            value = value if high is chain[-1] else ops.floormod(value, high // low)
            found.append(_Iterator(digit, const(high // low, var.dtype), value))
            places[var] = places[var] + digit * low
    return found, places


def _scale(node: PrimExpr) -> tuple[int, Var | None]:
    """Return by what a nest of divisions divides which variable."""
    scale = 1
    while isinstance(node, (FloorDiv, FloorMod)):
        if not isinstance(node.b, IntImm) or (isinstance(node.a, FloorMod)):
            return 1, None
        scale, node = scale * node.b.value, node.a
    return scale, node if isinstance(node, Var) else None


def _chain(divisors: set[int], extent: PrimExpr) -> list[int]:
    """Return divisors that divide each other and the extent, with the extent; empty otherwise."""
    if not isinstance(extent, IntImm):
        return []
    chain = sorted({one for one in divisors if 1 < one < extent.value})
    if not chain:
        return []
    chain.append(extent.value)
    is_chain = all(low and high % low == 0 for low, high in zip(chain, chain[1:]))
    return chain if is_chain else []


class _Search:
    """Looks for the two iterators, or groups of iterators, that a block exchanges."""

    def __init__(self, store: BufferStore, block: Block) -> None:
        self.store = store
        self.iterators, places = _digits(store, block)
        self.own = [one.var for one in block.iter_vars]
        self.analyzer = Analyzer()
        for one in self.iterators:
            self.analyzer.bind(one.var, Range.from_min_extent(const(0, one.var.dtype), one.extent))
        self.places = places
        self.loads = [load for load in loads(store.value) if load.indices]
        self.stored = self._strides(store)
        self.loaded = [self._strides(load) for load in self.loads]

    def found(self) -> Permutation | None:
        """Return the permutation, or None."""
        last = self._fastest(self.stored)
        if last is None or self.stored is None:
            return None
        pairs = [(load, moves) for load, moves in zip(self.loads, self.loaded) if moves is not None]
        turned = [
            (load, self._fastest(moves))
            for load, moves in pairs
            if not is_const(moves[last.var], 0) and not is_const(moves[last.var], 1)
        ]
        firsts = [first for _, first in turned if first is not None]
        if not firsts:
            return None
        first = firsts[0]
        buffers = {load.buffer for load, one in turned if one is first}
        along_store, along_load = self._group(last, first), self._group(first, last)
        rows, columns = self._size(along_store), self._size(along_load)
        if rows * columns < _FEWEST_ELEMENTS:
            return None
        can_turn = self._are_read_once(buffers)
        is_mixed = any(is_const(moves[last.var], 1) for _, moves in pairs)
        rows_follow = rows <= FEW and is_const(self.stored[first.var], rows)
        columns_follow = columns <= FEW and all(
            is_const(moves[last.var], columns) for load, moves in pairs if load.buffer in buffers
        )
        computes_last = can_turn and not rows_follow and (is_mixed or columns_follow)
        accessed = [self.store.buffer, *[load.buffer for load in self.loads]]
        return Permutation(
            self._map(along_load, along_store),
            (*dict.fromkeys([buffer for buffer in accessed if buffer in buffers]),),
            computes_last,
            columns_follow if computes_last else rows_follow,
            max([buffer.dtype.bits for buffer in accessed]),
        )

    def _strides(self, access: BufferLoad | BufferStore) -> dict[Var, PrimExpr] | None:
        """Return how far an access moves in memory per step of each iterator; None if the steps
        differ.
        """
        place: PrimExpr = const(0, "int64")
        for index, stride in zip(access.indices, row_major_strides(access.buffer)):
            place = place + ops.cast("int64", index) * ops.cast("int64", stride)
        place = self.analyzer.simplify(substitute(place, self.places))
        variables = {one.var for one in self.iterators}
        if next(loads(place), None) is not None:
            return None
        steps: dict[Var, PrimExpr] = {}
        for var in variables:
            steps[var] = const(0, "int64")
            if mentions(place, {var}):
                moved = substitute(place, {var: var + const(1, var.dtype)})
                steps[var] = self.analyzer.simplify(moved - place)
            if mentions(steps[var], variables):
                return None
        return steps

    def _fastest(self, moves: dict[Var, PrimExpr] | None) -> _Iterator | None:
        """Return the iterator along which an access is contiguous."""
        found = [one for one in self.iterators if moves and is_const(moves[one.var], 1)]
        found = [one for one in found if not is_const(one.extent, 1)]
        return found[0] if found else None

    def _group(self, fastest: _Iterator, other: _Iterator) -> list[_Iterator]:
        """Return the iterators that are one with the given one in all accesses, slowest first."""
        loose = self._loose()
        group = [fastest]
        while True:
            extent = self._extent(group)
            slower = [
                one
                for one in self.iterators
                if one not in group and one is not other and one.var not in loose
                if all(
                    self.analyzer.can_prove_equal(moves[one.var], moves[fastest.var] * extent)
                    for moves in [self.stored, *self.loaded]
                    if moves is not None
                )
            ]
            if fastest.var in loose or not slower:
                return group
            group.insert(0, slower[0])

    def _loose(self) -> set[Var]:
        """Return iterators that conditions depend on, or loads at places that are not linear."""
        roots: list[PrimExpr] = [call.args[0] for call in calls(self.store.value, _CONDITIONAL)]
        for load, moves in zip(self.loads, self.loaded):
            roots += load.indices if moves is None else ()
        return set(variables([substitute(root, self.places) for root in roots]))

    def _are_read_once(self, buffers: set[Buffer]) -> bool:
        """Return whether each buffer is read at one place, and always: then it can be read
        before.
        """
        if next(calls(self.store.value, _CONDITIONAL), None) is not None:
            return False
        for buffer in buffers:
            first, *others = [load for load in self.loads if load.buffer is buffer]
            if not all(structural_equal(first, other) for other in others):
                return False
        return True

    def _extent(self, group: list[_Iterator]) -> PrimExpr:
        extent: PrimExpr = const(1, "int64")
        for one in group:
            extent = extent * ops.cast("int64", one.extent)
        return self.analyzer.simplify(extent)

    def _size(self, group: list[_Iterator]) -> int:
        extent = self._extent(group)
        return extent.value if isinstance(extent, IntImm) else MANY

    def _map(self, *groups: list[_Iterator]) -> IndexMap:
        """Return the block's new iterators: others, and one for each group."""
        outer = [one for one in self.iterators if not any(one in group for group in groups)]
        indices = [one.value for one in outer]
        for group in groups:
            index = group[0].value
            for one in group[1:]:
                index = index * one.extent + one.value
            indices.append(index)
        return IndexMap(self.own, indices)


def schedule_permutation(
    sch: Schedule, block: BlockRV, plan: Permutation, machine: MachineModel, threads: int
) -> None:
    """Schedule a block that goes between two layouts in tiles that are transposed in registers."""
    sch.transform_block_layout(block, plan.iterators)
    lanes = min(max(machine.lanes(plan.bits), 4), machine.vector_registers)
    sizes = [_extent(sch, loop) for loop in sch.get_loops(block)[-2:]]
    tile = [min(size, lanes) for size in sizes]
    if _stores_into_one_set(sch.get(block), tile[0], machine):
        tile[0] //= 2
    copies = _stages(sch, block, plan)
    last = block if plan.computes_last else copies.pop()
    firsts = [_pad(sch, transpose, *tile) for transpose in copies]
    *outer, first_loop, last_loop = sch.get_loops(last)
    cycles = _cycles(sch, [*outer, first_loop, last_loop], plan.bits, machine)
    tiles, vectors = zip(*[
        sch.split(loop, [None, size]) for loop, size in zip((first_loop, last_loop), tile)
    ])  # fmt: skip
    is_uneven = [size == MANY or size % one > 0 for size, one in zip(sizes, tile)]
    if sizes[1] <= _SHORT_ROWS * tile[1] and sizes[0] > sizes[1]:
        tiles, is_uneven = tiles[::-1], is_uneven[::-1]
    is_parallel = threads > 1 and cycles >= machine.fewest_parallel_cycles
    shared, tiles = _shares(sch, outer, tiles, is_uneven, threads if is_parallel else 1)
    sch.reorder(*shared, *outer, *tiles, *vectors)
    for transpose, first in zip(copies, firsts):
        sch.compute_at(transpose, tiles[-1])
        sch.compute_at(first, tiles[-1])
        dtype = str(sch.get(transpose).writes[0].buffer.dtype)
        sch.tensorize(sch.get_loops(transpose)[-2], transpose_intrin(tile[1], tile[0], dtype))
        pair = sch.get_loops(first)[-2:]
        _vectorize(sch, pair, lanes, plan.is_dense and plan.computes_last)
    _vectorize(sch, list(vectors), lanes, plan.is_dense and not plan.computes_last)
    for loop in tiles if is_uneven[0] else tiles[1:]:
        sch.annotate(loop, *PARTITIONED)
    if shared:
        sch.parallel(*shared)
    elif is_parallel:
        _parallel(sch, outer, tiles[0], threads, is_uneven[0])


def _shares(
    sch: Schedule,
    outer: list[LoopRV],
    tiles: tuple[LoopRV, LoopRV],
    is_uneven: Sequence[bool],
    threads: int,
) -> tuple[list[LoopRV], tuple[LoopRV, LoopRV]]:
    """Return a loop over shares of the inner tiles for threads, if they cannot share the outer ones
    evenly; and the loops of tiles.
    """
    count, inside = _extent(sch, tiles[0]), _extent(sch, tiles[1])
    others = prod([_extent(sch, loop) for loop in outer])
    if not is_uneven[0]:
        longest = ceil(others * count / threads) / (others * count)
    elif others >= threads:
        longest = ceil(others / threads) / others
    else:  # the last tile runs after the others
        longest = (ceil((count - 1) / threads) + 1) / count
    if longest * threads <= _GREATEST_IDLENESS or is_uneven[1] or inside % threads:
        return [], tiles
    share, inner = sch.split(tiles[1], [threads, None])
    return [share], (tiles[0], inner)


def _stores_into_one_set(block: Block, rows: int, machine: MachineModel) -> bool:
    """Return whether the rows of a tile of the result fall into one set of L1, which they overflow,
    unlike those that are read: these pass through L1 twice if a tile has half as many rows.
    """
    store = block.body
    assert isinstance(store, BufferStore)
    places: list[BufferLoad | BufferStore] = [store, *loads(store.value)]
    if len(places) != 2:
        return False
    first, last = [one.var for one in block.iter_vars[-2:]]
    written, read = _row_bytes(store, first), _row_bytes(places[1], last)
    set_bytes = machine.l1_bytes // machine.l1_ways

    def overflow(size: int) -> bool:
        return rows * gcd(size, set_bytes) > machine.l1_ways * set_bytes

    return written is not None and read is not None and overflow(written) and not overflow(read)


def _row_bytes(access: BufferLoad | BufferStore, variable: Var) -> int | None:
    """Return by how many bytes an access moves with an iterator, if that is known."""
    place = access.buffer.offset_of(access.indices)[0]
    moved = substitute(place, {variable: variable + const(1, variable.dtype)})
    distance = Analyzer().simplify(moved - place)
    known = isinstance(distance, IntImm)
    return distance.value * access.buffer.dtype.nbytes if known else None


def _stages(sch: Schedule, block: BlockRV, plan: Permutation) -> list[BlockRV]:
    """Insert the blocks that transpose; where the result is transposed, also the one that stores
    it, at the end of the list.
    """
    if not plan.computes_last:
        rank = len(sch.get(block).iter_vars)
        store = sch.reindex_cache_write(block, 0, "local", _swapped(rank))
        return [sch.reindex_cache_read(store, 0, "local", _index_map(rank, range(rank))), store]
    found = []
    for buffer in plan.turned:
        node = sch.get(block)
        number, region = next(
            (number, one) for number, one in enumerate(node.reads) if one.buffer is buffer
        )
        used = set(variables([one.min for one in region.region]))
        kept = [place for place, one in enumerate(node.iter_vars) if one.var in used]
        copy = sch.reindex_cache_read(block, number, "local", _index_map(len(node.iter_vars), kept))
        sch.reindex_cache_read(copy, 0, "local", _swapped(len(kept)))
        found.append(copy)
    return found


def _swapped(rank: int) -> IndexMap:
    return _index_map(rank, [*range(rank - 2), rank - 1, rank - 2])


def _index_map(rank: int, places: Sequence[int]) -> IndexMap:
    """Return the map that picks indices by place."""
    indices = [Var(f"i{place}", "int64") for place in range(rank)]
    return IndexMap(indices, [indices[place] for place in places])


def _pad(sch: Schedule, transpose: BlockRV, *tile: int) -> BlockRV:
    """Fill the tiles at the borders up, so that all are transposed alike; return the block that
    loads.
    """
    node = sch.get(transpose)
    extents = [one.domain.extent for one in node.iter_vars[-2:]]
    if not all(
        isinstance(one, IntImm) and one.value % size == 0 for one, size in zip(extents, tile)
    ):
        sch.pad_einsum(transpose, [1] * (len(node.iter_vars) - 2) + list(tile))
        (copy,) = sch.get_consumers(transpose)
        sch.compute_inline(copy)
        (filled,) = sch.get_producers(transpose)
        (first,) = sch.get_producers(filled)
        sch.compute_inline(first)
        return filled
    (first,) = sch.get_producers(transpose)
    rank = len(sch.get(first).iter_vars)  # loops follow the order of the iterators
    sch.reorder_block_iter_var(first, [*range(rank - 2), rank - 1, rank - 2])
    return first


def _vectorize(sch: Schedule, loops: list[LoopRV], lanes: int, is_dense: bool) -> None:
    """Run the rows of a tile one after the other, each in a vector; a dense tile as one row."""
    row, vector = loops
    if is_dense:
        whole = sch.fuse(row, vector)
        count = _extent(sch, whole)
        row, vector = sch.split(whole, [None, count if count % lanes else lanes])
    sch.vectorize(vector)
    sch.unroll(row)


def _cycles(sch: Schedule, loops: Sequence[LoopRV], bits: int, machine: MachineModel) -> float:
    """Return about how long it takes to read and write all elements."""
    count = 1
    for loop in loops:
        count *= _extent(sch, loop)
    return 2 * count * bits / 8 / machine.l3_bandwidth


def _parallel(
    sch: Schedule, outer: list[LoopRV], tiles: LoopRV, threads: int, is_uneven: bool
) -> None:
    """Run outer loops in parallel. A loop with a tile of another size at its end is not fused, so
    that this tile can be divided off.
    """
    count = 1
    for loop in outer:
        count *= _extent(sch, loop)
    if not is_uneven:
        sch.parallel(sch.fuse(*outer, tiles))
    elif count >= threads:
        sch.parallel(sch.fuse(*outer))
    else:
        sch.reorder(tiles, *outer)
        sch.parallel(tiles)


def _extent(sch: Schedule, loop: LoopRV) -> int:
    extent = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else MANY
