"""TextureFlatten: turns accesses of texture memory into reads and writes of images.

    X[n, c, h, w, v] = 1.0 (scope               T.texture2d_store(X, (n * 4 + c), (h * 8 + w), 1.0)
        "global.texture")

An image has two dimensions, and a vector (the last axis) in each place. The scope says where the
other axes are divided: "global.texture" puts the last two of them into the columns,
"global.texture-weight" all but the first, "global.texture-nhwc" all but the first two (of three
axes: all but the first).
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import Call, PrimExpr, Rewriter, StringImm, const
from tilesmith.ir import operators as ops
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Block, BufferRealize, BufferStore, Evaluate, LetStmt, Stmt

__all__ = ["texture_flatten", "texture_separator"]

TEXTURE = "global.texture"


def _is_texture(buffer: Buffer) -> bool:
    return buffer.scope().startswith(TEXTURE)


def texture_separator(buffer: Buffer) -> int:
    """Return the number of axes that are rows of an image; the last axis is the vector of a
    place."""
    if len(buffer.shape) < 3:
        raise UnsupportedError(
            f"buffer '{buffer.name}' in '{buffer.scope()}' has {len(buffer.shape)} axes, an image "
            "needs three: rows, columns, and the vector of a place"
        )
    kind = buffer.scope().removeprefix(TEXTURE)
    if kind == "":
        return max(1, len(buffer.shape) - 3)
    if kind == "-weight":
        return 1
    if kind == "-nhwc":
        return 1 if len(buffer.shape) == 3 else 2
    raise UnsupportedError(
        f"there is no texture memory '{buffer.scope()}'",
        notes=("scopes: global.texture, global.texture-weight, global.texture-nhwc",),
    )


class _TextureFlattener(Rewriter):
    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.firsts: dict[Buffer, list[PrimExpr]] = {}

    def place(self, buffer: Buffer, indices: Any) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
        """Return row, column and element of an access."""
        parts = [self.visit(index) for index in indices]
        firsts = self.firsts.get(buffer)
        if firsts is not None:
            parts = [index - first for index, first in zip(parts, firsts)]
        middle = texture_separator(buffer)
        row = self.flat(parts[:middle], buffer.shape[:middle])
        column = self.flat(parts[middle:-1], buffer.shape[middle:-1])
        return row, column, parts[-1]

    def flat(self, indices: Any, sizes: Any) -> PrimExpr:
        offset: PrimExpr = const(0, sizes[0].dtype)
        for index, size in zip(indices, sizes):
            offset = offset * size + index
        return self.analyzer.simplify(offset)

    def visit_BufferLoad(self, load: BufferLoad) -> PrimExpr:
        if not _is_texture(load.buffer):
            return self.children(load)
        row, column, element = self.place(load.buffer, load.indices)
        dtype = load.buffer.dtype.with_lanes(max(1, element.dtype.lanes))
        arguments = (load.buffer.data, row, column, element)
        return Call(dtype, "tir.texture2d_load", arguments)

    def visit_BufferStore(self, store: BufferStore) -> Stmt:
        if not _is_texture(store.buffer):
            return self.children(store)
        value = self.visit(store.value)
        row, column, element = self.place(store.buffer, store.indices)
        arguments: tuple[PrimExpr, ...] = (store.buffer.data, row, column, value)
        if element.dtype.lanes == 1 and not ops.is_const(element, 0):
            arguments = (*arguments, element)  # one element of a place
        return Evaluate(Call("void", "tir.texture2d_store", arguments), store.span)

    def visit_BufferRealize(self, realize: BufferRealize) -> Stmt:
        buffer = realize.buffer
        if not _is_texture(buffer):
            return self.children(realize)
        self.firsts[buffer] = [bound.min for bound in realize.bounds]
        live = buffer.with_fields(shape=tuple([bound.extent for bound in realize.bounds]))
        middle = texture_separator(live)
        body = self.visit(realize.body)
        sizes = [self.product(live.shape[middle:-1]), self.product(live.shape[:middle])]
        shape = Call("handle", "tir.tvm_stack_make_shape", tuple(sizes))
        arguments = (StringImm(buffer.scope()), const(2, "int64"), shape)
        memory = Call("handle", "tir.nd_mem_alloc_with_scope", arguments)
        return LetStmt(buffer.data, memory, body, realize.span)

    def product(self, sizes: Any) -> PrimExpr:
        total: PrimExpr = const(1, "int64")
        for size in sizes:
            total = total * ops.cast("int64", size)
        return self.analyzer.simplify(total)

    def visit_Block(self, block: Block) -> Block:
        for buffer in block.alloc_buffers:
            if _is_texture(buffer):
                raise UnsupportedError(
                    f"block '{block.name_hint}' allocates '{buffer.name}' in texture memory",
                    span=block.span,
                    notes=("images are parameters or parts of classic programs (BufferRealize)",),
                )
        return self.children(block)


@compiler_pass("tir.TextureFlatten")
def texture_flatten(func: PrimFunc) -> PrimFunc:
    """Turns accesses of texture memory into reads and writes of images.

    Returns ``func`` that reads and writes images where its buffers lie in texture memory.
    """
    return func.with_body(_TextureFlattener().visit(func.body))
