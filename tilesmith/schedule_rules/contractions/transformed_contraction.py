"""Schedules batched products between two transforms (Winograd's convolutions), strip by strip.

    for n, s, a, b, t, c: U[n, s, a, b, t, c] = a combination of X[…]
    for n, s, a, b, t, o, c: M[n, s, a, b, t, o] += U[n, s, a, b, t, c] * W[o // T, …, c, o % T]
    for n, y, x, o: Z[n, y, x, o] = relu(a combination of M[n, y // 4, …, o] + bias[o])
  becomes
    parallel for n, s:
        U[…] = …                                (points unrolled, c in vectors; a strip)
        for o_0:
            for a, b, t_0: M[…] = Σ U * W       (in registers, then stored; a strip, a tile of o)
            for y, x in the strip: Z[…] = …     (the results of a tile unrolled)

A transform may have two steps; what is between them is computed where it is used, in registers.

How the results read M decides: their iterators are split where their indices divide. The parts that
choose what is common to a product (``n, s``) are the strips; the smallest parts, the results of one
tile, are unrolled, so that each value of M is loaded once. With fewer strips than threads, the data
of a strip and the tiles of o run in parallel instead. Where ``o // G`` chooses a group of channels,
which has weights of its own, the groups are the outermost strips.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tilesmith.ir import FloorDiv, FloorMod, IntImm, PrimExpr, Var
from tilesmith.ir.queries import mentions, walk
from tilesmith.schedule_rules.contractions.contraction import find_contraction
from tilesmith.schedule_rules.contractions.panels import prefetch_next_panel
from tilesmith.schedule_rules.contractions.tiles import best_rows
from tilesmith.schedule_rules.loops import PARTITIONED, loop_extent
from tilesmith.schedule_rules.tile_parts import (
    has_own_loops,
    keep_reduction,
    loops_below,
    unroll,
)
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, Buffer, BufferStore, ForKind, IterVar
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["TransformedContraction", "find_transformed", "schedule_transformed"]

_MANY_STRIPS = 64
"""What a symbolic number of strips counts as."""
_PADDED_AT_ONCE = 8
"""Vectors of one pixel that are copied by straight-line code."""
_GREATEST_IDLENESS = 1.25
"""How much longer strips may take that cannot be dealt out evenly."""


@dataclass(frozen=True)
class TransformedContraction:
    """A contraction whose operand and result are transformed, and how to tile the results."""

    producer: BlockRV
    """The block that combines the data."""
    before: BlockRV | None
    """The block of the first step, if there are two."""
    padding: BlockRV | None
    """The block that writes the data that are combined, if nothing else reads them."""
    between: BlockRV | None
    """The block of the first step of combining the products, if there are two."""
    consumer: BlockRV
    """The block that combines the products."""
    points: int
    """The number of axes of the product between those of the strips and of its rows."""
    cuts: tuple[tuple[int, ...], ...]
    """For each loop of the consumer but the last: the divisors at which to split it, ascending."""
    outer: tuple[bool, ...]
    """For each of them: whether its outermost part chooses the strip."""
    group: int | None
    """The columns of a group, where the first part of the last axis chooses the group; groups are
    strips then."""
    width: int
    """The columns of a tile of the packed operand."""


def find_transformed(sch: Schedule, block: BlockRV) -> TransformedContraction | None:
    """Return the plan for a contraction between two transforms, None for any other block."""
    node: Block = sch.get(block)
    plan = find_contraction(node)
    if plan is None or plan.packed_width is None or plan.row_axis is None:
        return None
    store: Any = node.body
    spatial = [one.var for one in node.iter_vars if one.iter_type == IterVar.DataPar]
    if list(store.indices) != spatial or plan.row_axis != len(spatial) - 2:
        return None
    producer, between = _only(sch, sch.get_producers(block)), None
    consumers = sch.get_consumers(block)
    if producer is None or len(consumers) != 1:
        return None
    read, consumer = store.buffer, consumers[0]
    following = sch.get_consumers(consumer)
    if len(following) == 1 and _is_step(sch.get(consumer), read):
        between, consumer = consumer, following[0]
        read = sch.get(between).body.buffer
    found = _result_axes(sch.get(consumer), read)
    if found is None or (found[-1] or 0) % plan.packed_width:
        return None  # with part of a tile at its end, a strip of a group is not found as a region
    before, padding = None, _only(sch, sch.get_producers(producer))
    if padding is not None and _is_step(sch.get(producer), sch.get(padding).body.buffer):
        before, padding = padding, _only(sch, sch.get_producers(padding))
    steps = [one for one in (padding, before, producer, between, consumer) if one is not None]
    if not all(has_own_loops(sch, one) for one in steps):
        return None
    return TransformedContraction(
        producer, before, padding, between, consumer, *found, width=plan.packed_width
    )


def _only(sch: Schedule, blocks: list[BlockRV]) -> BlockRV | None:
    """Return the only one of these blocks, if it is spatial and only one block reads it."""
    if len(blocks) != 1 or not _is_spatial(sch.get(blocks[0])):
        return None
    return blocks[0] if len(sch.get_consumers(blocks[0])) == 1 else None


def _is_step(block: Block, source: Buffer) -> bool:
    """Return whether a block reads another one at its own rows and columns only: the last axes."""
    if not _is_spatial(block):
        return False
    own = [one.var for one in block.iter_vars]
    found = list(loads(block.body, source))
    kept = all(list(load.indices[-2:]) == own[-2:] for load in found)
    return bool(found) and kept and list(block.body.indices) == own  # type: ignore[attr-defined]


def _is_spatial(block: Block) -> bool:
    plain = all(one.iter_type == IterVar.DataPar for one in block.iter_vars)
    return plain and isinstance(block.body, BufferStore) and block.init is None


def _result_axes(
    block: Block, source: Buffer
) -> tuple[int, tuple[tuple[int, ...], ...], tuple[bool, ...], int | None] | None:
    """Return the fields ``points``, ``cuts``, ``outer`` and ``group`` for the block that reads the
    products; None if it is no combination of them.
    """
    store: Any = block.body
    spatial = [one.var for one in block.iter_vars]
    if not _is_spatial(block) or list(store.indices) != spatial:
        return None
    by_axis = list(zip(*[load.indices for load in loads(store.value, source)]))
    last = spatial[-1]
    group = _group_of(by_axis[-1][0], last) if by_axis else None
    if not by_axis or any(
        index is not last if group is None else not _is_remainder(index, last, group)
        for index in by_axis[-1]
    ):
        return None
    rows = len(by_axis) - 2
    values = [{one.value for one in axis if isinstance(one, IntImm)} for axis in by_axis]
    first = next((axis for axis in range(rows) if len(values[axis]) > 1), None)
    if first is None:
        return None
    strips = [axis[0] for axis in by_axis[:first]]
    chosen = [index for index in strips if mentions(index, {last})]
    if [_is_quotient(index, last, group or 1) for index in chosen] != [True] * (group is not None):
        return None
    cuts, outer = [], []
    for variable in spatial[:-1]:
        divisors = _divisors(store.value, variable)
        if any(greater % smaller for smaller, greater in pairwise(divisors)):
            return None
        chooses = [index for index in strips if mentions(index, {variable})]
        largest = divisors[-1] if divisors else 1
        if any(not _is_quotient(index, variable, largest) for index in chooses):
            return None
        cuts.append(tuple(divisors))
        outer.append(bool(chooses))
    return rows - first, tuple(cuts), tuple(outer), group


def _group_of(index: PrimExpr, variable: Var) -> int | None:
    """Return the n of ``variable % n``, None for any other index."""
    if isinstance(index, FloorMod) and index.a is variable and isinstance(index.b, IntImm):
        return index.b.value
    return None


def _is_remainder(index: PrimExpr, variable: Var, divisor: int) -> bool:
    return _group_of(index, variable) == divisor


def _divisors(value: Any, variable: Var) -> list[int]:
    """Return by what the indices in an expression divide an iterator."""
    divisions = [node for node in walk(value) if isinstance(node, (FloorDiv, FloorMod))]
    return sorted({_divisor(node) for node in divisions if _divided(node) is variable})


def _divided(node: Any) -> Any:
    while isinstance(node, (FloorDiv, FloorMod)) and isinstance(node.b, IntImm):
        node = node.a
    return node


def _divisor(node: Any) -> int:
    """Return the product of the divisors of nested divisions: ``y // 2 % 7`` has 14."""
    product = 1
    while isinstance(node, (FloorDiv, FloorMod)):
        product *= node.b.value if isinstance(node.b, IntImm) else 1
        node = node.a
    return product


