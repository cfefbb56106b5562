"""What operators become on a target: rules from TIR to TIR, by target kind.

A back end lists what it takes as it is by having no rule for it. ``lower_call`` asks, in this
order: the rules that users registered (``ir.register_intrin_lowering``) for the kind of the
target, for its keys, and for "default"; then the tables of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilesmith.ir import Call, PrimExpr
from tilesmith.tir.transform.intrinsics.float32 import FLOAT32_RULES
from tilesmith.tir.transform.intrinsics.generic import GENERIC_RULES
from tilesmith.tir.transform.intrinsics.hyperbolic import HYPERBOLIC_RULES
from tilesmith.tir.transform.intrinsics.power import POWER_RULES
from tilesmith.tir.transform.intrinsics.profile import PROFILE_RULES
from tilesmith.tir.transform.intrinsics.trigonometric import TRIGONOMETRIC_RULES

__all__ = ["RULES", "Rule", "lower_call"]

Rule = Callable[[Call], PrimExpr | None]
"""Gives what stands in place of a call, or None to leave it to the next rule."""

RULES: dict[str, tuple[dict[str, Rule], ...]] = {
    "llvm": (
        GENERIC_RULES | PROFILE_RULES,
        FLOAT32_RULES | TRIGONOMETRIC_RULES | HYPERBOLIC_RULES,
        POWER_RULES,
    ),
    "nvptx": (GENERIC_RULES, FLOAT32_RULES | TRIGONOMETRIC_RULES | HYPERBOLIC_RULES, POWER_RULES),
    "c": (GENERIC_RULES | PROFILE_RULES,),
    "default": (GENERIC_RULES,),
}
"""Target kind → tables of rules by operator name."""


def lower_call(call: Call, kind: str, keys: Sequence[str] = ()) -> PrimExpr | None:
    """What stands in place of a call on a target of a kind; None where it stays."""
    op = call.op
    if op._attrs:
        for name in (kind, *keys, "default"):
            rule = op.get_attr(f"{name}.FLowerIntrinsic")
            if rule is not None:
                found = rule(call)
                if found is not None:
                    return found
    for table in RULES.get(kind, RULES["default"]):
        rule = table.get(op.name)
        if rule is not None:
            found = rule(call)
            if found is not None:
                return found
    return None
