"""Replaces operations throughout a schedule, and adds stages to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.te.tensor import Operation, Tensor

if TYPE_CHECKING:
    from tilesmith.te.schedule.schedule import Schedule

__all__ = [
    "computed_inside", "current_tensor", "insert_stage", "replace_operations", "set_operation",
]  # fmt: skip


def current_tensor(schedule: Schedule, tensor: Tensor) -> Tensor:
    """Return what a tensor of the user's program is now, after operations were replaced."""
    return schedule[tensor].op.output(tensor.value_index)  # type: ignore[no-any-return]


def replace_operations(schedule: Schedule, replaced: Mapping[Operation, Operation]) -> None:
    """Put operations in the place of others, and let all that reads their results read the new
    ones.
    """
    tensors: dict[Tensor, Tensor] = {}
    for stage in schedule.stages:
        op = stage.op
        new = replaced.get(op, op)
        if tensors:  # what it reads may have been replaced as well
            new = new.replace_inputs(tensors)
        if new is not op:
            tensors.update({op.output(k): new.output(k) for k in range(op.num_outputs)})
            set_operation(schedule, stage, new)


def set_operation(schedule: Schedule, stage: Stage, op: Operation) -> None:
    """Let a stage compute another operation; the earlier ones still name the stage."""
    if stage.is_output:
        schedule.outputs = [op if one is stage.op else one for one in schedule.outputs]
    stage.op = op
    schedule.stage_map[op] = stage


def insert_stage(schedule: Schedule, where: int, op: Operation, beside: Stage) -> Stage:
    """Add a stage at a position among the stages, in the group of another one."""
    stage = Stage(op)
    schedule.stages.insert(where, stage)
    schedule.stage_map[op] = stage
    stage.group = beside.group
    if stage.group is not None:
        stage.group.num_child_stages += 1
    return stage


def computed_inside(schedule: Schedule, stage: Stage) -> list[Stage]:
    """Return the stages and groups that were placed at a loop of a stage by ``compute_at``."""
    return [
        one
        for one in [*schedule.stages, *schedule.groups]
        if one.attach_type == AttachType.SCOPE and one.attach_stage is stage
    ]
