"""TransformMmaBufferLayout: matrices of a warp become the registers that each thread holds.

    C = T.alloc_buffer((32, 16),                C = T.alloc_buffer((2, 2, 2, 2), scope="local")
            scope="m16n8k8.matrixC")
    C[i, j] = ...                               C[i // 16, j // 8, i % 16 // 8, j % 2] = ...

for the operands of ``mma`` of shape m16n8k8. Which thread holds an element is not part of the index
any more: the program has to touch an element in its thread only, which is lane ``i % 8 * 4 + j % 8
// 2`` for matrixA and matrixC, ``j % 8 * 4 + i % 8 // 2`` for matrixB. The last two dimensions of a
buffer are those of the matrix: multiples of 32 by 8 (matrixA), 8 by 32 (matrixB), 16 by 8
(matrixC).
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IntImm, PointerType, PrimExpr, Range, Var, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad, BufferRegion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.functor import BufferRemapper
from tilesmith.tir.stmt import BufferStore, Stmt

__all__ = ["transform_mma_buffer_layout"]

TILES = {"m16n8k8.matrixA": (32, 8), "m16n8k8.matrixB": (8, 32), "m16n8k8.matrixC": (16, 8)}


def _places(scope: str, row: PrimExpr, column: PrimExpr) -> tuple[PrimExpr, ...]:
    """Tile and register of an element."""
    rows, columns = TILES[scope]
    if scope == "m16n8k8.matrixB":
        return row // rows, column // columns, column % columns // 8, row % 2
    return row // rows, column // columns, row % rows // 8, column % 2


class _Transformer(BufferRemapper):
    def __init__(self) -> None:
        super().__init__()
        self.pointers: dict[Var, Var] = {}

    def visit_Var(self, node: Var) -> Var:
        if node.storage_scope not in TILES:
            return node
        found = self.pointers.get(node)
        if found is None:
            element = node.type_annotation.element_type  # type: ignore[union-attr]
            found = self.pointers[node] = Var(node.name, PointerType(element, "local"))
        return found

    def remap_buffer(self, node: Buffer) -> Buffer:
        scope = node.scope()
        if scope not in TILES:
            return super().remap_buffer(node)
        rows, columns = TILES[scope]
        sizes = node.shape[-2:]
        fits = len(sizes) == 2 and not node.strides and all(isinstance(s, IntImm) for s in sizes)
        if not fits or sizes[0].value % rows or sizes[1].value % columns:  # type: ignore[attr-defined]
            raise UnsupportedError(
                f"'{node.name}' lies in '{scope}', so its last dimensions must be multiples of "
                f"{rows} and {columns}"
            )
        last = const(2 if scope == "m16n8k8.matrixC" else 4, sizes[0].dtype)
        two = const(2, sizes[0].dtype)
        shape = (*node.shape[:-2], sizes[0] // rows, sizes[1] // columns, last, two)
        return node.with_fields(data=self.visit(node.data), shape=shape)

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        *outer, row, column = indices
        if column.dtype.lanes > 1:
            raise UnsupportedError(f"vectors of '{buffer.name}' do not lie side by side")
        return (*outer, *_places(buffer.scope(), row, column))

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        old = node.buffer
        indices = tuple([self.visit(index) for index in node.indices])
        if old.scope() in TILES:
            return BufferLoad(self.visit(old), self.indices(old, indices), None, node.span)
        return self.children(node)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        old = node.buffer
        if old.scope() not in TILES:
            return self.children(node)
        indices = tuple([self.visit(index) for index in node.indices])
        value = self.visit(node.value)
        return BufferStore(self.visit(old), value, self.indices(old, indices), None, node.span)

    def visit_BufferRegion(self, node: Any) -> Any:
        if node.buffer.scope() not in TILES:
            return self.children(node)
        buffer = self.visit(node.buffer)
        outer = [self.visit(part) for part in node.region[:-2]]
        whole = [Range.from_min_extent(size * 0, size) for size in buffer.shape[-4:]]
        return BufferRegion(buffer, (*outer, *whole))


@compiler_pass("tir.TransformMmaBufferLayout")
def transform_mma_buffer_layout(func: PrimFunc) -> PrimFunc:
    """Gives each thread its registers of the matrices of ``mma``.

    ``func`` with the matrices of m16n8k8 in registers.
    """
    return func.with_body(_Transformer().visit(func.body))
