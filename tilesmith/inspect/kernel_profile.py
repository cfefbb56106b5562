"""Measures a model kernel by kernel, and compares each kernel with what the machine can do.

    report = executable.profile(x)
    print(report)                            # a row for each kernel, the longest first
    report.json(); report.chrome_trace()     # texts to save
    report.roofline()                        # a picture (SVG)

The kernels are those of the model, called by code that is compiled once more with marks around
them (`driver.observed`). The operations of a kernel are those of its tensor program as it was
before scheduling; its bytes are those of its operands, each counted once.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tilesmith.inspect.roofline.picture import Point, roofline_picture
from tilesmith.inspect.roofline.x86 import (
    estimate_peak_bandwidth_dram,
    estimate_peak_fma_vector_flops,
)
from tilesmith.runtime.devices import cpu
from tilesmith.runtime.executable import Executable
from tilesmith.runtime.observation import KernelObserver, ObservedKernel, Operands
from tilesmith.runtime.profiling import Count, Duration, Metric, Percent, Ratio, Report
from tilesmith.runtime.threads import num_threads
from tilesmith.support.errors import ConfigError, TilesmithError, UnsupportedError
from tilesmith.support.fallbacks import record_fallback

__all__ = ["KernelProfile", "profile"]


@dataclass
class _Site:
    """What was measured at one place that calls a kernel, in one run."""

    calls: int = 0
    seconds: float = 0.0
    operations: float = 0.0
    bytes: float = 0.0
    is_counted: bool = True
    shapes: dict[str, None] = field(default_factory=dict)


class _Stopwatch(KernelObserver):
    """Adds up the kernels of one run."""

    def __init__(self, kernels: Sequence[ObservedKernel], works: dict[Any, Any]) -> None:
        self.kernels = kernels
        self.works = works
        self.sites: dict[int, _Site] = {}
        self.events: list[tuple[int, float, float]] = []
        self.start = time.perf_counter()

    def ends(self, number: int, operands: Operands, seconds: float) -> None:
        """Add a call to its place."""
        now = time.perf_counter() - self.start
        site = self.sites.setdefault(number, _Site())
        shapes = operands.shapes
        key = (number, *shapes)
        if key not in self.works:
            self.works[key] = self.kernels[number].work(shapes)
        work = self.works[key]
        site.calls += 1
        site.seconds += seconds
        site.is_counted &= work is not None
        site.operations += work[0] if work else 0.0
        site.bytes += work[1] if work else 0.0
        site.shapes[", ".join([str(list(shape)) for shape in shapes])] = None
        self.events.append((number, now - seconds, seconds))


class KernelProfile(Report):
    """A report with a row for each place that calls a kernel.

    ``points`` and ``limits`` (operations per second by dtype, and bytes per second under
    "memory") are what the picture shows; ``events`` the calls of one run: name, nodes, begin and
    duration in microseconds.
    """

    def __init__(
        self,
        calls: Sequence[Mapping[str, Metric]],
        device_metrics: Mapping[str, Mapping[str, Metric]] | None = None,
        configuration: Mapping[str, Metric] | None = None,
        *,
        events: Sequence[tuple[str, str, float, float]] = (),
        points: Sequence[Point] = (),
        limits: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(calls, device_metrics, configuration)
        self.events = list(events)
        self.points = list(points)
        self.limits = dict(limits or {})

    def table(self, sort: bool = True, aggregate: bool = False, col_sums: bool = True) -> str:
        """Return the rows as a table, the longest first; rows of one name stay apart."""
        return super().table(sort, aggregate, col_sums)

    def chrome_trace(self) -> str:
        """Return one run as JSON that `chrome://tracing` and Perfetto show."""
        events = [
            {"name": name, "cat": "kernel", "ph": "X", "ts": start, "dur": length, "pid": 0,
             "tid": 0, "args": {"operators": operators}}
            for name, operators, start, length in self.events
        ]  # fmt: skip
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})

    def roofline(self) -> str:
        """Return a picture (SVG): each kernel by its operations per byte and per second, under what
        memory and arithmetic allow.
        """
        if not self.points or not self.limits:
            raise UnsupportedError(
                "there is nothing to draw: no kernel has counted operations, or the machine was "
                "not measured",
                notes=("profile with peak=True",),
            )
        return roofline_picture(self.points, self.limits)


def profile(
    executable: Executable,
    inputs: Sequence[Any] = (),
    named: Mapping[str, Any] | None = None,
    *,
    function: str = "main",
    runs: int = 10,
    warmup: int = 2,
    peak: bool = True,
) -> KernelProfile:
    """Run a function of a model, and return a table of its kernels.

    Times are medians of ``runs`` runs after ``warmup`` ones; the first line of totals is the time
    of the model itself, without marks. ``peak``: measure this machine, too (some seconds, once in a
    process), and add the share of its peak of arithmetic and of what its memory delivers, which is
    above 100 where operands stay in caches. Raises UnsupportedError for a model that was
    loaded from a file: its kernels have no names there.
    """
    if runs < 1 or warmup < 0:
        raise ConfigError(f"profile: {runs} runs after {warmup} is too little", notes=("runs=10",))
    make = executable.observed_program
    if make is None:
        raise UnsupportedError(
            "a model that was loaded from a file cannot be profiled by kernels",
            notes=("profile what tilesmith.compile returned, or: tilesmith profile MODEL.onnx",),
        )
    observed = make()
    given = dict(named or {})
    plain = executable.get_function(function)
    watched = observed.executable.get_function(function)
    whole: list[float] = []
    works: dict[Any, Any] = {}
    measured: list[_Stopwatch] = []
    for _ in range(warmup + runs):
        start = time.perf_counter()
        plain(*inputs, **given)
        whole.append(time.perf_counter() - start)
    for _ in range(warmup + runs):
        with _Stopwatch(observed.kernels, works) as stopwatch:
            watched(*inputs, **given)
        measured.append(stopwatch)
    del whole[:warmup], measured[:warmup]
    target = str(executable.metadata.get("target", "llvm"))
    return _report(observed.kernels, measured, statistics.median(whole), target, peak)


def _report(
    kernels: Sequence[ObservedKernel],
    runs: Sequence[_Stopwatch],
    whole: float,
    target: str,
    peak: bool,
) -> KernelProfile:
    numbers = sorted({number for one in runs for number in one.sites})
    medians = {
        number: statistics.median([one.sites.get(number, _Site()).seconds for one in runs])
        for number in numbers
    }
    total = sum(medians.values())
    last = runs[-1]
    dtypes = {kernels[number].dtype for number in numbers}
    limits = _limits(target, dtypes) if peak else {}
    rows, points = [], []
    for number in numbers:
        kernel, site, seconds = kernels[number], last.sites.get(number, _Site()), medians[number]
        row: dict[str, Metric] = {
            "Name": kernel.name,
            "Duration (us)": Duration(seconds * 1e6),
            "Percent": Percent(100 * seconds / total if total else 0.0),
            "Count": Count(site.calls),
        }
        if site.is_counted and seconds:
            row["GFLOP/s"] = Ratio(site.operations / seconds / 1e9)
            row["GB/s"] = Ratio(site.bytes / seconds / 1e9)
            if kernel.dtype in limits:
                of_memory = 100 * site.bytes / seconds / limits["memory"]
                of_peak = 100 * site.operations / seconds / limits[kernel.dtype]
                row["Percent of Peak"] = Ratio(of_peak)
                row["Percent of Memory"] = Ratio(of_memory)
            if site.operations and site.bytes:
                intensity, speed = site.operations / site.bytes, site.operations / seconds
                points.append(Point(kernel.name, intensity, speed, seconds / total))
        row["Operators"] = kernel.operators
        row["Argument Shapes"] = "; ".join(site.shapes)
        rows.append(row)
    events = [
        (kernels[number].name, kernels[number].operators, start * 1e6, seconds * 1e6)
        for number, start, seconds in last.events
    ]
    configuration: dict[str, Metric] = {
        "Number of threads": Count(num_threads()),
        "Target": target,
        "Runs": Count(len(runs)),
        "Kernels alone (us)": Duration(total * 1e6),
        **{f"Peak {name} (G/s)": Ratio(value / 1e9) for name, value in limits.items()},
    }
    totals: dict[str, Metric] = {"Duration (us)": Duration(whole * 1e6)}
    return KernelProfile(
        rows, {str(cpu()): totals}, configuration, events=events, points=points, limits=limits
    )


def _limits(target: str, dtypes: set[str]) -> dict[str, float]:
    """Return what this machine does in a second at most: operations by dtype, bytes of memory."""
    found: dict[str, float] = {}
    for dtype in sorted(dtypes):
        try:
            found[dtype] = _peak_operations(target, dtype, num_threads())
        except TilesmithError as error:  # a dtype without arithmetic of its own
            record_fallback("measuring", f"the peak of {dtype or 'code from outside'}", error)
    if found:
        found["memory"] = _peak_bytes(target, num_threads())
    return found


@cache
def _peak_operations(target: str, dtype: str, threads: int) -> float:
    return estimate_peak_fma_vector_flops(target, cpu(), None, dtype)


@cache
def _peak_bytes(target: str, threads: int) -> float:
    return estimate_peak_bandwidth_dram(target, cpu(), None)
