"""LowerMatchBuffer: accesses to a matched buffer become accesses to the buffer behind it.

    with T.block():                             with T.block():
        sub = T.match_buffer(A[i:i+4, j], (4,))
        sub[k] = 0.0                                A[i + k, j] = 0.0

Symbolic strides, offsets and sizes of the matched buffer are replaced by those of the region.
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr, Rewriter, Var, const
from tilesmith.ir.operators import cast, is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import ShapeError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, BufferStore, MatchBufferRegion

__all__ = ["lower_match_buffer", "row_major_strides"]


def row_major_strides(buffer: Buffer) -> list[PrimExpr]:
    """The strides of a buffer in elements, computed from the shape where it declares none."""
    if buffer.strides:
        return list(buffer.strides)
    strides: list[PrimExpr] = []
    stride: PrimExpr = const(1, buffer.shape[0].dtype) if buffer.shape else const(1, "int32")
    for size in reversed(buffer.shape):
        strides.append(stride)
        stride = stride * size
    return strides[::-1]


class _MatchLowerer(Rewriter):
    def __init__(self) -> None:
        self.regions: dict[Buffer, BufferRegion] = {}
        self.values: dict[Var, PrimExpr] = {}
        self.analyzer = Analyzer()

    def visit_Var(self, var: Var) -> PrimExpr:
        return self.values.get(var, var)

    def indices(self, region: BufferRegion, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        """Where an element of the matched buffer lies in the buffer behind it."""
        leading = len(region.region) - len(indices)
        starts = [dim.min for dim in region.region]
        own = [start + index for start, index in zip(starts[leading:], indices)]
        return starts[:leading] + own

    def visit_BufferLoad(self, load: BufferLoad) -> BufferLoad:
        load = self.children(load)
        region = self.regions.get(load.buffer)
        if region is None:
            return load
        return BufferLoad(
            region.buffer, self.indices(region, load.indices), load.predicate, load.span
        )

    def visit_BufferStore(self, store: BufferStore) -> BufferStore:
        store = self.children(store)
        region = self.regions.get(store.buffer)
        if region is None:
            return store
        return BufferStore(
            region.buffer, store.value, self.indices(region, store.indices), store.predicate,
            store.span,
        )  # fmt: skip

    def visit_BufferRegion(self, region: BufferRegion) -> BufferRegion:
        region = self.children(region)
        behind = self.regions.get(region.buffer)
        if behind is None:
            return region
        leading = len(behind.region) - len(region.region)
        ranges = list(behind.region[:leading])
        for outer, inner in zip(behind.region[leading:], region.region):
            ranges.append(inner.with_fields(min=outer.min + inner.min))
        return BufferRegion(behind.buffer, tuple(ranges))

    def visit_Block(self, block: Block) -> Block:
        if not block.match_buffers:
            return self.children(block)
        for match in block.match_buffers:
            self.match(match, block)
        return self.children(block.with_fields(match_buffers=()))

    def match(self, match: MatchBufferRegion, block: Block) -> None:
        """Note what the names that a match introduces stand for."""
        buffer, source = match.buffer, self.visit(match.source)
        leading = len(source.region) - len(buffer.shape)
        if leading < 0 or not all(is_const(dim.extent, 1) for dim in source.region[:leading]):
            raise ShapeError(
                f"block '{block.name_hint}': '{buffer.name}' with {len(buffer.shape)} dimensions "
                f"cannot match a region of '{source.buffer.name}' with {len(source.region)}",
                span=block.span,
                notes=("dimensions that the match leaves out must have extent 1",),
            )
        self.regions[buffer] = source
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
    """Replaces matched buffers by the regions behind them.

    ``func`` without ``match_buffers`` in its blocks.
    """
    return func.with_body(_MatchLowerer().visit(func.body))
