"""Carries primitives out with all checks on, and compares programs and results."""

import pytest

from tests.tir.transform.harness import assert_same_results
from tilesmith import ir, tir
from tilesmith.ir import IRModule, assert_structural_equal
from tilesmith.script import tir as T
from tilesmith.testing.schedules import verify_trace_roundtrip
from tilesmith.tir.schedule import ScheduleError


def schedule_of(program, **options):
    """A schedule that verifies the program after every step."""
    return tir.Schedule(program, debug_mask="all", **options)


def main_of(sch):
    (function,) = sch.mod.functions.values()
    return function


def check(program, steps, expected=None, sizes=None):
    """``steps(sch)`` gives the expected program and keeps its results; so does the trace."""
    sch = schedule_of(program, seed=0)
    steps(sch)
    result = main_of(sch)
    if expected is not None:
        assert_structural_equal(result, expected.with_attr(program.attrs))
    assert_same_results(program, result, sizes)
    replay = schedule_of(program)
    sch.trace.apply_to_schedule(replay, remove_postproc=False)
    assert_structural_equal(main_of(replay), result)
    verify_trace_roundtrip(sch, program)
    simple = schedule_of(program)
    sch.trace.simplified(False).apply_to_schedule(simple, remove_postproc=False)
    assert_structural_equal(main_of(simple), result)
    return sch


def run_text(text, sch):
    """Carry out a trace that was printed."""
    names = {"ir": ir, "tir": tir, "T": T, "IndexMap": tir.IndexMap}  # what the text imports
    exec(text, names)
    names["apply_trace"](sch)


def refused(program, steps, *texts, marked=None):
    """``steps(sch)`` is refused: the culprit named, the program shown, nothing changed."""
    sch = schedule_of(program, seed=0)
    before = None

    with pytest.raises(ScheduleError) as error:
        for step in steps if isinstance(steps, (list, tuple)) else [steps]:
            before = sch.mod
            step(sch)
    message = str(error.value)
    for text in texts:
        assert text in message, message
    if marked is not None:
        assert_marked(message, marked)
    if isinstance(before, IRModule):
        assert_structural_equal(sch.mod, before)
    return message


def assert_marked(message, text):
    """The line of the program that holds ``text`` is underlined."""
    lines = message.splitlines()
    for line, below in zip(lines, lines[1:]):
        if text in line and below.strip() and set(below.strip()) <= {"^"}:
            return
    raise AssertionError(f"no marker under {text!r} in\n{message}")
