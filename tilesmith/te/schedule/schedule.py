"""Classic schedules: a stage for each operation of a graph of tensor expressions."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.support.errors import ScheduleError, TypeMismatchError
from tilesmith.te.schedule.graph import create_read_graph, operations_between, post_dfs_order
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.te.tensor import Operation, ScanOp, Tensor

__all__ = ["Schedule", "create_schedule"]


class Schedule:
    """The stages of a program, each with its loops and its place.

    ``stages`` are in an order in which they can be computed. ``s[tensor]`` or ``s[op]`` is the
    stage, also by the operation that primitives have replaced since.
    """

    def __init__(self, outputs: list[Operation]) -> None:
        self.outputs: list[Operation] = outputs
        self.stages: list[Stage] = []
        self.groups: list[Stage] = []
        self.stage_map: dict[Operation, Stage] = {}
        graph = create_read_graph(outputs)
        for op in post_dfs_order(outputs, graph):
            stage = Stage(op)
            stage.is_output = any(op is output for output in outputs)
            self.stages.append(stage)
            self.stage_map[op] = stage
        for op in list(self.stage_map):
            if isinstance(op, ScanOp):
                self._place_update(op)

    def _place_update(self, scan: ScanOp) -> None:
        """Compute the update of a scan inside of its time loop."""
        inputs = [*scan.inputs, *scan.state_placeholder]
        group = self.create_group(list(scan.update), inputs, include_inputs=False)
        stages = [group, *[self.stage_map[tensor.op] for tensor in scan.update]]
        for stage in stages:
            stage.attach_type = AttachType.SCAN_UPDATE
            stage.attach_ivar = scan.scan_axis
            stage.attach_stage = self.stage_map[scan]

    def __getitem__(self, key: Any) -> Stage:
        op = key.op if isinstance(key, Tensor) else key
        stage = self.stage_map.get(op) if isinstance(op, Operation) else None
        if stage is None:
            what = f"'{op.name}'" if isinstance(op, Operation) else repr(key)
            known = ", ".join([one.name for one in self.stages])
            raise ScheduleError(
                f"{what} is not part of the schedule",
                notes=(
                    f"its stages are: {known}",
                    "a tensor belongs to the schedule of its program",
                ),
            )
        return stage

    def __contains__(self, key: Any) -> bool:
        op = key.op if isinstance(key, Tensor) else key
        return isinstance(op, Operation) and op in self.stage_map

    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Stage:
        """Make a group of the stages between ``inputs`` and ``outputs``: it can be placed as one.

        With ``include_inputs`` the stages of the inputs belong to it. Groups may lie inside of
        others, but not overlap.
        """
        outs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        ins = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        members = [self[op] for op in operations_between(outs, ins, include_inputs)]
        group = Stage(None)
        parent = members[0].group
        for stage in members[1:]:
            parent = _common_group(parent, stage.group)
        group.group = parent
        if parent is not None:
            parent.num_child_stages += 1
        for stage in members:
            inner = stage
            while inner.group is not parent:  # move the group around it that lies at this level
                inner = inner.group  # type: ignore[assignment]
            if inner is group:
                continue
            if inner.group is not None:
                inner.group.num_child_stages -= 1
            inner.group = group
            group.num_child_stages += 1
        self.groups.append(group)
        return group

    def __repr__(self) -> str:
        return f"schedule({', '.join([stage.name for stage in self.stages])})"


def _common_group(a: Stage | None, b: Stage | None) -> Stage | None:
    """Return the innermost group around two groups."""
    around = []
    while a is not None:
        around.append(a)
        a = a.group
    while b is not None and not any(b is one for one in around):
        b = b.group
    return b


def create_schedule(ops: Any) -> Schedule:
    """Make the schedule of a program that has some operations (or tensors) as results: each stage
    is computed as a whole, by the loops of its axes.
    """
    given = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    outputs = [one.op if isinstance(one, Tensor) else one for one in given]
    for one in outputs:
        if not isinstance(one, Operation):
            what = "an expression" if isinstance(one, PrimExpr) else repr(one)
            raise TypeMismatchError(
                f"create_schedule takes operations, got {what}",
                notes=("give it the operation of the result: te.create_schedule(C.op)",),
            )
    if not outputs:
        raise TypeMismatchError("create_schedule needs at least one operation")
    return Schedule(list(dict.fromkeys(outputs)))
