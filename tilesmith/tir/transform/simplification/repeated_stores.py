"""Removes stores of what is in memory already.

    for i in range(16):                         for i in range(16):
        A[i] = i * 2                                A[i] = i * 2
    A[3] = 6                                    for i in range(16):
    for i in range(16):                             if i != 0:
        if i != 0:                                      A[i] = A[i - 1]
            A[i] = A[i - 1]
        else:
            A[i] = A[0]

A value is in memory if it is loaded from the same element, or if the element is known to hold it.
Loops that are proven to have no iterations go as well.
"""

from __future__ import annotations

from tilesmith.ir import PrimExpr
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import can_fail, has_side_effect, reads_memory
from tilesmith.tir.stmt import BufferStore, For, LetStmt, Stmt, stmt_seq
from tilesmith.tir.transform.simplification.known_values import ValueFollower, has_other_names

__all__ = ["without_repeated_stores"]


class _Remover(ValueFollower):
    def __init__(self) -> None:
        super().__init__(everywhere=False, conditions=False)

    def condition(self, expr: PrimExpr) -> PrimExpr:
        """Return a condition as it is: branches are not decided here."""
        return expr

    def visit_LetStmt(self, let: LetStmt) -> Stmt:
        var, value = let.var, let.value
        if var.dtype.is_integer and var.dtype.lanes == 1 and not reads_memory(value):
            self.analyzer.bind(var, value)
        return super().visit_LetStmt(let)

    def visit_For(self, loop: For) -> Stmt:
        if not reads_memory(loop.extent) and self.analyzer.can_prove(loop.extent <= 0):
            return stmt_seq()
        return super().visit_For(loop)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        return stmt_seq() if self.is_repeated(store) else super().visit_BufferStore(store)

    def is_repeated(self, store: BufferStore) -> bool:
        value = store.value
        if store.predicate is not None or reads_memory(store.indices):
            return False
        if has_side_effect(value) or can_fail(store):
            return False
        if isinstance(value, BufferLoad) and value.buffer is store.buffer:
            if value.predicate is None and not reads_memory(value.indices):
                if all(self.is_same(a, b) for a, b in zip(value.indices, store.indices)):
                    return True
        new = self.visit(value)
        for elements in self.known:
            if elements.buffer is store.buffer:
                held = elements.value_at(store.indices, self.analyzer)
                if held is not None and self.is_same(held, new):
                    return True
        return False

    def is_same(self, one: PrimExpr, other: PrimExpr) -> bool:
        if structural_equal(one, other):
            return True
        if one.dtype is not other.dtype or not one.dtype.is_integer or one.dtype.lanes != 1:
            return False
        if reads_memory((one, other)):
            return False
        return self.analyzer.can_prove_equal(one, other)


def without_repeated_stores(func: PrimFunc) -> PrimFunc:
    """Return ``func`` without stores that change nothing and loops without iterations."""
    return func if has_other_names(func) else func.with_body(_Remover().visit(func.body))
