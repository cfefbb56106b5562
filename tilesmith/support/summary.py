"""Sums up a compilation: what was counted, and how long each phase took.

    with collect_summary() as summary:
        tilesmith.compile("model.onnx")
    summary.counts["kernels"], summary.seconds["compiling kernels"]

The compiler marks its phases with `phase` and counts with `count`; without a listener in this
thread both do nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Summary", "collect_summary", "count", "phase"]


@dataclass
class Summary:
    """What was counted by its name, and the seconds of each phase in the order of their begin."""

    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


class _Listeners(threading.local):
    def __init__(self) -> None:
        self.summaries: list[Summary] = []


_listeners = _Listeners()


@contextmanager
def collect_summary() -> Iterator[Summary]:
    """Collect what this thread reports within a `with` block."""
    summary = Summary()
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
