"""Sends errors to the other side, where they become errors of the same class again."""

from __future__ import annotations

import builtins
import traceback
from typing import Any

from tilesmith.runtime.ffi import KINDS
from tilesmith.support.errors import (
    RPCError,
    TilesmithError,
    UnsupportedError,
    format_span,
)

__all__ = ["describe_fault", "rebuild_fault"]

_BUILTIN = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, (UnicodeError, Warning, StopIteration, StopAsyncIteration))
}
_LONGEST = 1 << 20
_FRAMES = 12  # how much of the remote traceback is shown where the error is not one of ours


def describe_fault(error: BaseException) -> dict[str, Any]:
    """Return an error as a value of the protocol."""
    if isinstance(error, TilesmithError):
        place = [] if error.span is None else [format_span(error.span)]
        notes = [_text(note) for note in (*place, *error.notes)]
        return {"kind": type(error).__name__, "message": _text(error.message), "notes": notes}
    frames = traceback.format_tb(error.__traceback__)[-_FRAMES:]
    name = type(error).__name__
    # of an error that crossed native code only a name is left, which has the module in front
    return {
        "kind": name.rpartition(".")[2],
        "message": _text(error),
        "trace": _text("".join(frames)),
    }


def _text(value: object) -> str:
    """Return a text that can be sent: neither endless nor with broken characters."""
    return str(value)[:_LONGEST].encode("utf-8", "backslashreplace").decode()


def rebuild_fault(described: Any, where: str) -> Exception:
    """Return the error of the other side: of the same class if that is ours or Python's own, else
    an RPCError.
    """
    if not isinstance(described, dict) or not isinstance(described.get("kind"), str):
        return RPCError(f"{where} answered with an error that cannot be read")
    kind, message = described["kind"], str(described.get("message", ""))
    notes = described.get("notes", ())
    given = [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []
    place = f"it was raised at {where}"
    if kind in KINDS:
        error = KINDS[kind].__new__(KINDS[kind])
        TilesmithError.__init__(error, message, None, [*given, place])
        return error
    if kind == "MissingDependencyError":
        return UnsupportedError(f"{where} lacks a package: {message}", notes=given)
    if kind in _BUILTIN:
        raised: Exception = _BUILTIN[kind](message)
        raised.__notes__ = [place]
        return raised
    trace = str(described.get("trace", ""))
    return RPCError(f"{kind}: {message}", notes=[place, *trace.splitlines()[-_FRAMES:]])
