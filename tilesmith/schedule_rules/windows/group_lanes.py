"""Schedules convolutions in narrow groups: the groups of a vector are reduced side by side.

    for n, y, x, o: Y[n, y, x, o] += A[n, y + ry, x + rx, o // G * G + c] * W[ry, c, rx, o]
    for n, y, x, o: Z[n, y, x, o] = relu(Y[n, y, x, o] + bias[o])
  becomes
    parallel for n, o_0, y:
        for x_0:                                            (partitioned: no condition inside)
            Y[P] = 0                                        (registers)
            for ry: for c: for p: for rx: Y[p] += A[…] * W[…]       (p and rx unrolled)
            Z[…] = relu(Y[p] + bias[…])

A vector of a pixel holds whole groups. For each channel of a group one shuffle gives every lane the
element of its own group, and all taps of the row use it: no lane multiplies by zero, as it would
with groups that are joined to fill a vector.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilesmith.ir import FloorDiv, IntImm, Var
from tilesmith.ir.queries import mentions, nodes
from tilesmith.schedule_rules.contractions.contraction import multiplies_and_adds
from tilesmith.schedule_rules.loops import PARTITIONED, iterator_extent, loop_extent, step
from tilesmith.schedule_rules.tile_parts import (
    element_consumer,
    moves,
    parallelise,
    tile_loops,
    unroll,
)
from tilesmith.schedule_rules.windows.channels_last import inline_padding
from tilesmith.schedule_rules.work import steps_of
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, BufferLoad, BufferStore, ForKind, IterVar
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.transform.blocks.skip_identity_terms import SKIPS

__all__ = ["GroupLanes", "find_group_lanes", "fit_in_lanes", "schedule_group_lanes"]

_MANY = 1 << 16  # what a symbolic extent counts as
_MOST_UNROLLED = 112
"""Multiply-adds of a loop body: more do not fit the cache of decoded instructions."""
_AROUND = 20.0
"""Cycles around a tile: addresses, and filling and draining the pipelines."""
_UNEVEN_COST = 1.1  # of rows that do not divide the extent


@dataclass(frozen=True)
class GroupLanes:
    """A plan for a convolution in groups that are narrower than a vector."""

    group: int
    """Channels of a group, of the data and of the results."""
    row_axis: int
    """Position, among the spatial iterators, of the one along which neighbours share elements."""
    taps: int
    """Taps of a window along that axis."""
    stride: int


def fit_in_lanes(inputs: int, outputs: int, groups: int, lanes: int) -> bool:
    """Return whether the groups of a convolution lie side by side in vectors: groups of as many
    inputs as outputs that fill a vector together, with a last vector whose width is a power of two.
    """
    rest = groups * outputs % lanes
    return inputs == outputs and 1 < outputs <= lanes // 2 and (
        lanes % outputs == 0 and rest & (rest - 1) == 0
    )  # fmt: skip


def find_group_lanes(block: Block, lanes: int) -> GroupLanes | None:
    """Return the plan for a convolution in narrow groups; None for any other block."""
    store = block.body
    if not multiplies_and_adds(block) or not isinstance(store, BufferStore):
        return None
    spatial = [one.var for one in block.iter_vars if one.iter_type == IterVar.DataPar]
    reduced = [one for one in block.iter_vars if one.iter_type == IterVar.CommReduce]
    if list(store.indices) != spatial or len(reduced) < 3:
        return None
    inputs = [load for load in loads(store.value) if load.buffer is not store.buffer]
    outside = {*spatial[:-1]}
    weights = [load for load in inputs if not mentions(load.indices, outside)]
    data = [load for load in inputs if mentions(load.indices, outside)]
    if len(weights) != 1 or len(data) != 1 or step(weights[0], spatial[-1]) != 1:
        return None
    *_, channel, tap = reduced
    group, taps = _group(data[0], spatial[-1], channel.var), iterator_extent(tap)
    if group is None or lanes % group or iterator_extent(channel) != group or not taps:
        return None
    if store.buffer.dtype != "float32" or any(one.buffer.dtype != "float32" for one in inputs):
        return None
    for position in reversed(range(len(spatial) - 1)):
        for index in data[0].indices:
            if mentions(index, {spatial[position]}) and mentions(index, {tap.var}):
                stride = moves(index, spatial[position])
                return GroupLanes(group, position, taps, max(1, stride))
    return None


def _group(load: BufferLoad, last: Var, channel: Var) -> int | None:
    """Return the size of the groups of the last axis, if an operand is found by them."""
    index = load.indices[-1]
    found = [
        one.b.value
        for one in nodes([index], FloorDiv)
        if one.a is last and isinstance(one.b, IntImm)
    ]
    others = load.indices[:-1]
    if len(found) != 1 or mentions(others, {last, channel}) or moves(index, channel) != 1:
        return None
    return found[0]


def best_rows_of_groups(extent: int | None, plan: GroupLanes, machine: MachineModel) -> int:
    """Return the best number of results in a row of a tile."""
    count = extent or _MANY

    def cycles(rows: int) -> float:
        multiply = rows * plan.taps / machine.fma_per_cycle
        shuffle = float((rows - 1) * plan.stride + plan.taps)
        wait = machine.fma_latency * plan.taps
        load = (shuffle + plan.taps) / machine.loads_per_cycle
        each: float = (multiply**4 + shuffle**4 + wait**4 + load**4) ** 0.25
        return each * plan.group + _AROUND

    def cost(rows: int) -> float:
        whole, left = divmod(count, rows)
        total = whole * cycles(rows) + (cycles(left) if left else 0.0)
        return total * (_UNEVEN_COST if left else 1.0)

    most = min(count, machine.vector_registers - 4 - plan.taps)
    fitting = [
        rows
        for rows in range(1, max(most, 1) + 1)
        if rows * plan.taps <= _MOST_UNROLLED or rows == 1
    ]
    return min(fitting, key=cost)


def schedule_group_lanes(
    sch: Schedule, block: BlockRV, plan: GroupLanes, machine: MachineModel, threads: int
) -> None:
    """Tile, vectorise and parallelise a convolution in narrow groups with its consumer."""
    lanes = machine.lanes(32)
    inline_padding(sch, block)
    work = steps_of(sch, block)
    follower = element_consumer(sch, block)
    *outer, vector = sch.get_loops(follower)
    row = outer.pop(plan.row_axis)
    columns = loop_extent(sch, vector)
    rows = best_rows_of_groups(loop_extent(sch, row), plan, machine)
    vector_0, vector_1 = sch.split(vector, [None, lanes])
    row_0, row_1 = sch.split(row, [None, rows])
    sch.annotate(row_0, *PARTITIONED)
    is_uneven = columns is None or columns % lanes != 0
    if is_uneven:
        sch.annotate(vector_0, *PARTITIONED)
    batch, rest = (outer[:1], outer[1:]) if len(outer) > 1 else ([], outer)
    order = [*batch, *rest[:1], vector_0, *rest[1:]] if is_uneven else [*batch, vector_0, *rest]
    sch.reorder(*order, row_0, row_1, vector_1)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, row_0)
    _tile_body(sch, block, row_0, plan, lanes, is_uneven)
    first, second = sch.split(vector_1, [None, lanes])
    sch.vectorize(second)
    _unroll(sch, [row_1, first], second, is_uneven)
    if work / lanes >= machine.fewest_parallel_cycles:
        parallelise(sch, order, threads)


def _tile_body(
    sch: Schedule,
    block: BlockRV,
    place: LoopRV,
    plan: GroupLanes,
    lanes: int,
    is_uneven: bool,
) -> None:
    """Schedule the tile: rows of windows outside, channels, results, then the taps, then lanes."""
    tile, reduction = tile_loops(sch, block, place)
    first, lane = sch.split(tile[-1], [None, lanes])
    taps = reduction[-1:] if plan.taps > 1 else []  # there are no loops of one iteration
    outside = reduction[: len(reduction) - len(taps)]
    for loop in outside:
        sch.annotate(loop, "pragma_unroll_disable", True)
    sch.reorder(*outside, *tile[:-1], first, *taps, lane)
    sch.vectorize(lane)
    init = sch.decompose_reduction(block, outside[0])
    sch.annotate(block, SKIPS, True)
    _unroll(sch, [*tile[:-1], first, *taps], lane, is_uneven)
    *around, lane = sch.get_loops(init)[-len(tile) - 1 :]
    _unroll(sch, [one for one in around if sch.get(one).kind is ForKind.SERIAL], lane, is_uneven)


def _unroll(sch: Schedule, loops: list[LoopRV], lane: LoopRV, is_uneven: bool) -> None:
    """Unroll the loops of a tile; cut the vectors to the width of a smaller last one."""
    unroll(sch, *loops)
    if is_uneven:
        sch.annotate(lane, *PARTITIONED)
