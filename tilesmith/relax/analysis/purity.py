"""Side effects: which calls can be dropped, merged, or moved."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, Op
from tilesmith.relax.expr import Call, ExternFunc, Function, If, SeqExpr, Var
from tilesmith.relax.struct_info import FuncStructInfo

__all__ = ["contains_impure_call", "is_impure_call"]


def is_impure_call(call: Call, own_name: Any = None) -> bool:
    """Return whether a call may have a side effect. ``own_name``: the enclosing function, whose own
    purity is being determined.
    """
    callee = call.op
    if isinstance(callee, Op):
        if callee.spec is not None:
            return not callee.spec.is_pure
        return not callee.get_attr("FPurity", True)
    if own_name is not None and callee is own_name:
        return False
    if isinstance(callee, Function):
        return not callee.is_pure
    if isinstance(callee, (GlobalVar, Var, ExternFunc)):
        info = callee.struct_info
        return not (isinstance(info, FuncStructInfo) and info.purity)
    return True


def contains_impure_call(expr: Any, own_name: Any = None) -> bool:
    """Return whether evaluating an expression (or the body of a function) may have a side
    effect.
    """
    if isinstance(expr, Call):
        return is_impure_call(expr, own_name)
    if isinstance(expr, If):
        return contains_impure_call(expr.true_branch, own_name) or contains_impure_call(
            expr.false_branch, own_name
        )
    if isinstance(expr, Function):
        return expr.body is not None and contains_impure_call(expr.body, own_name)
    if isinstance(expr, SeqExpr):
        for block in expr.blocks:
            for binding in block.bindings:
                # A local function has effects where it is called, not where it is made.
                if isinstance(binding.value, Function):
                    continue
                if contains_impure_call(binding.value, own_name):
                    return True
        return contains_impure_call(expr.body, own_name)
    return False
