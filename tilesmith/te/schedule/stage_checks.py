"""Checks what the primitives of a stage are given: its place, its loops, sizes of loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesmith.ir import IntImm, PrimExpr, convert
from tilesmith.te.schedule.attach_type import AttachType
from tilesmith.te.schedule.refusals import describe, position, refuse
from tilesmith.te.tensor import PlaceholderOp
from tilesmith.tir.expr import IterVar

if TYPE_CHECKING:
    from tilesmith.te.schedule.stage import Stage

__all__ = ["check_loops", "check_place", "leaf_position", "loop_size"]


def check_place(primitive: str, stage: Stage) -> None:
    """Refuse to place a stage whose place follows from a scan."""
    if stage.attach_type == AttachType.SCAN_UPDATE:
        raise refuse(primitive, stage, "the update of a scan is computed inside of the scan")


def check_loops(primitive: str, stage: Stage) -> None:
    """Refuse stages that have no loops."""
    if stage.attach_type in (AttachType.INLINE, AttachType.INLINED_ALREADY):
        raise refuse(
            primitive, stage, "the stage is inlined: it has no loops of its own", None,
            "schedule its loops before, or leave out compute_inline",
        )  # fmt: skip
    if isinstance(stage.op, PlaceholderOp):
        raise refuse(
            primitive, stage, "an input of the program has no loops", None,
            "cache_read makes a copy that has",
        )  # fmt: skip


def leaf_position(primitive: str, stage: Stage, axis: Any) -> int:
    """Return the position of a loop among the leaves."""
    if not isinstance(axis, IterVar):
        raise refuse(primitive, stage, f"a loop of the stage is needed, got {axis!r}")
    found = position(stage.leaf_iter_vars, axis)
    if found is None:
        raise refuse(primitive, stage, f"{describe(axis)} is not a loop of the stage", axis)
    return found


def loop_size(primitive: str, stage: Stage, axis: IterVar, given: Any) -> PrimExpr:
    """Return the number of iterations that a user gives for a part of a loop."""
    size = convert(given)
    if not isinstance(size, PrimExpr) or not size.dtype.is_integer:
        raise refuse(primitive, stage, f"a number of iterations is an integer, got {given!r}")
    if isinstance(size, IntImm):
        if size.value < 1:
            raise refuse(primitive, stage, f"{size.value} iterations are not possible", axis)
        return IntImm(axis.var.dtype, size.value)
    return size
