"""RewriteUnsafeSelect: replaces a Select with unsafe operands by ``if_then_else``.

    B[i] = T.Select(i > 0, A[i - 1], 0.0)       B[i] = T.if_then_else(i > 0, A[i - 1], 0.0)

``Select`` evaluates both values. Where one of them reads outside of its buffer, divides an integer
by what may be zero, or calls something with side effects, only the chosen one may be evaluated.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    Call,
    CallEffectKind,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    PrimExpr,
    Ramp,
    Rewriter,
    Select,
)
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import any_node, called_name
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.scoped import ScopedAnalyzer

__all__ = ["rewrite_unsafe_select"]


class _SelectRewriter(ScopedAnalyzer, Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[int, Select] = {}  # with safe values, by identity: chains of them are long

    def visit_Select(self, expr: Select) -> PrimExpr:
        expr = expr.map_children(self.visit)
        if expr.condition.dtype.lanes > 1:
            return expr
        if self.is_safe(expr.true_value) and self.is_safe(expr.false_value):
            self._kept[id(expr)] = expr
            return expr
        arguments = (expr.condition, expr.true_value, expr.false_value)
        return Call(expr.dtype, "tir.if_then_else", arguments)

    def is_safe(self, expr: Any) -> bool:
        """Return whether an expression can be evaluated even if it is not chosen."""
        if id(expr) in self._kept:
            return self.is_safe(expr.condition)
        if isinstance(expr, BufferLoad):
            if expr.predicate is None and not self.is_inside(expr):
                return False
        elif isinstance(expr, Call):
            name = called_name(expr)
            if name == "tir.if_then_else":
                return self.is_safe(expr.args[0])
            if name == "tir.address_of":
                return True
            if effect_of(expr) not in (CallEffectKind.Pure, CallEffectKind.ExprAnnotation):
                return False
            if name in ("tir.call_pure_extern",):
                return False
        elif isinstance(expr, (Div, Mod, FloorDiv, FloorMod)) and not expr.dtype.is_float:
            if not isinstance(expr.b, IntImm) or expr.b.value == 0:
                return False
        for child in expr.children():
            if isinstance(child, PrimExpr) and not self.is_safe(child):
                return False
        return True

    def is_inside(self, load: BufferLoad) -> bool:
        """Return whether the indices of a load are within the buffer for all values of the
        loops."""
        for index, size in zip(load.indices, load.buffer.shape):
            ends: tuple[PrimExpr, ...] = (index,)
            if isinstance(index, Ramp):
                ends = (index.base, index.base + index.stride * (index.lanes - 1))
            elif index.dtype.lanes > 1:
                return False
            for end in ends:
                if not self.analyzer.can_prove(end >= 0) or not self.analyzer.can_prove(end < size):
                    return False
        return True


@compiler_pass("tir.RewriteUnsafeSelect")
def rewrite_unsafe_select(func: PrimFunc) -> PrimFunc:
    """Replaces selects with unsafe operands by ``if_then_else``.

    Returns ``func`` with ``if_then_else`` in place of selects that must not evaluate both values.
    """
    if not any_node(func.body, lambda node: isinstance(node, Select)):
        return func
    return func.with_body(_SelectRewriter().visit(func.body))
