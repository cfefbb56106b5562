"""Turns what contests found into records for files and into tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.processes import Contest
from tilesmith.inspect.timing import Timing, format_seconds, ratio

OURS = "tilesmith"


def record(contest: Contest, flops: float = 0.0, traffic: float = 0.0) -> dict[str, Any]:
    """Return the figures of one contest for a file, in milliseconds. `times_as_fast`: how many
    times as long a rival takes; `best`: the fastest rival.
    """
    ours = contest.timings.get(OURS)
    rivals = {name: one for name, one in contest.timings.items() if name != OURS}
    found: dict[str, Any] = {
        "latency": {name: timing.as_json() for name, timing in contest.timings.items()},
        "times_as_fast": {name: ratio(one, ours) for name, one in rivals.items()} if ours else {},
        "prepare_seconds": contest.seconds,
        "largest_error": contest.errors,
        "failures": contest.failures,
        "not_offered": contest.not_offered,
    }
    if ours and rivals:
        best = min(rivals, key=lambda name: rivals[name].median)
        found["best"] = {"name": best, "times_as_fast": found["times_as_fast"][best]}
    if contest.peak:
        found["peak_gflops"] = contest.peak / 1e9
    if ours and flops:
        found["gflops"] = flops / ours.median / 1e9
    if ours and traffic:
        found["gigabytes_per_second"] = traffic / ours.median / 1e9
    return found


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean; NaN of nothing."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else math.nan


def means(records: Mapping[str, dict[str, Any]]) -> dict[str, float]:
    """Return the geometric means of `times_as_fast` by rival, and of the best rivals as "best"."""
    factors: dict[str, list[float]] = {}
    for one in records.values():
        for rival, factor in one.get("times_as_fast", {}).items():
            factors.setdefault(rival, []).append(factor)
        if "best" in one:
            factors.setdefault("best", []).append(one["best"]["times_as_fast"])
    return {rival: geometric_mean(values) for rival, values in factors.items()}


def latency(figures: Mapping[str, float]) -> str:
    """Return the median, and half the distance from the 10th to the 90th percentile."""
    spread = (figures["p90_ms"] - figures["p10_ms"]) / 2 / figures["median_ms"]
    return f"{format_seconds(figures['median_ms'] / 1e3)} ±{spread:.0%}"


def latency_of(timing: Timing) -> str:
    """Return what `latency` says of a timing."""
    return latency(timing.as_json())


def rate(one: Mapping[str, Any]) -> str:
    """Return our speed, and its share of the peak that was measured in the same run."""
    if "gflops" in one:
        share = f", {one['gflops'] / one['peak_gflops']:.0%}" if one.get("peak_gflops") else ""
        return f"{one['gflops']:.0f} GFLOP/s{share}"
    speed = one.get("gigabytes_per_second")
    return "-" if speed is None else f"{speed:.1f} GB/s"


def headings(contestants: Sequence[str], last: Sequence[str] = ()) -> list[str]:
    """Return the headings for `row`."""
    rivals = [name for name in contestants if name != OURS]
    shown = [OURS] if OURS in contestants else []
    return ["", *shown, *rivals, "× best", "error", *last]


def row(name: str, one: Mapping[str, Any], contestants: Sequence[str], *last: str) -> list[str]:
    """Return one line of a table: latencies, with how many times as long each rival takes."""
    cells = [name]
    rivals = [each for each in contestants if each != OURS]
    for contestant in ([OURS] if OURS in contestants else []) + rivals:
        figures = one["latency"].get(contestant)
        factor = one["times_as_fast"].get(contestant)
        if figures is None:
            cells.append("failed" if contestant in one["failures"] else "-")
        else:
            cells.append(latency(figures) + (f" ×{factor:.2f}" if factor else ""))
    cells.append(f"{one['best']['times_as_fast']:.2f}" if "best" in one else "-")
    error = one["largest_error"].get(OURS)
    cells.append("-" if error is None else f"{error:.1e}")
    return [*cells, *last]


def row_of_means(
    records: Mapping[str, dict[str, Any]], contestants: Sequence[str], *last: str
) -> list[str]:
    """Return the line with the geometric means of all others."""
    found = means(records)
    rivals = [name for name in contestants if name != OURS]
    cells = [f"×{found[name]:.2f}" if name in found else "-" for name in rivals]
    mean = f"{found['best']:.2f}" if "best" in found else "-"
    ours = [""] if OURS in contestants else []
    return ["geometric mean", *ours, *cells, mean, "", *last]


def failures(records: Mapping[str, dict[str, Any]]) -> list[str]:
    """Return which contestants could not run, and why, a line each; what a rival never offers is
    left out.
    """
    lines = []
    for name, one in records.items():
        for contestant, message in one["failures"].items():
            first = message.splitlines()[0] if message else "no message"
            lines.append(f"{name}: {contestant} failed: {first}")
        if OURS in one.get("not_offered", {}):
            lines.append(f"{name}: {OURS} takes no part: {one['not_offered'][OURS]}")
    return lines
