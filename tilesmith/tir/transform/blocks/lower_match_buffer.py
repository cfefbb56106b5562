"""LowerMatchBuffer: redirects accesses of a matched buffer to the buffer that it is a view of.

    with T.block():                             with T.block():
        sub = T.match_buffer(A[i:i+4, j], (4,))
        sub[k] = 0.0                                A[i + k, j] = 0.0

Symbolic strides, offsets and sizes of the matched buffer are replaced by those of the region.
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr, Var, const
from tilesmith.ir.operators import cast, is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import ShapeError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.redirection import ViewRedirection
from tilesmith.tir.stmt import Block, MatchBufferRegion

__all__ = ["lower_match_buffer", "row_major_strides"]


def row_major_strides(buffer: Buffer) -> list[PrimExpr]:
    """Return the strides of a buffer in elements, computed from the shape where it declares
    none."""
    if buffer.strides:
        return list(buffer.strides)
    strides: list[PrimExpr] = []
    stride: PrimExpr = const(1, buffer.shape[0].dtype) if buffer.shape else const(1, "int32")
    for size in reversed(buffer.shape):
        strides.append(stride)
        stride = stride * size
    return strides[::-1]


class _MatchLowerer(ViewRedirection):
    def __init__(self) -> None:
        super().__init__({})
        self.values: dict[Var, PrimExpr] = {}
        self.analyzer = Analyzer()

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    def visit_Block(self, block: Block) -> Block:
        if not block.match_buffers:
            return self.children(block)
        for match in block.match_buffers:
            self.match(match, block)
        return self.children(block.with_fields(match_buffers=()))

    def match(self, match: MatchBufferRegion, block: Block) -> None:
        """Record the values of the variables that a match introduces."""
        buffer, source = match.buffer, self.visit(match.source)
        leading = len(source.region) - len(buffer.shape)
        if leading < 0 or not all(is_const(dim.extent, 1) for dim in source.region[:leading]):
            raise ShapeError(
                f"block '{block.name_hint}': '{buffer.name}' with {len(buffer.shape)} dimensions "
                f"cannot match a region of '{source.buffer.name}' with {len(source.region)}",
                span=block.span,
                notes=("dimensions that the match leaves out must have extent 1",),
            )
        self.sources[buffer] = source
        self.bind(buffer.data, source.buffer.data)
        strides = row_major_strides(source.buffer)
        offset = source.buffer.elem_offset
        for dim, stride in zip(source.region, strides):
            offset = offset + dim.min * stride
        if isinstance(buffer.elem_offset, Var):
            self.bind(buffer.elem_offset, self.analyzer.simplify(offset))
        for stride, value in zip(buffer.strides, strides[leading:]):
            self.bind(stride, value)
        for size, dim in zip(buffer.shape, source.region[leading:]):
            self.bind(size, dim.extent)

    def bind(self, name: Any, value: PrimExpr) -> None:
        if isinstance(name, Var) and name not in self.values:
            self.values[name] = value if name.dtype.is_handle else cast(name.dtype, value)


@compiler_pass("tir.LowerMatchBuffer")
def lower_match_buffer(func: PrimFunc) -> PrimFunc:
    """Replaces matched buffers by the regions that they are views of.

    Returns ``func`` without ``match_buffers`` in its blocks.
    """
    return func.with_body(_MatchLowerer().visit(func.body))
