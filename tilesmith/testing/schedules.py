"""Helps to test schedules: their traces have to say everything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tilesmith import ir, tir
from tilesmith.ir import IRModule, assert_structural_equal
from tilesmith.script import tir as script
from tilesmith.support.errors import UnknownNameError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule import Schedule, Trace

__all__ = ["assert_structural_equal_ignore_global_symbol", "verify_trace_roundtrip"]


def assert_structural_equal_ignore_global_symbol(
    func1: PrimFunc, func2: PrimFunc, *args: Any, **kwargs: Any
) -> None:
    """Raise ValueError unless two functions are equal but for their ``global_symbol``.

    Further arguments are those of ``assert_structural_equal``.
    """
    first, second = (one.without_attr("global_symbol") for one in (func1, func2))
    assert_structural_equal(first, second, *args, **kwargs)


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc | IRModule,
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """Carry out the trace of a schedule anew on the program that it began with, once from each
    text, and return the last schedule made so.

    ``text_format`` names the texts: "python", "json", or several. Raises ValueError if a result
    differs from the schedule's program, UnknownNameError for another format.
    """
    formats = [text_format] if isinstance(text_format, str) else list(text_format)
    for name in formats:
        if name not in _REPLAYS:
            raise UnknownNameError(f"text_format is 'python' or 'json', got '{name}'")
    assert sch.trace is not None
    made = sch
    for name in formats:
        made = Schedule(mod, debug_mask=debug_mask)
        _REPLAYS[name](sch.trace, made)
        assert_structural_equal(made.mod, sch.mod)
    return made


def _replay_python(trace: Trace, sch: Schedule) -> None:
    """Run the text of a trace, which was made here and comes from no file."""
    names: dict[str, Any] = {"ir": ir, "tir": tir, "T": script, "IndexMap": tir.IndexMap}
    exec(str(trace), names)
    names["apply_trace"](sch)


def _replay_json(trace: Trace, sch: Schedule) -> None:
    Trace.apply_json_to_schedule(json.dumps(trace.as_json()), sch)


_REPLAYS = {"python": _replay_python, "json": _replay_json}
