"""TransformMmaBufferLayout: maps the matrices of a warp to the registers of each thread.

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

from tilesmith.ir import IntImm, PointerType, PrimExpr, Range, Var, const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.redirection import AccessRedirection

__all__ = ["transform_mma_buffer_layout"]

TILES = {"m16n8k8.matrixA": (32, 8), "m16n8k8.matrixB": (8, 32), "m16n8k8.matrixC": (16, 8)}


def _places(scope: str, row: PrimExpr, column: PrimExpr) -> tuple[PrimExpr, ...]:
    """Return tile and register of an element."""
    rows, columns = TILES[scope]
    if scope == "m16n8k8.matrixB":
        return row // rows, column // columns, column % columns // 8, row % 2
    return row // rows, column // columns, row % rows // 8, column % 2


class _Transformer(AccessRedirection):
    def __init__(self) -> None:
        self.pointers: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def visit_Var(self, node: Var) -> Var:
        if node.storage_scope not in TILES:
            return node
        found = self.pointers.get(node)
        if found is None:
            pointed = node.type_annotation
            assert isinstance(pointed, PointerType)
            element = pointed.element_type
            found = self.pointers[node] = Var(node.name, PointerType(element, "local"))
        return found

    def redirected(self, node: Buffer) -> Buffer | None:
        if node.scope() not in TILES:
            return None
        found = self.buffers.get(node)
        if found is None:
            found = self.buffers[node] = self.divided(node)
        return found

    def divided(self, node: Buffer) -> Buffer:
        """Return the buffer with one axis for each part of a position."""
        scope = node.scope()
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

    def ranges(self, buffer: Buffer, ranges: tuple[Range, ...]) -> list[Range]:
        """Return the ranges of all tiles of the matrices that a region overlaps."""
        sizes = self.buffers[buffer].shape[-4:]
        return [
            *ranges[:-2],
            *[Range.from_min_extent(const(0, size.dtype), size) for size in sizes],
        ]


@compiler_pass("tir.TransformMmaBufferLayout")
def transform_mma_buffer_layout(func: PrimFunc) -> PrimFunc:
    """Maps the matrices of ``mma`` to the registers of each thread.

    Returns ``func`` with the matrices of m16n8k8 in registers.
    """
    return func.with_body(_Transformer().visit(func.body))
