"""Classic schedules: a stage for each operation of a graph of tensor expressions."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.support.errors import ScheduleError, TypeMismatchError
from tilesmith.te.checks import check_late_reads, check_states
from tilesmith.te.schedule.caches import cache_read, cache_write
from tilesmith.te.schedule.factored_reduction import rfactor
from tilesmith.te.schedule.graph import create_read_graph, operations_between, post_dfs_order
from tilesmith.te.schedule.normalization import normalized
from tilesmith.te.schedule.refusals import refuse
from tilesmith.te.schedule.replacement import current_tensor
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.te.tensor import Operation, ScanOp, Tensor
from tilesmith.tir.expr import IterVar

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
        check_late_reads(self.stage_map)
        check_states(self.stage_map)
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
        outs, ins = (
            [current_tensor(self, one) for one in outs],
            [current_tensor(self, one) for one in ins],
        )
        members = [self[op] for op in operations_between(outs, ins, include_inputs)]
        if not members:
            raise ScheduleError(
                "create_group: there is nothing between the inputs and the outputs",
                notes=("with include_inputs=True the inputs belong to the group",),
            )
        group = Stage(None)
        parent = members[0].group
        for stage in members[1:]:
            parent = _common_group(parent, stage.group)
        for stage in _directly_inside(members, parent):
            if stage.group is not None:
                stage.group.num_child_stages -= 1
            stage.group = group
            group.num_child_stages += 1
        group.group = parent
        if parent is not None:
            parent.num_child_stages += 1
        self.groups.append(group)
        return group

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """Let some operations (or tensors) read a copy of a tensor, in a kind of memory.

          B reads A                          AA = A.shared reads A, B reads A.shared
        AA = s.cache_read(A, "shared", [B])

        The copy is a stage of its own: place it by ``s[AA].compute_at``.
        """
        return cache_read(self, tensor, scope, readers)

    def cache_write(self, tensor: Any, scope: str) -> Any:
        """Compute a tensor in a kind of memory first; what it was becomes a copy of that.

          C[i, j] = sum(…, axis=k)           C.local[i.c, j.c] = sum(…, axis=k)
        CL = s.cache_write(C, "local")       C[i, j] = C.local[i, j]

        The results of one operation are cached together: give the list of them, a list returns.

        If loops over the axes of ``C`` were split, fused or reordered before, the cache is laid out
        in the order of these loops, and ``C`` starts anew with loops over its axes: so data is
        brought into another layout.
        """
        return cache_write(self, tensor, scope)

    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        """Divide a reduction: partial results for each iteration of ``axis``, then the reduction of
        these.

          B[i] = sum(A[i, k], k)             B.rf[k.inner, i] = sum(A[i, …], k.outer)
        BF = s.rfactor(B, k_inner)           B[i] = sum(B.rf[k.inner.v, i], k.inner.v)

        ``axis`` is a loop over a reduction axis, usually made by a split. Among the axes of the
        partial results it stands at position ``factor_axis``. Returns the tensor of the partial
        results, of a tuple reduction the list of its tensors.
        """
        return rfactor(self, tensor, axis, factor_axis)

    def normalize(self) -> Schedule:
        """Return a copy that is ready for bound inference: inlined stages are written where they
        are read, loops count from 0.
        """
        return normalized(self)

    def copy(self) -> Schedule:
        """Return a schedule of the same operations, with the same loops and places, that changes on
        its own.
        """
        new = object.__new__(Schedule)
        twins = {stage: stage.copy() for stage in [*self.stages, *self.groups]}
        for stage in twins.values():
            stage.group = None if stage.group is None else twins[stage.group]
            if stage.attach_stage is not None:
                stage.attach_stage = twins[stage.attach_stage]
        new.outputs = list(self.outputs)
        new.stages = [twins[stage] for stage in self.stages]
        new.groups = [twins[stage] for stage in self.groups]
        new.stage_map = {op: twins[stage] for op, stage in self.stage_map.items()}
        return new

    __copy__ = copy

    def __repr__(self) -> str:
        return f"schedule({', '.join([stage.name for stage in self.stages])})"


def _directly_inside(members: list[Stage], parent: Stage | None) -> list[Stage]:
    """Return the stages among some, and the groups around them, that lie directly in a group. A
    group lies inside of a new one as a whole.
    """
    found: dict[Stage, None] = {}
    counts: dict[Stage, int] = {}
    waiting = list(members)
    while waiting:
        stage = waiting.pop(0)
        around = stage.group
        if around is parent:
            found[stage] = None
            continue
        assert around is not None
        counts[around] = counts.get(around, 0) + 1
        if counts[around] == around.num_child_stages:
            waiting.append(around)
    for group, count in counts.items():
        if count < group.num_child_stages:
            inside = next(stage for stage in members if stage.group is group)
            raise refuse(
                "create_group", inside,
                f"it belongs to a group of {group.num_child_stages} stages, of which only {count} "
                "would belong to the new one",
                None, "a group lies inside of another one as a whole, or outside of it",
            )  # fmt: skip
    return list(found)


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
