"""Schedules contractions by register tiles under their consumer.

    for n, y, x, o, ry, rx, c: Y[n, y, x, o] += A[…] * W[o // T, ry, rx, c, o % T]
    for n, y, x, o: Z[n, y, x, o] = relu(Y[n, y, x, o] + bias[o])
  becomes
    parallel for n, o_0, y:
        for x_0:
            Y[P, T] = 0                                     (registers)
            for ry, rx, c: Y[p, t] += A[…] * W[…]            (p unrolled, t in vectors)
            Z[…] = relu(Y[p, t] + bias[…])

The consumer (or a copy, if there is none) is tiled, and the contraction is computed under its
tiles. Sizes of tiles, the order of the loops, and whether an operand is copied into panels are
chosen by ``search``. Where tiles do not divide an axis, the smaller last tile is code of its own,
of constant size where the axis is constant, so that its sums stay in registers too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.schedule_rules.contractions.contraction import Contraction, product_of
from tilesmith.schedule_rules.contractions.panels import copy_into_panels, prefetch_next_panel
from tilesmith.schedule_rules.contractions.search import Decision, choose
from tilesmith.schedule_rules.contractions.time_model import (
    Candidate,
    Level,
    Product,
    levels_of,
    parallel_levels,
)
from tilesmith.schedule_rules.contractions.vector_product import (
    is_vector_product,
    panels_at_once,
    schedule_vector_product,
)
from tilesmith.schedule_rules.loops import BRANCHES, PARTITIONED, TAILS, describe
from tilesmith.schedule_rules.tile_parts import element_consumer, sums_outside, unroll
from tilesmith.support.errors import ScheduleError
from tilesmith.target.machine import MachineModel
from tilesmith.tir import Block, BufferStore, ForKind, IterVar
from tilesmith.tir.schedule import BlockRV, LoopRV, Schedule

__all__ = ["schedule_contraction"]


@dataclass(frozen=True)
class _Trim:
    """Which loops of a tile have a smaller last tile of constant size."""

    rows: bool
    vectors: bool
    lanes: bool


def schedule_contraction(
    sch: Schedule,
    block: BlockRV,
    plan: Contraction,
    machine: MachineModel,
    threads: int,
    decision: Decision | None = None,
) -> None:
    """Tile, vectorise and parallelise a contraction together with its consumer.

    ``decision`` takes the place of the search.
    """
    product = product_of(plan)
    if decision is None:
        names = (sch.cursor(block).variable.name_hint, describe(sch, block))
        decision = choose(product, machine, threads, *names)
    lanes = machine.lanes(8 * max(4, product.result_bytes))
    width = plan.packed_width or decision.candidate.vectors * lanes
    width *= panels_at_once(plan, product, machine, threads)
    if decision.candidate.packs:
        copy_into_panels(sch, block, plan, width, lanes, decision.is_parallel)
    follower = element_consumer(sch, block)
    if is_vector_product(plan, product, machine) and not decision.candidate.packs:
        used = threads if decision.is_parallel else 1
        schedule_vector_product(sch, block, follower, product, machine, used)
        return
    sch.set_scope(block, 0, "local")
    outer, row, vector = _axes(sch, block, follower, plan)
    levels = levels_of(product, decision.candidate, machine)
    tiles, inner = _tile_loops_of(sch, row, vector, product, decision.candidate, levels, width)
    around = {**outer, **tiles}
    order = [loop for level in levels for loop in around[level.name]]
    sch.reorder(*order, *inner)
    sch.compute_at(block, order[-1])
    trim = _trim(product, decision.candidate, width, lanes)
    _tile_body(sch, block, order[-1], machine, lanes, trim, decision.candidate.prefetches)
    _finish_follower(sch, inner, lanes, trim)
    if decision.is_parallel:
        shared = parallel_levels(levels, threads)
        _parallelise(sch, [loop for level in shared for loop in around[level.name]])


def _axes(
    sch: Schedule, block: BlockRV, follower: BlockRV, plan: Contraction
) -> tuple[dict[str, list[LoopRV]], LoopRV | None, LoopRV]:
    """Return the loops of the consumer: those of the batch and the shared ones, the one of rows,
    the one of vectors. Several axes of rows are made one first.
    """
    rows, spatial = plan.row_axes, plan.nest.spatial
    if len(rows) > 1 and _are_plain(sch, follower, len(spatial)):
        _merge(sch, block, follower, plan)
        spatial = [one for k, one in enumerate(spatial) if k not in rows[:-1]]
        rows = (rows[0],)
    *others, vector = sch.get_loops(follower)
    row = others[rows[-1]] if rows and rows[-1] < len(others) else None
    found: dict[str, list[LoopRV]] = {"batch": [], "shared": []}
    for loop, axis in zip(others, spatial):
        if loop is not row:
            is_batch = any(one.uses(axis.variable) for one in plan.streams)
            found["batch" if is_batch else "shared"].append(loop)
    found["shared"] += others[len(spatial) :]
    return found, row, vector


def _are_plain(sch: Schedule, follower: BlockRV, count: int) -> bool:
    """Return whether the consumer stores to its iterators in their order."""
    node: Block = sch.get(follower)
    store = node.body
    variables_ = [one.var for one in node.iter_vars]
    return (
        isinstance(store, BufferStore)
        and len(variables_) == count
        and all(index is variable for index, variable in zip(store.indices, variables_))
        and len(store.indices) == count
    )


def _merge(sch: Schedule, block: BlockRV, follower: BlockRV, plan: Contraction) -> None:
    """Make one axis of the axes of rows, in the consumer and in the contraction."""
    first, last = plan.row_axes[0], plan.row_axes[-1]
    extents = [axis.extent for axis in plan.nest.spatial]
    node: Block = sch.get(block)
    whole = [axis.variable for axis in plan.nest.spatial]
    places = [k for k, one in enumerate(node.iter_vars) if one.iter_type == IterVar.DataPar]
    start, stop = places[first], places[last]
    if [one.var for one in node.iter_vars][start : stop + 1] != whole[first : last + 1]:
        raise ScheduleError("the axes of rows do not follow each other")

    def merged(values: tuple[Any, ...], begin: int, end: int) -> list[Any]:
        row = values[begin]
        for offset in range(1, end - begin + 1):
            row = row * extents[first + offset] + values[begin + offset]
        return [*values[:begin], row, *values[end + 1 :]]

    sch.transform_layout(block, ("write", 0), lambda *old: merged(old, first, last))
    sch.transform_block_layout(block, lambda *old: merged(old, start, stop))
    sch.transform_block_layout(follower, lambda *old: merged(old, first, last))


def _tile_loops_of(
    sch: Schedule,
    row: LoopRV | None,
    vector: LoopRV,
    product: Product,
    candidate: Candidate,
    levels: list[Level],
    width: int,
) -> tuple[dict[str, list[LoopRV]], list[LoopRV]]:
    """Split the loops of rows and of vectors; return the loops over tiles by their level, and those
    of a tile.
    """
    columns, column = sch.split(vector, [None, width])
    found: dict[str, list[LoopRV]] = {"columns": [columns], "rows": [], "blocks": []}
    inner = [column]
    if row is not None:
        in_block = [] if candidate.block in (None, 1) else [candidate.block]
        *blocks, tiles, line = sch.split(row, [None, *in_block, candidate.rows])
        found.update(rows=[tiles], blocks=blocks)
        inner = [line, column]
    for level in levels:
        if level.is_uneven and found.get(level.name):
            sch.annotate(found[level.name][0], *PARTITIONED)
            if level.name == "blocks":
                sch.annotate(found[level.name][0], *BRANCHES)
    if found["rows"] and not product.rows_are_known:
        sch.annotate(found["rows"][0], TAILS, candidate.rows)
    return found, inner


def _trim(product: Product, candidate: Candidate, width: int, lanes: int) -> _Trim:
    """Return which loops of a tile are to be cut to the size of a smaller last tile."""
    rows = not product.rows_are_known or product.rows % candidate.rows != 0
    columns = product.columns_are_known and product.columns % width != 0
    rest = product.columns % lanes
    return _Trim(rows, columns, columns and rest & (rest - 1) == 0)


def _tile_body(
    sch: Schedule, block: BlockRV, place: LoopRV, machine: MachineModel, lanes: int, trim: _Trim,
    prefetches: bool,
) -> None:  # fmt: skip
    """Schedule the tile: reduction loops outside, rows and vectors unrolled, lanes vectorised."""
    made = sums_outside(sch, block, place, lanes, machine.reduction_steps)
    if made is None:
        return
    tile, init = made
    if prefetches:
        prefetch_next_panel(sch, block, len(tile))
    _unroll_tile(sch, tile, trim)
    # The nest of the initialisation is a copy: vectors inside, the rest of the tile around.
    init_loops = sch.get_loops(init)[-len(tile) :]
    if all(sch.get(loop).kind is ForKind.SERIAL for loop in init_loops[:-1]):
        _unroll_tile(sch, init_loops, trim)


def _unroll_tile(sch: Schedule, loops: list[LoopRV], trim: _Trim) -> None:
    """Unroll the loops of a tile around the vectorised one, and cut those that end early."""
    *rows, vectors, lane = loops
    unroll(sch, *rows, vectors)
    cut = [*(rows if trim.rows else []), *([vectors] if trim.vectors else [])]
    for loop in (*cut, *([lane] if trim.lanes else [])):
        sch.annotate(loop, *PARTITIONED)


def _finish_follower(sch: Schedule, inner: list[LoopRV], lanes: int, trim: _Trim) -> None:
    first, second = sch.split(inner[-1], [None, lanes])
    sch.vectorize(second)
    _unroll_tile(sch, [*inner[:-1], first, second], trim)


def _parallelise(sch: Schedule, loops: list[LoopRV]) -> None:
    """Run loops in parallel as one loop."""
    extents = [sch.get(loop).extent for loop in loops]
    if all(isinstance(one, IntImm) and one.value == 1 for one in extents):
        return
    sch.parallel(loops[0] if len(loops) == 1 else sch.fuse(*loops))
