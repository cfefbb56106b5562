"""RemoveAssume: removes assumptions (``T.assume``) after the last pass that uses them."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Rewriter, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Evaluate, For, Stmt, is_no_op

__all__ = ["remove_assume"]


class _AssumeRemover(Rewriter):
    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_Evaluate(self, evaluation: Evaluate) -> Stmt:
        value = evaluation.value
        if is_call(value, "tir.assume"):
            return Evaluate(const(0, "int32"))
        return evaluation

    def visit_For(self, loop: For) -> Stmt:
        """Remove a loop that held only assumptions."""
        body = self.visit(loop.body)
        if body is loop.body:
            return loop
        return body if is_no_op(body) else loop.with_fields(body=body)


@compiler_pass("tir.RemoveAssume")
def remove_assume(func: PrimFunc) -> PrimFunc:
    """Removes assumptions.

    Returns ``func`` without assumptions.
    """
    return func.with_body(_AssumeRemover().visit(func.body))
