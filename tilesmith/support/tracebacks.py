"""Hides Tilesmith's own stack frames where a traceback of one of its errors is displayed.

    Traceback (most recent call last):
      File "model.py", line 4, in <module>
        te.compute((8,), lambda i, j: A[i])
    tilesmith.support.errors.ShapeError: fcompute takes 2 indices, the shape has 1 dimension

The error itself keeps its whole traceback, for debuggers and logs. Frames of the user and of other
packages are always shown, and so is everything with `TILESMITH_TRACEBACK=full`. The display is
changed when the first error is made: Python's `sys.excepthook`, and IPython's handler of errors.
pytest leaves frames out whose module says `__tracebackhide__`: the modules that an error passes
through get it when the error is made.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, TypeAlias

from tilesmith.support.caller import is_internal, is_standard

Parts: TypeAlias = tuple[
    BaseException, TracebackType | None, BaseException | None, BaseException | None, bool
]

__all__ = ["shorten_tracebacks", "shortened", "user_frames"]

_installed_for: type[BaseException] | None = None
hides_from_pytest = True
"""Tilesmith's own tests show all frames."""


def shorten_tracebacks(kind: type[BaseException]) -> None:
    """Display the errors of a class without internal frames from now on."""
    global _installed_for
    if hides_from_pytest and "_pytest" in sys.modules:
        _mark_for_pytest()
    if _installed_for is None:
        _installed_for = kind
        _change_python(kind)
        _change_ipython(kind)


def user_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of Tilesmith and those of Python's library that they
    call.
    """
    kept = []
    inside = False
    while traceback is not None:
        frame = traceback.tb_frame
        inside = is_internal(frame) or (inside and is_standard(frame))
        if not inside:
            kept.append(traceback)
        traceback = traceback.tb_next
    result = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


@contextmanager
def shortened(error: BaseException) -> Iterator[BaseException]:
    """Give an error, and those that led to it, short tracebacks within a `with` block. An error
    that led to it and never left Tilesmith is not shown.
    """
    saved: list[Parts] = []
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        cause, context, hidden = one.__cause__, one.__context__, one.__suppress_context__
        saved.append((one, one.__traceback__, cause, context, hidden))
        waiting += [cause, context]
    changed = [
        (one, user_frames(traceback), _from_outside(cause), _from_outside(context), hidden)
        for one, traceback, cause, context, hidden in saved
    ]
    try:
        _assign(changed)
        yield error
    finally:
        _assign(saved)


def _assign(parts: list[Parts]) -> None:
    for one, traceback, cause, context, hidden in parts:
        one.__traceback__, one.__cause__, one.__context__ = traceback, cause, context
        one.__suppress_context__ = hidden  # after the cause, which sets it


def _from_outside(error: BaseException | None) -> BaseException | None:
    """Return an error, unless all that it went through was Tilesmith."""
    if error is None or error.__traceback__ is None:
        return error
    return error if user_frames(error.__traceback__) is not None else None


def _is_full() -> bool:
    # Not through the table of knobs, which stands on this file.
    return os.environ.get("TILESMITH_TRACEBACK") == "full"


def _mark_for_pytest() -> None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if is_internal(frame):
            frame.f_globals.setdefault("__tracebackhide__", _is_hidden_from_pytest)
        frame = frame.f_back


def _is_hidden_from_pytest(caught: Any) -> bool:
    """Return whether pytest leaves out a frame of Tilesmith, by its record of the error."""
    of_ours = _installed_for is not None and isinstance(
        getattr(caught, "value", None), _installed_for
    )
    return of_ours and not _is_full()


def _change_python(kind: type[BaseException]) -> None:
    previous = sys.excepthook

    def display(
        of: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, kind) or _is_full():
            previous(of, error, traceback)
            return
        with shortened(error):
            previous(of, error, error.__traceback__)

    sys.excepthook = display


def _change_ipython(kind: type[BaseException]) -> None:
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is None or shell.custom_exceptions:  # the user has a handler of their own
        return

    def display(
        shell: Any, of: type, error: BaseException, traceback: Any, tb_offset: int | None = None
    ) -> None:
        if _is_full():
            shell.showtraceback((of, error, traceback), tb_offset=tb_offset)
            return
        with shortened(error):
            shell.showtraceback((of, error, error.__traceback__), tb_offset=tb_offset)

    shell.set_custom_exc((kind,), display)
