"""SkipAssert: assertions are dropped."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Rewriter
from tilesmith.ir.transform import Pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AssertStmt, Stmt
from tilesmith.tir.transform.registration import function_pass, register_pass

__all__ = ["SkipAssert", "skip_assert"]


class _Skipper(Rewriter):
    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_AssertStmt(self, check: AssertStmt) -> Stmt:
        return self.visit(check.body)


def skip_assert(func: PrimFunc) -> PrimFunc:
    """``func`` without assertions."""
    return func.with_body(_Skipper().visit(func.body))


@register_pass("tir.SkipAssert")
def SkipAssert() -> Pass:  # noqa: N802
    """The pass that drops assertions."""
    return function_pass(skip_assert, "tir.SkipAssert")
