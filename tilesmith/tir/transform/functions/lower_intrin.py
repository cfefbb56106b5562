"""LowerIntrin: operators become what the target of the function can do.

    B[i] = T.tanh(A[i])                         B[i] = T.Let(... a rational function ...)

The rules stand in ``tir/transform/intrinsics``.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, GlobalVar, PrimExpr, Rewriter
from tilesmith.ir.transform import Pass
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.intrinsics import lower_call, rules_of
from tilesmith.tir.transform.registration import function_pass, register_pass

__all__ = ["LowerIntrin", "lower_intrin"]


class _IntrinsicLowerer(Rewriter):
    def __init__(self, target: Target) -> None:
        self.target = target
        self.rules = rules_of(target)

    def visit_Call(self, call: Call) -> PrimExpr:
        call = call.map_children(self.visit)
        if isinstance(call.op, GlobalVar):
            return call
        found = lower_call(call, self.target, self.rules)
        return call if found is None else found


def lower_intrin(func: PrimFunc, target: Any = None) -> PrimFunc:
    """``func`` with the operators lowered for its target (attribute ``target``)."""
    target = func.attrs.get("target") if target is None else Target(target)
    if target is None:
        return func
    lowerer = _IntrinsicLowerer(target)
    return func.with_body(lowerer.visit(func.body))


@register_pass("tir.LowerIntrin")
def LowerIntrin() -> Pass:  # noqa: N802
    """The pass that lowers operators for the target of each function."""
    return function_pass(lower_intrin, "tir.LowerIntrin")
