"""Applies default schedules to functions that their users have not scheduled (decision 9)."""

from __future__ import annotations

from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of
from tilesmith.tir import PrimFunc
from tilesmith.tir.analysis import is_unscheduled

__all__ = ["schedule_function"]


def schedule_function(function: PrimFunc, target: Target) -> PrimFunc:
    """Return the function with the default schedule, or unchanged if its user has scheduled it. On
    a device what no schedule takes runs in one thread.
    """
    if is_unscheduled(function):
        # the rules: a process that leaves kernels to workers does without them
        from tilesmith.schedule_rules.default import default_schedule

        return default_schedule(function, target)
    if not back_end_of(target).is_device:
        return function
    from tilesmith.schedule_rules.one_thread import is_on_threads, on_one_thread

    if is_on_threads(function):
        return function
    name = str(function.attrs.get("global_symbol", "main"))
    record_fallback("schedule", name, "it runs in one thread of the device: it has no plain loops")
    return on_one_thread(function)
