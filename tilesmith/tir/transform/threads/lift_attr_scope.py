"""LiftAttrScope: merges equal attributes of all parts of a statement into one around it.

for i in range(4):                          with T.attr(0, "coproc_scope", 1):
    with T.attr(0, "coproc_scope", 1):          for i in range(4):
        A[i] = 1.0                                  A[i] = 1.0
"""

from __future__ import annotations

from typing import Any, TypeGuard

from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    stmt_seq,
)
from tilesmith.tir.transform.statement_rewriter import StatementRewriter

__all__ = ["lift_attr_scope"]


class _Lifter(StatementRewriter):
    def __init__(self, key: str) -> None:
        self.key = key

    def wanted(self, stmt: Stmt | None) -> TypeGuard[AttrStmt]:
        return isinstance(stmt, AttrStmt) and stmt.attr_key == self.key

    def same(self, a: Stmt | None, b: Stmt | None) -> bool:
        """Return whether two statements carry the same attribute."""
        if not isinstance(a, AttrStmt) or not isinstance(b, AttrStmt):
            return False
        if not self.wanted(a) or not self.wanted(b):
            return False
        return (a.node is b.node or structural_equal(a.node, b.node)) and structural_equal(
            a.value, b.value
        )

    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        """Merge equal attributes of neighbours into one."""
        parts = [self.visit(stmt) for stmt in sequence.seq]
        groups: list[list[Stmt]] = []
        for part in parts:
            if groups and self.same(groups[-1][0], part):
                groups[-1].append(part)
            else:
                groups.append([part])
        if len(groups) == len(parts):
            if all(a is b for a, b in zip(parts, sequence.seq)):
                return sequence
            return stmt_seq(*parts, span=sequence.span)
        return stmt_seq(*[self.merged(group) for group in groups], span=sequence.span)

    def merged(self, group: list[Stmt]) -> Stmt:
        first = group[0]
        if len(group) == 1:
            return first
        bodies = [part.body for part in group if self.wanted(part)]  # all of them are
        return first.with_fields(body=stmt_seq(*bodies))

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        """Merge nested attributes with equal keys and values; move the attribute out of others."""
        body = self.visit(attribute.body)
        new = attribute if body is attribute.body else attribute.with_fields(body=body)
        if not self.wanted(body):
            return new
        if new.attr_key == self.key:
            if not self.same(new, body):
                return new
            return new.with_fields(body=body.body)
        var = getattr(attribute.node, "var", None)
        return self.around(new, body, set() if var is None else {var})

    def around(self, outer: Stmt, inner: AttrStmt, bound: set[Any]) -> Stmt:
        """Return the attribute of ``inner`` around ``outer``, unless it depends on definitions in
        ``outer``.
        """
        if bound and (uses_variable(inner.value, bound) or uses_variable(inner.node, bound)):
            return outer
        return inner.with_fields(body=outer.with_fields(body=inner.body))

    def visit_For(self, loop: For) -> Stmt:
        new = self.children(loop)
        return self.around(new, new.body, {loop.loop_var}) if self.wanted(new.body) else new

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        new = self.children(let)
        return self.around(new, new.body, {let.var}) if self.wanted(new.body) else new

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        new = self.children(allocation)
        bound = {allocation.buffer_var}
        return self.around(new, new.body, bound) if self.wanted(new.body) else new

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> Stmt:
        new = self.children(declaration)
        return self.around(new, new.body, set()) if self.wanted(new.body) else new

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        new = self.children(branch)
        then_case, else_case = new.then_case, new.else_case
        if not self.wanted(then_case):
            return new
        if else_case is None:
            inner = new.with_fields(then_case=then_case.body)
            return then_case.with_fields(body=inner)
        if not self.wanted(else_case) or not self.same(then_case, else_case):
            return new
        inner = new.with_fields(then_case=then_case.body, else_case=else_case.body)
        return then_case.with_fields(body=inner)


@compiler_pass("tir.LiftAttrScope")
def lift_attr_scope(func: PrimFunc, attr_key: str) -> PrimFunc:
    """Moves the attributes ``attr_key`` outward.

    Returns ``func`` with the attributes of a key as far outside as they can stand.
    """
    return func.with_body(_Lifter(attr_key).visit(func.body))
