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

How the results read M decides: their iterators are split where their indices divide. The parts that
choose what is common to a product (``n, s``) are the strips; the smallest parts, the results of one
tile, are unrolled, so that each value of M is loaded once. With fewer strips than threads, the data
of a strip and the tiles of o run in parallel instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tilesmith.ir import FloorDiv, FloorMod, IntImm, Var
from tilesmith.ir.queries import mentions, walk
from tilesmith.schedule_rules.contraction import Contraction, find_contraction
from tilesmith.schedule_rules.loops import PARTITIONED
from tilesmith.schedule_rules.tiles import best_rows
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, BufferLoad, BufferStore, ForKind, IterVar
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["TransformedContraction", "find_transformed", "schedule_transformed"]

_UNROLLED = ("pragma_unroll_explicit", False)
_MANY_STRIPS = 64
"""What a symbolic number of strips counts as."""
_GREATEST_IDLENESS = 1.25
"""How much longer strips may take that cannot be dealt out evenly."""


@dataclass(frozen=True)
class TransformedContraction:
    """A contraction whose operand and result are transformed, and how to tile the results."""

    producer: BlockRV
    """The block that combines the data."""
    padding: BlockRV | None
    """The block that writes what the producer reads, if it is the only reader."""
    consumer: BlockRV
    """The block that combines the products."""
    points: int
    """The number of axes of the product before its rows that differ between loads of one result."""
    cuts: tuple[tuple[int, ...], ...]
    """For each loop of the consumer but the last: the divisors at which to split it, ascending."""
    outer: tuple[bool, ...]
    """For each of them: whether its outermost part chooses the strip."""
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
    producers, consumers = sch.get_producers(block), sch.get_consumers(block)
    if len(producers) != 1 or len(consumers) != 1:
        return None
    if not _is_spatial(sch.get(producers[0])) or len(sch.get_consumers(producers[0])) != 1:
        return None
    found = _result_axes(sch.get(consumers[0]), store, plan)
    if found is None:
        return None
    before = sch.get_producers(producers[0])
    alone = len(before) == 1 and _is_spatial(sch.get(before[0]))
    padding = before[0] if alone and len(sch.get_consumers(before[0])) == 1 else None
    return TransformedContraction(
        producers[0], padding, consumers[0], *found, width=plan.packed_width
    )


def _is_spatial(block: Block) -> bool:
    plain = all(one.iter_type == IterVar.DataPar for one in block.iter_vars)
    return plain and isinstance(block.body, BufferStore) and block.init is None


def _result_axes(
    block: Block, product: BufferStore, plan: Contraction
) -> tuple[int, tuple[tuple[int, ...], ...], tuple[bool, ...]] | None:
    """Return the fields ``points``, ``cuts`` and ``outer`` for the block that reads the products;
    None if it is no combination of them.
    """
    store: Any = block.body
    spatial = [one.var for one in block.iter_vars]
    if not _is_spatial(block) or list(store.indices) != spatial:
        return None
    found = list(loads(store.value, product.buffer))
    columns = product.indices[-1]
    by_axis = list(zip(*[load.indices for load in found]))
    if len(found) < 2 or any(index is not spatial[-1] for index in by_axis[-1]):
        return None
    if not isinstance(columns, Var):
        return None
    rows = plan.row_axis or 0
    points = {axis for axis in range(rows) if all(isinstance(i, IntImm) for i in by_axis[axis])}
    points = {axis for axis in points if len({index.value for index in by_axis[axis]}) > 1}
    if not points or points != set(range(rows - len(points), rows)):
        return None
    strips = [by_axis[axis][0] for axis in range(rows - len(points))]
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
    return len(points), tuple(cuts), tuple(outer)


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
    count = math.prod([_extent(sch, loop) or _MANY_STRIPS for loop in strips])
    by_strips = bool(strips) and (
        math.ceil(count / threads) * threads <= count * _GREATEST_IDLENESS
    )
    _tile_products(sch, block, product, plan, machine)
    place = strips[-1] if strips else None
    for operand in (plan.producer, plan.padding):
        if operand is not None and place is not None:
            sch.compute_at(operand, place)
    shared = [_transform_data(sch, plan, lanes), tiles]
    if plan.padding is not None:
        shared.append(_pad(sch, plan.padding, len(strips), lanes))
    if threads < 2:
        return
    for loop in [sch.fuse(*strips)] if by_strips else shared:
        sch.parallel(loop)


def _extent(sch: Schedule, loop: LoopRV) -> int | None:
    extent = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else None


def _unroll(sch: Schedule, *chosen: LoopRV) -> None:
    for loop in chosen:
        sch.annotate(loop, *_UNROLLED)
        sch.unroll(loop)


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
    tiles, column = sch.split(columns, [None, plan.width])
    vectors, lane = sch.split(column, [None, lanes])
    sch.reorder(*strips, tiles, *between, vectors, *results, lane)
    _unroll(sch, *results)
    sch.vectorize(lane)
    return strips, tiles


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
    extent = _extent(sch, row) or 1
    rows = best_rows(extent, plan.width // lanes, machine)
    row_0, row_1 = sch.split(row, [None, rows])
    if extent % rows:
        sch.annotate(row_0, *PARTITIONED)
    sch.compute_at(block, row_0)
    vectors, lane = sch.split(column, [None, lanes])
    sch.vectorize(lane)
    _unroll(sch, row_1, vectors)
    *_, row, column, reduced = sch.get_loops(block)
    vectors, lane = sch.split(column, [None, lanes])
    sch.annotate(reduced, "pragma_unroll_disable", True)
    sch.reorder(reduced, row, vectors, lane)
    sch.vectorize(lane)
    first = sch.decompose_reduction(block, reduced)
    _unroll(sch, row, vectors)
    _unroll(sch, *[one for one in sch.get_loops(first)[-3:-1] if _is_serial(sch, one)])


def _is_serial(sch: Schedule, loop: LoopRV) -> bool:
    return sch.get(loop).kind is ForKind.SERIAL


def _transform_data(sch: Schedule, plan: TransformedContraction, lanes: int) -> LoopRV:
    """Combine the data: all points of a tile unrolled. Return the loop over the tiles."""
    *_, row, channel = loops = sch.get_loops(plan.producer)
    points = loops[-2 - plan.points : -2]
    vectors, lane = sch.split(channel, [None, lanes])
    sch.reorder(row, vectors, *points, lane)
    _unroll(sch, *points)
    sch.vectorize(lane)
    return row


def _pad(sch: Schedule, padding: BlockRV, outside: int, lanes: int) -> LoopRV:
    """Write the padded data in vectors. Return the first loop inside those of the strips."""
    *_, channel = sch.get_loops(padding)
    _, lane = sch.split(channel, [None, lanes])
    sch.vectorize(lane)
    return sch.get_loops(padding)[outside]
