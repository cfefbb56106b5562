"""Schedules reductions over windows of planes: depthwise convolution and pooling in NCHW.

    for n, c, y, x: P[n, c, y, x] = if_then_else(inside, A[n, c, y - 1, x - 1], 0)
    for n, c, y, x: Y[n, c, y, x] += P[n, c, y + ry, x + rx] * W[c, ry, rx]
  becomes
    parallel for n, c:
        P[c] = …                                              (one plane, in the cache)
        for y_0, x_0:
            Y[R, L] = 0                                       (registers)
            for p, ry, rx: Y[p, l] += P[…] * W[…]             (all unrolled, l the lanes)
            Z[…] = relu(Y[p, l] + bias[c])

Vectors run along the rows of a plane. The rows that neighbours share are loaded once for a tile,
and the weights are scalars, spread over vectors outside of the loops over the plane.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilesmith.ir import Add, IntImm, Max, Var
from tilesmith.ir.queries import mentions, variables
from tilesmith.schedule_rules.loops import PARTITIONED, iterator_extent, loop_extent
from tilesmith.schedule_rules.tile_parts import (
    element_consumer,
    finish_consumer,
    moves,
    padding_of,
    parallelise,
    tile_loops,
    unroll,
    unroll_initialisation,
)
from tilesmith.schedule_rules.work import steps_of
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, BufferStore, IterVar
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["Planes", "find_planes", "schedule_planes"]

_MOST_UNROLLED = 112
_MOST_IN_REGISTERS = 12
"""Weights that stay in registers beside the results and the elements of a tile."""
_LARGEST_STRIDE = 2  # of windows along a row: vectors are loaded twice, and shuffled


@dataclass(frozen=True)
class Planes:
    """A plan for a reduction over windows whose vectors run along the rows of planes."""

    taps: int
    """Taps of a window."""


def find_planes(block: Block) -> Planes | None:
    """Return the plan for a reduction over windows of planes; None for any other block."""
    store = block.body
    if block.init is None or not isinstance(store, BufferStore) or len(store.indices) < 3:
        return None
    if not isinstance(store.value, (Add, Max)):
        return None
    if not all(isinstance(index, (Var, IntImm)) for index in store.indices):
        return None
    spatial = [one.var for one in block.iter_vars if one.iter_type == IterVar.DataPar]
    reduced = [one for one in block.iter_vars if one.iter_type == IterVar.CommReduce]
    if len(spatial) < 3 or spatial[-1] is not store.indices[-1] or not reduced:
        return None
    extents = [iterator_extent(one) for one in reduced]
    taps = math.prod([_MOST_UNROLLED if one is None else one for one in extents])
    inputs = [load for load in loads(store.value) if load.buffer is not store.buffer]
    moving = [load for load in inputs if mentions(load.indices, {spatial[-1]})]
    if not 1 < taps < _MOST_UNROLLED or len(moving) != 1:
        return None
    if not 1 <= moves(moving[0].indices[-1], spatial[-1]) <= _LARGEST_STRIDE:
        return None
    # Each reduced axis moves a window along an axis of the plane; none is summed on its own.
    plane = set(spatial[-2:])
    windows = [index for index in moving[0].indices if mentions(index, plane)]
    within = {variable for index in windows for variable in variables(index)}
    if any(one.var not in within for one in reduced) or len(windows) != 2:
        return None
    return Planes(taps)


def schedule_planes(
    sch: Schedule, block: BlockRV, plan: Planes, machine: MachineModel, threads: int
) -> None:
    """Tile, vectorise and parallelise a reduction over windows of planes with its consumer."""
    lanes = machine.lanes(32)
    work = steps_of(sch, block)
    padding = padding_of(sch, block)
    follower = element_consumer(sch, block)
    *planes, y, x = sch.get_loops(follower)
    height, width = loop_extent(sch, y), loop_extent(sch, x)
    rows = _best_rows(height, plan.taps)
    y_0, y_1 = sch.split(y, [None, rows])
    x_0, x_1 = sch.split(x, [None, lanes])
    if height is None or height % rows:
        sch.annotate(y_0, *PARTITIONED)
    if width is None or width % lanes:
        sch.annotate(x_0, *PARTITIONED)
    sch.reorder(y_0, x_0, y_1, x_1)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, x_0)
    if padding is not None:
        sch.compute_at(padding, planes[-1])
        tiles, lane = sch.split(sch.get_loops(padding)[-1], [None, lanes])
        sch.annotate(tiles, *PARTITIONED)
        sch.vectorize(lane)
    _tile_body(sch, block, x_0, plan.taps)
    finish_consumer(sch, [y_1, x_1], lanes)
    if work / lanes >= machine.fewest_parallel_cycles:
        parallelise(sch, planes, threads)


def _best_rows(height: int | None, taps: int) -> int:
    """Return the rows of a tile: the most that divide the height, or if none do the most of all."""
    most = 4 if taps <= _MOST_IN_REGISTERS else 8
    even = (rows for rows in range(most, 1, -1) if height is not None and height % rows == 0)
    return next(even, most)


def _tile_body(sch: Schedule, block: BlockRV, place: LoopRV, taps: int) -> None:
    """Schedule the tile: rows, taps, then the lanes, all unrolled. More taps than registers hold
    weights are taken by columns of the window.
    """
    tile, reduction = tile_loops(sch, block, place)
    if not tile or not reduction:
        return
    outside = [reduction.pop()] if taps > _MOST_IN_REGISTERS and len(reduction) > 1 else []
    sch.reorder(*outside, *tile[:-1], *reduction, tile[-1])
    sch.vectorize(tile[-1])
    init = sch.decompose_reduction(block, [*outside, *tile[:-1], *reduction][0])
    for loop in outside:
        sch.annotate(loop, "pragma_unroll_disable", True)
    unroll(sch, *tile[:-1], *reduction)
    unroll_initialisation(sch, init, len(tile) - 1)
