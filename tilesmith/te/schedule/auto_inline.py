"""Inlines stages that cost little where they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilesmith.ir.queries import nodes
from tilesmith.te.schedule.stage import Stage
from tilesmith.te.tensor import ComputeOp, Operation
from tilesmith.tir.expr import ProducerLoad

if TYPE_CHECKING:
    from tilesmith.te.schedule.schedule import Schedule

__all__ = [
    "auto_inline_broadcast", "auto_inline_element_wise", "auto_inline_injective", "is_broadcast",
    "is_element_wise", "is_injective",
]  # fmt: skip


def is_injective(op: Operation) -> bool:
    """Return whether an operation computes each element by an expression, not by a reduction."""
    return isinstance(op, ComputeOp) and not op.reduce_axis


def is_element_wise(op: Operation) -> bool:
    """Return whether each element depends on the elements at the same indices, as far as the reads
    or the tag tell.
    """
    if not isinstance(op, ComputeOp) or op.reduce_axis:
        return False
    if op.tag.startswith("elemwise"):
        return True
    own = [axis.var for axis in op.axis]
    return all(
        len(load.indices) == len(own) and all(a is b for a, b in zip(load.indices, own))
        for load in nodes(op.body, ProducerLoad)
    )


def is_broadcast(op: Operation) -> bool:
    """Return whether each element depends on elements at some of its indices, in their order, as
    far as the reads or the tag tell.
    """
    if not isinstance(op, ComputeOp) or op.reduce_axis:
        return False
    if op.tag.startswith(("elemwise", "broadcast")):
        return True
    return all(_reads_in_order(op, load) for load in nodes(op.body, ProducerLoad))


def _reads_in_order(op: ComputeOp, load: ProducerLoad) -> bool:
    """Return whether the indices of a read are axes of the operation in their order."""
    place = 0
    for index in load.indices:
        while place < len(op.axis) and op.axis[place].var is not index:
            place += 1
        if place == len(op.axis):
            return False
        place += 1
    return True


def auto_inline_element_wise(schedule: Schedule) -> None:
    """Inline the elementwise stages that are neither scheduled nor results of the program."""
    _inline(schedule, is_element_wise)


def auto_inline_broadcast(schedule: Schedule) -> None:
    """Inline the elementwise and broadcasting stages that are neither scheduled nor results."""
    _inline(schedule, is_broadcast)


def auto_inline_injective(schedule: Schedule) -> None:
    """Inline the stages without a reduction that are neither scheduled nor results."""
    _inline(schedule, is_injective)


def _inline(schedule: Schedule, is_wanted: Callable[[Operation], bool]) -> None:
    """Inline stages; those that other operations than computes read stay in memory."""
    in_memory: set[Operation] = set()
    for stage in schedule.stages:
        if not isinstance(stage.op, ComputeOp):
            in_memory.update([tensor.op for tensor in stage.op.input_tensors])
    for stage in schedule.stages:
        if stage.op not in in_memory and _is_free(stage) and is_wanted(stage.op):
            stage.compute_inline()


def _is_free(stage: Stage) -> bool:
    return not stage.is_output and not stage.is_scheduled and not stage.layout_transforms
