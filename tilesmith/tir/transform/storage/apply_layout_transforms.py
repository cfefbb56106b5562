"""ApplyLayoutTransforms: changes the layouts of buffers according to a function attribute.

The attribute ``layout_transform_map`` of a function gives, by the name of a buffer, one IndexMap
(or several, applied one after the other):

    A: (16, 8), lambda i, j: [j, i]             A: (8, 16)
    A[i, j] = ...                               A[j, i] = ...

Parameters change their shape as well: callers pass arrays in the new layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import UnknownNameError, UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.index_map import IndexMap
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import Block, BufferRealize, Stmt

__all__ = ["LAYOUT_TRANSFORMS", "apply_layout_transforms"]

LAYOUT_TRANSFORMS = "layout_transform_map"


class _LayoutApplier(AccessRedirection):
    def __init__(self, maps: Mapping[str, tuple[IndexMap, ...]]) -> None:
        self.maps = maps
        self.analyzer = Analyzer()
        self.buffers: dict[Buffer, Buffer] = {}
        self.seen: set[str] = set()

    def redirected(self, buffer: Buffer) -> Buffer | None:
        if buffer.name not in self.maps:
            return None
        found = self.buffers.get(buffer)
        if found is None:
            found = self.buffers[buffer] = self.transformed(buffer)
        return found

    def transformed(self, buffer: Buffer) -> Buffer:
        self.seen.add(buffer.name)
        if buffer.strides:
            raise UnsupportedError(f"buffer '{buffer.name}' has strides, its layout cannot change")
        shape = list(buffer.shape)
        for index_map in self.maps[buffer.name]:
            shape = [self.analyzer.simplify(size) for size in index_map.map_shape(shape)]
        if not self.analyzer.can_prove_equal(_product(shape), _product(buffer.shape)):
            raise UnsupportedError(
                f"the new layout of buffer '{buffer.name}' has more elements than the old one",
                notes=("a layout with padding needs blocks: sch.transform_layout(..., pad_value)",),
            )
        return buffer.with_fields(shape=tuple(shape), axis_separators=())

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        new = list(indices)
        for index_map in self.maps[buffer.name]:
            new = [self.analyzer.simplify(index) for index in index_map.map_indices(new)]
        return new

    def visit_BufferRealize(self, realize: BufferRealize) -> Stmt:
        if realize.buffer.name in self.maps:
            raise UnsupportedError(
                f"buffer '{realize.buffer.name}' is realized in part, its layout cannot change",
                span=realize.span,
            )
        return self.children(realize)

    def visit_Block(self, block: Block) -> Block:
        raise UnsupportedError(
            "ApplyLayoutTransforms works on loop programs without blocks",
            span=block.span,
            notes=("with blocks: sch.transform_layout(block, buffer, index_map)",),
        )


def _product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    total = sizes[0]
    for size in sizes[1:]:
        total = total * size
    return total


@compiler_pass("tir.ApplyLayoutTransforms")
def apply_layout_transforms(func: PrimFunc) -> PrimFunc:
    """Applies the layouts in the attribute ``layout_transform_map``.

    Returns ``func`` with the layouts that its attribute ``layout_transform_map`` asks for.
    """
    wanted = func.attrs.get(LAYOUT_TRANSFORMS)
    if not wanted:
        return func
    maps = {
        name: tuple(given) if isinstance(given, (list, tuple)) else (given,)
        for name, given in wanted.items()
    }
    applier = _LayoutApplier(maps)
    body = applier.visit(func.body)
    buffers = {
        param: applier.redirected(buffer) or buffer for param, buffer in func.buffer_map.items()
    }
    missing = sorted(set(maps) - applier.seen)
    if missing:
        known = ", ".join(sorted(buffer.name for buffer in func.buffers))
        raise UnknownNameError(
            f"the attribute '{LAYOUT_TRANSFORMS}' names the buffer '{missing[0]}', which the "
            "function does not have",
            notes=(f"parameters: {known}",),
        )
    new = func.with_fields(body=body, buffer_map=buffers)
    return new.without_attr(LAYOUT_TRANSFORMS)
