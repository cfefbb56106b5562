"""The memory that the statements of a software pipeline touch, and their stores in the background.

A store in the background becomes visible only where another statement waits for it. A statement
that reads back what it wrote itself (a sum, or a copy through a buffer of its own) has no such
place: these stores are carried out at once, only its other stores run in the background.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, Var, Visitor, const
from tilesmith.ir.queries import is_call
from tilesmith.ir.visitor import Rewriter
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import AttrStmt, Block, BufferStore, MatchBufferRegion, Stmt

__all__ = ["in_background", "touched"]


class _Touches(Visitor):
    """Collects the memory that a statement reads and writes; any other use of a pointer counts as
    both.
    """

    def __init__(self) -> None:
        self.reads: set[Var] = set()
        self.writes: set[Var] = set()
        self.stored: set[Var] = set()  # of these, by stores of buffers
        self.same: dict[Var, Var] = {}

    def root(self, pointer: Var) -> Var:
        return self.same.get(pointer, pointer)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.reads.add(self.root(node.buffer.data))
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.writes.add(self.root(node.buffer.data))
        self.stored.add(self.root(node.buffer.data))
        self.visit_children(node)

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> None:
        self.same[node.buffer.data] = self.root(node.source.buffer.data)

    def visit_Block(self, node: Block) -> None:
        for match in node.match_buffers:
            self.visit(match)
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)

    def visit_Var(self, node: Var) -> None:
        if node.dtype.is_handle:
            self.reads.add(self.root(node))
            self.writes.add(self.root(node))

    def visit_Call(self, node: Any) -> None:
        if is_call(node, "tir.tvm_access_ptr") and isinstance(node.args[1], Var):
            mask = node.args[4].value if isinstance(node.args[4], IntImm) else 3
            pointer = self.root(node.args[1])
            if mask & 1:
                self.reads.add(pointer)
            if mask & 2:
                self.writes.add(pointer)
            self.visit(node.args[2])
            return
        self.visit_children(node)


def touched(stmt: Stmt) -> tuple[set[Var], set[Var]]:
    """Return the pointers behind which a statement reads and writes."""
    finder = _Touches()
    finder.visit(stmt)
    return finder.reads, finder.writes


class _StoreMarker(Rewriter):
    """Puts stores into ``async_scope``, except those to memory that the statement reads back."""

    def __init__(self, read_back: set[Var], touches: _Touches) -> None:
        self.read_back, self.touches = read_back, touches

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if self.touches.root(store.buffer.data) in self.read_back:
            return store
        return _async(store)


def in_background(stmt: Stmt) -> Stmt:
    """Wrap a statement in ``async_scope``; if it reads back some of its stores, wrap only the
    others.
    """
    finder = _Touches()
    finder.visit(stmt)
    read_back = finder.reads & finder.stored
    return _StoreMarker(read_back, finder).visit(stmt) if read_back else _async(stmt)


def _async(stmt: Stmt) -> Stmt:
    return AttrStmt(const(0, "int32"), "async_scope", const(1, "int32"), stmt)
