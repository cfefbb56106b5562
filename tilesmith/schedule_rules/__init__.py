"""Default schedules without tuning, chosen by rules that analyse the loops of a function."""

from typing import TYPE_CHECKING

from tilesmith.support.lazy import lazy_attributes

if TYPE_CHECKING:
    from tilesmith.schedule_rules.default import default_schedule

__getattr__, __dir__ = lazy_attributes(
    __name__, {"default_schedule": "tilesmith.schedule_rules.default:default_schedule"}
)

__all__ = ["default_schedule"]
