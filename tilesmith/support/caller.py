"""Finds the line of the user's program that called Tilesmith, for errors that have no other
position.
"""

from __future__ import annotations

import linecache
import sys
from types import CodeType, FrameType

__all__ = ["CallerPlace", "called_by_user", "frame_of_caller", "place_of_caller"]


class CallerPlace:
    """A call in the user's program. Its columns are looked up only when it is shown."""

    __slots__ = ("code", "instruction", "line")

    def __init__(self, frame: FrameType) -> None:
        self.code: CodeType = frame.f_code
        self.instruction = frame.f_lasti
        self.line = frame.f_lineno

    @property
    def file(self) -> str:
        """The name of the file, cell or prompt."""
        return self.code.co_filename

    def columns(self) -> tuple[int, int] | None:
        """First and last column (from 1, the last exclusive) of the call, if it stands in one
        line.
        """
        positions = list(self.code.co_positions())[self.instruction // 2]
        line, end_line, column, end_column = positions
        if line is None or line != end_line or column is None or end_column is None:
            return None
        written = linecache.getline(self.file, line).encode()
        return len(written[:column].decode()) + 1, len(written[:end_column].decode()) + 1

    def format(self) -> str:
        """``file:line:column``, the source line, and a marker under the call."""
        columns = self.columns()
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if columns is None:
            return f"{self.file}:{self.line}" + (f"\n    {text}" if text.strip() else "")
        place = f"{self.file}:{self.line}:{columns[0]}"
        if not text:
            return place
        return f"{place}\n    {text}\n    {' ' * (columns[0] - 1)}{'^' * (columns[1] - columns[0])}"


def frame_of_caller() -> FrameType | None:
    """Return the innermost stack frame that does not belong to Tilesmith."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def called_by_user(depth: int = 2) -> bool:
    """Return whether the function that asks was called by the user's program, not by Tilesmith."""
    return not _is_ours(sys._getframe(depth))


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("tilesmith.")


def place_of_caller() -> CallerPlace | None:
    """Return the position in the innermost frame that does not belong to Tilesmith, or None."""
    frame = frame_of_caller()
    return None if frame is None else CallerPlace(frame)
