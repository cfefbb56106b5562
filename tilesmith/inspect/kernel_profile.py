"""Measures a model kernel by kernel, and compares each kernel with what the machine can do.

    report = executable.profile(x)
    print(report)                            # a row for each kernel, the longest first
    report.json(); report.chrome_trace()     # texts to save
    report.roofline()                        # a picture (SVG)

The kernels are those of the model, called by code that is compiled once more with marks around
them (`driver.observed`). The operations of a kernel are those of its tensor program as it was
before scheduling; its bytes are those of its operands, each counted once.

Kernels on devices are measured there, while the host goes on: on CUDA between two events, less what
two events alone measure; on OpenCL by what the device reports of each command.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy

from tilesmith.inspect.roofline.picture import Point, roofline_picture
from tilesmith.inspect.roofline.x86 import (
    estimate_peak_bandwidth_dram,
    estimate_peak_fma_vector_flops,
)
from tilesmith.runtime.device_models import model_on
from tilesmith.runtime.devices import Device, Timer, cpu
from tilesmith.runtime.executable import Executable
from tilesmith.runtime.ndarray import NDArray, array
from tilesmith.runtime.observation import KernelObserver, ObservedKernel, Operands
from tilesmith.runtime.profiling import Count, Duration, Metric, Percent, Ratio, Report
from tilesmith.runtime.threads import num_threads
from tilesmith.runtime.timing import clock_of
from tilesmith.support.errors import ConfigError, TilesmithError, UnsupportedError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target
from tilesmith.target.gpu_machine import GPUMachine, gpu_machine

__all__ = ["KernelProfile", "profile"]


_HOST = cpu()
_Key = int | str
"""What a row is of: the number of a kernel, or the name of what a program of steps calls."""


@dataclass
class _Site:
    """What was measured at one place that calls a kernel, in one run."""

    calls: int = 0
    seconds: float = 0.0
    operations: float = 0.0
    bytes: float = 0.0
    is_counted: bool = True
    shapes: dict[str, None] = field(default_factory=dict)
    device: Device = _HOST


class _Stopwatch(KernelObserver):
    """Adds up the kernels of one run."""

    def __init__(self, kernels: Sequence[ObservedKernel], works: dict[Any, Any]) -> None:
        self.kernels = kernels
        self.works = works
        self.sites: dict[_Key, _Site] = {}
        self.events: list[tuple[_Key, Device, float, float]] = []
        self.start = time.perf_counter()
        self._pending: list[tuple[int, Device, Timer, float]] = []

    def ends(self, number: int, operands: Operands, seconds: float) -> None:
        """Add a call to its place."""
        now = time.perf_counter() - self.start
        self._count(number, operands).seconds += seconds
        self.events.append((number, operands.device, now - seconds, seconds))

    def given(self, number: int, operands: Operands, timer: Timer) -> None:
        """Add a call to its place; its time follows when all is over."""
        now = time.perf_counter() - self.start
        self._count(number, operands)
        self._pending.append((number, operands.device, timer, now))

    def called(self, name: str, tensors: Sequence[NDArray], seconds: float) -> None:
        """Add a call of a registered function, or a copy between devices."""
        now = time.perf_counter() - self.start
        device = tensors[-1].device if tensors else _HOST
        site = self.sites.setdefault(name, _Site(device=device))
        site.calls += 1
        site.seconds += seconds
        site.bytes += sum([one.nbytes for one in tensors])
        site.shapes[", ".join([str(list(one.shape)) for one in tensors])] = None
        self.events.append((name, device, now - seconds, seconds))

    def _count(self, number: int, operands: Operands) -> _Site:
        site = self.sites.setdefault(number, _Site(device=operands.device))
        shapes = operands.shapes
        key = (number, *shapes)
        if key not in self.works:
            self.works[key] = self.kernels[number].work(shapes)
        work = self.works[key]
        site.calls += 1
        site.is_counted &= work is not None
        site.operations += work[0] if work else 0.0
        site.bytes += work[1] if work else 0.0
        site.shapes[", ".join([str(list(shape)) for shape in shapes])] = None
        return site

    def wait(self) -> None:
        """Wait for the kernels on devices, and add their times."""
        firsts: dict[Device, tuple[Timer, float]] = {}
        for number, device, timer, now in self._pending:
            seconds = timer.seconds()
            first, moment = firsts.setdefault(device, (timer, now))
            self.sites[number].seconds += seconds
            self.events.append((number, device, moment + timer.since(first), seconds))
        self._pending.clear()


class KernelProfile(Report):
    """A report with a row for each place that calls a kernel.

    ``points`` and ``limits`` (operations per second by dtype, and bytes per second under
    "memory") are what the picture shows; ``events`` the calls of one run: name, nodes, begin and
    duration in microseconds, and device.
    """

    def __init__(
        self,
        calls: Sequence[Mapping[str, Metric]],
        device_metrics: Mapping[str, Mapping[str, Metric]] | None = None,
        configuration: Mapping[str, Metric] | None = None,
        *,
        events: Sequence[tuple[str, str, float, float, str]] = (),
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
        devices = list(dict.fromkeys([one[4] for one in self.events]))
        events = [
            {"name": name, "cat": "kernel", "ph": "X", "ts": start, "dur": length, "pid": 0,
             "tid": devices.index(device), "args": {"operators": operators, "device": device}}
            for name, operators, start, length, device in self.events
        ]  # fmt: skip
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})

    def roofline(self) -> str:
        """Return a picture (SVG): each kernel by its operations per byte and per second, under what
        memory and arithmetic allow.
        """
        if not self.points or not self.limits:
            raise UnsupportedError(
                "there is nothing to draw: no kernel has counted operations, or the machine's peak "
                "is not known",
                notes=("profile with peak=True, on the host or on a GPU of NVIDIA",),
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
    devices: Sequence[Device] = (),
) -> KernelProfile:
    """Run a function of a model, and return a table of its kernels.

    Times are medians of ``runs`` runs after ``warmup`` ones; the first line of totals is the time
    of the model itself, without marks. ``peak``: measure this machine, too (some seconds, once in a
    process), and add the share of its peak of arithmetic and of what its memory delivers, which is
    above 100 where operands stay in caches; GPUs of NVIDIA are not measured for that, but looked up
    (`target.gpu_machine`). ``devices``: where a model for devices runs, by default on those of its
    own numbers; a row of such a model says where it was measured. Raises UnsupportedError for a
    model that was loaded from a file: its kernels have no names there.
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
    plain = model_on(executable, devices)
    used: Sequence[Device] = getattr(plain, "devices", (_HOST,))
    arguments, given = (
        _placed(used, inputs),
        dict(zip(named or {}, _placed(used, (named or {}).values()))),
    )
    whole = _times(plain.get_function(function), arguments, given, used, warmup + runs)[warmup:]
    measured = _watched(
        model_on(observed.executable, devices).get_function(function), arguments, given, used,
        observed.kernels, warmup + runs,
    )[warmup:]  # fmt: skip
    limits, configuration = _machine(executable, used, measured[-1], observed.kernels, peak)
    configuration["Runs"] = Count(runs)
    streams = executable.metadata["functions"].get(function, {}).get("streams")
    if streams is not None:
        configuration["Streams"] = Count(streams["count"])
    return _report(
        observed.kernels, measured, statistics.median(whole), used, limits, configuration
    )


