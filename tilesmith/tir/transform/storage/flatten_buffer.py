"""FlattenBuffer: replaces multi-dimensional buffers by one-dimensional views.

    for i, j in T.grid(16, 8):                  A_1 = T.Buffer((128,), data=A.data)
        A[i, j] = 0.0                           for i, j in T.grid(16, 8):
                                                    A_1[i * 8 + j] = 0.0

The buffers of the parameters stay as they were declared; the body uses flat views of their memory.
An offset of a buffer becomes part of the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilesmith.ir import Broadcast, FloorDiv, FloorMod, IntImm, PrimExpr, Ramp, Var, const
from tilesmith.ir.operators import cast, is_const
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.queries import nodes
from tilesmith.ir.structural import structural_equal
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.redirection import AccessRedirection
from tilesmith.tir.stmt import Allocate, AllocateConst, DeclBuffer, Stmt
from tilesmith.tir.transform.scoped import ScopedAnalyzer
from tilesmith.tir.transform.storage.view_binder import row_major_strides

__all__ = ["flatten_buffer"]


def _flat_size(buffer: Buffer, is_given: bool) -> list[PrimExpr]:
    """Return the sizes of the flat view of a buffer whose memory is a caller's, or the function's
    own.
    """
    sizes = list(buffer.get_flattened_buffer().shape) if buffer.shape else [const(1, "int32")]
    if len(sizes) == 1 and buffer.strides and is_given:
        # without what would follow the last row: a caller's memory may end with it
        numbers = zip(buffer.shape, buffer.strides)
        ends = [(size.value - 1) * step.value for size, step in numbers
                if isinstance(size, IntImm) and isinstance(step, IntImm)]  # fmt: skip
        if len(ends) == len(buffer.shape) and min(ends) >= 0:
            sizes = [const(1 + sum(ends), sizes[0].dtype)]
    if len(sizes) == 1 and not is_const(buffer.elem_offset, 0):
        return [cast(sizes[0].dtype, buffer.elem_offset) + sizes[0]]
    return sizes


def _is_flat(buffer: Buffer) -> bool:
    return len(buffer.shape) == 1 and is_const(buffer.elem_offset, 0) and (
        not buffer.strides or is_const(buffer.strides[0], 1)
    )  # fmt: skip


def _flat_indices(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
    """Return the indices of an access in the flat buffer: one, or one per group of axis
    separators."""
    if not indices:
        return [buffer.elem_offset]
    last = indices[-1]
    if isinstance(last, (Ramp, Broadcast)) and last.dtype.lanes > 1:
        scalar = last.base if isinstance(last, Ramp) else last.value
        if all(index.dtype.lanes == 1 for index in indices[:-1]):
            # A row of a buffer stays a row: the offset is computed once, for the first lane.
            *outer, base = _flat_indices(buffer, (*indices[:-1], scalar))
            if isinstance(last, Broadcast):
                return [*outer, Broadcast(base, last.lanes)]
            stride = last.stride
            if buffer.strides:
                stride = stride * buffer.strides[-1]
            if stride.dtype is not base.dtype:
                stride = stride.astype(base.dtype)
            return [*outer, Ramp(base, stride, last.lanes)]
    if not buffer.axis_separators:
        joined = None if buffer.strides else joined_digits(indices, buffer.shape)
        if joined is not None:
            return [buffer.elem_offset + _row_major(*joined)]
        return buffer.offset_of(indices)
    bounds = [0, *buffer.axis_separators, len(indices)]
    flat = []
    for start, stop in zip(bounds, bounds[1:]):
        offset: PrimExpr = const(0, buffer.shape[0].dtype)
        for index, size in zip(indices[start:stop], buffer.shape[start:stop]):
            offset = offset * size + index
        flat.append(offset)
    return flat


def _row_major(indices: Sequence[PrimExpr], sizes: Sequence[PrimExpr]) -> PrimExpr:
    offset = indices[0]
    for index, size in zip(indices[1:], sizes[1:]):
        offset = offset * size + index
    return offset


class _Digit(NamedTuple):
    """``whole % modulus // divisor``; modulus 0: no remainder is taken."""

    whole: PrimExpr
    modulus: int
    divisor: int


def _digit(index: PrimExpr) -> _Digit:
    divisor = 1
    if isinstance(index, FloorDiv) and isinstance(index.b, IntImm) and index.b.value > 0:
        divisor, index = int(index.b.value), index.a
    if isinstance(index, FloorMod) and isinstance(index.b, IntImm) and index.b.value > 0:
        return _Digit(index.a, int(index.b.value), divisor)
    return _Digit(index, 0, divisor)


