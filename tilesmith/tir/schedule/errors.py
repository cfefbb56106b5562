"""Defines refusals of primitives: the reason and the place; the schedule adds the name of the
primitive.
"""

from __future__ import annotations

from tilesmith.ir import Node
from tilesmith.support.errors import ScheduleError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule.cursor import Cursor, FunctionCursor

__all__ = ["Refusal", "ScheduleError", "refuse"]


class Refusal(ScheduleError):
    """A refusal inside a primitive, before the schedule turns it into the error for the user.

    The program is printed only then, so that trying primitives and catching refusals is cheap.
    """

    def __init__(
        self, reason: str, where: Cursor | FunctionCursor | None = None, advice: str = ""
    ) -> None:
        super().__init__(reason)
        self.advice = advice
        # Both are kept as they are now: until the door, a copy of the state may take its place.
        self.function = None if where is None else where.function
        self.culprit = where.node if isinstance(where, Cursor) else None

    def named(self, primitive: str) -> ScheduleError:
        """Return the error of a primitive: its name, the reason, the program with the culprit
        marked."""
        notes = []
        if self.function is not None:
            notes.append(_program(self.function, self.culprit))
        if self.advice:
            notes.append(self.advice)
        return ScheduleError(f"{primitive}: {self.message}", notes=tuple(notes))


def refuse(
    reason: str, where: Cursor | FunctionCursor | None = None, advice: str = ""
) -> ScheduleError:
    """Return the error to raise where a primitive cannot be applied.

    ``reason`` is shown after the primitive's name, ``where`` is marked in the program, ``advice``
    says what to do instead.
    """
    return Refusal(reason, where, advice)


def _program(function: PrimFunc, culprit: Node | None) -> str:
    from tilesmith.ir import printing

    try:
        return "the program now:\n" + printing.excerpt(function, culprit)
    except Exception as error:  # failing to print must not hide the refusal
        return f"(the program cannot be printed: {error})"
