"""LowerVtcmAlloc: lowers allocations of tightly coupled memory to calls of the runtime.

X = T.allocate([64], "int8", "global.vtcm")   with T.LetStmt(T.nd_mem_alloc_with_scope(
                                                  "global.vtcm", 1, shape), var=X): ...
"""

from __future__ import annotations

from tilesmith.ir import Call, PrimExpr, StringImm, const
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate, LetStmt, Stmt
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["lower_vtcm_alloc"]


class _VtcmLowerer(StatementRewriter):
    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        new = self.children(allocation)
        scope = allocation.buffer_var.storage_scope
        if not scope.startswith("global.vtcm"):
            return new
        sizes: list[PrimExpr] = [ops.cast("int64", extent) for extent in new.extents]
        shape = Call("handle", "tir.tvm_stack_make_shape", tuple(sizes))
        arguments = (StringImm(scope), const(len(sizes), "int64"), shape)
        memory = Call("handle", "tir.nd_mem_alloc_with_scope", arguments)
        return LetStmt(allocation.buffer_var, memory, new.body, allocation.span)


@compiler_pass("tir.LowerVtcmAlloc")
def lower_vtcm_alloc(func: PrimFunc) -> PrimFunc:
    """Lowers allocations of tightly coupled memory to calls of the runtime.

    Returns ``func`` that asks the runtime for memory in "global.vtcm".
    """
    return func.with_body(_VtcmLowerer().visit(func.body))
