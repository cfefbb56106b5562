"""A rewriter that puts buffers elsewhere in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tilesmith.ir import PrimExpr, Rewriter
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.stmt import BufferStore, DeclBuffer, Stmt

__all__ = ["MovesAccesses"]


class MovesAccesses(Rewriter, ABC):
    """Loads, stores and declarations of buffers that ``buffer`` replaces."""

    @abstractmethod
    def buffer(self, old: Buffer) -> Buffer:
        """The buffer in the place of another, or that one itself."""

    @abstractmethod
    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """The indices of an access to a replaced buffer, in its new place."""

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        buffer, body = self.buffer(node.buffer), self.visit(node.body)
        if buffer is node.buffer and body is node.body:
            return node
        return DeclBuffer(buffer, body, node.span)

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        buffer = self.buffer(node.buffer)
        node = self.children(node)
        if buffer is node.buffer:
            return node
        indices = self.indices(node.buffer, node.indices)
        return BufferLoad(buffer, indices, node.predicate, node.span)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        buffer = self.buffer(node.buffer)
        node = self.children(node)
        if buffer is node.buffer:
            return node
        indices = self.indices(node.buffer, node.indices)
        return BufferStore(buffer, node.value, indices, node.predicate, node.span)
