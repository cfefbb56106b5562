"""Reports where time goes: `profile_function`, metric collectors, and `Report`.

    profile = profile_function(module, tilesmith.cpu(), [])
    print(profile(a, b)["Duration (us)"].microseconds)

A report lists calls, each a dictionary from the name of a metric to a text or a value of one of
the classes below; metrics of a whole device; and the configuration they were measured with.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith.runtime.devices import Device
from tilesmith.runtime.stretches import Stretch, profiled_stretches  # noqa: F401
from tilesmith.runtime.timing import clock_of
from tilesmith.support.errors import ConfigError

__all__ = [
    "Count", "DeviceWrapper", "Duration", "MetricCollector", "Percent", "Ratio", "Report",
    "profile_function",
]  # fmt: skip


@dataclass(frozen=True)
class Count:
    """A number of events."""

    count: int
    key = "count"

    def __str__(self) -> str:
        return f"{self.count:,}"


@dataclass(frozen=True)
class Duration:
    """A time in microseconds."""

    microseconds: float
    key = "microseconds"

    def __str__(self) -> str:
        return f"{self.microseconds:,.2f}"


@dataclass(frozen=True)
class Percent:
    """A share in percent."""

    percent: float
    key = "percent"

    def __str__(self) -> str:
        return f"{self.percent:.2f}"


@dataclass(frozen=True)
class Ratio:
    """A quotient of two metrics, such as operations per byte."""

    ratio: float
    key = "ratio"

    def __str__(self) -> str:
        return f"{self.ratio:.2f}"


Metric = Count | Duration | Percent | Ratio | str
_CLASSES: dict[str, Callable[[Any], Metric]] = {
    "count": Count,
    "microseconds": Duration,
    "percent": Percent,
    "ratio": Ratio,
}
_SUMMED = (Count, Duration, Percent)


class MetricCollector:
    """Base of collectors of metrics other than the time of calls. Subclasses implement the three
    steps.
    """

    def init(self, devices: Sequence[DeviceWrapper]) -> None:
        """Prepare for measuring on some devices."""

    def start(self, device: Device) -> Any:
        """Begin measuring a call on a device; the result is passed to `stop`. None means nothing to
        measure.
        """
        return None

    def stop(self, started: Any) -> Mapping[str, Metric]:
        """End measuring a call; return the metrics by name."""
        return {}


@dataclass(frozen=True)
class DeviceWrapper:
    """A device as an argument of a collector's `init`."""

    device: Device


