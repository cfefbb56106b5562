"""The schedule that leaves loops as they are."""

from __future__ import annotations

from typing import Any

from tilesmith.te import Schedule
from tilesmith.topi.schedules.inlining import Policy, inline_where_useful
from tilesmith.topi.schedules.program import Program, made_schedule

__all__ = ["default_schedule"]

_ALWAYS = Policy(reused=float("inf"), padding=float("inf"), expensive=float("inf"))


def default_schedule(outs: Any, auto_inline: bool) -> Schedule:
    """Return a schedule whose loops are those of the axes; ``auto_inline`` writes elementwise
    stages where they are read, and fuses the loops of the first output.
    """
    made = made_schedule(outs)
    if auto_inline:
        program = Program(made)
        inline_where_useful(program, _ALWAYS)
        stage = made[made.outputs[0]]
        if len(getattr(stage.op, "axis", ())) > 1:
            stage.fuse(*stage.op.axis)
    return made
