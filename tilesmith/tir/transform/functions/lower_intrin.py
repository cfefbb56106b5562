"""LowerIntrin: lowers operators to what the target of the function supports.

    B[i] = T.tanh(A[i])                         B[i] = T.Let(... a rational function ...)

The rules are in ``tir/transform/intrinsics``.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, GlobalVar, PrimExpr, Rewriter
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.intrinsics import lower_call, rules_of

__all__ = ["lower_intrin"]


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


@compiler_pass("tir.LowerIntrin")
def lower_intrin(func: PrimFunc, target: Any = None) -> PrimFunc:
    """Lowers operators for the target of each function.

    Returns ``func`` with the operators lowered for its target (attribute ``target``).
    """
    target = func.attrs.get("target") if target is None else Target(target)
    if target is None:
        return func
    lowerer = _IntrinsicLowerer(target)
    return func.with_body(lowerer.visit(func.body))
