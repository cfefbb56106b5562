"""Refusals of classic schedules: the primitive, the stage with its loops, the reason, the cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilesmith.support.errors import ScheduleError
from tilesmith.tir.expr import IterVar
from tilesmith.tir.storage_scopes import SCOPES_TEXT, is_storage_scope

if TYPE_CHECKING:
    from tilesmith.te.schedule.stage import Stage

__all__ = ["check_scope", "describe", "position", "refuse"]

_KINDS = {
    IterVar.DataPar: "the data-parallel axis",
    IterVar.ThreadIndex: "the thread axis",
    IterVar.CommReduce: "the reduction axis",
    IterVar.Ordered: "the ordered axis",
    IterVar.Opaque: "the opaque axis",
}


def position(axes: Sequence[IterVar], wanted: Any) -> int | None:
    """Return the position of an iterator, by identity."""
    return next((number for number, axis in enumerate(axes) if axis is wanted), None)


def describe(axis: Any) -> str:
    """Return the kind and the name of an iterator."""
    if not isinstance(axis, IterVar):
        return repr(axis)
    return f"{_KINDS.get(axis.iter_type, 'the axis')} '{axis.var.name}'"


def refuse(
    primitive: str,
    stage: Stage,
    reason: str,
    axis: IterVar | None = None,
    advice: str = "",
    place: Any = None,
) -> ScheduleError:
    """Return the error to raise where a primitive cannot be applied to a stage.

    ``axis`` is the loop that is in the way; where it was split or fused, the error says into what.
    ``place`` is where the user's program wrote it, by default the running call.
    """
    notes = []
    loops = ", ".join([axis.var.name for axis in stage.leaf_iter_vars])
    notes.append(f"the loops of '{stage.name}' are: {loops}" if loops else "it has no loops")
    if axis is not None and (children := _children(stage, axis)):
        notes.append(f"'{axis.var.name}' has become {children}: use what the primitive returned")
    if advice:
        notes.append(advice)
    message = f"{primitive}: stage '{stage.name}': {reason}"
    return ScheduleError(message, place, tuple(notes))


def check_scope(primitive: str, stage: Stage, scope: Any) -> None:
    """Refuse a kind of memory that targets do not know."""
    if not isinstance(scope, str) or (scope and not is_storage_scope(scope)):
        raise refuse(primitive, stage, f"{scope!r} is not a storage scope", None, SCOPES_TEXT)


def _children(stage: Stage, axis: IterVar) -> str:
    for relation in stage.relations:
        if any(axis is one for one in relation.above):
            return ", ".join([one.var.name for one in relation.below])
    return ""
