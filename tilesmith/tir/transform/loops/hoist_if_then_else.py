"""HoistIfThenElse: a condition that a loop does not change is asked once, outside of the loop.

    for i in range(16):                         if n > 0:
        if n > 0:                                   for i in range(16):
            B[i] = A[i]                                 B[i] = A[i]

Only a condition that decides the whole body of a loop moves, so nothing is written twice but the
head of the loop. Conditions on threads stay inside of the loops in a thread's body unless the
option ``support_block_scope_hosting`` of ``tir.HoistIfThenElse`` says otherwise, which the variant
"basic" does not ask. HoistExpression, which does the work, moves more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir.queries import nodes
from tilesmith.ir.transform import Pass, PassContext
from tilesmith.support.errors import ConfigError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import IfThenElse
from tilesmith.tir.transform.configs import HoistExpressionConfig, HoistIfThenElseConfig
from tilesmith.tir.transform.loops.hoist_expression import (
    HoistedConditionals,
    HoistedLetBindings,
    hoist_expression,
)
from tilesmith.tir.transform.registration import function_pass, register_pass

__all__ = ["HoistIfThenElse", "HoistIfThenElseBasic", "hoist_if_then_else"]


def hoist_if_then_else(
    func: PrimFunc, variant: str | None = None, config: Mapping[str, Any] | None = None
) -> PrimFunc:
    """``func`` with conditions outside of the loops that do not change them.

    ``variant`` is None or "basic"; ``config`` holds the values of the option.
    """
    if not any(nodes(func.body, IfThenElse)):
        return func
    settings = HoistIfThenElseConfig(**(config or {}))
    kinds = HoistedConditionals.IfElseStmt
    if settings.support_block_scope_hosting and variant is None:
        kinds |= HoistedConditionals.UsingBlockVar
    return hoist_expression(
        func,
        HoistExpressionConfig(
            hoisted_conditionals=int(kinds), hoisted_let_bindings=int(HoistedLetBindings.Never)
        ),
        copies=1,
    )


@register_pass("tir.HoistIfThenElse")
def HoistIfThenElse(variant: str | None = None) -> Pass:  # noqa: N802
    """The pass that moves conditions out of loops; ``variant`` is None or "basic"."""
    if variant not in (None, "basic"):
        raise ConfigError(
            f"HoistIfThenElse has no variant {variant!r}", notes=("there is 'basic'",)
        )

    def transform(func: PrimFunc) -> PrimFunc:
        config = PassContext.current().get_config("tir.HoistIfThenElse")
        return hoist_if_then_else(func, variant, config)

    name = "tir.HoistIfThenElseBasic" if variant == "basic" else "tir.HoistIfThenElse"
    return function_pass(transform, name)


@register_pass("tir.HoistIfThenElseBasic")
def HoistIfThenElseBasic() -> Pass:  # noqa: N802
    """``HoistIfThenElse`` in the variant "basic"."""
    return HoistIfThenElse("basic")
