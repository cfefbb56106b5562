"""A mix-in that tracks ranges, conditions and values of the integer variables in scope.

A rewriter that inherits ``ScopedAnalyzer`` has an ``analyzer`` that knows the ranges of the loops
around the present statement, the conditions that hold there, and the values of lets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesmith.arith import Analyzer
from tilesmith.ir import Not, PrimExpr, Range
from tilesmith.tir.stmt import AttrStmt, BlockRealize, For, IfThenElse, LetStmt, Stmt

__all__ = ["ScopedAnalyzer"]


class ScopedAnalyzer:
    """Mix-in for rewriters of statements; it goes first in the list of bases."""

    def __init__(self) -> None:
        super().__init__()
        self.analyzer = Analyzer()

    if TYPE_CHECKING:  # of the rewriter that this is mixed into

        def visit(self, node: Any) -> Any: ...

    def visit_For(self, loop: For) -> Stmt:
        """Rewrite a loop with its variable bound to its range."""
        low, extent = self.visit(loop.min), self.visit(loop.extent)
        self.analyzer.bind(loop.loop_var, Range.from_min_extent(low, extent))
        body = self.visit(loop.body)
        if body is loop.body and low is loop.min and extent is loop.extent:
            return loop
        return loop.with_fields(min=low, extent=extent, body=body)

    def visit_IfThenElse(self, branch: IfThenElse) -> Stmt:
        """Rewrite a branch: its condition holds in one case and fails in the other."""
        condition = self.visit(branch.condition)
        then_case = self.visit_under(condition, branch.then_case)
        else_case = branch.else_case
        if else_case is not None:
            else_case = self.visit_under(Not(condition), else_case)
        if (
            condition is branch.condition
            and then_case is branch.then_case
            and else_case is branch.else_case
        ):
            return branch
        return IfThenElse(condition, then_case, else_case, branch.span)

    def visit_under(self, condition: PrimExpr, node: Any) -> Any:
        """Return ``node`` rewritten under the assumption that a condition holds."""
        with self.analyzer.constraint_scope(condition):
            return self.visit(node)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        """Rewrite a block: its iterators have ranges, its predicate holds inside."""
        values = tuple([self.visit(value) for value in realize.iter_values])
        predicate = self.visit(realize.predicate)
        for iterator in realize.block.iter_vars:
            self.analyzer.bind(iterator.var, iterator.dom)
        block = self.visit_under(predicate, realize.block)
        if block is realize.block and predicate is realize.predicate:
            if all(new is old for new, old in zip(values, realize.iter_values)):
                return realize
        return realize.with_fields(iter_values=values, predicate=predicate, block=block)

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        """Rewrite a let: the value is not substituted for the variable, but its bounds are
        known."""
        value = self.visit(let.value)
        if let.var.dtype.is_integer and let.var.dtype.lanes == 1:
            self.analyzer.update(let.var, self.analyzer.const_int_bound(value))
        body = self.visit(let.body)
        if value is let.value and body is let.body:
            return let
        return LetStmt(let.var, value, body, let.span)

    def visit_AttrStmt(self, attribute: AttrStmt) -> Stmt:
        """Rewrite an attribute; the extent of a thread gives its variable a range."""
        if attribute.attr_key in ("thread_extent", "virtual_thread"):
            extent = self.visit(attribute.value)
            var = attribute.node.var
            self.analyzer.bind(var, Range(extent.astype(var.dtype)))
        return attribute.map_children(self.visit)
