"""RemoveStoreUndef: removes stores of ``T.undef()``, which only mark memory as initialised."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Cast, PrimExpr, Rewriter, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import BufferStore, Evaluate, For, IfThenElse, Stmt, is_no_op

__all__ = ["remove_store_undef"]


def _is_undef(value: PrimExpr) -> bool:
    while isinstance(value, Cast):
        value = value.value
    return is_call(value, "tir.undef")


class _UndefRemover(Rewriter):
    def visit_default(self, node: Any) -> Any:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        return Evaluate(const(0, "int32")) if _is_undef(store.value) else store

    def visit_For(self, loop: For) -> Stmt:
        """Remove a loop that held only such stores."""
        body = self.visit(loop.body)
        if body is loop.body:
            return loop
        return body if is_no_op(body) else loop.with_fields(body=body)

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        new = branch.map_children(lambda node: self.visit(node) if isinstance(node, Stmt) else node)
        if new is branch or not is_no_op(new.then_case):
            return new
        is_empty = new.else_case is None or is_no_op(new.else_case)
        return new.then_case if is_empty else new


@compiler_pass("tir.RemoveStoreUndef")
def remove_store_undef(func: PrimFunc) -> PrimFunc:
    """Removes stores of undefined values.

    Returns ``func`` without stores of undefined values.
    """
    return func.with_body(_UndefRemover().visit(func.body))
