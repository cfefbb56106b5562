"""Sums up a compilation: what was counted, and how long each phase took.

    with collect_summary() as summary:
        tilesmith.compile("model.onnx")
    summary.counts["kernels"], summary.seconds["compiling kernels"]

The compiler marks its phases with `phase` and counts with `count`; without a listener in this
thread both do nothing. ``collect_summary(steps=True)`` also asks for the steps inside of the
phases, which the compiler marks with `step`; those of workers count, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Summary", "collect_summary", "count", "phase", "spend", "step", "wants_steps"]


@dataclass
class Summary:
    """What was counted by its name; the seconds of each phase, in the order of their begin, and of
    each step inside of phases, of all processes together.
    """

    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)
    wants_steps: bool = False


class _Listeners(threading.local):
    def __init__(self) -> None:
        self.summaries: list[Summary] = []


_listeners = _Listeners()


@contextmanager
def collect_summary(steps: bool = False) -> Iterator[Summary]:
    """Collect what this thread reports within a `with` block."""
    summary = Summary(wants_steps=steps)
    _listeners.summaries.append(summary)
    try:
        yield summary
    finally:
        _listeners.summaries.pop()


def count(name: str, number: int) -> None:
    """Add to a count."""
    for summary in _listeners.summaries:
        summary.counts[name] = summary.counts.get(name, 0) + number


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Attribute the time of a `with` block to a phase. Phases are not nested."""
    for summary in _listeners.summaries:
        summary.seconds.setdefault(name, 0.0)
    start = time.perf_counter()
    try:
        yield
    finally:
        for summary in _listeners.summaries:
            summary.seconds[name] += time.perf_counter() - start


def wants_steps() -> bool:
    """Return whether anybody asked for the times of steps."""
    return any(summary.wants_steps for summary in _listeners.summaries)


def spend(seconds: Mapping[str, float]) -> None:
    """Add the seconds that steps took."""
    for summary in _listeners.summaries:
        for name, more in seconds.items():
            summary.steps[name] = summary.steps.get(name, 0.0) + more


@contextmanager
def step(name: str) -> Iterator[None]:
    """Attribute the time of a `with` block to a step of a phase. Steps are not nested."""
    start = time.perf_counter()
    try:
        yield
    finally:
        if wants_steps():
            spend({name: time.perf_counter() - start})
