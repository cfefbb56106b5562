"""Tables of rules that lower operators for a target, from TIR to TIR; back ends name the tables
they use.

Operators without a rule in the tables of a back end (``BackEnd.intrinsic_rules``) stay.
``lower_call`` asks, in this order: the rules that users registered
(``ir.register_intrin_lowering``) for the kind of the target, for its keys, and for "default"; then
the tables of the back end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilesmith.ir import Call, PrimExpr
from tilesmith.target import Target
from tilesmith.target.back_end import find_back_end, part
from tilesmith.target.features import target_features
from tilesmith.tir.transform.intrinsics.float32 import FLOAT32_RULES, SCALING_RULES
from tilesmith.tir.transform.intrinsics.generic import GENERIC_RULES, ROUNDING_RULES
from tilesmith.tir.transform.intrinsics.hyperbolic import HYPERBOLIC_RULES
from tilesmith.tir.transform.intrinsics.power import POWER_RULES
from tilesmith.tir.transform.intrinsics.profile import PROFILE_RULES
from tilesmith.tir.transform.intrinsics.trigonometric import TRIGONOMETRIC_RULES

__all__ = [
    "CUDA_RULES", "C_RULES", "DEFAULT_RULES", "LLVM_RULES", "NVPTX_RULES", "Rule", "Rules",
    "lower_call", "rules_of",
]  # fmt: skip

Rule = Callable[[Call], PrimExpr | None]
"""Gives what stands in place of a call, or None to leave it to the next rule."""

Rules = Sequence[Mapping[str, Rule]]
"""Tables of rules by operator name, in the order in which they are asked."""

_EVERYWHERE = GENERIC_RULES | ROUNDING_RULES
CUDA_RULES: Rules = (GENERIC_RULES,)
DEFAULT_RULES: Rules = (_EVERYWHERE,)
C_RULES: Rules = (_EVERYWHERE | PROFILE_RULES,)
_FLOAT_RULES = FLOAT32_RULES | TRIGONOMETRIC_RULES | HYPERBOLIC_RULES
LLVM_RULES: Rules = (_EVERYWHERE | PROFILE_RULES, _FLOAT_RULES, POWER_RULES)
NVPTX_RULES: Rules = (_EVERYWHERE, _FLOAT_RULES, POWER_RULES)


def rules_of(target: Target) -> Rules:
    """Return the tables that the back end of a target names; the default ones where there is
    none."""
    record = find_back_end(target)
    rules: Rules = DEFAULT_RULES if record is None else part(record.intrinsic_rules)
    if rules is LLVM_RULES and "avx512f" in target_features(target):
        return (SCALING_RULES, *rules)
    return rules


def lower_call(call: Call, target: Target, rules: Rules) -> PrimExpr | None:
    """Return the replacement of a call on a target; None where the call stays."""
    op = call.op
    if op.has_attrs:
        for name in (target.kind.name, *target.keys, "default"):
            own: Rule | None = op.get_attr(f"{name}.FLowerIntrinsic")
            if own is not None:
                found = own(call)
                if found is not None:
                    return found
    for table in rules:
        rule = table.get(op.name)
        if rule is not None:
            found = rule(call)
            if found is not None:
                return found
    return None
