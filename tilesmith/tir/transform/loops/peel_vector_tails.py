"""PeelVectorTails: peels the last iteration of a loop if only it needs a condition on vector lanes.

    for i in range(4):                          for i in range(3):
        for j in T.vectorized(8):                   for j in T.vectorized(8):
            if i * 8 + j < 30:                          B[i * 8 + j] = A[i * 8 + j]
                B[i * 8 + j] = A[i * 8 + j]         for j in T.vectorized(8):
                                                        if 24 + j < 30:
                                                            B[24 + j] = A[24 + j]

A condition on the lanes of a vectorized loop becomes a predicate, and vectors under a predicate
cost several times what plain ones do.
"""

from __future__ import annotations

from tilesmith.ir import PrimExpr, Select, Var
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import renew_defs
from tilesmith.tir.queries import has_loop_of_kind, uses_variable
from tilesmith.tir.stmt import For, ForKind, IfThenElse, Stmt, stmt_seq
from tilesmith.tir.transform.loops.loop_partition import Conditions, Partitioner, Replacer
from tilesmith.tir.transform.scoped import ScopedAnalyzer

__all__ = ["peel_vector_tails"]

_KINDS = (ForKind.SERIAL, ForKind.UNROLLED, ForKind.PARALLEL)


class _TailConditions(Conditions):
    """Collects conditions of statements that depend on the lane of a vectorized loop."""

    def __init__(self, var: Var) -> None:
        super().__init__(var, False)
        self.lanes: set[Var] = set()

    def visit_For(self, loop: For) -> None:
        if loop.kind is ForKind.VECTORIZED:
            self.lanes.add(loop.loop_var)
        super().visit_For(loop)

    def visit_Select(self, expr: Select) -> None:
        self.visit_children(expr)

    visit_Call = visit_Select  # type: ignore[assignment]

    def is_wanted(self, condition: PrimExpr) -> bool:
        return super().is_wanted(condition) and uses_variable(condition, self.lanes)


class _TailPeeler(Partitioner):
    """Peels inner loops first: a condition is removed at the innermost loop where that is
    possible."""

    def visit_For(self, loop: For) -> Stmt:
        new = ScopedAnalyzer.visit_For(self, loop)
        if not isinstance(new, For) or new.kind not in _KINDS:
            return new
        if not has_loop_of_kind(new.body, ForKind.VECTORIZED):
            return new
        conditions = _TailConditions(new.loop_var)
        conditions.visit(new.body)
        found = self.free_stretch(new, conditions)
        if found is None:
            return new
        begin, end, proven = found
        stop = new.min + new.extent
        if begin is not new.min or not ops.is_const(self.analyzer.simplify(stop - end), 1):
            return new
        whole = self.part(new, begin, end, Replacer(proven).visit(new.body))
        tail = self.part(new, end, stop, renew_defs(new.body))
        return stmt_seq(whole, tail)


@compiler_pass("tir.PeelVectorTails")
def peel_vector_tails(func: PrimFunc) -> PrimFunc:
    """Peels the last iteration of a loop if only it needs a condition on vector lanes.

    The other iterations then run as full vectors without a predicate.
    """
    if not any(nodes(func.body, IfThenElse)):
        return func
    if not has_loop_of_kind(func.body, ForKind.VECTORIZED):
        return func
    return func.with_body(_TailPeeler({}).visit(func.body))
