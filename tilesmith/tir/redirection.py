"""Redirects accesses of buffers: to another buffer, to other indices, or both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from tilesmith.ir import PrimExpr, Range, Rewriter
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.stmt import Block, BufferStore, DeclBuffer, MatchBufferRegion, Stmt

__all__ = ["AccessRedirection", "ViewRedirection"]


class AccessRedirection(Rewriter, ABC):
    """Rewrites the accesses of some buffers; subclasses define which buffers and the new accesses.

    Loads, stores, regions that blocks declare or match, and the places that define a redirected
    buffer (``DeclBuffer``, allocations and matches of a block) follow. What takes the memory of a
    buffer as a whole does not: a subclass whose pointers change has ``visit_Var``, one that moves
    what ``tvm_access_ptr`` points at has ``visit_Call``.
    """

    @abstractmethod
    def redirected(self, buffer: Buffer) -> Buffer | None:
        """Return the buffer that replaces another; the buffer itself if only the indices change,
        None if its accesses are unchanged.
        """

    @abstractmethod
    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Sequence[PrimExpr]:
        """Return the new indices of a redirected access of ``buffer``; the given ones are already
        rewritten.
        """

    def ranges(self, buffer: Buffer, ranges: tuple[Range, ...]) -> Sequence[Range]:
        """Return the new ranges of a redirected region of ``buffer``: their starts are mapped as
        indices are, extents stay.
        """
        starts = self.indices(buffer, tuple([one.min for one in ranges]))
        return [one.with_fields(min=start) for one, start in zip(ranges, starts, strict=True)]

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        buffer = self.redirected(node.buffer)
        if buffer is None:
            return self.children(node)
        indices = self._indices(node)
        return BufferLoad(buffer, indices, self._predicate(node), node.span)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        buffer = self.redirected(node.buffer)
        if buffer is None:
            return self.children(node)
        value = self.visit(node.value)
        indices = self._indices(node)
        return BufferStore(buffer, value, indices, self._predicate(node), node.span)

    def _indices(self, node: BufferLoad | BufferStore) -> Sequence[PrimExpr]:
        return self.indices(node.buffer, tuple([self.visit(index) for index in node.indices]))

    def _predicate(self, node: BufferLoad | BufferStore) -> PrimExpr | None:
        return None if node.predicate is None else self.visit(node.predicate)

    def visit_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        buffer = self.redirected(node.buffer)
        if buffer is None:
            return self.children(node)
        ranges = tuple([self.visit(one) for one in node.region])
        return BufferRegion(buffer, self.ranges(node.buffer, ranges))

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> MatchBufferRegion:
        buffer, source = self._defined(node.buffer), self.visit(node.source)
        if buffer is node.buffer and source is node.source:
            return node
        return MatchBufferRegion(buffer, source)

    def visit_DeclBuffer(self, node: DeclBuffer) -> DeclBuffer:
        buffer, body = self._defined(node.buffer), self.visit(node.body)
        if buffer is node.buffer and body is node.body:
            return node
        return DeclBuffer(buffer, body, node.span)

    def visit_Block(self, node: Block) -> Block:
        new: Block = self.children(node)
        allocated = [self._defined(buffer) for buffer in node.alloc_buffers]
        if all(a is b for a, b in zip(allocated, node.alloc_buffers)):
            return new
        return new.with_fields(alloc_buffers=tuple(allocated))

    def _defined(self, buffer: Buffer) -> Buffer:
        new = self.redirected(buffer)
        return buffer if new is None else new


class ViewRedirection(AccessRedirection):
    """Redirects accesses of views (buffers that a block matches with regions) to their source
    buffers.

    A view may have fewer dimensions than its region: the first ones are left out then.
    """

    def __init__(self, sources: Mapping[Buffer, BufferRegion]) -> None:
        self.sources = dict(sources)

    def redirected(self, buffer: Buffer) -> Buffer | None:
        source = self.sources.get(buffer)
        return None if source is None else source.buffer

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        starts = [dim.min for dim in self.sources[buffer].region]
        more = len(starts) - len(indices)
        return [
            *starts[:more],
            *[start + index for start, index in zip(starts[more:], indices)],
        ]

    def ranges(self, buffer: Buffer, ranges: tuple[Range, ...]) -> list[Range]:
        shown = self.sources[buffer].region
        more = len(shown) - len(ranges)
        moved = [
            inner.with_fields(min=outer.min + inner.min)
            for outer, inner in zip(shown[more:], ranges)
        ]
        return [*shown[:more], *moved]
