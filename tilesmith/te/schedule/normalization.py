"""Makes a schedule ready for bound inference: ``Schedule.normalize``.

Works on a copy, in which

- the stages that are computed inline are written where they are read (``inlining``),
- axes that are loops are counted from 0: a loop of its own, related to the axis by ``Rebase``,
- what is computed at a loop that was split or fused afterwards moves to the loop that is there now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilesmith.ir import Var
from tilesmith.te.schedule.inlining import inline_stages
from tilesmith.te.schedule.refusals import describe, position, refuse
from tilesmith.te.schedule.relations import Fuse, Rebase, Split
from tilesmith.te.schedule.stage import AttachType, Stage
from tilesmith.tir.expr import IterVar

if TYPE_CHECKING:
    from tilesmith.te.schedule.schedule import Schedule

__all__ = ["normalized"]


def normalized(schedule: Schedule) -> Schedule:
    """Return a copy of a schedule that is ready for bound inference."""
    new = schedule.copy()
    inline_stages(new)
    rebased: dict[IterVar, IterVar] = {}
    for stage in new.stages:
        if stage.attach_type != AttachType.INLINED_ALREADY:
            _rebase_loops(stage, rebased)
    for stage in [*new.stages, *new.groups]:
        if stage.attach_ivar is not None:
            stage.attach_ivar = rebased.get(stage.attach_ivar, stage.attach_ivar)
            if stage.attach_type == AttachType.SCOPE:
                _move_to_leaf(stage)
    return new


def _rebase_loops(stage: Stage, rebased: dict[IterVar, IterVar]) -> None:
    """Count the axes of a stage that are loops from 0. Those that run on threads stay: a thread
    has its own numbers.
    """
    for axis in stage.op.root_iter_vars:
        where = position(stage.leaf_iter_vars, axis)
        said = stage.iter_var_attrs.get(axis)
        if where is None or (said is not None and said.bind_thread is not None):
            continue
        counted = IterVar(None, Var(axis.var.name, axis.var.dtype), axis.iter_type)
        stage.relate(Rebase(axis, counted), where)
        if said is not None:
            stage.iter_var_attrs[counted] = said.copy()
        rebased[axis] = counted


def _move_to_leaf(stage: Stage) -> None:
    """Compute a stage at the loop that the loop where it was placed has become: the innermost one
    that has all of its iterations.
    """
    parent = stage.attach_stage
    assert parent is not None
    if parent.attach_type == AttachType.INLINED_ALREADY:
        raise refuse(
            "compute_at", stage, f"stage '{parent.name}' is inlined: it has no loops", None,
            "compute the stage at a loop of the one that reads it", stage.placed_at,
        )  # fmt: skip
    while position(parent.leaf_iter_vars, stage.attach_ivar) is None:
        below = None
        for relation in parent.relations:
            if not any(axis is stage.attach_ivar for axis in relation.above):
                continue
            if isinstance(relation, Split):
                below = relation.inner
            elif isinstance(relation, Rebase):
                below = relation.rebased
            elif isinstance(relation, Fuse) and relation.inner is stage.attach_ivar:
                below = relation.fused
            break
        if below is None:
            raise refuse(
                "compute_at", parent, f"{describe(stage.attach_ivar)} is not a loop any more",
                stage.attach_ivar, f"place '{stage.name}' after the loops are made",
                stage.placed_at,
            )  # fmt: skip
        stage.attach_ivar = below
