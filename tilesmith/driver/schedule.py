"""Applies default schedules to functions that their users have not scheduled (decision 9)."""

from __future__ import annotations

from tilesmith.schedule_rules import default_schedule
from tilesmith.target import Target
from tilesmith.tir import PrimFunc
from tilesmith.tir.analysis import is_unscheduled

__all__ = ["schedule_function"]


def schedule_function(function: PrimFunc, target: Target) -> PrimFunc:
    """Return the function with the default schedule, or unchanged if its user has scheduled it."""
    return default_schedule(function, target) if is_unscheduled(function) else function
