"""Errors of schedule primitives: they show the loop nest and mark the culprit."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Node
from tilesmith.support.errors import ScheduleError

__all__ = ["ScheduleError", "refuse"]


def refuse(
    primitive: str, reason: str, function: Any = None, culprit: Node | None = None, advice: str = ""
) -> ScheduleError:
    """The error of a primitive that cannot be applied: the program, ``culprit`` marked."""
    notes = []
    if function is not None:
        notes.append(_program(function, culprit))
    if advice:
        notes.append(advice)
    return ScheduleError(f"{primitive}: {reason}", notes=tuple(notes))


def _program(function: Any, culprit: Node | None) -> str:
    from tilesmith.ir import printing

    try:
        return "the program now:\n" + printing.excerpt(function, culprit)
    except Exception as error:  # a broken program must not hide the reason of the refusal
        return f"(the program cannot be printed: {error})"
