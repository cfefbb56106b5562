"""Finds the line of the user's program that called Tilesmith, for errors that have no other
position, and says which stack frames are Tilesmith's own.
"""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType, FrameType

__all__ = [
    "CallerPlace",
    "frame_of_caller",
    "is_installed",
    "is_internal",
    "is_standard",
    "place_of_caller",
]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = (os.path.dirname(os.path.abspath(os.__file__)) + os.sep, "<frozen ")


class CallerPlace:
    """A call in the user's program, and the module of Tilesmith that it calls. Its columns are
    looked up only when it is shown.
    """

    __slots__ = ("called", "code", "instruction", "line")

    def __init__(self, frame: FrameType, called: str = "") -> None:
        self.code: CodeType = frame.f_code
        self.instruction = frame.f_lasti
        self.line = frame.f_lineno
        self.called = called

    @property
    def file(self) -> str:
        """The name of the file, cell or prompt."""
        return self.code.co_filename

    def columns(self) -> tuple[int, int] | None:
        """First and last column (from 1, the last exclusive) of the call, or of what its first
        line holds of it; None if Python does not know.
        """
        positions = list(self.code.co_positions())[self.instruction // 2]
        line, end_line, column, end_column = positions
        if line is None or line != self.line or column is None or end_column is None:
            return None
        written = linecache.getline(self.file, line).rstrip().encode()
        if line != end_line:
            end_column = len(written)
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
    """Return the innermost stack frame that belongs neither to Tilesmith nor to Python's library,
    which runs our context managers and threads.
    """
    return _caller(sys._getframe(1))[0]


def _caller(frame: FrameType | None) -> tuple[FrameType | None, str]:
    """Return the frame of the user's program around a frame, and the module that it calls."""
    called = ""
    while frame is not None:
        if is_internal(frame):
            called = str(frame.f_globals.get("__name__", ""))
        elif not is_standard(frame):
            break
        frame = frame.f_back
    return frame, called


def is_internal(frame: FrameType) -> bool:
    """Return whether a stack frame belongs to Tilesmith."""
    if str(frame.f_globals.get("__name__", "")).startswith("tilesmith."):
        return True
    # `python -m tilesmith` is "__main__"; code that is generated for nodes has a name in brackets
    return frame.f_code.co_filename.startswith((_PACKAGE, "<tilesmith."))


def is_standard(frame: FrameType) -> bool:
    """Return whether a stack frame belongs to Python's own library (not to installed packages)."""
    return frame.f_code.co_filename.startswith(_STANDARD) and not is_installed(frame.f_code)


def is_installed(code: CodeType) -> bool:
    """Return whether code belongs to an installed package."""
    return "-packages" + os.sep in code.co_filename  # site-packages, Debian's dist-packages


def place_of_caller() -> CallerPlace | None:
    """Return the position of the user's program that is being executed, or None."""
    frame, called = _caller(sys._getframe(1))
    return None if frame is None else CallerPlace(frame, called)
