"""Schedules for GPUs by access pattern: each rule is a function ``(sch, target) -> sch or None``.

None says that the function has another pattern; then the schedule is as it was. ``first_rule``
tries the rules in their order, from the most special one on.
"""

from tilesmith.schedule_rules.gpu.elementwise import elementwise
from tilesmith.schedule_rules.gpu.general_reduction import general_reduction
from tilesmith.schedule_rules.gpu.matmul import matmul
from tilesmith.schedule_rules.gpu.products import product
from tilesmith.schedule_rules.gpu.reduction import gemv, reduction
from tilesmith.schedule_rules.gpu.rules import RULES, Rule, first_rule

__all__ = [
    "RULES", "Rule", "elementwise", "first_rule", "gemv", "general_reduction", "matmul",
    "product", "reduction",
]  # fmt: skip
