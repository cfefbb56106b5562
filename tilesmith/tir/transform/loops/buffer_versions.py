"""Rewrites buffers that exist in several versions, one for each iteration in flight."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Call, PrimExpr, Range, Var, const
from tilesmith.ir.node import AnyNode
from tilesmith.ir.operators import floormod
from tilesmith.ir.queries import is_call
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.redirection import AccessRedirection

__all__ = ["VersionedBuffers"]


class VersionedBuffers(AccessRedirection):
    """Redirects accesses to the version of an iteration.

    The version is a new first dimension; ``counts`` tells how many there are of each buffer. With
    ``whole_regions`` the regions that blocks declare name all versions.
    """

    def __init__(self, counts: dict[Buffer, int], whole_regions: bool = False) -> None:
        self.whole_regions = whole_regions
        self.counts = counts
        self.pointers = {buffer.data: buffer for buffer in counts}
        self.made: dict[Buffer, Buffer] = {}
        self.number: PrimExpr = const(0, "int32")

    def redirected(self, old: Buffer) -> Buffer | None:
        """Return the buffer with all versions."""
        if old not in self.counts:
            return None
        found = self.made.get(old)
        if found is None:
            index_dtype = old.shape[0].dtype if old.shape else "int32"
            count = const(self.counts[old], index_dtype)
            strides = old.strides
            if strides:
                strides = (strides[0] * old.shape[0], *strides)
            separators = tuple([axis + 1 for axis in old.axis_separators])
            found = self.made[old] = old.with_fields(
                shape=(count, *old.shape), strides=strides, axis_separators=separators
            )
        return found

    def rewrite(self, stmt: AnyNode, number: PrimExpr) -> AnyNode:
        """Return ``stmt`` with accesses to the buffer versions of iteration ``number``, counted
        from zero.
        """
        self.number = number
        rewritten: AnyNode = self.visit(stmt)
        return rewritten

    def version(self, buffer: Buffer) -> PrimExpr:
        """Return the version that this iteration uses."""
        count = const(self.counts[buffer], self.number.dtype)
        found = floormod(self.number, count)
        wanted = buffer.shape[0].dtype if buffer.shape else found.dtype
        return found if found.dtype is wanted else found.astype(wanted)

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        return (self.version(buffer), *indices)

    def ranges(self, buffer: Buffer, ranges: tuple[Range, ...]) -> tuple[Range, ...]:
        version = self.version(buffer)
        count = self.counts[buffer] if self.whole_regions else 1
        low = const(0, version.dtype) if self.whole_regions else version
        return (Range.from_min_extent(low, const(count, version.dtype)), *ranges)

    def visit_Call(self, node: Call) -> PrimExpr:
        node = self.children(node)
        if not is_call(node, "tir.tvm_access_ptr"):
            return node
        annotation, data, offset, extent, mask = node.args
        buffer = self.pointers.get(data) if isinstance(data, Var) else None
        if buffer is None:
            return node
        size: Any = const(1, offset.dtype)  # of one version: with the padding between rows
        for one in (buffer.strides[0], buffer.shape[0]) if buffer.strides else buffer.shape:
            size = size * (one if one.dtype is size.dtype else one.astype(size.dtype))
        version = self.version(buffer)
        if version.dtype is not offset.dtype:
            version = version.astype(offset.dtype)
        args = (annotation, data, offset + version * size, extent, mask)
        return node.with_fields(args=args)
