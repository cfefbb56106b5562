"""How long marked stretches of compiled code take: what `tir.instrument_lwp` counts.

With that option functions and loops begin and end with a call of `start_profile` and `end_profile`,
with the number of the stretch. `profiled_stretches()` gives what has been counted.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from tilesmith.runtime.registry import register_func

__all__ = ["Stretch", "profiled_stretches"]


@dataclass(frozen=True)
class Stretch:
    """How often a marked stretch ran, and how many seconds that took, all together."""

    count: int
    seconds: float


_open = threading.local()
_totals: dict[int, tuple[int, int]] = {}
_lock = threading.Lock()


@register_func("tilesmith.runtime.start_profile", override=True)
def start_profile(number: int) -> None:
    """The stretch of a number begins in this thread."""
    if not hasattr(_open, "stack"):
        _open.stack = []
    _open.stack.append((number, time.perf_counter_ns()))


@register_func("tilesmith.runtime.end_profile", override=True)
def end_profile(number: int) -> None:
    """The stretch of a number ends; those within that an error has left are forgotten."""
    now, stack = time.perf_counter_ns(), getattr(_open, "stack", [])
    while stack:
        started, since = stack.pop()
        if started == number:
            with _lock:
                count, total = _totals.get(number, (0, 0))
                _totals[number] = (count + 1, total + now - since)
            return


def profiled_stretches(reset: bool = False) -> dict[int, Stretch]:
    """Number of a stretch (as `InstrumentProfileIntrinsics` gives them) → what was counted since
    the beginning, or since the last call with ``reset``."""
    with _lock:
        found = {number: Stretch(count, ns * 1e-9) for number, (count, ns) in _totals.items()}
        if reset:
            _totals.clear()
    return dict(sorted(found.items()))
