"""The rules in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.schedule_rules.gpu.elementwise import elementwise
from tilesmith.schedule_rules.gpu.general_reduction import general_reduction
from tilesmith.schedule_rules.gpu.matmul import matmul
from tilesmith.schedule_rules.gpu.products import product
from tilesmith.schedule_rules.gpu.reduction import reduction
from tilesmith.support.errors import ScheduleError
from tilesmith.support.fallbacks import record_fallback
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.schedule import Schedule

__all__ = ["RULES", "Rule", "first_rule", "schedule_by_rules"]

Rule = Callable[[Schedule, Target], Schedule | None]

RULES: tuple[Rule, ...] = (general_reduction, matmul, reduction, product, elementwise)


def first_rule(func: PrimFunc, target: Target, rules: tuple[Rule, ...] = RULES) -> Schedule | None:
    """Return the schedule of the first rule that knows the function's pattern, else None."""
    return schedule_by_rules(Schedule(func), target, rules)


def schedule_by_rules(
    sch: Schedule, target: Target, rules: tuple[Rule, ...] = RULES
) -> Schedule | None:
    """Return a copy of a schedule, changed by the first rule that knows the pattern, else None."""
    for rule in rules:
        try:
            if (found := rule(sch.copy(), target)) is not None:
                return found
        except ScheduleError as error:  # a pattern that looked right, with loops that are not
            record_fallback("schedule", rule.__name__, error)
    return None
