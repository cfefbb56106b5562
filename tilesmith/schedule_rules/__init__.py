"""Schedules without tuning: rules that look at the loops of a function."""

from tilesmith.schedule_rules.default import default_schedule

__all__ = ["default_schedule"]
