"""InjectPermutedLayout: permutes rows of shared memory so that columns lie in different banks.

    S[i, j * 8 + v] = A[...]                    S[i, (j ^ i % 8) * 8 + v] = A[...]

A block with the annotation ``permuted_layout`` names the shared buffers that it touches. Elements
of 16 bits move in pieces of eight: in rows of 64 (or a multiple) the pieces of each 64 elements are
permuted by the row modulo 8, in rows of 32 by the row over 2 modulo 4. All accesses of a buffer are
permuted, those of ``ptx_ldmatrix`` (whose rows are such pieces) too, so that the program computes
the same; a product of four warps (``ptx_wgmma``) is told that its rows are permuted.
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import Call, IntImm, PrimExpr, Ramp, StringImm, Var, const
from tilesmith.ir.operators import bitwise_xor
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import is_call, nodes, variables
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.queries import accesses
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import Block, Stmt
from tilesmith.tir.warpgroup_products import shared_operands

__all__ = ["inject_permuted_layout"]

MARK = "permuted_layout"
PIECE = 8  # elements that stay together


def _marked_buffers(body: Stmt) -> dict[Var, Buffer]:
    """Return the shared buffers that marked blocks access, by their pointers."""
    blocks = list(nodes(body, Block))
    allocated = {buffer.data: buffer for block in blocks for buffer in block.alloc_buffers}
    touched: dict[Var, Buffer] = {}
    for block in blocks:
        if block.annotations.get(MARK):
            parts = [block.body] if block.init is None else [block.init, block.body]
            touched.update({access.buffer.data: access.buffer for access in accesses(parts)})
            touched.update({v: allocated[v] for v in variables(parts) if v in allocated})
    return {v: buffer for v, buffer in touched.items() if buffer.scope().startswith("shared")}


def _row_size(buffer: Buffer) -> int:
    """Return the number of elements in a row of a buffer. Raises UnsupportedError if the row cannot
    be permuted.
    """
    last = buffer.shape[-1] if buffer.shape else None
    fits = (
        len(buffer.shape) >= 2
        and buffer.dtype.bits == 16
        and buffer.dtype.lanes == 1
        and not buffer.strides
    )
    if not fits or not isinstance(last, IntImm) or last.value % 32 != 0:
        raise UnsupportedError(
            f"the rows of '{buffer.name}' cannot be permuted",
            notes=("rows of 16-bit elements whose number is a multiple of 32 can",),
        )
    return last.value


def permuted_column(row: PrimExpr, column: PrimExpr, row_size: int) -> PrimExpr:
    """Return the permuted column of an element of a row."""
    pieces = 8 if row_size % 64 == 0 else 4
    turn = row % 8 if pieces == 8 else row // 2 % 4
    if turn.dtype is not column.dtype:
        turn = turn.astype(column.dtype)
    piece = column // PIECE
    group = piece // pieces * (pieces * PIECE)
    return group + bitwise_xor(piece % pieces, turn) * PIECE + column % PIECE


class _Permuter(AccessRedirection):
    def __init__(self, buffers: dict[Var, Buffer]) -> None:
        self.sizes = {pointer: _row_size(buffer) for pointer, buffer in buffers.items()}
        self.analyzer = Analyzer()

    def visit_Block(self, node: Block) -> Block:
        node = super().visit_Block(node)
        if MARK not in node.annotations:
            return node
        kept = {k: v for k, v in node.annotations.items() if k != MARK}
        return node.with_fields(annotations=kept)

    def visit_BufferRegion(self, node: Any) -> Any:
        return node  # a permuted row is the same region

    def redirected(self, buffer: Buffer) -> Buffer | None:
        return buffer if buffer.data in self.sizes else None

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        *outer, row, column = indices
        size = self.sizes[buffer.data]
        if not isinstance(column, Ramp):
            return (*outer, row, permuted_column(row, column, size))
        base, lanes = column.base, column.lanes
        whole = isinstance(column.stride, IntImm) and column.stride.value == 1
        if not whole or PIECE % lanes or not self.analyzer.can_prove((base % lanes).equal(0)):
            raise UnsupportedError(
                f"a vector of '{buffer.name}' crosses pieces of {PIECE} elements, which are "
                "permuted"
            )
        return (*outer, row, Ramp(permuted_column(row, base, size), 1, lanes))

    def visit_Call(self, node: Call) -> PrimExpr:
        if is_call(node, "tir.ptx_wgmma"):
            return self.warpgroup_product(node)
        if not is_call(node, "tir.ptx_ldmatrix"):
            return self.children(node)
        source, offset = node.args[5], self.visit(node.args[6])
        start: PrimExpr = const(0, offset.dtype)
        pointer = source
        if is_call(source, "tir.tvm_access_ptr"):
            pointer, start = source.args[1], source.args[2]
        size = self.sizes.get(pointer) if isinstance(pointer, Var) else None
        if size is None:
            return self.children(node)
        if start.dtype is not offset.dtype:
            start = start.astype(offset.dtype)
        flat = start + offset
        row, column = flat // size, flat % size
        moved = row * size + permuted_column(row, column, size) - start
        target = [self.visit(arg) for arg in node.args[:5]]
        return node.with_fields(args=(*target, source, self.analyzer.simplify(moved)))

    def warpgroup_product(self, node: Call) -> Call:
        """Return a product of four warps that knows its rows to be permuted: the hardware expects
        the very order in which the pieces lie, in rows of 64 or 32 elements.
        """
        args = list(node.args)
        for place, layout in shared_operands(node.args):
            source = args[place]
            pointer = source.args[1] if is_call(source, "tir.tvm_access_ptr") else source
            size = self.sizes.get(pointer) if isinstance(pointer, Var) else None
            if size is None:
                continue
            if layout.is_permuted or layout.width != 2 * size:
                raise UnsupportedError(
                    f"rows of {size} elements are permuted, and ptx_wgmma expects "
                    f"'{node.args[place + 2].value}'",  # type: ignore[attr-defined]
                    notes=(f"its layout of such rows is '{layout.major}:rows{2 * size}'",),
                )
            args[place + 2] = StringImm(f"{layout.major}:{layout.width}")
        return node.with_fields(args=tuple(args))

    def visit_Var(self, node: Var) -> Var:
        if node in self.sizes:
            raise UnsupportedError(
                f"the memory of '{node.name}' is permuted, and used as a whole elsewhere"
            )
        return node


@compiler_pass("tir.InjectPermutedLayout")
def inject_permuted_layout(func: PrimFunc) -> PrimFunc:
    """Permutes rows of shared memory where blocks are marked.

    Returns ``func`` with the rows of marked shared buffers permuted.
    """
    marked = _marked_buffers(func.body)
    return func.with_body(_Permuter(marked).visit(func.body)) if marked else func
