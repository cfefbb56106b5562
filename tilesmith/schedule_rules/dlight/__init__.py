"""The rules of ``schedule_rules.gpu`` under the names that users know (``tvm.dlight``)."""

from tilesmith.schedule_rules.dlight import gpu
from tilesmith.schedule_rules.dlight.base import ApplyDefaultSchedule, ScheduleRule

__all__ = ["ApplyDefaultSchedule", "ScheduleRule", "gpu"]