def joined_digits(
    indices: Sequence[PrimExpr], shape: Sequence[PrimExpr]
) -> tuple[list[PrimExpr], list[PrimExpr]] | None:
    """Join neighbouring indices that are digits of one number, as ``i // 8, i % 8`` of ``i`` in a
    buffer of 8 columns; return the fewer indices and sizes, None where nothing is joined.

    Later, when the number is a sum of loop variables whose parts are divided on their own, nothing
    shows that the digits belong together.
    """
    if not any(isinstance(index, FloorMod | FloorDiv) for index in indices[1:]):
        return None
    found, sizes = [indices[0]], [shape[0]]
    for index, size in zip(indices[1:], shape[1:]):
        high, low = _digit(found[-1]), _digit(index)
        if (
            isinstance(size, IntImm) and low.modulus and low.modulus == high.divisor
            and high.divisor == low.divisor * size.value and high.modulus % high.divisor == 0
            and structural_equal(high.whole, low.whole)
        ):  # fmt: skip
            whole = high.whole % high.modulus if high.modulus else high.whole
            found[-1] = whole // low.divisor if low.divisor > 1 else whole
            sizes[-1] = sizes[-1] * size
        else:
            found.append(index)
            sizes.append(size)
    return None if len(found) == len(indices) else (found, sizes)


def _divides_by_sizes(index: PrimExpr) -> bool:
    """Return whether an index is a remainder of a division by sizes that are not constant."""
    if index.dtype.lanes > 1:
        return False
    return any(not isinstance(node.b, IntImm) for node in nodes(index, FloorMod))


class _Flattener(ScopedAnalyzer, AccessRedirection):
    def __init__(self) -> None:
        super().__init__()
        self.flat: dict[Buffer, Buffer | None] = {}  # → its flat view; None: it is flat
        self.allocated: set[Var] = set()

    def redirected(self, buffer: Buffer) -> Buffer | None:
        """Return the flat view of a buffer, the same one for all its uses; None if it is already
        flat.
        """
        if buffer in self.flat:
            return self.flat[buffer]
        found = None
        if not _is_flat(buffer):
            is_given = buffer.data not in self.allocated
            sizes = tuple([self.analyzer.simplify(size) for size in _flat_size(buffer, is_given)])
            found = buffer.with_fields(
                shape=sizes,
                strides=(),
                elem_offset=const(0, buffer.elem_offset.dtype),
                axis_separators=tuple(range(1, len(sizes))),
            )
        self.flat[buffer] = found
        return found

    def indices(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> list[PrimExpr]:
        found = [self.analyzer.simplify(index) for index in _flat_indices(buffer, indices)]
        if len(found) == 1 and not buffer.strides and _divides_by_sizes(found[0]):
            # i // w * w + i % w is i, which shows where the products are a sum
            strides = row_major_strides(buffer)
            offset: PrimExpr = buffer.elem_offset
            for index, stride in zip(indices, strides):
                offset = offset + index * stride
            offset = self.analyzer.simplify(offset)
            if not _divides_by_sizes(offset):
                return [offset]
        return found

    def visit_Allocate(self, allocation: Allocate) -> Stmt:
        self.allocated.add(allocation.buffer_var)
        allocation = self.children(allocation)
        if len(allocation.extents) == 1:
            return allocation
        return allocation.with_fields(extents=(self.product(allocation.extents),))

    def visit_AllocateConst(self, allocation: AllocateConst) -> Stmt:
        allocation = self.children(allocation)
        if len(allocation.extents) == 1:
            return allocation
        return allocation.with_fields(extents=(self.product(allocation.extents),))

    def product(self, extents: tuple[PrimExpr, ...]) -> PrimExpr:
        total: PrimExpr = const(1, extents[0].dtype if extents else "int32")
        for extent in extents:
            total = total * extent
        return self.analyzer.simplify(total)


@compiler_pass("tir.FlattenBuffer")
def flatten_buffer(func: PrimFunc) -> PrimFunc:
    """Replaces multi-dimensional accesses by one-dimensional ones.

    Returns ``func`` with flat buffers in its body; declarations of the views stand at its
    beginning.
    """
    flattener = _Flattener()
    body = flattener.visit(func.body)
    for param in reversed(func.params):
        buffer = func.buffer_map.get(param)
        flat = flattener.flat.get(buffer) if buffer is not None else None
        if flat is not None:
            body = DeclBuffer(flat, body)
    return func.with_body(body)
