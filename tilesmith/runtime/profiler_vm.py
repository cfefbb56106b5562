"""Defines `VirtualMachineProfiler`, a virtual machine that measures what it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.runtime.devices import cpu
from tilesmith.runtime.profiling import DeviceWrapper, MetricCollector, Report
from tilesmith.runtime.relax_vm import VirtualMachine

__all__ = ["VirtualMachineProfiler", "enabled"]


def enabled() -> bool:
    """Return True: measuring needs nothing that could be missing."""
    return True


class VirtualMachineProfiler(VirtualMachine):
    """A virtual machine that measures: `profile` calls a function and reports the times."""

    _last: Report | None = None

    def profile(
        self,
        *args: Any,
        func_name: str = "main",
        collectors: Sequence[MetricCollector] | None = None,
        **kwargs: Any,
    ) -> Report:
        """Call a function once and report its time, and what the collectors measure meanwhile."""
        device = self.device or cpu()
        for collector in collectors or ():
            collector.init([DeviceWrapper(device)])
        started = [(collector, collector.start(device)) for collector in collectors or ()]
        report = super().profile(func_name, *args, **kwargs)
        for collector, token in started:
            if token is not None:
                report.calls[0].update(collector.stop(token))
        self._last = report
        return report

    def get_stat(self, sort_by_time: bool = True) -> str:
        """Return the table of the last `profile`, or an empty text before the first."""
        return "" if self._last is None else self._last.table(sort=sort_by_time)
