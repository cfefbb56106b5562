"""Schedules reductions over windows that sum no channels: depthwise convolution, pooling.

    for n, y, x, c: Y[n, y, x, c] += if_then_else(inside, A[n, y + ry - 1, x + rx - 1, c], 0) * W[…]
    for n, y, x, c: Z[n, y, x, c] = relu(Y[n, y, x, c] + bias[c])
  becomes
    parallel for n, y_0:                                          (strips of rows for the threads)
        for c_0, y_1, x_0:                                        (partitioned: no condition inside)
            Y[P, T] = 0                                           (registers)
            for ry: for p: for t: for rx: Y[p, t] += A[…] * W[…]  (all but ry unrolled)
            Z[…] = relu(Y[p, t] + bias[…])

Where a tile takes less than a cache line of an input that lies in L3, the tiles of columns go
inside of `x_0`: so that a line comes from there once.

The elements of a row of a window are loaded once for all results that read them, and the weights of
that row stay in registers: hence its taps are unrolled inside the results, in straight-line code.
The padding is read in place: its conditions are those of a few tiles at the border.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilesmith.ir import Add, IntImm, Max, PrimExpr, Sub, Var
from tilesmith.ir.queries import is_call, mentions
from tilesmith.schedule_rules.contractions.tiles import Tile
from tilesmith.schedule_rules.loops import PARTITIONED, iterator_extent, loop_extent, step
from tilesmith.schedule_rules.tile_parts import (
    element_consumer,
    finish_consumer,
    moves,
    parallelise,
    tile_loops,
    unroll,
    unroll_initialisation,
)
from tilesmith.schedule_rules.work import bytes_read, is_even, moving_cycles, steps_of
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, BufferLoad, BufferStore, Cast, IterVar
from tilesmith.tir.queries import loads
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule
from tilesmith.tir.transform.blocks.skip_identity_terms import SKIPS

__all__ = ["Windows", "best_window_tile", "find_windows", "inline_padding", "schedule_windows"]

_MANY = 1 << 16  # what a symbolic extent counts as
_MOST_TAPS = 1 << 12
_MOST_UNROLLED = 112
"""Multiply-adds of a loop body: more do not fit the cache of decoded instructions."""
_MOST_ROWS, _MOST_ROWS_OF_ANY = 16, 8
"""Results in a row of a tile, and in one of a symbolic size: those at its ends decide their
conditions at run time."""
_UNEVEN_COST = 1.1  # of tiles that need code of their own at the end
_SPILLED, _MOST_SPILLED = 0.01, 0.2
"""How much longer a tile takes for each value beyond the registers (results, the weights and the
elements of a row of taps), and at most."""
_WAITING_FOR_L2 = 0.9
"""The share of the time for bytes from L2 that computing does not hide: windows compute little."""
_WAITING_FOR_L3 = 2.0
"""How many times the bandwidth of L3 would have a pass over lines that lie apart take longer."""
_FILLED = 0.85
"""The share of L1 that rows of windows may fill and still be there for the windows below."""


@dataclass(frozen=True)
class Windows:
    """A plan for a reduction over windows whose vectors run along the last axis."""

    row_axis: int | None
    """Position, among the spatial iterators, of the one along which neighbours share elements."""
    row_taps: int
    """Taps of a window along that axis; 1 if there is none."""
    taps: int
    """Taps of a whole window."""
    stride: int
    dilation: int
    has_weights: bool


def find_windows(block: Block) -> Windows | None:
    """Return the plan for a reduction over windows of few taps; None for any other block."""
    store = block.body
    if block.init is None or not isinstance(store, BufferStore) or not store.indices:
        return None
    if not isinstance(store.value, (Add, Max)) or not _is_plain(store):
        return None
    spatial = [one.var for one in block.iter_vars if one.iter_type == IterVar.DataPar]
    reduced = [one for one in block.iter_vars if one.iter_type == IterVar.CommReduce]
    extents = [iterator_extent(one) for one in reduced]
    if not spatial or not reduced or spatial[-1] is not store.indices[-1] or None in extents:
        return None
    taps = math.prod([extent or 0 for extent in extents])
    inputs = [load for load in loads(store.value) if load.buffer is not store.buffer]
    if not 1 < taps <= _MOST_TAPS or not inputs:
        return None
    if any(step(load, spatial[-1]) != 1 for load in inputs):
        return None
    weights = [load for load in inputs if not mentions(load.indices, set(spatial[:-1]))]
    has_weights = len(inputs) > 1 and bool(weights)
    last = reduced[-1]
    for position in reversed(range(len(spatial) - 1)):
        found = _window(inputs, spatial[position], last.var)
        if found is not None:
            return Windows(position, extents[-1] or 1, taps, *found, has_weights)
    return Windows(None, 1, taps, 1, 1, has_weights)


def _is_plain(store: BufferStore) -> bool:
    return all(isinstance(index, (Var, IntImm)) for index in store.indices)


def _window(inputs: list[BufferLoad], along: Var, tap: Var) -> tuple[int, int] | None:
    """Return stride and dilation of windows along an axis; None if no input has such windows."""
    for load in inputs:
        for index in load.indices:
            if mentions(index, {along}) and mentions(index, {tap}):
                steps = [moves(index, along), moves(index, tap)]
                if all(steps):
                    return abs(steps[0]), abs(steps[1])
    return None


def inline_padding(sch: Schedule, block: BlockRV) -> None:
    """Let a reduction read the padding of its input in place, where that repeats no computation."""
    for producer in sch.get_producers(block):
        node: Block = sch.get(producer)
        body = node.body
        if node.init is not None or not isinstance(body, BufferStore):
            continue
        if is_call(body.value, "tir.if_then_else") and len(sch.get_consumers(producer)) == 1:
            if _is_cheap(body.value.args[1]):
                sch.compute_inline(producer)


def _is_cheap(element: PrimExpr) -> bool:
    """Return whether an element is a load, but for a conversion and an offset."""
    while isinstance(element, (Cast, Sub)):
        if isinstance(element, Sub) and not isinstance(element.b, IntImm):
            return False
        element = element.a if isinstance(element, Sub) else element.value
    return isinstance(element, BufferLoad)


# The tile


def window_tile_cost(tile: Tile, plan: Windows, machine: MachineModel) -> float:
    """Return the cycles of one tile for a vector of results; infinite if it does not fit the
    registers.
    """
    rows, vectors, taps = tile.rows, tile.vectors, plan.row_taps
    results = rows * vectors
    shared = (taps * vectors if plan.has_weights else 0) + (taps if rows > 1 else 1)
    if results + 2 > machine.vector_registers:
        return float("inf")
    terms = results * taps
    elements = terms
    if results + shared <= machine.vector_registers and plan.dilation % plan.stride == 0:
        elements = min(terms, ((rows - 1) * plan.stride + taps) * vectors)
    weights = taps * vectors if plan.has_weights else 0
    multiply = terms / machine.fma_per_cycle
    load = (elements + weights) / machine.loads_per_cycle
    wait = machine.fma_latency * taps
    per_row = (multiply**4 + load**4 + wait**4) ** 0.25 + 1
    values = results + weights + (taps * vectors if rows > 1 else vectors) + 2
    spilled = max(0, values - machine.vector_registers)
    spills = 1 + min(_MOST_SPILLED, _SPILLED * spilled)
    return float((per_row * (plan.taps / taps) + results + 4) / results * spills)


def _waiting(tile: Tile, plan: Windows, extent: int, machine: MachineModel) -> float:
    """Return the cycles that a vector of results waits for elements from L2. Vectors side by side
    come faster; as long as a row of tiles leaves L1 enough, each element comes once for all rows.
    """
    height = plan.taps // plan.row_taps
    line = machine.vector_bytes / machine.l2_bandwidth * (1 + 1 / tile.vectors)
    in_use = (height * plan.stride + 1) * extent * tile.vectors * machine.vector_bytes
    rows = float(plan.stride) if in_use <= _FILLED * machine.l1_bytes else float(height)
    return _WAITING_FOR_L2 * line * plan.stride * rows


def best_window_tile(
    extent: int | None, columns: int | None, plan: Windows, machine: MachineModel
) -> Tile:
    """Return the best tile for a number of results in a row and of columns (elements of vectors),
    None if symbolic. What tiles exceed the extents counts as work.
    """
    lanes = machine.lanes(32)
    row_count = 1 if plan.row_axis is None else extent or _MANY
    most_rows = _MOST_ROWS if extent else _MOST_ROWS_OF_ANY
    vector_count = math.ceil((columns or _MANY) / lanes)
    most = 4 if plan.row_axis is not None else 8

    def cost(tile: Tile) -> float:
        whole = math.ceil(row_count / tile.rows) * math.ceil(vector_count / tile.vectors)
        results = whole * tile.rows * tile.vectors
        uneven = bool(row_count % tile.rows) + bool(vector_count % tile.vectors)
        cycles = window_tile_cost(tile, plan, machine)
        if plan.row_axis is not None and extent is not None and machine.l2_bytes:
            cycles += _waiting(tile, plan, extent, machine)
        return cycles * results / (row_count * vector_count) * _UNEVEN_COST**uneven

    candidates = [
        Tile(rows, vectors)
        for vectors in range(1, min(most, vector_count if columns else 1) + 1)
        for rows in range(1, min(row_count, most_rows) + 1)
        if rows * vectors * plan.row_taps <= _MOST_UNROLLED
    ]
    return min(candidates or [Tile(1, 1)], key=cost)


# The schedule


def schedule_windows(
    sch: Schedule, block: BlockRV, plan: Windows, machine: MachineModel, threads: int
) -> None:
    """Tile, vectorise and parallelise a reduction over windows together with its consumer."""
    inline_padding(sch, block)
    moving = moving_cycles(sch, [block], machine)
    follower = element_consumer(sch, block)
    *outer, vector = sch.get_loops(follower)
    row = outer.pop(plan.row_axis) if plan.row_axis is not None else None
    lanes = machine.lanes(32)
    columns = loop_extent(sch, vector)
    extent = loop_extent(sch, row)
    tile = best_window_tile(extent, columns, plan, machine)
    width = tile.vectors * lanes
    vector_0, vector_1 = sch.split(vector, [None, width])
    inner, last = [vector_1], []
    if row is not None:
        row_0, row_1 = sch.split(row, [None, tile.rows])
        sch.annotate(row_0, *PARTITIONED)
        inner, last = [row_1, vector_1], [row_0]
    is_uneven = columns is None or (columns > width and columns % width != 0)
    if is_uneven:
        sch.annotate(vector_0, *PARTITIONED)
    results = steps_of(sch, follower) / lanes
    cycles = max(moving, results * window_tile_cost(tile, plan, machine))
    used = threads if cycles >= machine.fewest_parallel_cycles else 1
    if (
        row is not None
        and _is_shared_by_all(sch, outer, used)
        and _saves_passes(sch.get(block), tile, plan, machine)
    ):
        last = [*last, vector_0]
        order = [*outer, *last]
    else:
        order = _order(sch, outer, vector_0, is_uneven, used) + last
    sch.reorder(*order, *inner)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, order[-1])
    _window_body(sch, block, order[-1], lanes, row is not None)
    finish_consumer(sch, inner, lanes)
    parallelise(sch, order[: len(order) - len(last)], used)


def _is_shared_by_all(sch: Schedule, loops: list[LoopRV], threads: int) -> bool:
    """Return whether the iterations of loops, of constant extents, can be dealt out evenly."""
    extents = [loop_extent(sch, loop) or 0 for loop in loops]
    return bool(loops) and is_even(math.prod(extents), threads)


def _saves_passes(block: Block, tile: Tile, plan: Windows, machine: MachineModel) -> bool:
    """Return whether all tiles of columns at one place cost less than passes over the input.

    A pass whose tiles are narrower than a cache line brings lines that the next pass needs again;
    a whole row of an input, on the other hand, is gone from L1 when the next row of windows comes.
    """
    # the results take room in L2 as well
    if not machine.l3_bandwidth or 2 * bytes_read(block) <= machine.l2_bytes:
        return False
    passes = machine.line_bytes / (tile.vectors * machine.vector_bytes)
    again = plan.taps / plan.row_taps / plan.stride - 1
    return _WAITING_FOR_L3 * (passes - 1) / machine.l3_bandwidth > again / machine.l2_bandwidth


def _order(
    sch: Schedule, outer: list[LoopRV], vector_0: LoopRV, is_uneven: bool, threads: int
) -> list[LoopRV]:
    """Order the loops outside of a tile: batches, tiles of columns, then the rest, so that what
    windows share stays in the cache.

    Threads get strips of rows, so that each reads what it wrote itself; where strips of one height
    cannot be dealt out evenly, rows, which the tiles of columns divide further.
    """
    if not outer:
        return [vector_0]
    batch, rest = (outer[:1], outer[1:]) if len(outer) > 1 else ([], outer)
    if threads < 2 or not rest:
        return [*batch, vector_0, *rest]
    count = math.prod([loop_extent(sch, loop) or 1 for loop in batch])
    size = loop_extent(sch, rest[0]) or 1
    strips = [one for one in range(2, size) if size % one == 0 and is_even(count * one, threads)]
    if is_even(count, threads) or not strips:
        outside = is_even(count, threads) and not is_uneven
        return [*batch, vector_0, *rest] if outside else [*batch, rest[0], vector_0, *rest[1:]]
    first, second = sch.split(rest[0], [strips[0], None])
    return [*batch, first, vector_0, second, *rest[1:]]


def _window_body(
    sch: Schedule, block: BlockRV, place: LoopRV, lanes: int, unrolls_taps: bool
) -> None:
    """Schedule the tile: rows of windows outside, results, then the taps of a row, then lanes."""
    tile, reduction = tile_loops(sch, block, place)
    if not tile or not reduction:
        return
    vectors, lane = sch.split(tile[-1], [None, lanes])
    rows = tile[:-1]
    taps = [reduction[-1]] if unrolls_taps and len(reduction) > 1 else []
    outside = reduction[: len(reduction) - len(taps)]
    for loop in outside:
        sch.annotate(loop, "pragma_unroll_disable", True)
    sch.reorder(*outside, *rows, vectors, *taps, lane)
    sch.vectorize(lane)
    init = sch.decompose_reduction(block, outside[0])
    sch.annotate(block, SKIPS, True)
    unroll(sch, *rows, vectors, *taps)
    unroll_initialisation(sch, init, len(tile))