def _is_quotient(index: Any, variable: Var, divisor: int) -> bool:
    if divisor == 1:
        return index is variable
    return isinstance(index, FloorDiv) and _divided(index) is variable and (
        _divisor(index) == divisor
    )  # fmt: skip


def schedule_transformed(
    sch: Schedule, block: BlockRV, plan: TransformedContraction, machine: MachineModel, threads: int
) -> None:
    """Compute the data and the products of a strip under the loops of its results."""
    lanes = machine.lanes(32)
    strips, tiles = _tile_results(sch, plan, lanes)
    product = sch.cache_write(block, 0, "global")
    sch.set_scope(block, 0, "local")
    sch.compute_at(product, tiles)
    count = math.prod([loop_extent(sch, loop) or _MANY_STRIPS for loop in strips])
    by_strips = bool(strips) and (
        math.ceil(count / threads) * threads <= count * _GREATEST_IDLENESS
    )
    _tile_products(sch, block, product, plan, machine)
    place = strips[-1] if strips else None
    if place is not None:
        sch.compute_at(plan.producer, place)
    shared = [_transform_data(sch, plan, lanes), tiles]
    if plan.padding is not None:
        if place is not None:
            sch.compute_at(plan.padding, place)
        shared.append(_pad(sch, plan.padding, len(strips), lanes))
    if threads < 2:
        return
    for loop in [sch.fuse(*strips)] if by_strips else shared:
        sch.parallel(loop)