def _placed(devices: Sequence[Device], values: Iterable[Any]) -> list[Any]:
    """Return arguments on the device of a model that uses one, so that no run copies them."""
    (first, *others) = devices
    if others or first == _HOST:
        return list(values)
    arrays = (numpy.ndarray, NDArray)
    return [array(one, first) if isinstance(one, arrays) else one for one in values]


def _times(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    named: Mapping[str, Any],
    devices: Sequence[Device],
    runs: int,
) -> list[float]:
    """Return the seconds of each of some calls; on several devices, until all are done."""
    timer = clock_of(devices[0] if len(devices) == 1 else None)
    found = []
    for _ in range(runs):
        timer.start()
        function(*inputs, **named)
        if len(devices) > 1:
            _wait(devices)
        found.append(timer.stop())
    return found


def _wait(devices: Sequence[Device]) -> None:
    for one in devices:
        one.sync()


def _watched(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    named: Mapping[str, Any],
    devices: Sequence[Device],
    kernels: Sequence[ObservedKernel],
    runs: int,
) -> list[_Stopwatch]:
    """Return what was measured in each of some calls. All kernels are given to a device while it is
    still busy, for otherwise short ones would be measured with the host's time between them.
    """
    works: dict[Any, Any] = {}
    measured: list[_Stopwatch] = []
    giving = 0.0
    for _ in range(runs):
        _wait(devices)
        for one in devices:
            one.api.keep_busy(one.device_id, giving)
        with _Stopwatch(kernels, works) as stopwatch:
            function(*inputs, **named)
            giving = time.perf_counter() - stopwatch.start
        stopwatch.wait()
        measured.append(stopwatch)
    return measured


