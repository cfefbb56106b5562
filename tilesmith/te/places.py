"""Gives statements made of tensor expressions the line of the program that they come from."""

from __future__ import annotations

from typing import TypeVar

from tilesmith.ir import Node
from tilesmith.ir.span import Span
from tilesmith.ir.visitor import Rewriter
from tilesmith.support.caller import CallerPlace
from tilesmith.tir.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    For,
    ProducerStore,
    Stmt,
)

__all__ = ["placed", "span_of"]

Placed = TypeVar("Placed", For, AttrStmt, Block, BlockRealize, BufferStore, ProducerStore)

_DIRECT = ("tilesmith.te.", "tilesmith.topi.")


def span_of(place: CallerPlace | None) -> Span | None:
    """Return the range of a call that made or scheduled an operation; None where compiling a model
    did: its call says nothing about the operation.
    """
    if place is None or not f"{place.called}.".startswith(_DIRECT):
        return None
    first, end = place.columns() or (1, 1)
    return Span(place.file, place.line, place.line, first, end)


def placed(stmt: Stmt, place: CallerPlace | None) -> Stmt:
    """Return a statement whose parts that have no place have this one."""
    span = span_of(place)
    return stmt if span is None else _Placing(span).visit(stmt)


class _Placing(Rewriter):
    """Sets the span of statements that have none."""

    def __init__(self, span: Span) -> None:
        self.span = span

    def visit_default(self, node: Node) -> Node:
        return node.map_children(self.visit) if isinstance(node, Stmt) else node

    def place(self, node: Placed) -> Placed:
        """Return a statement with its span, and those of its parts."""
        new: Placed = self.children(node)
        return new if new.span is not None else new.with_fields(span=self.span)

    def visit_For(self, node: For) -> Stmt:
        return self.place(node)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        return self.place(node)

    def visit_Block(self, node: Block) -> Block:
        return self.place(node)

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        return self.place(node)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        return self.place(node)

    def visit_ProducerStore(self, node: ProducerStore) -> Stmt:
        return self.place(node)
