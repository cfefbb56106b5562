"""Writes operators as statements, where loops around one expression would repeat work: sorting,
scans, updates in place.

    with rows_along(builder, shape, axis) as at:  # for each row of a tensor along an axis
        out[at(0)] = data[at(0)]

Rows run in parallel where there is enough work; what happens in a row happens in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.runtime.dtype import DataType
from tilesmith.schedule_rules.loops import FEWEST_FOR_THREADS
from tilesmith.target import Target
from tilesmith.tir import Buffer
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.utils import DType, product, unravel_index

__all__ = ["Row", "flat_load", "index_dtype", "local", "loops", "pointers", "rows_along"]


class Row:
    """One row of a tensor along an axis: maps a position in the row to the indices."""

    def __init__(self, outer: Sequence[Any], axis: int) -> None:
        self.outer = list(outer)
        """The indices of the other axes."""
        self._axis = axis

    def __call__(self, *place: Any) -> list[Any]:
        return [*self.outer[: self._axis], *place, *self.outer[self._axis :]]


def pointers(builder: IRBuilder, buffers: Sequence[Buffer]) -> list[BufferVar]:
    """Return buffers as the builder reads and writes them."""
    return [builder.buffer_ptr(buffer) for buffer in buffers]


def local(builder: IRBuilder, dtype: DType, name: str, first: Any) -> BufferVar:
    """Allocate one value that statements change, with its first value: ``value[0]``."""
    value = builder.allocate(dtype, 1, name, scope="local")
    value[0] = first
    return value


def flat_load(buffer: BufferVar, position: PrimExpr) -> PrimExpr:
    """Return the element at a flat, row-major position of a buffer of any number of dimensions."""
    shape = buffer.asobject().shape
    return buffer[unravel_index(position, shape)]


def loops(
    builder: IRBuilder, stack: ExitStack, shape: Sequence[PrimExpr], name: str
) -> list[PrimExpr]:
    """Open a nest of loops over a shape; return their variables."""
    return [
        stack.enter_context(builder.for_range(const(0, size.dtype), size, f"{name}{number}"))
        for number, size in enumerate(shape)
    ]


def index_dtype(sizes: Sequence[PrimExpr]) -> DataType:
    """Return the dtype of indices: 32 bits where constant sizes allow it."""
    fits = all(isinstance(size, IntImm) and size.value < 1 << 31 for size in sizes)
    narrow = fits or all(size.dtype.bits == 32 for size in sizes)
    return DataType("int32" if narrow else "int64")


@contextmanager
def rows_along(
    builder: IRBuilder, shape: Sequence[PrimExpr], axis: int, last: int | None = None, work: int = 1
) -> Iterator[Row]:
    """Open a loop over the rows along ``axis``; with ``last``, a row holds all axes from ``axis``
    to ``last``. ``work`` is how many times that of an elementwise operator there is per element.
    """
    last = axis if last is None else last
    others = [*shape[:axis], *shape[last + 1 :]]
    rows = product(others)
    if isinstance(rows, IntImm) and rows.value == 1:
        yield Row([0] * len(others), axis)
        return
    elements = product(shape)
    target = Target.current(allow_none=True)
    parallel = (
        not isinstance(elements, IntImm)
        or elements.value * work >= FEWEST_FOR_THREADS
        or (target is not None and "gpu" in target.keys)  # one of whose threads is slow
    )
    kind = "parallel" if parallel else "serial"
    with builder.for_range(0, rows, "row", kind=kind) as row:
        yield Row(unravel_index(row, others), axis)
