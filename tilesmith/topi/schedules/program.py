"""Looks at the program of a schedule: who reads what, how often, along which axes.

A stage that is inlined does not count as a reader: what reads it reads its inputs instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeGuard

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir.queries import calls, mentions, nodes
from tilesmith.te import ComputeOp, Operation, PlaceholderOp, Schedule, Stage, Tensor
from tilesmith.te.schedule import AttachType, create_schedule
from tilesmith.tir.expr import IterVar, ProducerLoad
from tilesmith.tir.functor import substitute
from tilesmith.topi.utils import ravel_index

__all__ = [
    "MANY", "Program", "Read", "extent", "is_expensive", "is_guarded", "is_guarded_along",
    "is_plain", "is_product", "is_reduction", "made_schedule", "outputs_of", "size",
]  # fmt: skip

MANY = 1 << 12
"""What a symbolic extent counts as."""

_SHORT_PRODUCT = 8
"""A reduction of fewer steps needs no tiles."""

_EXPENSIVE = [
    f"tir.{name}"
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "exp",
        "exp10", "exp2", "fmod", "log", "log10", "log1p", "log2", "pow", "rsqrt", "sigmoid", "sin",
        "sinh", "sqrt", "tan", "tanh",
    )
]  # fmt: skip


class Read(NamedTuple):
    """An element of a tensor that a stage reads, at indices in terms of the stage's axes."""

    tensor: Tensor
    indices: tuple[PrimExpr, ...]

    def step(self, axis: IterVar) -> int | None:
        """Return by how many elements the place moves when an axis goes on by one; None if that
        varies.
        """
        if axis.var.dtype.bits == 0 or not self.indices:
            return 0
        place = ravel_index(self.indices, self.tensor.shape)
        moved = Analyzer().simplify(substitute(place, {axis.var: axis.var + 1}) - place)
        return int(moved) if isinstance(moved, IntImm) else None


def extent(axis: IterVar) -> int:
    """Return the number of iterations of an axis; MANY for a symbolic one."""
    count = axis.dom.extent if axis.dom is not None else None
    count = Analyzer().simplify(count) if isinstance(count, PrimExpr) else count
    return int(count) if isinstance(count, (int, IntImm)) else MANY


def size(axes: Iterable[IterVar]) -> int:
    """Return the number of iterations of axes together."""
    product = 1
    for axis in axes:
        product *= extent(axis)
    return product


def outputs_of(outs: Any) -> list[Tensor]:
    """Return the results that a schedule function was given: one tensor, or several."""
    return [outs] if isinstance(outs, Tensor) else list(outs)


def made_schedule(outs: Any) -> Schedule:
    """Return the schedule of some results, or the one that was given."""
    if isinstance(outs, Schedule):
        return outs
    return create_schedule([tensor.op for tensor in outputs_of(outs)])


class Program:
    """The operations of a schedule and how they hang together."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.ops: list[Operation] = [stage.op for stage in schedule.stages]
        """Each after those that it reads."""
        self.outputs = {stage.op for stage in schedule.stages if stage.is_output}
        self.readers: dict[Operation, list[Operation]] = {op: [] for op in self.ops}
        for op in self.ops:
            for tensor in op.input_tensors:
                known = self.readers.get(tensor.op)
                if known is not None and op not in known:
                    known.append(op)
        self.inlined = {
            stage.op
            for stage in schedule.stages
            if stage.attach_type in (AttachType.INLINE, AttachType.INLINED_ALREADY)
        }
        self._reads: dict[Operation, list[Read]] = {}

    def stage(self, op: Operation) -> Stage:
        """Return the stage of an operation."""
        return self.schedule[op]

    def inline(self, op: Operation) -> None:
        """Write the expression of an operation wherever it is read."""
        self.schedule[op].compute_inline()
        self.inlined.add(op)
        self._reads = {}

    def computed(self) -> list[Operation]:
        """Return the operations that are neither inputs nor inlined, each after what it reads."""
        return [
            op for op in self.ops if op not in self.inlined and not isinstance(op, PlaceholderOp)
        ]

    def final_readers(self, op: Operation) -> list[Operation]:
        """Return the operations that read one, those of inlined readers in place of them."""
        found: dict[Operation, None] = {}
        waiting = list(self.readers[op])
        while waiting:
            reader = waiting.pop(0)
            if reader in self.inlined:
                waiting += self.readers[reader]
            else:
                found[reader] = None
        return list(found)

    def reads(self, op: Operation) -> list[Read]:
        """Return the elements that a compute reads, through what is inlined into it."""
        waiting = [op]
        while waiting:  # first what is inlined: a chain may be long
            current = waiting[-1]
            inner = [
                tensor.op
                for tensor in current.input_tensors
                if tensor.op in self.inlined and tensor.op not in self._reads
            ]
            if inner:
                waiting += inner
                continue
            waiting.pop()
            if current not in self._reads:
                self._reads[current] = self._expanded(current)
        return self._reads[op]

    def _expanded(self, op: Operation) -> list[Read]:
        found: dict[tuple[Any, str], Read] = {}
        if not isinstance(op, ComputeOp):
            return []
        for load in nodes(op.body, ProducerLoad):
            tensor: Any = load.producer
            indices = tuple(load.indices)
            inner = [Read(tensor, indices)]
            if tensor.op in self.inlined:
                values = {axis.var: index for axis, index in zip(tensor.op.axis, indices)}
                inner = [
                    Read(one.tensor, tuple([substitute(index, values) for index in one.indices]))
                    for one in self._reads[tensor.op]
                ]
            for one in inner:
                key = one.tensor, ", ".join([str(index) for index in one.indices])
                found.setdefault(key, one)
        return list(found.values())


def is_reduction(op: Operation) -> TypeGuard[ComputeOp]:
    """True for a compute that reduces over axes."""
    return isinstance(op, ComputeOp) and bool(op.reduce_axis)


def is_product(program: Program, op: Operation) -> bool:
    """True for a reduction of which an operand is used again along a spatial axis."""
    if not isinstance(op, ComputeOp) or size(op.reduce_axis) < _SHORT_PRODUCT:
        return False
    reads = program.reads(op)
    return len(reads) > 1 and any(
        extent(axis) > 1 and read.step(axis) == 0 for axis in op.axis for read in reads
    )


def is_plain(op: Operation) -> TypeGuard[ComputeOp]:
    """True for a compute of one tensor whose elements are expressions without a reduction."""
    return isinstance(op, ComputeOp) and op.num_outputs == 1 and not op.reduce_axis


def is_expensive(op: ComputeOp) -> bool:
    """True if an element costs more than a few instructions."""
    return any(True for _ in calls(op.body, *_EXPENSIVE))


def is_guarded(op: ComputeOp) -> bool:
    """True if elements are read under a condition, as padding is."""
    return any(True for _ in _conditions(op))


def is_guarded_along(op: ComputeOp, axis: IterVar) -> bool:
    """True if elements are read under a condition that depends on an axis."""
    return any(mentions(condition, {axis.var}) for condition in _conditions(op))


def _conditions(op: ComputeOp) -> Iterator[PrimExpr]:
    for call in calls(op.body, "tir.if_then_else"):
        yield call.args[0]
