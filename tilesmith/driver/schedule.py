"""Who schedules (decision 9): functions that nobody has scheduled, and no others."""

from __future__ import annotations

from tilesmith.schedule_rules import default_schedule
from tilesmith.target import Target
from tilesmith.tir import PrimFunc
from tilesmith.tir.analysis import is_unscheduled

__all__ = ["schedule_function"]


def schedule_function(function: PrimFunc, target: Target) -> PrimFunc:
    """The function with the default schedule, or as it is where its user has scheduled it."""
    return default_schedule(function, target) if is_unscheduled(function) else function
