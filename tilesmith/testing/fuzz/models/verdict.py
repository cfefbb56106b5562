"""Says what came of a case, and names failures so that equal ones meet."""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path
from typing import Any

from tilesmith.support.errors import InternalError, TilesmithError

__all__ = ["FAILURES", "OUTCOMES", "failure", "judge", "of_signal", "stack_frame"]

FAILURES = ("crash", "hang", "memory", "untyped", "vague", "differs", "refused", "broken")
"""Outcomes that are findings: the process dies; it does not end; it takes all memory that it may
have; it raises what is no error of ours; an error of ours is only a wrapped one of Python; the
result is not onnxruntime's; a model that is valid is refused; the fuzzer itself failed."""
OUTCOMES = ("ok", "same", "typed", *FAILURES)
"""``same``: onnxruntime computes the same; ``typed``: an error of ours."""

_PYTHON = re.compile(
    r"\b(KeyError|IndexError|AttributeError|TypeError|ValueError|ZeroDivisionError|OverflowError"
    r"|AssertionError|RecursionError|StopIteration|UnicodeDecodeError|UFuncTypeError|AxisError"
    r"|FloatingPointError)\b: "
)
_PYTHON_FILES = Path(sysconfig.get_path("stdlib"))
_NO_MEMORY = ("bad_alloc", "out of memory", "Cannot allocate memory", "MemoryError")


def failure(outcome: str, signature: str, phase: str, detail: str = "") -> dict[str, Any]:
    """Return the record of a finding."""
    return {
        "outcome": outcome, "phase": phase, "detail": detail,
        "signature": f"{outcome} at {phase}: {' '.join(signature.split())[:300]}",
    }  # fmt: skip


def judge(error: BaseException, phase: str) -> dict[str, Any]:
    """Return what an error means: ours and clear, ours and vague, or not ours."""
    shown = "".join(traceback.format_exception(error))[-6000:]
    name = type(error).__name__
    if isinstance(error, TilesmithError) and not isinstance(error, InternalError):
        cause = _foreign_cause(error)
        if cause is not None and _PYTHON.search(error.message):
            place = f"{type(cause).__name__} in {stack_frame(cause)}"
            return failure("vague", place, phase, shown)
        if not error.message.strip():
            return failure("vague", f"{name} without a message in {stack_frame(error)}", phase)
        return {"outcome": "typed", "phase": phase, "error": name, "message": str(error)[:500]}
    if isinstance(error, MemoryError):
        return failure("memory", f"{name} in {stack_frame(error)}", phase, shown)
    return failure("untyped", f"{name} in {stack_frame(error)}", phase, shown)


def _foreign_cause(error: BaseException) -> BaseException | None:
    """Return the error of Python, if any, that one of ours was raised from."""
    found = error.__cause__
    while found is not None:
        if not isinstance(found, TilesmithError):
            return found
        found = found.__cause__
    return None


def _is_ours(path: Path) -> bool:
    """Return whether a file belongs neither to Python nor to an installed package."""
    return (
        path.is_absolute()
        and _PYTHON_FILES not in path.parents
        and not ({"site-packages", "dist-packages"} & set(path.parts))
    )


def stack_frame(error: BaseException) -> str:
    """Return the innermost frame of ours: file and function."""
    found = "unknown"
    for frame, _ in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if _is_ours(path):
            found = f"{'/'.join(path.parts[-3:])} {frame.f_code.co_qualname}"
    return found


_DUMPED = re.compile(r'File "([^"]+)", line \d+ in (\S+)')


def of_signal(signal: str, phase: str, output: str) -> dict[str, Any]:
    """Return the finding about a process that died or was ended; ``output`` is what it wrote,
    with the Python stack that faulthandler adds.
    """
    ours = [
        f"{'/'.join(Path(file).parts[-3:])} {function}"
        for file, function in _DUMPED.findall(output)
        if _is_ours(Path(file))
    ]
    place = ours[0] if ours else "unknown"
    kind = "hang" if signal == "time" else "crash"
    if any(word in output for word in _NO_MEMORY):
        kind = "memory"
    return failure(kind, f"{signal} in {place}", phase, output[-6000:])
