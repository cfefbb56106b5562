"""Reads the hardware's counters during calls, through the library PAPI where it is installed."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.runtime.devices import Device, cpu
from tilesmith.runtime.profiling import Count, DeviceWrapper, Metric, MetricCollector
from tilesmith.support.errors import ConfigError, ExecutionError, UnsupportedError

__all__ = ["PAPIMetricCollector"]

# A program tells PAPI the version that it was written for, and no other one is taken.
_VERSIONS = ((7, 2), (7, 1), (7, 0), (6, 0), (5, 7), (5, 6), (5, 5))
_COUNTED = ("PAPI_TOT_CYC", "PAPI_TOT_INS")
_NO_SET = -1


def _library() -> ctypes.CDLL:
    path = ctypes.util.find_library("papi")
    if path is None:
        raise UnsupportedError(
            "the library PAPI, which reads the hardware's counters, is not installed",
            notes=("on Debian and Ubuntu: apt install libpapi-dev", "times need no library"),
        )
    library = ctypes.CDLL(path)
    library.PAPI_strerror.restype = ctypes.c_char_p
    for major, minor in _VERSIONS:
        version = major << 24 | minor << 16
        if library.PAPI_library_init(version) == version:
            return library
    known = ", ".join([f"{major}.{minor}" for major, minor in _VERSIONS])
    raise UnsupportedError(f"'{path}' is none of the known versions of PAPI: {known}")


class PAPIMetricCollector(MetricCollector):
    """Counts events of the CPU during a call.

    ``metric_names`` maps a device (wrapped in DeviceWrapper) to the names of its events, as
    ``papi_avail`` and ``papi_native_avail`` list them; without it cycles and instructions are
    counted. Raises UnsupportedError where PAPI is not installed.
    """

    def __init__(self, metric_names: Mapping[DeviceWrapper, Sequence[str]] | None = None) -> None:
        self._papi = _library()
        self._names = dict(metric_names or {DeviceWrapper(cpu()): _COUNTED})
        self._sets: dict[Device, tuple[int, tuple[str, ...]]] = {}

    def init(self, devices: Sequence[DeviceWrapper]) -> None:
        """Choose the events of these devices. Raises ConfigError for an event that the machine
        does not count.
        """
        for wrapped in devices:
            names = tuple(self._names.get(wrapped, ()))
            if not names or wrapped.device in self._sets:
                continue
            events = ctypes.c_int(_NO_SET)
            self._check(self._papi.PAPI_create_eventset(ctypes.byref(events)), "make a set")
            for name in names:
                if self._papi.PAPI_add_named_event(events, name.encode()) != 0:
                    raise ConfigError(
                        f"this machine does not count the event '{name}', or not with the others",
                        notes=("papi_avail and papi_native_avail list the events",),
                    )
            self._sets[wrapped.device] = (events.value, names)

    def _check(self, code: int, what: str) -> None:
        if code != 0:
            reason = (self._papi.PAPI_strerror(code) or b"unknown").decode()
            raise ExecutionError(f"PAPI cannot {what} of counters: {reason}")

    def start(self, device: Device) -> Any:
        """Begin counting; None for a device without events."""
        found = self._sets.get(device)
        if found is not None:
            self._check(self._papi.PAPI_start(found[0]), "start a set")
        return found

    def stop(self, started: Any) -> Mapping[str, Metric]:
        """End counting; return the counts by name."""
        events, names = started
        values = (ctypes.c_longlong * len(names))()
        self._check(self._papi.PAPI_stop(events, values), "stop a set")
        return {name: Count(int(value)) for name, value in zip(names, values)}
