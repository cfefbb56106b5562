"""Measures how long a call takes."""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tilesmith.runtime.devices import Device, Timer
from tilesmith.support.errors import ConfigError


class BenchmarkResult:
    """Seconds per call: `results` of each repeat, and their mean, median, min, max, std."""

    def __init__(self, results: Sequence[float]) -> None:
        from statistics import fmean, median, pstdev  # with fractions and decimals

        self.results: tuple[float, ...] = tuple(results)
        self.mean = fmean(self.results)
        self.std = pstdev(self.results)
        self.median = median(self.results)
        self.min = min(self.results)
        self.max = max(self.results)

    def __repr__(self) -> str:
        return (
            f"BenchmarkResult(min={self.min}, mean={self.mean}, median={self.median}, "
            f"max={self.max}, std={self.std}, results={self.results})"
        )

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = "  ".join([f"{name + ' (ms)':^12}" for name in names])
        row = "  ".join([f"{getattr(self, name) * 1e3:^12.4f}" for name in names])
        return f"Execution time summary:\n{head}\n{row}"


def time_call(
    function: Callable[..., Any],
    arguments: Sequence[Any] = (),
    number: int = 10,
    repeat: int = 1,
    min_repeat_ms: float = 0,
    limit_zero_time_iterations: int = 100,
    cooldown_interval_ms: float = 0,
    repeats_to_cooldown: int = 1,
    cache_flush_bytes: int = 0,
    preprocess: Callable[[], None] | None = None,
    device: Device | None = None,
) -> BenchmarkResult:
    """Call a function `number` times in each of `repeat` rounds, after one call to warm up.

    `number` grows until a round takes `min_repeat_ms`. Before each round `preprocess` is called
    and `cache_flush_bytes` of memory are written, to empty the caches. With a ``device`` whose API
    has a clock, rounds are measured by that (so launches that the host hides do not count), and it
    is the device's memory that is written: as many bytes as its L2 cache has empty it.
    """
    if number < 1 or repeat < 1:
        raise ConfigError(f"number and repeat must be positive, got {number} and {repeat}")
    timer = clock_of(device)
    flush = _flusher(device, cache_flush_bytes) if cache_flush_bytes else None
    timer.start()
    function(*arguments)
    timer.stop()
    results = []
    for index in range(repeat):
        zero_rounds = 0
        while True:
            if preprocess is not None:
                preprocess()
            if flush is not None:
                flush()
            seconds = _round(function, arguments, number, timer)
            if seconds <= 0:
                zero_rounds += 1
            if seconds * 1e3 >= min_repeat_ms or zero_rounds > limit_zero_time_iterations:
                break
            wanted = min_repeat_ms / max(seconds * 1e3, 1e-6) * number * 1.1
            number = int(max(number * 1.618, min(wanted, number * 100))) + 1
        results.append(seconds / number)
        if cooldown_interval_ms > 0 and (index + 1) % max(repeats_to_cooldown, 1) == 0:
            time.sleep(cooldown_interval_ms / 1e3)
    return BenchmarkResult(results)


def _round(
    function: Callable[..., Any], arguments: Sequence[Any], number: int, timer: Timer
) -> float:
    timer.start()
    for _ in range(number):
        function(*arguments)
    return timer.stop()


def clock_of(device: Device | None) -> Timer:
    """Return the clock that measures work on a device: its own, or the host's."""
    found = device.api.timer(device.device_id) if device is not None else None
    return found or _HostClock(device)


def kernel_clock_of(device: Device) -> Timer:
    """Return the clock that measures one kernel among others on a device."""
    return device.api.kernel_timer(device.device_id) or _HostClock(device)


class _HostClock(Timer):
    """The clock of the host, which waits for a device if there is one."""

    def __init__(self, device: Device | None) -> None:
        self._wait: Callable[[], None] = device.sync if device is not None else lambda: None
        self._begin = self._end = 0.0

    def start(self) -> None:
        self._begin = time.perf_counter()

    def end(self) -> None:
        self._wait()
        self._end = time.perf_counter()

    def seconds(self) -> float:
        return self._end - self._begin

    def since(self, first: _HostClock) -> float:
        return self._begin - first._begin


def _flusher(device: Device | None, size: int) -> Callable[[], None]:
    """Return a function that writes memory of the device, or of the host, to empty its caches."""
    if device is not None:
        found = device.api.overwriter(device.device_id, size)
        if found is not None:
            return found
    memory, values = bytearray(size), itertools.count(1)

    def write() -> None:
        memory[:] = bytes([next(values) & 255]) * size

    return write


class MeasuredElsewhere(ABC):
    """A function that runs on another machine, and is measured there."""

    @abstractmethod
    def measure(
        self, arguments: Sequence[Any], named: Mapping[str, Any], options: Mapping[str, Any]
    ) -> BenchmarkResult:
        """Return how long calls take there; `options` are those of `time_call`, and f_preproc."""


def evaluator(
    function: Callable[..., Any], device: Device | None = None, **options: Any
) -> Callable[..., BenchmarkResult]:
    """Return a function of the arguments that measures `function` on them, with `time_call`'s
    options; work on a device is measured there.
    """
    if isinstance(function, MeasuredElsewhere):
        return lambda *arguments, **named: function.measure(arguments, named, options)
    f_preproc = options.pop("f_preproc", "")
    if f_preproc:
        from tilesmith.runtime.registry import get_global_func

        options["preprocess"] = get_global_func(f_preproc)

    def evaluate(*arguments: Any, **named: Any) -> BenchmarkResult:
        call = partial(function, **named) if named else function
        return time_call(call, arguments, device=device, **options)

    return evaluate
