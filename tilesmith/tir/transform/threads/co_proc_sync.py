"""CoProcSync: raises an error for functions that need synchronisation with a co-processor.

A function without attributes ``coproc_scope`` runs on one processor and needs none. With them, the
synchronisation belongs to the accelerator's own back end, which this compiler does not have: the
pass refuses such functions instead of leaving it out.
"""

from __future__ import annotations

from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import AttrStmt, Stmt
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = []


class _Refusal(StatementRewriter):
    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        if attribute.attr_key in ("coproc_scope", "coproc_uop_scope"):
            raise UnsupportedError(
                "the function uses a co-processor (attribute 'coproc_scope'), for which there is "
                "no back end that could wait for it",
                span=attribute.span,
                notes=("compile for a target without co-processor: drop the attribute",),
            )
        return self.children(attribute)


@compiler_pass("tir.CoProcSync")
def _check(func: PrimFunc) -> PrimFunc:
    """Raises an error for functions that use a co-processor."""
    _Refusal().visit(func.body)
    return func
