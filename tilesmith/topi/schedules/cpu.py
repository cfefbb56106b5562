"""Classic schedules for CPUs: vectors, register tiles, and threads over what is left.

elementwise stages    outer loops fused and parallel, the last one by vectors
reductions along the  tiles: spatial loops outside, the reduction between them and the register
  memory of results   tile, whose columns are vectors (products, convolutions, pooling)
reductions along the  rfactor: a vector of partial results, which are added up in the end
  memory of operands
few results           rfactor by parts, one for each thread
rows of softmax etc.  all stages of the group inside of the fused loops over its rows
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.schedule_rules.contractions.tiles import best_tile
from tilesmith.target import MachineModel
from tilesmith.te import ComputeOp, Operation, Schedule, Stage, Tensor
from tilesmith.tir.expr import IterVar
from tilesmith.topi.schedules.groups import Group, groups_of
from tilesmith.topi.schedules.inlining import inline_where_useful
from tilesmith.topi.schedules.limits import cpu_machine
from tilesmith.topi.schedules.loops import (
    divisor,
    fused,
    vector_axis,
    vector_width,
    vectorize_last,
)
from tilesmith.topi.schedules.program import (
    Program,
    extent,
    is_guarded_along,
    is_reduction,
    made_schedule,
    outputs_of,
    size,
)

__all__ = ["schedule", "schedule_elementwise"]

PARALLEL = 1 << 15
"""So many steps pay for waking threads."""
PARTS = 4
"""So many iterations of a parallel loop for each core keep all cores busy."""
_PAGE = 2048
"""Bytes between rows from which on each row takes a page of memory, or nearly."""
_FINAL = 4
"""The elements of the last vector of partial results."""
_LONG = 1 << 14
"""A reduction of so many steps to few results goes by parts."""


def schedule(outs: Any) -> Schedule:
    """Schedule a program for the CPU that is the current target (by default for this one)."""
    made = made_schedule(outs)
    program = Program(made)
    inline_where_useful(program)
    scheduler = _Scheduler(program, cpu_machine())
    for group in groups_of(program):
        scheduler.schedule_group(group)
    return made


def schedule_elementwise(sch: Schedule, out: Any) -> Schedule:
    """Schedule the loops of one elementwise stage of a schedule that was begun elsewhere."""
    for tensor in outputs_of(out):
        stage = sch[tensor]
        _elementwise(stage, cpu_machine(), size(stage.op.axis))
    return sch


def _elementwise(stage: Stage, machine: MachineModel, work: int) -> None:
    """Run the outer loops in parallel, the last one by vectors."""
    axes = list(stage.op.axis)
    if not axes:
        return
    bits = max(8, stage.op.output(0).dtype.bits)
    # Conditions on lanes cost more than LLVM's own vectors of such a loop.
    lanes = 1 if is_guarded_along(stage.op, axes[-1]) else machine.lanes(bits)
    inner = vectorize_last(stage, axes[-1], lanes)
    if work < PARALLEL:
        return
    outer = axes[:-1]
    if size(outer) < PARTS * machine.cores and extent(axes[-1]) % lanes == 0:
        outer += inner[:-1]
    if outer or len(inner) > 1:
        # A loop of its own has its last vector, the only one with a condition, peeled off.
        stage.parallel(fused(stage, outer) if outer else inner[0])


def _bytes(tensor: Tensor) -> int:
    """Return the size of a tensor in memory; 0 if it is not known."""
    count = math.prod([int(one) if isinstance(one, IntImm) else 0 for one in tensor.shape])
    return count * tensor.dtype.bits // 8


def _last_wide(axes: Sequence[IterVar]) -> int:
    """Return the number of the last axis of more than one iteration."""
    return max([number for number, axis in enumerate(axes) if extent(axis) > 1], default=0)


class _Scheduler:
    """Schedules the groups of one program."""

    def __init__(self, program: Program, machine: MachineModel) -> None:
        self._program = program
        self._sch = program.schedule
        self._machine = machine

    def schedule_group(self, group: Group) -> None:
        """Schedule an anchor and all that is computed inside of its loops."""
        op = group.anchor
        if not isinstance(op, ComputeOp):
            return  # extern operations and scans are programs of their own
        if not group.members and not group.reductions:
            _elementwise(self._sch[op], self._machine, self._work(group))
            return
        along = {one: self._vector_axis(one) for one in group.reductions}
        if group.shares_space and all(
            any(axis is own for own in one.axis) for one, axis in along.items()
        ):
            self._tiles(group)
        elif is_reduction(op) and not group.members and size(op.axis) < self._machine.cores:
            self._few_results(op)
        elif group.shares_space and len(group.reductions) == 1:
            self._dot_products(group, group.reductions[0], along[group.reductions[0]])
        else:
            self._rows(group)

    def _work(self, group: Group) -> int:
        return sum(size(op.root_iter_vars) for op in (group.anchor, *group.members))

    def _vector_axis(self, op: ComputeOp) -> IterVar | None:
        return vector_axis(op, self._program.reads(op), self._lanes(op))

    def _lanes(self, op: Operation) -> int:
        return self._machine.lanes(max(8, op.output(0).dtype.bits))

    # Results side by side in vectors

    def _tiles(self, group: Group) -> None:
        """Compute a register tile of results after the other, each over the whole reduction."""
        anchor, members = group.anchor, list(group.members)
        if is_reduction(anchor):
            tensors = [anchor.output(number) for number in range(anchor.num_outputs)]
            caches = self._sch.cache_write(tensors if len(tensors) > 1 else tensors[0], "local")
            cache = caches[0] if isinstance(caches, (list, tuple)) else caches
            members = [cache.op, *members]
        row, rows, columns = self._tile_sizes(group)
        packed = self._packed_operand(group.reductions, row, columns)
        stage = self._sch[anchor]
        sizes = {row: rows, _last_wide(stage.op.axis): columns}
        places, inner = self._tile_loops(stage, sizes, self._work(group), packed is not None)
        self._inside_of_tile(stage, inner)
        for member in members:
            inside = self._sch[member]
            inside.compute_at(stage, places[-1])
            inside.set_scope("local")
            own = list(inside.op.axis)
            tile = [own[number] for number in sizes if number is not None]
            others = [axis for axis in own if not any(axis is one for one in tile)]
            inside.reorder(*others, *inside.op.reduce_axis, *tile)
            self._inside_of_tile(inside, tile)
        if packed is not None:
            copy = self._sch[self._sch.cache_read(packed, "global", [self._sch[members[0]].op])]
            copy.compute_at(stage, places[0])
            vectorize_last(copy, copy.op.axis[-1], self._lanes(copy.op))

    def _packed_operand(
        self, reductions: list[ComputeOp], row: int | None, columns: int
    ) -> Tensor | None:
        """Return the operand of which a copy of some columns is used for all rows, if it is large
        and its rows lie far apart in memory.
        """
        if row is None or len(reductions) != 1:
            return None
        op, last = reductions[0], _last_wide(reductions[0].axis)
        tiles = size(op.axis[:row]) * size(op.axis[row + 1 :]) // columns
        if extent(op.axis[last]) % columns or tiles < PARTS * self._machine.cores:
            return None
        for read in self._program.reads(op):
            of_columns = [read.step(axis) for axis in (op.axis[last], op.axis[row])] == [1, 0]
            far = any((read.step(axis) or 0) * 4 >= _PAGE for axis in op.reduce_axis)
            if of_columns and far and _bytes(read.tensor) > self._machine.l2_bytes // 2:
                return read.tensor
        return None

    def _tile_loops(
        self, stage: Stage, sizes: dict[int | None, int], work: int, columns_first: bool
    ) -> tuple[list[IterVar], list[IterVar]]:
        """Make the loops over tiles and those inside of one; return both.

        A loop whose last tile is smaller stays apart: the last tile is peeled off. So do rows
        below columns, for which a copy of the columns is used.
        """
        outer: list[IterVar] = []
        inner: list[IterVar] = []
        apart: list[IterVar] = []
        numbers = list(sizes)
        count = 1
        for number, axis in enumerate(stage.op.axis):
            factor = sizes.get(number, 1)
            is_row = number == numbers[0]
            if factor == extent(axis) > 1:
                inner.append(axis)
                continue
            first = axis
            if factor > 1:
                first, second = stage.split(axis, factor=factor)
                inner.append(second)
            is_uneven = extent(axis) % factor != 0
            if is_uneven or (is_row and columns_first):
                apart.append(first)
            else:
                outer.append(first)
                count *= extent(axis) // factor
            if is_row and is_uneven:
                stage.pragma(first, "loop_partition_hint", True)
        if not outer and not apart and inner:  # one tile: a loop of one iteration around it
            first, inner[0] = stage.split(inner[0], nparts=1)
            outer.append(first)
        stage.reorder(*outer, *apart, *inner)
        places = ([fused(stage, outer)] if outer or not apart else []) + apart
        if work >= PARALLEL:
            stage.parallel(places[1] if count == 1 and outer and apart else places[0])
        return places, inner

    def _inside_of_tile(self, stage: Stage, tile: Sequence[IterVar]) -> None:
        if tile:
            stage.vectorize(tile[-1])
        for axis in tile[:-1]:
            stage.unroll(axis)

    def _tile_sizes(self, group: Group) -> tuple[int | None, int, int]:
        """Return the number of the axis of the rows (or None), the rows and columns of a tile."""
        op: Any = next(iter(group.reductions), group.anchor)
        lanes = self._lanes(op)
        last = _last_wide(op.axis)
        columns = extent(op.axis[last]) if op.axis else 1
        row = self._row_axis(op, last) if group.reductions else None
        if row is None:
            return None, 1, vector_width(columns, lanes)
        if columns % lanes:
            return row, self._rows_of(op, row, 8), vector_width(columns, lanes)
        words = columns * (self._machine.vector_bytes // 4) // lanes
        tile = best_tile(extent(op.axis[row]), words, self._machine)
        vectors = divisor(columns // lanes, tile.vectors)
        return row, self._rows_of(op, row, tile.rows), vectors * lanes

    def _rows_of(self, op: ComputeOp, row: int, most: int) -> int:
        """Return the rows of a tile: a divisor of all, or what leaves a smaller last tile."""
        even = divisor(extent(op.axis[row]), most)
        return even if even * 2 > most or extent(op.axis[row]) <= most else most

    def _row_axis(self, op: ComputeOp, last: int) -> int | None:
        """Return the axis along which the vectors of an operand are used again."""
        reads = self._program.reads(op)
        vectors = [read for read in reads if read.step(op.axis[last]) == 1]
        for number in reversed(range(last)):
            axis = op.axis[number]
            if extent(axis) > 1 and any(read.step(axis) == 0 for read in vectors):
                return number
        return None

    # Partial results side by side in vectors

    def _dot_products(self, group: Group, op: ComputeOp, along: IterVar | None) -> None:
        """Compute tiles of results; a vector holds partial results of one of them."""
        sch, anchor = self._sch, group.anchor
        partial = self._partial(op, along)
        stage = sch[anchor]
        axes = list(stage.op.axis)
        tiled = [number for number, axis in enumerate(axes) if extent(axis) > 1][-2:]
        if len(self._program.reads(op)) < 2:
            tiled = []  # nothing is used again
        outer, inner = [], []
        for number, axis in enumerate(axes):
            factor = divisor(extent(axis), 4) if number in tiled else 1
            if factor == 1:
                outer.append(axis)
                continue
            first, second = stage.split(axis, factor=factor)
            outer.append(first)
            inner.append(second)
        reduced = list(stage.op.reduce_axis) if op is anchor else []
        stage.reorder(*outer, *inner, *reduced)
        place = fused(stage, outer) if outer or not stage.leaf_iter_vars else None
        if place is not None and self._work(group) >= PARALLEL:
            stage.parallel(place)
        if op is not anchor and place is not None:
            sch[op].compute_at(stage, place)
        self._place_partial(partial, (stage, place), bool(tiled))

    def _partial(self, op: ComputeOp, along: IterVar | None) -> list[Tensor]:
        """Divide a reduction into a vector of partial results, and these into a shorter one; return
        them, the first that is computed in front. Empty if there is no long axis.
        """
        if along is None or not any(along is axis for axis in op.reduce_axis):
            return []
        found = [self._divided(op, along, vector_width(extent(along), self._lanes(op)))]
        lanes = self._sch[op].op.reduce_axis[0]
        if extent(lanes) % _FINAL == 0 and extent(lanes) > _FINAL:
            # Their sum is a chain of additions, each of which waits for the one before.
            found.append(self._divided(op, lanes, _FINAL))
        return found

    def _divided(self, op: ComputeOp, along: IterVar, width: int) -> Tensor:
        """Make a vector of partial results along an axis of a reduction."""
        _, inner = self._sch[op].split(along, factor=width)
        made = self._sch.rfactor(op.output(0), inner, len(op.axis))
        first: Tensor = made[0] if isinstance(made, (list, tuple)) else made
        return first

    def _place_partial(
        self, partials: list[Tensor], place: tuple[Stage, IterVar | None], is_tile: bool = False
    ) -> None:
        """Compute partial results inside of a loop; without a loop, before everything else."""
        stage, loop = place
        for partial in partials:
            inside = self._sch[partial]
            if loop is not None:
                inside.compute_at(stage, loop)
                inside.set_scope("local")
            *spatial, lanes = inside.op.axis
            inside.reorder(*inside.op.reduce_axis, *spatial, lanes)
            inside.vectorize(lanes)
            for axis in spatial[-2:] if is_tile else ():
                inside.unroll(axis)

    def _few_results(self, op: ComputeOp) -> None:
        """Let each thread reduce a part, then reduce the parts' results."""
        stage = self._sch[op]
        steps = size(op.reduce_axis)
        if steps < _LONG:
            self._rows(Group(op))
            return
        axes = fused(stage, op.reduce_axis)
        outer, _ = stage.split(axes, nparts=min(steps // 1024, 4 * self._machine.cores))
        made = self._sch.rfactor(op.output(0), outer)
        part = made[0] if isinstance(made, (list, tuple)) else made
        parts = self._sch[part]
        lanes = vector_width(-(-steps // (4 * self._machine.cores)), self._lanes(op))
        _, inner = parts.split(parts.op.reduce_axis[0], factor=lanes)
        made = self._sch.rfactor(part, inner, len(parts.op.axis))
        vector = made[0] if isinstance(made, (list, tuple)) else made
        parts = self._sch[part]
        place = parts.op.axis[0]
        parts.parallel(place)
        self._place_partial([vector], (parts, place))

    # Rows

    def _rows(self, group: Group) -> None:
        """Compute all stages of a group inside of the loops over its rows."""
        anchor = group.anchor
        assert isinstance(anchor, ComputeOp)
        partials = {op: self._partial(op, self._vector_axis(op)) for op in group.reductions}
        stage = self._sch[anchor]
        depth = group.depth or len(stage.op.axis)
        axes = list(stage.op.axis)
        place = fused(stage, axes[:depth]) if depth or not stage.leaf_iter_vars else None
        if place is not None and depth and self._work(group) >= PARALLEL:
            stage.parallel(place)
        for op in group.members:
            inside = self._sch[op]
            assert place is not None
            inside.compute_at(stage, place)
            self._inside(op, depth, partials.get(op, []), (stage, place))
        self._inside(anchor, depth, partials.get(anchor, []), (stage, place))

    def _inside(
        self, op: ComputeOp, depth: int, partials: list[Tensor], place: tuple[Stage, IterVar | None]
    ) -> None:
        """Schedule the loops that a stage has inside of those over the rows."""
        stage = self._sch[op]
        own = list(stage.op.axis)[depth:]
        if partials:
            self._place_partial(partials, (stage, own[-1]) if own else place)
            return
        if not own:
            return
        if not is_reduction(op):
            vectorize_last(stage, own[-1], self._lanes(op))
            return
        if any(self._vector_axis(op) is axis for axis in own[-1:]):
            inner = vectorize_last(stage, own[-1], self._lanes(op))
            stage.reorder(*own[:-1], *inner[:-1], *stage.op.reduce_axis, inner[-1])