def _tile_results(
    sch: Schedule, plan: TransformedContraction, lanes: int
) -> tuple[list[LoopRV], LoopRV]:
    """Split the loops of the results; return those of the strips and that of the tiles of
    columns.
    """
    *loops, columns = sch.get_loops(plan.consumer)
    strips, between, results = [], [], []
    for loop, cuts, is_outer in zip(loops, plan.cuts, plan.outer):
        parts = [loop]
        if cuts:
            factors = [greater // smaller for smaller, greater in pairwise((1, *cuts))]
            parts = sch.split(loop, [None, *reversed(factors)])
            results.append(parts.pop())
        if is_outer:
            strips.append(parts.pop(0))
        between += parts
    if plan.group is not None:
        group, columns = sch.split(columns, [None, plan.group])
        strips.insert(0, group)  # all strips use the weights of a group before the next one's come
    is_even = (loop_extent(sch, columns) or 1) % lanes == 0
    tiles, column = sch.split(columns, [None, plan.width])
    vectors, lane = sch.split(column, [None, lanes])
    sch.reorder(*strips, tiles, *between, vectors, *results, lane)
    unroll(sch, vectors, *results)
    sch.vectorize(lane)
    if plan.between is not None:
        _first_step(sch, plan.between, vectors if is_even else [tiles, *between][-1], lanes)
    return strips, tiles


def _first_step(sch: Schedule, block: BlockRV, place: LoopRV, lanes: int) -> None:
    """Compute the first step of a transform where the second one reads it."""
    sch.compute_at(block, place)
    sch.set_scope(block, 0, "local")
    inside = loops_below(sch, block, place)
    vectors, lane = sch.split(inside[-1], [None, lanes])
    sch.reorder(vectors, *inside[:-1], lane)
    unroll(sch, *inside[:-1])
    sch.vectorize(lane)


def _tile_products(
    sch: Schedule,
    block: BlockRV,
    product: BlockRV,
    plan: TransformedContraction,
    machine: MachineModel,
) -> None:
    """Compute the products in register tiles: rows unrolled, columns in vectors."""
    lanes = machine.lanes(32)
    *_, row, column = sch.get_loops(product)
    extent = loop_extent(sch, row) or 1
    rows = best_rows(extent, -(-plan.width // lanes), machine)
    row_0, row_1 = sch.split(row, [None, rows])
    is_stream = extent > rows and _columns(sch, block) > plan.width
    if extent % rows:
        sch.annotate(row_0, *PARTITIONED)
    sch.compute_at(block, row_0)
    vectors, lane = sch.split(column, [None, lanes])
    sch.vectorize(lane)
    unroll(sch, row_1, vectors)
    *row_loops, column, reduced = loops_below(sch, block, row_0)  # a single row has no loop
    vectors, lane = sch.split(column, [None, lanes])
    keep_reduction(sch, block, [reduced], machine.reduction_steps)
    sch.reorder(reduced, *row_loops, vectors, lane)
    sch.vectorize(lane)
    first = sch.decompose_reduction(block, reduced)
    unroll(sch, *row_loops, vectors)
    unroll(sch, *[one for one in loops_below(sch, first, row_0)[:-1] if _is_serial(sch, one)])
    if is_stream:
        prefetch_next_panel(sch, block, 3)


def _columns(sch: Schedule, block: BlockRV) -> int:
    """Return the columns of a product: with more than one panel of them, one can be fetched ahead.
    The layers of a model share the caches, so that even small panels come from far.
    """
    plan = find_contraction(sch.get(block))
    return 0 if plan is None else plan.nest.spatial[plan.vector_axis].estimate


def _is_serial(sch: Schedule, loop: LoopRV) -> bool:
    return sch.get(loop).kind is ForKind.SERIAL


def _transform_data(sch: Schedule, plan: TransformedContraction, lanes: int) -> LoopRV:
    """Combine the data: all points of a tile unrolled. Return the loop over the tiles."""
    *_, row, channel = loops = sch.get_loops(plan.producer)
    points = loops[-2 - plan.points : -2]
    is_even = (loop_extent(sch, channel) or 1) % lanes == 0
    vectors, lane = sch.split(channel, [None, lanes])
    sch.reorder(row, vectors, *points, lane)
    unroll(sch, *points)
    sch.vectorize(lane)
    if plan.before is not None:
        _first_step(sch, plan.before, vectors if is_even else row, lanes)
    return row


def _pad(sch: Schedule, padding: BlockRV, outside: int, lanes: int) -> LoopRV:
    """Write the padded data in vectors. Return the first loop inside those of the strips."""
    *_, channel = sch.get_loops(padding)
    vectors, lane = sch.split(channel, [None, lanes])
    sch.annotate(vectors, "llvm.loop.unroll.count", _PADDED_AT_ONCE)
    sch.vectorize(lane)
    return sch.get_loops(padding)[outside]
