"""SkipAssert: removes assertions."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Rewriter
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AssertStmt, Stmt

__all__ = ["skip_assert"]


class _Skipper(Rewriter):
    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_AssertStmt(self, check: AssertStmt) -> Stmt:
        return self.visit(check.body)


@compiler_pass("tir.SkipAssert")
def skip_assert(func: PrimFunc) -> PrimFunc:
    """Removes assertions.

    Returns ``func`` without assertions.
    """
    return func.with_body(_Skipper().visit(func.body))
