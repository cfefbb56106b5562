"""HoistIfThenElse: hoists conditions that decide the whole body of a loop out of the loop.

    for i in range(16):                         if n > 0:
        if n > 0:                                   for i in range(16):
            B[i] = A[i]                                 B[i] = A[i]

Only a condition that decides the whole body of a loop moves, so nothing is written twice but the
head of the loop. With the option ``support_block_scope_hosting`` of ``tir.HoistIfThenElse``, which
the variant "basic" does not ask, conditions on threads leave the loops in a thread's body, and
conditions that decide a whole allocation, launch or storage attribute leave that. HoistExpression,
which does the work, moves more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.support.errors import ConfigError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import IfThenElse
from tilesmith.tir.transform.loops.hoist_expression import (
    HoistedConditionals,
    HoistedLetBindings,
    hoist_expression,
)

__all__ = ["ConditionHoister", "hoist_if_then_else", "hoist_if_then_else_basic"]


def hoist_if_then_else(
    func: PrimFunc, variant: str | None = None, config: Mapping[str, Any] | None = None
) -> PrimFunc:
    """Return ``func`` with loop-invariant conditions outside of the loops.

    ``variant`` is None or "basic"; ``config`` holds the values of the option.
    """
    if not any(nodes(func.body, IfThenElse)):
        return func
    kinds = HoistedConditionals.IfElseStmt
    if (config or {}).get("support_block_scope_hosting") and variant is None:
        kinds |= HoistedConditionals.UsingBlockVar
    return hoist_expression(func, kinds, HoistedLetBindings.Never, copies=1)


@compiler_pass(
    "tir.HoistIfThenElse",
    options={"support_block_scope_hosting": False},
)
class ConditionHoister:
    """Hoists loop-invariant conditions out of loops; ``variant`` is None or "basic"."""

    def __init__(self, variant: str | None = None) -> None:
        if variant not in (None, "basic"):
            raise ConfigError(
                f"HoistIfThenElse has no variant {variant!r}", notes=("there is 'basic'",)
            )
        self.variant = variant

    def transform(self, func: PrimFunc, options: Mapping[str, Any]) -> PrimFunc:
        """Hoists the conditions of one function."""
        return hoist_if_then_else(func, self.variant, options)


@compiler_pass("tir.HoistIfThenElseBasic")
def hoist_if_then_else_basic(func: PrimFunc) -> PrimFunc:
    """Hoists loop-invariant conditions out of loops: ``HoistIfThenElse`` in the variant "basic"."""
    return hoist_if_then_else(func, "basic")
