"""Removes dead stores: stores that are overwritten before they are read.

    for i in range(16):                         for i in range(16):
        A[i] = 0                                    A[i] = B[i]
    for i in range(16):
        A[i] = B[i]

It compares neighbours in a sequence: single stores, and nests of loops around one store, that
write the same elements in the same order.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, CallEffectKind, Node, Rewriter, Var, const
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.queries import any_node
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import can_fail, has_side_effect
from tilesmith.tir.stmt import BufferStore, For, IfThenElse, SeqStmt, Stmt, stmt_seq

__all__ = ["without_dead_stores"]


def _the_store(stmt: Stmt) -> BufferStore | None:
    """Return the only store inside loops (and conditions)."""
    while True:
        if isinstance(stmt, BufferStore):
            return stmt
        if isinstance(stmt, For):
            stmt = stmt.body
        elif isinstance(stmt, IfThenElse) and stmt.else_case is None:
            stmt = stmt.then_case
        else:
            return None


def _where(stmt: Any) -> Any:
    """Return a copy of a statement without the stored value, to compare the locations of two
    stores.
    """
    if isinstance(stmt, BufferStore):
        return BufferStore(stmt.buffer, const(0, stmt.value.dtype), stmt.indices, stmt.predicate)
    if isinstance(stmt, For):
        return For(stmt.loop_var, stmt.min, stmt.extent, 0, _where(stmt.body))
    return stmt.with_fields(then_case=_where(stmt.then_case))


def _reads(stmt: Stmt, pointer: Var) -> bool:
    """Return whether a statement may read the memory behind a pointer."""

    def looks(node: Node) -> bool:
        if isinstance(node, Call):  # external code, or the end of the function
            return effect_of(node) >= CallEffectKind.UpdateState
        return node is pointer or (isinstance(node, BufferLoad) and node.buffer.data is pointer)

    return any_node(stmt, looks)


def _has_load(stmt: Stmt) -> bool:
    return any_node(stmt, lambda node: isinstance(node, BufferLoad))


class _Remover(Rewriter):
    def visit_SeqStmt(self, sequence: SeqStmt) -> Stmt:
        parts = [self.visit(stmt) for stmt in sequence.seq]
        kept = [stmt for number, stmt in enumerate(parts) if not self.is_dead(parts, number)]
        if len(kept) == len(parts) and all(a is b for a, b in zip(parts, sequence.seq)):
            return sequence
        return stmt_seq(*kept, span=sequence.span)

    def is_dead(self, parts: list[Stmt], number: int) -> bool:
        store = _the_store(parts[number])
        if store is None or has_side_effect(store.value) or can_fail(parts[number]):
            return False
        if _has_load(_where(parts[number])):
            return False
        for later in parts[number + 1 :]:
            if _reads(later, store.buffer.data):
                return False
            other = _the_store(later)
            if other is not None and other.buffer is store.buffer:
                if structural_equal(_where(parts[number]), _where(later)):
                    return True
        return False


def without_dead_stores(func: PrimFunc) -> PrimFunc:
    """Return ``func`` without stores that later ones overwrite, unless its buffers may overlap."""
    if not func.attrs.get("tir.noalias", False):
        return func
    return func.with_body(_Remover().visit(func.body))
