"""Classic schedules for GPUs: blocks of threads, tiles in shared memory, reductions across threads.

elementwise stages   one thread for each element; fewer, with a loop, for very many
products             blocks compute tiles of results: operands in shared memory, results of a
                     thread in registers
long reductions      rfactor: the threads of a block reduce parts, then each other's results
short reductions     one thread for each result
rows of softmax etc. one block for each row; what the row needs once in shared memory
sorts, scans, ...    a thread for each row (see `procedures`)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm
from tilesmith.te import ComputeOp, Schedule, Stage, Tensor, thread_axis
from tilesmith.tir.expr import IterVar
from tilesmith.tir.functor import substitute
from tilesmith.topi.schedules.groups import Group, groups_of
from tilesmith.topi.schedules.inlining import Policy, inline_where_useful
from tilesmith.topi.schedules.limits import ThreadLimits, thread_limits
from tilesmith.topi.schedules.loops import fused
from tilesmith.topi.schedules.procedures import move_to_device
from tilesmith.topi.schedules.program import (
    Program,
    Read,
    extent,
    is_plain,
    is_product,
    is_reduction,
    made_schedule,
    outputs_of,
    size,
)

__all__ = ["schedule", "schedule_elementwise"]

_INLINE = Policy(padding=float("inf"), expensive=float("inf"))
_BLOCKS = 1 << 16
"""So many blocks fill any GPU; more elements go by loops of the threads."""
_LONG = 64
"""A reduction of so many steps is divided among threads."""
_REGISTERS = 4
"""Rows and columns of results that a thread of a product holds."""


def schedule(outs: Any) -> Schedule:
    """Schedule a program for the GPU that is the current target."""
    made = made_schedule(outs)
    move_to_device(made)
    program = Program(made)
    inline_where_useful(program, _INLINE)
    scheduler = _Scheduler(program, thread_limits())
    for group in reversed(groups_of(program)):  # a product takes in the padding that it reads
        if group.anchor not in scheduler.placed:
            scheduler.schedule_group(group)
    return made


def schedule_elementwise(sch: Schedule, out: Any) -> Schedule:
    """Bind the loops of one elementwise stage of a schedule that was begun elsewhere."""
    for tensor in outputs_of(out):
        _elementwise(sch[tensor], thread_limits())
    return sch


def _elementwise(stage: Stage, limits: ThreadLimits) -> IterVar:
    """Spread the elements over threads; return the innermost loop."""
    count = size(stage.op.axis)
    threads = min(limits.threads, 256, max(limits.warp, 1 << (count - 1).bit_length()))
    loop = fused(stage, list(stage.op.axis))
    rest = None
    if count > _BLOCKS * threads:
        rest, loop = stage.split(loop, factor=_BLOCKS * threads)
    block, thread = stage.split(loop, factor=threads)
    if rest is not None:
        stage.reorder(block, thread, rest)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(thread, thread_axis("threadIdx.x"))
    return thread if rest is None else rest


class _Scheduler:
    """Schedules the groups of one program."""

    def __init__(self, program: Program, limits: ThreadLimits) -> None:
        self._program = program
        self._sch = program.schedule
        self._limits = limits
        # Where the target does not say how many threads run in lockstep, 32 keep a block busy.
        self._warp = max(limits.warp, 32)
        self.placed: set[Any] = set()
        """Stages that are computed inside of the kernel that reads them."""

    def schedule_group(self, group: Group) -> None:
        """Make a kernel of an anchor and all that is computed inside of it."""
        op = group.anchor
        if not isinstance(op, ComputeOp):
            return  # extern operations and scans are programs of their own
        reductions = group.reductions
        if len(reductions) == 1 and group.shares_space and is_product(self._program, reductions[0]):
            tile = _Tile(self._program, self._limits, group)
            if tile.is_useful:
                self.placed |= tile.schedule()
                return
        is_long = any(size(one.reduce_axis) >= _LONG for one in reductions)
        if reductions and (is_long or not group.shares_space):
            self._rows(group)
        else:
            self._threads(group)

    def _threads(self, group: Group) -> None:
        """Let each thread compute an element, with all that belongs to it."""
        anchor, members = group.anchor, list(group.members)
        if is_reduction(anchor):
            members = [_cached(self._sch, anchor), *members]
        stage = self._sch[anchor]
        place = _elementwise(stage, self._limits)
        for member in members:
            inside = self._sch[member]
            inside.compute_at(stage, place)
            inside.set_scope("local")

    def _rows(self, group: Group) -> None:
        """Let a block compute a row, or a single result."""
        anchor: Any = group.anchor
        depth = group.depth or (len(anchor.axis) if is_reduction(anchor) else 0)
        if group.members and depth == len(anchor.axis):
            # Nothing is left that the threads of a block could divide among themselves.
            for op in (anchor, *group.members):
                self.schedule_group(Group(op))
            return
        divided = [op for op in group.reductions if size(op.axis[depth:]) < self._warp]
        threads = self._row_threads([size(op.reduce_axis) for op in divided])
        partials = {op: self._partial(op, threads) for op in divided}
        stage = self._sch[anchor]
        thread = thread_axis((0, threads), "threadIdx.x")
        own = list(stage.op.axis)[depth:]
        place: Any = None
        if depth:
            place = fused(stage, list(stage.op.axis)[:depth])
            stage.bind(place, thread_axis("blockIdx.x"))
        for op in group.members:
            inside = self._sch[op]
            inside.compute_at(stage, place)
            inside.set_scope("shared")
            self._across(op, list(inside.op.axis)[depth:], partials.get(op), thread)
        self._across(anchor, own, partials.get(anchor), thread)

    def _across(
        self, op: ComputeOp, own: list[IterVar], partial: Tensor | None, thread: IterVar
    ) -> None:
        """Divide a stage among the threads of a block: its reduction, or its own loops."""
        stage = self._sch[op]
        if partial is not None:
            reduced = stage.op.reduce_axis[0]
            stage.bind(reduced, thread)
            stage.set_store_predicate(thread.var.equal(0))
            inside = self._sch[partial]
            inside.compute_at(stage, reduced)
            inside.set_scope("local")
        else:
            loop = fused(stage, own)
            outer, inner = stage.split(loop, factor=extent(thread))
            stage.reorder(outer, inner, *stage.op.reduce_axis)
            stage.bind(inner, thread)

    def _row_threads(self, lengths: Sequence[int]) -> int:
        """Return the threads of a block that divides reductions of some lengths."""
        most = min(self._limits.threads, 256)
        threads = self._warp
        longest = max(lengths, default=most)
        while threads * 2 <= most and threads * 4 <= longest:
            threads *= 2
        return min(threads, most, *lengths)

    def _partial(self, op: ComputeOp, threads: int) -> Tensor:
        """Divide a reduction into a partial result for each thread."""
        stage = self._sch[op]
        _, inner = stage.split(fused(stage, list(stage.op.reduce_axis)), factor=threads)
        made = self._sch.rfactor(op.output(0), inner)
        first: Tensor = made[0] if isinstance(made, (list, tuple)) else made
        return first


def _cached(sch: Schedule, op: Any) -> Any:
    """Compute the results of a reduction in registers, and write them at the end."""
    tensors = [op.output(number) for number in range(op.num_outputs)]
    made = sch.cache_write(tensors if len(tensors) > 1 else tensors[0], "local")
    first = made[0] if isinstance(made, (list, tuple)) else made
    return first.op


class _Tile:
    """A product whose blocks compute tiles of results."""

    def __init__(self, program: Program, limits: ThreadLimits, group: Group) -> None:
        self._program = program
        self._sch = program.schedule
        self._limits = limits
        self._group = group
        self._op = group.reductions[0]
        wide = [number for number, axis in enumerate(self._op.axis) if extent(axis) > 1]
        self._numbers = wide[-2:] if len(wide) > 1 else []
        if self._numbers and self._rows_are_used_again() is None:
            self._numbers = []
        self._edge = 16 if limits.threads >= 256 else 8

    def _rows_are_used_again(self) -> int | None:
        """Choose the axis of the rows: the last one along which an operand stays the same."""
        column = self._numbers[-1]
        for number in reversed(range(column)):
            axis = self._op.axis[number]
            if extent(axis) > 1 and any(r.step(axis) == 0 for r in self._program.reads(self._op)):
                self._numbers = [number, column]
                return number
        return None

    @property
    def is_useful(self) -> bool:
        """True if the results fill tiles."""
        return len(self._numbers) == 2 and all(
            extent(self._op.axis[number]) >= 4 for number in self._numbers
        )

    def schedule(self) -> set[Any]:
        """Divide the results into blocks, threads and registers; return the stages that are
        computed in the kernel besides those of the group.
        """
        sch, anchor = self._sch, self._group.anchor
        reads = self._program.reads(self._op)
        op: Any = _cached(sch, anchor) if is_reduction(anchor) else self._op
        stage = sch[anchor]
        axes = list(stage.op.axis)
        others = [axis for number, axis in enumerate(axes) if number not in self._numbers]
        parts = [self._split(stage, axes[number]) for number in self._numbers]
        (rows, row, inner_row), (columns, column, inner_column) = parts
        stage.reorder(*others, rows, columns, row, column, inner_row, inner_column)
        if others:
            stage.bind(fused(stage, others), thread_axis("blockIdx.z"))
        stage.bind(rows, thread_axis("blockIdx.y"))
        stage.bind(columns, thread_axis("blockIdx.x"))
        stage.bind(row, thread_axis("threadIdx.y"))
        stage.bind(column, thread_axis("threadIdx.x"))
        inside = sch[op]
        inside.compute_at(stage, column)
        inside.set_scope("local")
        for member in self._group.members:
            if member is not self._op:
                sch[member].compute_at(stage, column)
                sch[member].set_scope("local")
        return self._operands(inside, reads)

    def _split(self, stage: Stage, axis: IterVar) -> tuple[IterVar, IterVar, IterVar]:
        threads, registers = self._shape(extent(axis))
        block, inner = stage.split(axis, factor=threads * registers)
        thread, inner = stage.split(inner, factor=registers)
        return block, thread, inner

    def _shape(self, count: int) -> tuple[int, int]:
        """Return how many threads and registers a tile has along an axis."""
        threads = min(self._edge, count)
        return threads, max(1, min(_REGISTERS, count // threads))

    def _operands(self, inside: Stage, reads: Sequence[Read]) -> set[Any]:
        """Bring the operands of some steps of the reduction into shared memory."""
        reduced = list(inside.op.reduce_axis)
        longest = max(range(len(reduced)), key=lambda number: extent(reduced[number]))
        step = min(8, extent(reduced[longest]))
        spatial = list(inside.op.axis)
        outer, inner = inside.split(reduced[longest], factor=step)
        window = [axis for number, axis in enumerate(reduced) if number != longest]
        inside.reorder(outer, *window, inner, *spatial)
        for number in self._numbers:
            inside.unroll(spatial[number])
        if self._bytes(reads, longest, step) > self._limits.shared:
            return set()
        tensors = list(dict.fromkeys([read.tensor for read in reads]))
        own = {tensor.op for tensor in tensors if self._is_own(tensor)}
        for tensor in tensors:
            self._share(tensor, tensor.op in own, inside, outer)
        return own

    def _is_own(self, tensor: Tensor) -> bool:
        """True if only the product reads a tensor, which is computed element by element."""
        op = tensor.op
        is_inner = is_plain(op) and op not in self._program.outputs
        return is_inner and self._program.final_readers(op) == [self._op]

    def _share(self, tensor: Tensor, is_own: bool, inside: Stage, loop: IterVar) -> None:
        """Compute an operand in shared memory, or copy it there."""
        if is_own:
            shared = self._sch[tensor]
            shared.set_scope("shared")
        else:
            shared = self._sch[self._sch.cache_read(tensor, "shared", [inside.op])]
        shared.compute_at(inside, loop)
        rows = self._shape(extent(self._op.axis[self._numbers[0]]))[0]
        columns = self._shape(extent(self._op.axis[self._numbers[1]]))[0]
        rest, column = shared.split(fused(shared, list(shared.op.axis)), factor=columns)
        _, row = shared.split(rest, factor=rows)
        shared.bind(row, thread_axis("threadIdx.y"))
        shared.bind(column, thread_axis("threadIdx.x"))

    def _bytes(self, reads: Sequence[Read], longest: int, step: int) -> int:
        """Return the memory that the operands of a tile need."""
        shape: dict[IterVar, int] = dict.fromkeys(self._op.axis, 1)
        for number in self._numbers:
            threads, registers = self._shape(extent(self._op.axis[number]))
            shape[self._op.axis[number]] = threads * registers
        for number, axis in enumerate(self._op.reduce_axis):
            shape[axis] = step if number == longest else extent(axis)
        total = 0
        for read in reads:
            count = 1
            for index in read.indices:
                count *= _span(index, shape)
            total += count * -(-read.tensor.dtype.bits // 8)
        return total


def _span(index: Any, shape: dict[IterVar, int]) -> int:
    """Return how many values an index takes in a tile."""
    span = 1
    for axis, count in shape.items():
        moved = substitute(index, {axis.var: axis.var + 1}) - index
        moved = Analyzer().simplify(moved)
        span += abs(int(moved)) * (count - 1) if isinstance(moved, IntImm) else count - 1
    return span
