"""LowerOpaqueBlock: replaces blocks without iterators by plain statements.

    for i in range(1):                          B_ptr = T.allocate([16], "float32")
        with T.block():                         B = T.decl_buffer([16], data=B_ptr)
            T.where(n > 0)                      if n > 0:
            B = T.alloc_buffer((16,))               B[0] = A[0]
            B[i] = A[i]

Loops of one iteration are removed. Loops that are bound to threads become ``thread_extent``
attributes. Annotations ``pragma_*`` of loops and blocks become attributes around them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import PrimExpr, Range, Var, const, convert
from tilesmith.ir.operators import floordiv, floormod, is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import PassContext
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import IterVar
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    Stmt,
)

__all__ = ["lower_opaque_block"]


def _allocation_shape(buffer: Buffer) -> tuple[PrimExpr, ...]:
    """Return the extents of the memory behind a buffer; padded strides make its rows longer."""
    if not buffer.shape:
        return (const(1, "int32"),)
    strides = buffer.strides
    if not strides:
        return buffer.shape
    steps = list(zip(strides, strides[1:]))
    exact = [is_const(inner, 1) or is_const(floormod(outer, inner), 0) for outer, inner in steps]
    if not is_const(strides[-1], 1) or not all(exact):
        return (strides[0] * buffer.shape[0],)
    return (buffer.shape[0], *[floordiv(outer, inner) for outer, inner in steps])


FOR_BACK_ENDS = ("pragma_unroll_disable",)
"""Pragmas that stay on their loops: a back end reads them there."""


def _is_pragma(key: str) -> bool:
    return key.startswith("pragma_") and key not in FOR_BACK_ENDS


def _pragmas(annotations: Mapping[str, Any], body: Stmt) -> Stmt:
    """Wrap ``body`` in attributes for the annotations that steer later passes."""
    for key, value in reversed(list(annotations.items())):
        if _is_pragma(key):
            body = AttrStmt(const(0, "int32"), key, convert(value), body)
    return body


class _BlockLowerer(BufferRemapper):
    def __init__(self, keep_unit_loops: bool) -> None:
        super().__init__()
        self.keep_unit_loops = keep_unit_loops
        self.values: dict[Var, PrimExpr] = {}
        self.threads: dict[str, IterVar] = {}

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    def visit_BlockRealize(self, realize: BlockRealize) -> Stmt:
        block: Block = realize.block
        if block.iter_vars or block.init is not None or block.match_buffers:
            raise UnsupportedError(
                f"block '{block.name_hint}' is not opaque",
                span=block.span,
                notes=("run LowerInitBlock, ConvertBlocksToOpaque and LowerMatchBuffer before",),
            )
        body = _pragmas(block.annotations, self.visit(block.body))
        predicate = self.visit(realize.predicate)
        if not is_const(predicate, 1):
            body = IfThenElse(predicate, body)
        for buffer in reversed([self.visit(buffer) for buffer in block.alloc_buffers]):
            body = DeclBuffer(buffer, body)
            extents = _allocation_shape(buffer)
            body = Allocate(buffer.data, buffer.dtype, extents, True, body, span=block.span)
        return body

    def visit_For(self, loop: For) -> Stmt:
        low, extent = self.visit(loop.min), self.visit(loop.extent)
        if loop.kind is ForKind.THREAD_BINDING:
            return self.bind_thread(loop, low, extent)
        if is_const(extent, 1) and not self.keep_unit_loops:
            self.values[loop.loop_var] = low
            return _pragmas(loop.annotations, self.visit(loop.body))
        body = self.visit(loop.body)
        kept = {key: value for key, value in loop.annotations.items() if not _is_pragma(key)}
        if body is loop.body and low is loop.min and extent is loop.extent:
            if len(kept) == len(loop.annotations):
                return loop
        new = For(loop.loop_var, low, extent, loop.kind, body, None, kept, loop.span)
        return _pragmas(loop.annotations, new)

    def bind_thread(self, loop: For, low: PrimExpr, extent: PrimExpr) -> Stmt:
        """Turn a loop over threads into an attribute; all loops over one thread axis share a
        variable."""
        binding = loop.thread_binding
        assert binding is not None
        tag = binding.thread_tag
        outer = self.threads.get(tag)
        if outer is None:
            var = loop.loop_var
            if not is_const(low, 0):
                var = Var(var.name, var.dtype)
                self.values[loop.loop_var] = low + var
            domain = Range.from_min_extent(const(0, var.dtype), extent.astype(var.dtype))
            outer = self.threads[tag] = IterVar(domain, var, IterVar.ThreadIndex, tag)
            body = _pragmas(loop.annotations, self.visit(loop.body))
            del self.threads[tag]
            key = "virtual_thread" if tag.startswith(("vthread", "cthread")) else "thread_extent"
            return AttrStmt(outer, key, extent, body, loop.span)
        self.values[loop.loop_var] = low + outer.var
        return _pragmas(loop.annotations, self.visit(loop.body))


@compiler_pass("tir.LowerOpaqueBlock")
def lower_opaque_block(func: PrimFunc) -> PrimFunc:
    """Turns blocks without iterators into plain statements.

    Returns ``func`` without blocks.
    """
    keep = PassContext.current().get_config("tir.debug_keep_trivial_loop", False)
    return func.with_body(_BlockLowerer(bool(keep)).visit(func.body))
