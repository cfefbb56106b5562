"""Moves allocations of open size out of serial loops, so that they are not made in each iteration.

    for i in range(m):                          a = T.allocate([n], "float32")
        a = T.allocate([n], "float32")    →     for i in range(m):
        ... a ...                                   ... a ...

Those of constant size have other ways (see ``storage_rewrite``). An allocation in a branch stays:
the branch may never be taken. Nor may the loop run at all: then a size that is negative counts as
zero, and what divides by a number that may be zero stays.
"""

from __future__ import annotations

from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, Rewriter, Var, const
from tilesmith.ir import operators as ops
from tilesmith.tir.queries import is_speculable, uses_variable
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
)

__all__ = ["lift_allocations"]

_GLOBAL = ("", "global")


def _at_least_zero(size: PrimExpr) -> PrimExpr:
    if Analyzer().can_prove(size >= 0):
        return size
    return ops.maximum(size, const(0, size.dtype))


class _Taker(Rewriter):
    """Takes the allocations out of the body of a loop that do not depend on it."""

    def __init__(self, variable: Var) -> None:
        self.inside = {variable}
        self.taken: list[Allocate] = []

    def visit_default(self, node: Stmt) -> Stmt:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_For(self, loop: For) -> Stmt:
        return loop  # what can leave it has left it

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        return branch

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        self.inside.add(let.var)
        return self.children(let)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        is_plain = attribute.attr_key.startswith("pragma_")
        return self.children(attribute) if is_plain else attribute

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        body = self.visit(allocation.body)
        sizes = allocation.extents
        is_open = not all(isinstance(size, IntImm) for size in sizes)
        is_free = not uses_variable(sizes, self.inside) and is_speculable(sizes)
        is_always = ops.is_const(allocation.condition, 1)
        scope = allocation.buffer_var.storage_scope or "global"
        if is_open and is_free and is_always and scope in _GLOBAL:
            lifted = tuple([_at_least_zero(size) for size in sizes])
            self.taken.append(allocation.with_fields(extents=lifted))
            return body
        return allocation.with_fields(body=body)


class _Lifter(Rewriter):
    def visit_default(self, node: Stmt) -> Stmt:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def visit_DeclBuffer(self, declaration: DeclBuffer) -> Stmt:
        return declaration.with_fields(body=self.visit(declaration.body))

    def visit_For(self, loop: For) -> Stmt:
        new = self.children(loop)
        if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            return new
        taker = _Taker(loop.loop_var)
        body = taker.visit(new.body)
        if not taker.taken:
            return new
        made: Stmt = new.with_fields(body=body)
        for allocation in taker.taken:  # inner ones first
            made = allocation.with_fields(body=made)
        return made


def lift_allocations(stmt: Stmt) -> Stmt:
    """Return a statement whose serial loops do not allocate memory of the same open size anew."""
    return _Lifter().visit(stmt)
