"""Default schedules without tuning, chosen by rules that analyse the loops of a function."""

from tilesmith.schedule_rules.default import default_schedule

__all__ = ["default_schedule"]
