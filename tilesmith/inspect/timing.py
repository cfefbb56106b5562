"""Compares the speed of functions on a machine that is never quiet.

Contestants run in turns (A B A B …), each sample being a few calls in a row, so that a slow phase
of the machine hits all of them. What is compared is the ratio within a round, and its median over
the rounds.

    timings = interleave({"ours": lambda: exe(x), "theirs": lambda: session.run(None, feed)})
    timings["ours"].median, ratio(timings["theirs"], timings["ours"])
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


def quantile(values: list[float] | tuple[float, ...], fraction: float) -> float:
    """Return the value below which `fraction` of `values` lie, interpolated."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


@dataclass(frozen=True)
class Timing:
    """Seconds per call of one contestant, one sample per round."""

    name: str
    samples: tuple[float, ...]
    calls: tuple[float, ...] = ()
    """Seconds of every single call, where they were asked for."""

    def percentile(self, percent: float) -> float:
        """Return the seconds that `percent` of the calls (else of the samples) do not exceed."""
        return quantile(self.calls or self.samples, percent / 100)

    @property
    def median(self) -> float:
        """Seconds per call."""
        return quantile(self.samples, 0.5)

    @property
    def low(self) -> float:
        """The 10th percentile."""
        return quantile(self.samples, 0.1)

    @property
    def high(self) -> float:
        """The 90th percentile."""
        return quantile(self.samples, 0.9)

    def as_json(self) -> dict[str, Any]:
        """Return figures for a script, in milliseconds."""
        return {
            "median_ms": self.median * 1e3,
            "p10_ms": self.low * 1e3,
            "p90_ms": self.high * 1e3,
            "samples": len(self.samples),
        }


def ratio(a: Timing, b: Timing) -> float:
    """Return how many times as long `a` takes as `b`: the median of the ratios within a round."""
    return quantile([x / y for x, y in zip(a.samples, b.samples, strict=True)], 0.5)


_SPINNING_ENDS = 0.06  # in seconds; libgomp's threads sleep after 12 ms, onnxruntime's after 40
_UNTIMED_CALLS = 4


def pause_for(threads: int) -> float:
    """Return the seconds after which the idle threads of a contestant that has `threads` of them
    sleep, and leave their processors to the next one.
    """
    return _SPINNING_ENDS if threads > 1 else 0.0


def interleave(
    contestants: Mapping[str, Callable[[], Any]],
    rounds: int = 20,
    sample_seconds: float = 0.02,
    warm_up: int = 2,
    progress: Callable[[int, int], None] | None = None,
    each_call: bool = False,
    pause_seconds: float = 0.0,
) -> dict[str, Timing]:
    """Time each contestant in `rounds` rounds; `progress(done, rounds)` is called after each.

    A sample is as many calls as fit into `sample_seconds`, at least one. The first calls after a
    change of contestant are not timed: they pay for caches and for threads that wake up. The order
    changes from round to round. `each_call` also keeps the time of every single call, which adds a
    tenth of a microsecond to each. `pause_seconds`: how long to sleep before the change, for
    contestants whose idle threads go on spinning and keep the next one from its processors
    (`pause_for(threads)`).
    """
    calls = {name: _calls_per_sample(run, sample_seconds, warm_up)
             for name, run in contestants.items()}  # fmt: skip
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    singles: dict[str, list[float]] = {name: [] for name in contestants}
    order = list(contestants)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for index in range(rounds):
            for name in order if index % 2 == 0 else reversed(order):
                run = contestants[name]
                time.sleep(pause_seconds)
                for _ in range(min(calls[name], _UNTIMED_CALLS)):
                    run()
                if each_call:
                    times = [_seconds_of(run) for _ in range(calls[name])]
                    singles[name] += times
                    samples[name].append(sum(times) / len(times))
                    continue
                start = time.perf_counter()
                for _ in range(calls[name]):
                    run()
                samples[name].append((time.perf_counter() - start) / calls[name])
            if progress is not None:
                progress(index + 1, rounds)
    finally:
        if collecting:
            gc.enable()
    return {
        name: Timing(name, tuple(values), tuple(singles[name])) for name, values in samples.items()
    }


def _seconds_of(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _calls_per_sample(run: Callable[[], Any], sample_seconds: float, warm_up: int) -> int:
    run()
    fastest = float("inf")
    for _ in range(max(1, warm_up)):
        start = time.perf_counter()
        run()
        fastest = min(fastest, time.perf_counter() - start)
    return max(1, min(10_000, round(sample_seconds / max(fastest, 1e-7))))


def format_seconds(seconds: float) -> str:
    """Format three significant digits with the unit that fits: `1.23 ms`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
