"""Which stages are computed together: an anchor with its loops, and the stages inside of them.

A stage can be computed inside of an anchor's loops without computing anything twice if all that
read it lie there and read it at the anchor's own leading indices: the row sums of a softmax, the
product below a ReLU. The number of those indices is its *depth*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.te import ComputeOp, Operation
from tilesmith.tir.expr import IterVar
from tilesmith.topi.schedules.program import Program, extent, is_product, is_reduction, size

__all__ = ["Group", "groups_of"]


@dataclass
class Group:
    """An anchor, and the stages that are computed inside of its loops, the last reader first."""

    anchor: Operation
    members: dict[ComputeOp, int] = field(default_factory=dict)
    """Each with its depth."""

    @property
    def reductions(self) -> list[ComputeOp]:
        """The reductions of the group; the anchor is the first one if it is one."""
        ops: list[Operation] = [self.anchor, *self.members]
        return [op for op in ops if is_reduction(op)]

    @property
    def depth(self) -> int:
        """The number of loops of the anchor that all members lie in."""
        return min(self.members.values(), default=0)

    @property
    def shares_space(self) -> bool:
        """True if each member has one element for each of the anchor's."""
        axes = getattr(self.anchor, "axis", ())
        return all(depth == len(axes) == len(op.axis) for op, depth in self.members.items())


def groups_of(program: Program) -> list[Group]:
    """Return the groups of a program, those that are read first in front."""
    group_of: dict[Operation, Group] = {}
    groups: list[Group] = []
    for op in reversed(program.computed()):
        found = _group_of_readers(program, op, group_of)
        depth = _depth(program, op, found) if found is not None else 0
        if found is None or not depth:
            group_of[op] = Group(op)
            groups.append(group_of[op])
        else:
            found.members[op] = depth  # type: ignore[index]
            group_of[op] = found
    groups = [part for group in groups for part in _divided(program, group)]
    order = {op: number for number, op in enumerate(program.ops)}
    return sorted(groups, key=lambda group: order[group.anchor])


def _group_of_readers(
    program: Program, op: Operation, group_of: dict[Operation, Group]
) -> Group | None:
    """Return the group of all that read a stage, if they are in one and it could be inside."""
    if not isinstance(op, ComputeOp) or op in program.outputs:
        return None
    groups = [group_of[reader] for reader in program.final_readers(op)]
    if not groups or any(group is not groups[0] for group in groups):
        return None
    return groups[0] if isinstance(groups[0].anchor, ComputeOp) else None


def _depth(program: Program, op: Operation, group: Group) -> int:
    """Return how many leading indices of a stage are the anchor's own; 0 if they do not matter."""
    depth = len(group.anchor.axis)  # type: ignore[attr-defined]
    readers: list[Any] = program.final_readers(op)
    for reader in readers:
        shared = group.members.get(reader, len(reader.axis))
        for read in program.reads(reader):
            if read.tensor.op is op:
                depth = min(depth, _leading(read.indices, reader.axis[:shared]))
    if is_product(program, op) and depth < len(group.anchor.axis):  # type: ignore[attr-defined]
        return 0  # it needs tiles of its own
    anchor_axes = group.anchor.axis[:depth]  # type: ignore[attr-defined]
    return depth if size(anchor_axes) > 1 else 0


def _leading(indices: tuple[PrimExpr, ...], axes: tuple[IterVar, ...]) -> int:
    """Return how many indices from the first one are the axes themselves."""
    count = 0
    for index, axis in zip(indices, axes):
        is_only = extent(axis) == 1 and isinstance(index, IntImm) and index.value == 0
        if index is not axis.var and not is_only:
            break
        count += 1
    return count


def _divided(program: Program, group: Group) -> list[Group]:
    """Return a group, without what only stands in the way of a single product in it.

    Where one reduction has an element for each of the anchor's, tiles of both are computed
    together; what it reads, such as padding, is then computed before.
    """
    reductions = [op for op in group.members if is_reduction(op)]
    whole = [op for op in reductions if group.members[op] == len(group.anchor.axis)]  # type: ignore[attr-defined]
    alone = len(reductions) == 1 and reductions == whole or not reductions
    if not alone or group.shares_space:
        return [group]
    kept = Group(group.anchor, {op: group.members[op] for op in whole})
    apart = [Group(op) for op in group.members if op not in kept.members]
    return [kept, *apart]
