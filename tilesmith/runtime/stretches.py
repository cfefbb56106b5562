"""Measures profiled regions of compiled code, which the pass `tir.instrument_lwp` marks.

With that option functions and loops begin with a call of `start_profile` and end with one of
`end_profile`, each with the number of the region. `profiled_stretches()` returns the measurements.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from tilesmith.runtime.registry import register_func

__all__ = ["Stretch", "profiled_stretches"]


@dataclass(frozen=True)
class Stretch:
    """How often a profiled region ran, and how many seconds all runs took together."""

    count: int
    seconds: float


_open = threading.local()
_totals: dict[int, tuple[int, int]] = {}
_lock = threading.Lock()


@register_func("tilesmith.runtime.start_profile", override=True)
def start_profile(number: int) -> None:
    """Note that a profiled region begins in this thread."""
    if not hasattr(_open, "stack"):
        _open.stack = []
    _open.stack.append((number, time.perf_counter_ns()))


@register_func("tilesmith.runtime.end_profile", override=True)
def end_profile(number: int) -> None:
    """Note that a profiled region ends; regions inside it that an error has left are discarded."""
    now, stack = time.perf_counter_ns(), getattr(_open, "stack", [])
    while stack:
        started, since = stack.pop()
        if started == number:
            with _lock:
                count, total = _totals.get(number, (0, 0))
                _totals[number] = (count + 1, total + now - since)
            return


def profiled_stretches(reset: bool = False) -> dict[int, Stretch]:
    """Return the measurements by number of the region (as `InstrumentProfileIntrinsics` numbers
    them) since the beginning, or since the last call with ``reset``.
    """
    with _lock:
        found = {number: Stretch(count, ns * 1e-9) for number, (count, ns) in _totals.items()}
        if reset:
            _totals.clear()
    return dict(sorted(found.items()))
