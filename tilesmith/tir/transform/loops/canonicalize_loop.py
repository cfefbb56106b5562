"""CanonicalizeLoop: normalises loops to start at zero.

for i in range(3, 8):                       for i in range(5):
    B[i] = A[i]                                 B[i + 3] = A[i + 3]
"""

from __future__ import annotations

from tilesmith.ir import Var
from tilesmith.ir.operators import is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import substitute
from tilesmith.tir.stmt import For, Stmt
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["canonicalize_loop"]


class _Canonicalizer(StatementRewriter):
    def visit_For(self, loop: For) -> Stmt:
        body = self.visit(loop.body)
        if is_const(loop.min, 0):
            return loop if body is loop.body else loop.with_fields(body=body)
        var = Var(loop.loop_var.name, loop.loop_var.dtype, loop.loop_var.span)
        body = substitute(body, {loop.loop_var: var + loop.min})
        return loop.with_fields(loop_var=var, min=0, body=body)


@compiler_pass("tir.CanonicalizeLoop")
def canonicalize_loop(func: PrimFunc) -> PrimFunc:
    """Normalises loops to start at zero.

    Returns ``func`` with loops that start at zero.
    """
    return func.with_body(_Canonicalizer().visit(func.body))