def _machine(
    executable: Executable,
    devices: Sequence[Device],
    run: _Stopwatch,
    kernels: Sequence[ObservedKernel],
    peak: bool,
) -> tuple[dict[str, float], dict[str, Metric]]:
    """Return what limits the kernels that a run called, and what describes the machine."""
    target = str(executable.metadata.get("target", "llvm"))
    found: dict[str, Metric] = {"Target": target}
    dtypes = {kernels[number].dtype for number in run.sites if isinstance(number, int)}
    first = devices[0]
    limits: dict[str, float] = {}
    if first == _HOST:
        found["Number of threads"] = Count(num_threads())
        limits = _limits(target, dtypes) if peak else {}
    else:
        found["Devices"] = ", ".join([str(one) for one in devices])
        board = _board(first) if peak and first.type == "cuda" else None
        if board is not None:
            found["Board"] = board.name
            limits = {
                name: board.peak(_PEAK_OF.get(name, name)) for name in sorted(dtypes & _PEAKS)
            }
            limits["memory"] = board.memory_bandwidth
    found.update({f"Peak {name} (G/s)": Ratio(value / 1e9) for name, value in limits.items()})
    return limits, found


_PEAK_OF = {"float16": "tensor", "bfloat16": "tensor"}
_PEAKS = {"float16", "bfloat16", "float32", "float64"}
"""The dtypes whose peaks are known of GPUs; of two, that of the matrix units."""


def _board(device: Device) -> GPUMachine | None:
    """Return the figures of an NVIDIA GPU: of the board whose name it has, else of one of its
    architecture.
    """
    arch = f"sm_{str(device.compute_version).replace('.', '')}"
    try:
        return gpu_machine(
            Target({"kind": "cuda", "arch": arch, "model": str(device.device_name or "")})
        )
    except TilesmithError as error:  # older than what is known
        record_fallback("measuring", f"the peak of {device}", error)
        return None


def _report(
    kernels: Sequence[ObservedKernel],
    runs: Sequence[_Stopwatch],
    whole: float,
    devices: Sequence[Device],
    limits: dict[str, float],
    configuration: dict[str, Metric],
) -> KernelProfile:
    keys = sorted(
        {key for one in runs for key in one.sites}, key=lambda key: (isinstance(key, str), key)
    )
    medians = {
        key: statistics.median([one.sites.get(key, _Site()).seconds for one in runs])
        for key in keys
    }
    total = sum(medians.values())
    last = runs[-1]
    is_on_host = devices[0] == _HOST
    rows, points = [], []
    for key in keys:
        site, seconds = last.sites.get(key, _Site()), medians[key]
        name, operators, dtype = _described(kernels, key)
        row: dict[str, Metric] = {
            "Name": name,
            "Duration (us)": Duration(seconds * 1e6),
            "Percent": Percent(100 * seconds / total if total else 0.0),
            "Count": Count(site.calls),
        }
        if site.is_counted:
            row["Bytes"] = Count(int(site.bytes))
            has_limits = "memory" in limits and (is_on_host or site.device in devices)
            if not is_on_host and has_limits and isinstance(key, int):
                bound = max(
                    site.operations / limits.get(dtype, math.inf), site.bytes / limits["memory"]
                )
                row["Bound (us)"] = Duration(bound * 1e6)
            if seconds:
                row["GFLOP/s"] = Ratio(site.operations / seconds / 1e9)
                row["GB/s"] = Ratio(site.bytes / seconds / 1e9)
            if seconds and has_limits and dtype in limits:
                row["Percent of Peak"] = Ratio(100 * site.operations / seconds / limits[dtype])
                row["Percent of Memory"] = Ratio(100 * site.bytes / seconds / limits["memory"])
            if site.operations and site.bytes and seconds:
                intensity, speed = site.operations / site.bytes, site.operations / seconds
                points.append(Point(name, intensity, speed, seconds / total))
        if not is_on_host:
            row["Device"] = str(site.device)
        row["Operators"] = operators
        row["Argument Shapes"] = "; ".join(site.shapes)
        rows.append(row)
    events = [
        (*_described(kernels, key)[:2], start * 1e6, seconds * 1e6, str(device))
        for key, device, start, seconds in sorted(last.events, key=lambda one: one[2])
    ]
    configuration["Kernels alone (us)"] = Duration(total * 1e6)
    totals: dict[str, Metric] = {"Duration (us)": Duration(whole * 1e6)}
    where = ", ".join([str(one) for one in devices])
    return KernelProfile(
        rows, {where: totals}, configuration, events=events, points=points, limits=limits
    )


def _described(kernels: Sequence[ObservedKernel], key: _Key) -> tuple[str, str, str]:
    """Return the name, the nodes and the dtype of what a row is of."""
    if isinstance(key, str):
        return key, "", ""
    return kernels[key].name, kernels[key].operators, kernels[key].dtype


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
