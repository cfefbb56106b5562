"""Sorting: digit by digit, and a heap for the first few elements.

Equal elements keep their order, whichever way is sorted; NaN counts as greater than all numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from tilesmith import te, tir
from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.tir import AssertStmt, Buffer, Evaluate, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.digit_sort import DigitSort, sortable, sortable_dtype
from tilesmith.topi.procedure import Row, flat_load, index_dtype, local, pointers, rows_along
from tilesmith.topi.utils import DType, normalize_axes, product, ravel_index, same_size

__all__ = ["argsort", "sort", "topk"]

_HEAP_WORK = 32
"""The work of a heap for each element that is asked for and each level (measured on Zen 5, as are
those below), where looking at one that is not among them is 1 ..."""
_DIGITS_WORK = 1024
"""... and that of sorting by digits 2 for each element and so much for each row."""
_SORTING_WORK = 16
"""How many times the work of an elementwise operator sorting takes."""

Order: TypeAlias = Callable[[PrimExpr, PrimExpr], PrimExpr]


def _comes_before(ascending: bool) -> Order:
    """Return the predicate "comes before, and is not equal"."""

    def before(x: PrimExpr, y: PrimExpr) -> PrimExpr:
        if not x.dtype.is_float:
            return x < y if ascending else x > y
        # Comparisons with NaN are false, so that their negations hold for it.
        if ascending:
            return tir.And(tir.Not(op.greater_equal(x, y)), tir.Not(tir.isnan(x)))
        return tir.And(tir.Not(op.less_equal(x, y)), tir.Not(tir.isnan(y)))

    return before


class _Item(NamedTuple):
    """An element and its place in the row."""

    key: PrimExpr
    place: PrimExpr

    def comes_after(self, other: _Item, before: Order) -> PrimExpr:
        """Return whether the other one comes first; of equal ones the first in the row does."""
        later = tir.And(tir.Not(before(self.key, other.key)), self.place > other.place)
        return tir.Or(before(other.key, self.key), later)


class _Heap:
    """The elements of a row that come first, the last of them on top, kept in the results."""

    def __init__(
        self, builder: IRBuilder, keys: BufferVar, places: BufferVar, at: Row, before: Order
    ) -> None:
        self._builder, self._keys, self._places = builder, keys, places
        self._at, self._before = at, before

    def __getitem__(self, place: Any) -> _Item:
        at = self._at(place)
        return _Item(self._keys[at], self._places[at])

    def __setitem__(self, place: Any, item: _Item) -> None:
        at = self._at(place)
        self._keys[at] = item.key
        self._places[at] = op.cast(self._places.dtype, item.place)

    def sift_down(self, start: Any, size: PrimExpr, key: PrimExpr, place: PrimExpr) -> None:
        """Insert an item at ``start`` or below, moving up the children that come after it."""
        builder = self._builder
        # The element may stand where others are moved to.
        own = _Item(
            local(builder, key.dtype, "key", key)[0],
            local(builder, self._places.dtype, "own", op.cast(self._places.dtype, place))[0],
        )
        hole = local(builder, size.dtype, "hole", start)
        child = local(builder, hole.dtype, "child", hole[0] * 2 + 1)
        with builder.while_loop(child[0] < size):
            with builder.if_scope(child[0] + 1 < size):
                with builder.if_scope(self[child[0] + 1].comes_after(self[child[0]], self._before)):
                    child[0] = child[0] + 1
            with builder.if_scope(self[child[0]].comes_after(own, self._before)):
                self[hole[0]] = self[child[0]]
                hole[0] = child[0]
                child[0] = hole[0] * 2 + 1
            with builder.else_scope():
                child[0] = size
        self[hole[0]] = own


def _select_first(
    builder: IRBuilder, data: BufferVar, heap: _Heap, at: Row, size: PrimExpr, count: PrimExpr,
    before: Order,
) -> None:  # fmt: skip
    """Store the ``count`` first elements of a row in the results, in order."""
    dtype = size.dtype
    with builder.for_range(0, count, "k") as k:
        heap[k] = _Item(data[at(k)], k)
    half = op.floordiv(count, const(2, dtype))
    with builder.for_range(0, half, "k") as k:
        top = half - 1 - k
        heap.sift_down(top, count, *heap[top])
    with builder.for_range(count, size, "k") as k:
        with builder.if_scope(before(data[at(k)], heap[const(0, dtype)].key)):
            heap.sift_down(const(0, dtype), count, data[at(k)], k)
    with builder.for_range(0, count - 1, "k") as k:
        end = count - 1 - k
        last = heap[end]
        key = local(builder, last.key.dtype, "last", last.key)[0]
        place = local(builder, last.place.dtype, "last_place", last.place)[0]
        heap[end] = heap[const(0, dtype)]
        heap.sift_down(const(0, dtype), end, key, place)


@dataclass(frozen=True)
class _First:
    """Finds the first ``count`` elements along an axis in order, and their places as ``dtype``.

    A heap is best for few elements of many: it takes time for each of them and for each that turns
    out not to be one, but less than sorting by digits for all others. Where the size is known only
    when the program runs, it decides.
    """

    data: Tensor
    axis: int
    ascending: bool
    count: int | None
    """How many; None for all."""
    dtype: DType
    valid: Tensor | None = None
    """How many elements of each row are sorted, where the others stay; of all axes but one."""

    @property
    def size(self) -> PrimExpr:
        return self.data.shape[self.axis]

    @property
    def counted(self) -> PrimExpr:
        """The number of elements, as an expression."""
        return self.size if self.count is None else const(self.count, self.size.dtype)

    @property
    def least_for_heap(self) -> int | None:
        """The smallest size for which the heap is best; None if there is no such."""
        if self.count is None:
            return None
        return self.count * self.count.bit_length() * _HEAP_WORK - _DIGITS_WORK

    def tensors(self, name: str) -> list[Tensor]:
        """Return the values and their places."""
        size, shape = self.size, list(self.data.shape)
        others = [extent for i, extent in enumerate(shape) if i != self.axis]
        shape[self.axis] = self.counted
        dtypes = [self.data.dtype, self.dtype]
        shapes = [shape, shape]
        least = self.least_for_heap
        heap_only = least is not None and isinstance(size, IntImm) and size.value >= least
        if not heap_only:
            planes = [*others, const(2, size.dtype), size]
            shapes += [planes, planes]
            dtypes += [sortable_dtype(self.data.dtype), index_dtype(self.data.shape)]
        inputs = [self.data] if self.valid is None else [self.data, self.valid]
        made: list[Tensor] = te.extern(shapes, inputs, self._body, name=name, dtype=dtypes)
        return made[:2]

    def _body(self, inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder, size, least = ir_builder.create(), self.size, self.least_for_heap
        source, *counts = pointers(builder, inputs)
        values, places, *planes = pointers(builder, outputs)
        if self.count is not None and not isinstance(size, IntImm):
            message = f"topk: the axis has fewer than {self.count} elements"
            fits = self.counted <= size
            builder.emit(AssertStmt(fits, message, Evaluate(const(0, "int32"))))
        work = _SORTING_WORK if planes else 1
        with rows_along(builder, self.data.shape, self.axis, work=work) as at:
            if not planes:
                self._by_heap(builder, source, values, places, at)
            elif counts:
                used = self._used(builder, counts[0], at)
                self._by_digits(builder, source, values, places, planes, at, used)
                with builder.for_range(used, size, "k") as k:
                    values[at(k)] = source[at(k)]
                    places[at(k)] = op.cast(self.dtype, k)
            elif least is None or isinstance(size, IntImm):
                self._by_digits(builder, source, values, places, planes, at)
            else:
                with builder.if_scope(size >= const(least, size.dtype)):
                    self._by_heap(builder, source, values, places, at)
                with builder.else_scope():
                    self._by_digits(builder, source, values, places, planes, at)
        return builder.get()

    def _used(self, builder: IRBuilder, counts: BufferVar, at: Row) -> PrimExpr:
        """Return how many elements of a row are sorted."""
        size, others = self.size, [*self.data.shape[: self.axis], *self.data.shape[self.axis + 1 :]]
        given = op.cast(size.dtype, flat_load(counts, ravel_index(at.outer, others)))
        return builder.let("used", op.maximum(op.minimum(given, size), const(0, size.dtype)))

    def _by_heap(
        self, builder: IRBuilder, source: BufferVar, values: BufferVar, places: BufferVar, at: Row
    ) -> None:
        before = _comes_before(self.ascending)
        heap = _Heap(builder, values, places, at, before)
        _select_first(builder, source, heap, at, self.size, self.counted, before)

    def _by_digits(
        self, builder: IRBuilder, source: BufferVar, values: BufferVar, places: BufferVar,
        planes: list[BufferVar], at: Row, used: PrimExpr | None = None,
    ) -> None:  # fmt: skip
        keys, origins = planes
        counted, size = (self.counted, self.size) if used is None else (used, used)
        rows = DigitSort(builder, keys, origins, at, self.ascending)
        is_part = self.count is not None and not op.is_const(self.size, self.count)
        first = self.counted if is_part else None
        plane = rows.sort(lambda k: sortable(source[at(k)]), lambda k: k, size, first)
        with builder.for_range(0, counted, "k") as k:
            place = builder.let("place", rows.place(plane[0], k))
            values[at(k)] = source[at(place)]
            places[at(k)] = op.cast(self.dtype, place)


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """Sort the elements along an axis."""
    (axis,) = normalize_axes(axis, len(data.shape))
    return _First(data, axis, bool(is_ascend), None, index_dtype(data.shape)).tensors("sort")[0]


def argsort(
    data: Tensor,
    valid_count: Tensor | None = None,
    axis: int = -1,
    is_ascend: bool = True,
    dtype: DType = "float32",
) -> Tensor:
    """Return the indices, as ``dtype``, that sort the elements along an axis.

    ``valid_count`` says how many elements of each row are sorted, one number for each; those behind
    them stay where they are.
    """
    (axis,) = normalize_axes(axis, len(data.shape))
    if valid_count is not None:
        rows = product([*data.shape[:axis], *data.shape[axis + 1 :]])
        if op.is_const(rows - product(valid_count.shape)) and not same_size(
            rows, product(valid_count.shape)
        ):
            raise ShapeError(f"argsort: {rows} rows, but counts of shape {valid_count.shape}")
    return _First(data, axis, bool(is_ascend), None, dtype, valid_count).tensors("argsort")[1]


def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: DType = "int64",
) -> Tensor | list[Tensor]:
    """Return the first ``k`` elements in order along an axis (all of them for k < 1), largest first
    unless ``is_ascend``.

    ``ret_type``: "values", "indices" (of dtype ``dtype``), or "both" for a list of the two.
    """
    if ret_type not in ("both", "values", "indices"):
        raise UnsupportedError(f"topk: ret_type '{ret_type}' is not one of both, values, indices")
    (axis,) = normalize_axes(axis, len(data.shape))
    size = data.shape[axis]
    if isinstance(size, IntImm) and k > size.value:
        raise ShapeError(f"topk: {k} elements of an axis of {size}")
    wanted = k if k >= 1 else None
    values, places = _First(data, axis, bool(is_ascend), wanted, dtype).tensors("topk")
    if ret_type == "indices":
        return places
    return values if ret_type == "values" else [values, places]
