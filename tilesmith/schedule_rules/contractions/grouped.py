"""Schedules sums of products in groups: grouped convolutions with packed weights.

    for n, y, x, o: Y[n, y, x, o] += A[…, o // G * C + c] * W[o // G, …, c, o % G]
    for n, y, x, o: Z[n, y, x, o] = relu(Y[n, y, x, o] + bias[o])
  becomes
    parallel for n, y_0:
        A' = the padded rows of the strip
        for y_1, g, t:
            for x_0:
                Y[P, T] = 0                                     (registers)
                for ry, rx, c: Y[p, t] += A'[…] * W[…]           (p unrolled, t in vectors)
                Z[…] = relu(Y[p, t] + bias[…])

The channels of a group are a product of their own: one operand is broadcast to its vectors. A row
of pixels stays in the cache for all groups, as lines of the cache hold channels of several. Where
the weights of all groups are too many for that, groups are outside of the rows, and the padding is
a pass of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import FloorDiv, FloorMod, IntImm, Range, Var, const
from tilesmith.ir.queries import mentions, nodes
from tilesmith.schedule_rules.contractions.contraction import multiplies_and_adds
from tilesmith.schedule_rules.contractions.tiles import best_tile, ranked_tiles
from tilesmith.schedule_rules.loops import PARTITIONED, iterator_extent, loop_extent, step
from tilesmith.schedule_rules.tile_parts import (
    element_consumer,
    finish_consumer,
    padding_of,
    parallelise,
    sums_outside,
    unroll,
    unroll_initialisation,
)
from tilesmith.schedule_rules.work import is_even, steps_of
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, Buffer, BufferLoad, BufferStore, IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, Schedule

__all__ = ["Groups", "best_group_rows", "best_group_width", "find_groups", "schedule_groups"]

_MANY = 1 << 16
_UNEVEN_COST = 1.25  # of rows that do not divide the extent: the rest has code of its own
_CACHED = 0.5
"""The share of L2 that the weights of all groups, or the padded rows of a strip, may take."""


@dataclass(frozen=True)
class Groups:
    """A plan for products in groups: the results of a group, the vectors, the axis for rows."""

    outputs: int
    """Results of a group along the last axis."""
    width: int | None
    """Elements of a packed tile of weights; None if a group is one tile."""
    row_axis: int
    """Position of the spatial iterator whose values share the weights."""


def find_groups(block: Block) -> Groups | None:
    """Return the plan for a block that multiplies and adds in groups of its last axis; None for any
    other block.
    """
    store = block.body
    if not multiplies_and_adds(block) or not isinstance(store, BufferStore):
        return None
    spatial = [one for one in block.iter_vars if one.iter_type == IterVar.DataPar]
    last = store.indices[-1]
    if not all(isinstance(index, (Var, IntImm)) for index in store.indices):
        return None
    if not spatial or spatial[-1].var is not last:
        return None
    inputs = [load for load in loads(store.value) if load.buffer is not store.buffer]
    outputs = _group_size(inputs, last)
    if outputs is None:
        return None
    own = Var("own", last.dtype)
    moved = [_within_group(load, last, outputs, own) for load in inputs]
    steps = [step(load, own) for load in moved]
    if sorted(str(one) for one in steps) != ["0", "1"]:
        return None
    if not mentions(inputs[steps.index(0)].indices, {last}):
        return None  # all results share this operand: what looks like groups are tiles of weights
    stream = moved[steps.index(1)]
    rows = [
        position
        for position, one in enumerate(spatial[:-1])
        if not mentions(stream.indices, {one.var}) and iterator_extent(one) != 1
    ]
    width = _width(stream, own)
    if not rows:
        return None
    return Groups(outputs, width, rows[-1])


def _group_size(inputs: list[BufferLoad], last: Var) -> int | None:
    """Return the elements of a group: all inputs are found by the number of the group."""
    found = [
        one.b.value
        for load in inputs
        for one in nodes([*load.indices], FloorDiv)
        if one.a is last and isinstance(one.b, IntImm)
    ]
    return max(found, default=None)


def _within_group(load: BufferLoad, last: Var, outputs: int, own: Var) -> BufferLoad:
    """Return a load of the element ``own`` of any group."""
    group = Var("group", last.dtype)
    analyzer = Analyzer()
    analyzer.bind(own, Range.from_min_extent(const(0, own.dtype), const(outputs, own.dtype)))
    place = group * outputs + own
    indices = [analyzer.simplify(substitute(index, {last: place})) for index in load.indices]
    return BufferLoad(load.buffer, indices)


def _width(stream: BufferLoad, own: Var) -> int | None:
    inner = stream.indices[-1]
    if isinstance(inner, FloorMod) and inner.a is own and isinstance(inner.b, IntImm):
        return inner.b.value
    return None


def best_group_rows(extent: int | None, outputs: int, width: int, machine: MachineModel) -> int:
    """Return the best number of rows of a tile; where it does not divide the extent, what is left
    over is a tile of its own.
    """
    lanes = machine.lanes(32)
    if _is_even(outputs, extent, lanes) and width % lanes == 0:
        ranked = ranked_tiles(extent or _MANY, outputs, lanes, [width // lanes], machine, True)
        if ranked:
            return ranked[0][1].rows
    return _rows(extent or _MANY, _vectors(width, lanes), machine)[1]


def best_group_width(outputs: int, steps: int, extent: int | None, machine: MachineModel) -> int:
    """Return the best width of tiles of weights, for sums of so many steps and a number of rows
    (None if it is symbolic).

    Where the results of a group fill vectors, the last tile may have fewer of them. Otherwise the
    width divides the results of a group, and the last vector of a tile is partly empty.
    """
    lanes = machine.lanes(32)
    if _is_even(outputs, extent, lanes):
        return best_tile(extent, outputs, machine).vectors * lanes

    def cost(width: int) -> float:
        vectors = _vectors(width, lanes)
        streams = steps * vectors * machine.vector_bytes > machine.l1_bytes // 2
        return _rows(extent or _MANY, vectors, machine, streams)[0] / width

    most = machine.vector_registers // 2 * lanes
    widths = [outputs // count for count in range(1, outputs + 1) if outputs % count == 0]
    return min([width for width in widths if width <= most], key=cost)


def _is_even(outputs: int, extent: int | None, lanes: int) -> bool:
    """Return whether the results of a group fill vectors, in rows of known extent."""
    return extent is not None and outputs % lanes == 0


def _vectors(width: int, lanes: int) -> int:
    """Return the vectors that a tile takes: one that is partly empty is often made of two."""
    return width // lanes + (2 if width % lanes else 0)


def _rows(
    count: int, vectors: int, machine: MachineModel, streams: bool = False
) -> tuple[float, int]:
    """Return the cycles for a row with the best number of rows of a tile, and that number.

    ``streams``: the weights of a tile come from L2 each time.
    """
    stream = vectors * machine.vector_bytes / machine.l2_bandwidth if streams else 0.0

    def cycles(rows: int) -> float:
        products = rows * vectors
        multiply = products / machine.fma_per_cycle
        load = (rows + vectors) / machine.loads_per_cycle
        return float((multiply**4 + load**4 + machine.fma_latency**4 + stream**4) ** 0.25)

    def cost(rows: int) -> float:
        whole, left = divmod(count, rows)
        total = whole * cycles(rows) + (cycles(left) if left else 0.0)
        return total / count * (_UNEVEN_COST if left else 1.0)

    most = max(1, (machine.vector_registers - vectors - 1) // vectors)
    return min([(cost(rows), rows) for rows in range(1, min(count, most) + 1)])


def schedule_groups(
    sch: Schedule, block: BlockRV, plan: Groups, machine: MachineModel, threads: int
) -> None:
    """Tile, vectorise and parallelise products in groups together with their consumer."""
    lanes = machine.lanes(32)
    work = steps_of(sch, block)
    follower = element_consumer(sch, block)
    _divide_groups(sch, block, follower, plan.outputs)
    *outer, group, own = sch.get_loops(follower)
    row = outer.pop(plan.row_axis)
    width = plan.width or plan.outputs
    columns, column = sch.split(own, [None, width])
    extent = loop_extent(sch, row)
    rows = best_group_rows(extent, plan.outputs, width, machine)
    row_0, row_1 = sch.split(row, [None, rows])
    if extent is None or extent % rows:
        sch.annotate(row_0, *PARTITIONED)
    is_uneven = plan.outputs % width != 0
    if is_uneven:
        sch.annotate(columns, *PARTITIONED)
    batch, rest = (outer[:1], outer[1:]) if len(outer) > 1 else ([], outer)
    padding = None
    if not rest or _weight_bytes(sch, block) > _CACHED * machine.l2_bytes:
        order = [*batch, group, columns, *rest, row_0]
    else:
        height = loop_extent(sch, rest[0])
        padding = padding_of(sch, block) if height else None
        if height and padding is not None:
            tasks = prod([loop_extent(sch, loop) or 1 for loop in batch])
            strip = _strip(sch, padding, height, tasks, machine, threads)
            rest[:1] = sch.split(rest[0], [None, strip])
        order = [*batch, *rest, group, columns, row_0]
    sch.reorder(*order, row_1, column)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, order[-1])
    if (made := sums_outside(sch, block, order[-1], lanes, machine.reduction_steps)) is not None:
        tile, init = made
        unroll(sch, *tile[:-1])
        unroll_initialisation(sch, init, len(tile) - 1)
        if is_uneven:
            sch.annotate(tile[-2], *PARTITIONED)
            sch.annotate(sch.get_loops(init)[-2], *PARTITIONED)
    finish_consumer(sch, [row_1, column], lanes)
    if is_uneven:
        sch.annotate(sch.get_loops(follower)[-2], *PARTITIONED)
    if padding is not None and loop_extent(sch, rest[0]) != 1:
        sch.compute_at(padding, rest[0])
        tiles, lane = sch.split(sch.get_loops(padding)[-1], [None, lanes])
        sch.annotate(tiles, *PARTITIONED)
        sch.vectorize(lane)
    if work / lanes >= machine.fewest_parallel_cycles:
        parallelise(sch, order[:-1], threads)


def _weight_bytes(sch: Schedule, block: BlockRV) -> int:
    """Return the bytes of the operands that are the same for all pixels; the last two iterators
    of the results are the group and the result within it.
    """
    node: Block = sch.get(block)
    *pixel, _, _ = [one.var for one in node.iter_vars if one.iter_type == IterVar.DataPar]
    inputs = [load.buffer for load in loads(node.body) if not mentions(load.indices, set(pixel))]
    return sum(_buffer_bytes(buffer) for buffer in inputs)


def _buffer_bytes(buffer: Buffer) -> int:
    sizes = [size.value if isinstance(size, IntImm) else _MANY for size in buffer.shape]
    return prod(sizes) * buffer.dtype.bits // 8


def _strip(
    sch: Schedule,
    padding: BlockRV,
    extent: int,
    tasks: int,
    machine: MachineModel,
    threads: int,
) -> int:
    """Return the rows of results whose padded pixels stay in L2: the most that divide all rows such
    that threads, which have ``tasks`` times as many strips, get equally many. All rows if they fit
    as a whole, or if nothing divides them.
    """
    size = _buffer_bytes(sch.get(padding).writes[0].buffer)
    most = _CACHED * machine.l2_bytes
    if size <= most and threads < 2:
        return extent
    fitting = [
        rows
        for rows in range(1, extent)
        if extent % rows == 0
        and size * rows / extent <= most
        and (threads < 2 or is_even(tasks * extent // rows, threads))
    ]
    return max(fitting, default=extent)


def _divide_groups(sch: Schedule, block: BlockRV, follower: BlockRV, outputs: int) -> None:
    """Make two iterators of the last one, in both blocks and in what is between them: the group,
    and the result within it.
    """
    last = len(sch.get(follower).iter_vars) - 1

    def divided(*old: Var) -> list[Any]:
        return [*old[:last], old[last] // outputs, old[last] % outputs, *old[last + 1 :]]

    sch.transform_layout(block, ("write", 0), divided)
    sch.transform_block_layout(block, divided)
    sch.transform_block_layout(follower, divided)
