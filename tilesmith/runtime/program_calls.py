"""What programs of steps (`runtime.program`) do beside values: jumps, and calls that are observed.

    {"do": "goto", "by": -3}                             continue elsewhere, counted from this step
    {"do": "branch", "condition": VALUE, "by": 2}        the same unless the condition holds
    {"do": "return", "value": VALUE}                     end the function

A virtual machine with an instrument lets it observe the calls of registered functions, functions
of the model, and native parts: ``instrument(function, name, before_run, result, *arguments)``,
which is called before and after each, and may ask to leave the call out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from enum import IntEnum
from typing import Any

from tilesmith.support.errors import ExecutionError, UnsupportedError

__all__ = ["INSTRUMENT", "JUMPS", "SKIPPED", "VMInstrumentReturnKind", "observed", "symbol_of"]

INSTRUMENT: ContextVar[Callable[..., Any] | None] = ContextVar("instrument", default=None)
"""The instrument of the virtual machine that runs in this thread."""

SKIPPED: Any = object()
"""Stands for the result of a call that was left out."""


class VMInstrumentReturnKind(IntEnum):
    """What an instrument of a virtual machine may return."""

    NO_OP = 0
    SKIP_RUN = 1


def symbol_of(callee: Mapping[str, Any]) -> str:
    """Return the name of a function that a step calls, "" if it is a value of the program."""
    return str(callee.get("registered") or callee.get("function") or "")


def observed(
    symbol: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    is_part: bool = False,
) -> Any:
    """Call a function, and show the call to the instrument if there is one. The results of a native
    part are shown behind its arguments.
    """
    instrument = INSTRUMENT.get()
    if instrument is None:
        return function(*arguments)
    answer = instrument(function, symbol, True, None, *arguments)
    if answer is not None and int(answer) == VMInstrumentReturnKind.SKIP_RUN:
        if is_part:
            raise UnsupportedError(
                f"the call of '{symbol}' cannot be left out: nothing else makes its results",
                notes=("an instrument may skip calls of registered functions",),
            )
        return SKIPPED
    result = function(*arguments)
    if is_part:
        results = result if isinstance(result, (tuple, list)) else (result,)
        instrument(function, symbol, False, None, *arguments, *results)
    else:
        instrument(function, symbol, False, result, *arguments)
    return result


def _target(frame: Any, place: int) -> int:
    if not 0 <= place < len(frame.code):
        raise ExecutionError(f"the program jumps to {place}; it has {len(frame.code)} steps")
    return place


def _goto(reader: Any, step: Mapping[str, Any], at: int) -> Callable[[Any], None]:
    place = at + int(step["by"])

    def run(frame: Any) -> None:
        frame.place = _target(frame, place)

    return run


def _branch(reader: Any, step: Mapping[str, Any], at: int) -> Callable[[Any], None]:
    place, condition = at + int(step["by"]), reader.value(step["condition"])

    def run(frame: Any) -> None:
        value = condition(frame)
        holds = bool(value.numpy().all()) if hasattr(value, "numpy") else bool(value)
        if not holds:
            frame.place = _target(frame, place)

    return run


def _return(reader: Any, step: Mapping[str, Any], at: int) -> Callable[[Any], bool]:
    value = reader.value(step["value"])

    def run(frame: Any) -> bool:
        frame.result = value(frame)
        return True

    return run


JUMPS: dict[str, Callable[[Any, Mapping[str, Any], int], Callable[[Any], Any]]] = {
    "goto": _goto,
    "branch": _branch,
    "return": _return,
}
"""Steps that continue elsewhere, by their names; the last argument is where the step stands."""