class Report:
    """Metrics of calls and of devices."""

    def __init__(
        self,
        calls: Sequence[Mapping[str, Metric]],
        device_metrics: Mapping[str, Mapping[str, Metric]] | None = None,
        configuration: Mapping[str, Metric] | None = None,
    ) -> None:
        self.calls = [dict(call) for call in calls]
        self.device_metrics = {name: dict(m) for name, m in (device_metrics or {}).items()}
        self.configuration = dict(configuration or {})

    def _columns(self, calls: Sequence[Mapping[str, Metric]]) -> list[str]:
        found = dict.fromkeys([name for call in calls for name in call])
        return sorted(found, key=lambda name: name != "Name")

    def csv(self) -> str:
        """Return one line per call with plain numbers, under a line of names."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        columns = self._columns(self.calls)
        writer.writerow(columns)
        for call in self.calls:
            writer.writerow([_plain(call.get(name, "")) for name in columns])
        return text.getvalue()

    def table(self, sort: bool = True, aggregate: bool = True, col_sums: bool = True) -> str:
        """Return the calls as a table: the longest first, calls of one name added up, totals at the
        end.
        """
        calls = _added_up(self.calls) if aggregate else list(self.calls)
        if sort:
            calls.sort(key=lambda call: -_number(call.get("Duration (us)", "")))
        columns = self._columns(calls)
        rows = [[str(call.get(name, "")) for name in columns] for call in calls]
        if col_sums and calls:
            sums = _sum_of(calls)
            rows.append(["-" * 10 for _ in columns])
            rows.append(["Sum" if n == "Name" else str(sums.get(n, "")) for n in columns])
        for device, metrics in self.device_metrics.items():
            named = {"Name": f"Total {device}", **metrics}
            rows.append([str(named.get(name, "")) for name in columns])
        widths = [max(len(row[n]) for row in [columns, *rows]) for n in range(len(columns))]
        lines = ["  ".join([cell.ljust(w) for cell, w in zip(row, widths)]).rstrip()
                 for row in [columns, *rows]]  # fmt: skip
        if self.configuration:
            lines += ["", "Configuration", "-------------"]
            lines += [f"{name}: {value}" for name, value in self.configuration.items()]
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """Return a JSON text that `from_json` reads."""
        return json.dumps({
            "calls": [_to_json(call) for call in self.calls],
            "device_metrics": {d: _to_json(m) for d, m in self.device_metrics.items()},
            "configuration": _to_json(self.configuration),
        })  # fmt: skip

    @classmethod
    def from_json(cls, s: str) -> Report:
        """Return the report of a text that `json` made."""
        try:
            content = json.loads(s)
            return cls(
                [_from_json(call) for call in content["calls"]],
                {d: _from_json(m) for d, m in content["device_metrics"].items()},
                _from_json(content.get("configuration", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"this is not a report: {error}") from error

    def __str__(self) -> str:
        return self.table()


def _plain(value: Metric) -> Any:
    return value if isinstance(value, str) else getattr(value, value.key)


def _number(value: Metric) -> float:
    return 0.0 if isinstance(value, str) else float(getattr(value, value.key))


def _to_json(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    return {
        name: {"string": value} if isinstance(value, str) else {value.key: _plain(value)}
        for name, value in metrics.items()
    }


def _from_json(metrics: Mapping[str, Any]) -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for name, content in metrics.items():
        ((key, value),) = content.items()
        found[name] = value if key == "string" else _CLASSES[key](value)
    return found


def _sum_of(calls: Sequence[Mapping[str, Metric]]) -> dict[str, Metric]:
    sums: dict[str, Metric] = {}
    for call in calls:
        for name, value in call.items():
            if isinstance(value, _SUMMED):
                before = sums.get(name)
                total = _number(value) + (0 if before is None else _number(before))
                sums[name] = _CLASSES[value.key](int(total) if isinstance(value, Count) else total)
    return sums


def _added_up(calls: Sequence[Mapping[str, Metric]]) -> list[dict[str, Metric]]:
    """Add up the calls of one name (and of equal text metrics) into one."""
    groups: dict[tuple[tuple[str, str], ...], list[Mapping[str, Metric]]] = {}
    for call in calls:
        texts = tuple([(n, v) for n, v in sorted(call.items()) if isinstance(v, str)])
        groups.setdefault(texts, []).append(call)
    return [{**group[0], **_sum_of(group)} for group in groups.values()]


def profile_function(
    mod: Any,
    dev: Device,
    collectors: Sequence[MetricCollector] = (),
    func_name: str | None = None,
    warmup_iters: int = 10,
) -> Callable[..., dict[str, Metric]]:
    """Return a function of the arguments that calls `mod[func_name]` once and returns its metrics.

    The entry function is measured without a name. Each collector measures in the same call;
    without collectors the time alone is measured (`"Duration (us)"`).
    """
    function = mod.entry_func if func_name is None else mod[func_name]
    for collector in collectors:
        collector.init([DeviceWrapper(dev)])
    clock = clock_of(dev)

    def profile(*arguments: Any) -> dict[str, Metric]:
        for _ in range(warmup_iters):
            function(*arguments)
        dev.sync()
        started = [collector.start(dev) for collector in collectors]
        clock.start()
        function(*arguments)
        seconds = clock.stop()
        metrics: dict[str, Metric] = {"Duration (us)": Duration(seconds * 1e6)}
        for collector, token in zip(collectors, started):
            if token is not None:
                metrics.update(collector.stop(token))
        return metrics

    return profile
