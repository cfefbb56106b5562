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

from tilesmith.ir import PrimExpr, Var
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import variables
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import statements, uses_variable
from tilesmith.tir.stmt import For, ForKind, IfThenElse, Stmt, stmt_seq
from tilesmith.tir.transform.loops.loop_partition import Conditions, Partitioner, Replacer
from tilesmith.tir.transform.scoped import ScopedAnalyzer

__all__ = ["peel_vector_tails"]

_KINDS = (ForKind.SERIAL, ForKind.UNROLLED, ForKind.PARALLEL)


class _TailConditions(Conditions):
    """Collects conditions of statements that depend on the lane of a vectorized loop."""

    enters_expressions = False

    def __init__(self, var: Var, body: Stmt) -> None:
        self.lanes: set[Var] = set()
        super().__init__(var, False, body)

    def enter_loop(self, loop: For) -> None:
        if loop.kind is ForKind.VECTORIZED:
            self.lanes.add(loop.loop_var)
        super().enter_loop(loop)

    def is_wanted(self, condition: PrimExpr) -> bool:
        return super().is_wanted(condition) and uses_variable(condition, self.lanes)


class _TailPeeler(Partitioner):
    """Peels inner loops first: a condition is removed at the innermost loop where that is
    possible."""

    def __init__(self, beside_lanes: set[Var]) -> None:
        super().__init__({})
        self.beside_lanes = beside_lanes  # no other loop has a condition to remove

    def visit_For(self, loop: For) -> Stmt:
        new = ScopedAnalyzer.visit_For(self, loop)
        if not isinstance(new, For) or new.kind not in _KINDS:
            return new
        if new.loop_var not in self.beside_lanes:
            return new
        conditions = _TailConditions(new.loop_var, new.body)
        found = self.free_stretch(new, conditions)
        if found is None:
            return new
        begin, end, proven = found
        stop = new.min + new.extent
        if begin is not new.min or not ops.is_const(self.analyzer.simplify(stop - end), 1):
            return new
        whole = self.part(new, begin, end, Replacer(proven).visit(new.body))
        tail = self.part(new, end, stop, new.body, renewed=True)
        return stmt_seq(whole, tail)


def _variables_beside_lanes(body: Stmt) -> set[Var]:
    """Return the variables that occur in the condition of a branch together with a lane."""
    lanes: set[Var] = set()
    conditions: list[PrimExpr] = []
    for stmt in statements(body):
        if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
            lanes.add(stmt.loop_var)
        elif isinstance(stmt, IfThenElse):
            conditions.append(stmt.condition)
    found: set[Var] = set()
    for condition in conditions if lanes else ():
        used = variables(condition)
        if not lanes.isdisjoint(used):
            found.update(used)
    return found


@compiler_pass("tir.PeelVectorTails")
def peel_vector_tails(func: PrimFunc) -> PrimFunc:
    """Peels the last iteration of a loop if only it needs a condition on vector lanes.

    The other iterations then run as full vectors without a predicate.
    """
    beside_lanes = _variables_beside_lanes(func.body)
    return func.with_body(_TailPeeler(beside_lanes).visit(func.body)) if beside_lanes else func
