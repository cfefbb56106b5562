"""LiftThreadBinding: merges the loops over one thread axis at their common ancestor.

for bx in thread_binding("blockIdx.x"):     for bx in thread_binding("blockIdx.x"):
    for k in range(4):                          for k in range(4):
        for t0 in thread_binding(                   for threadIdx_x in thread_binding(
                32, "threadIdx.x"):                         32, "threadIdx.x"):
            S[t0] = ...                                 S[threadIdx_x] = ...
        for t1 in thread_binding(                       ... = S[31 - threadIdx_x]
                32, "threadIdx.x"):
            ... = S[31 - t1]
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr, Range, Var, Visitor, const, structural_equal
from tilesmith.ir.operators import is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.ir.visitor import Rewriter
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.queries import uses_variable
from tilesmith.tir.stmt import For, ForKind, LetStmt, Stmt

__all__ = ["lift_thread_binding"]


class _ThreadLoops(Visitor):
    """The loops over threads inside of a statement, by tag; nested ones of one tag count once."""

    def __init__(self) -> None:
        self.found: dict[str, list[For]] = {}
        self.around: list[str] = []

    def visit_For(self, node: For) -> None:
        binding = node.thread_binding
        if node.kind is not ForKind.THREAD_BINDING or binding is None:
            self.visit(node.body)
            return
        tag = binding.thread_tag
        if tag not in self.around:
            self.found.setdefault(tag, []).append(node)
        self.around.append(tag)
        self.visit(node.body)
        self.around.pop()


class _Removal(BufferRemapper):
    """Removes the loops over an axis; one variable replaces theirs."""

    def __init__(self, tag: str, var: Var) -> None:
        super().__init__()
        self.tag, self.var = tag, var
        self.values: dict[Var, PrimExpr] = {}

    def visit_Var(self, node: Var) -> Any:
        return self.values.get(node, node)

    def visit_For(self, node: For) -> Stmt:
        binding = node.thread_binding
        if binding is None or binding.thread_tag != self.tag:
            return self.children(node)
        value: PrimExpr = self.var
        if node.loop_var.dtype is not value.dtype:
            value = value.astype(node.loop_var.dtype)
        low = self.visit(node.min)
        if not is_const(low, 0):
            value = low + value
        self.values[node.loop_var] = self.values[binding.var] = value
        return self.visit(node.body)


class _Lifter(Rewriter):
    """Lifts from the innermost loops outward, so that each axis stops at the first loop around all
    its uses.
    """

    def visit_For(self, node: For) -> Stmt:
        body = self.visit(node.body)
        finder = _ThreadLoops()
        finder.visit(body)
        for tag, loops in reversed(finder.found.items()):
            if len(loops) > 1 and self.alike(loops, body):
                body = self.lifted(tag, loops, body)
        return node if body is node.body else node.with_fields(body=body)

    def alike(self, loops: list[For], body: Stmt) -> bool:
        """Return whether the loops have the same extent, which is known outside of the body."""
        extent = loops[0].extent
        bound = {loop.loop_var for loop in nodes(body, For)}
        bound.update([let.var for let in nodes(body, LetStmt)])
        if uses_variable(extent, bound):
            return False
        return all(structural_equal(loop.extent, extent) for loop in loops[1:])

    def lifted(self, tag: str, loops: list[For], body: Stmt) -> Stmt:
        first = loops[0]
        var = Var(tag.replace(".", "_"), first.loop_var.dtype)
        removed = _Removal(tag, var).visit(body)
        domain = Range.from_min_extent(const(0, var.dtype), first.extent)
        iterator = IterVar(domain, Var("", var.dtype), IterVar.ThreadIndex, tag)
        annotations: dict[str, Any] = {}
        for loop in loops:
            annotations.update(loop.annotations)
        return For(
            var, 0, first.extent, ForKind.THREAD_BINDING, removed, iterator, annotations, first.span
        )


@compiler_pass("tir.LiftThreadBinding")
def lift_thread_binding(func: PrimFunc) -> PrimFunc:
    """Merges the loops over one thread axis at their common ancestor.

    Returns ``func`` with one loop per thread axis below each loop that is around several.
    """
    return func.with_body(_Lifter().visit(func.body))
