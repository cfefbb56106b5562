"""Sorting: merge sort of rows, and a heap for the first few elements.

Equal elements keep their order, whichever way is sorted; NaN counts as greater than all numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from tilesmith import te, tir
from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.tir import AssertStmt, Buffer, Evaluate, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.procedure import Row, index_dtype, local, pointers, rows_along
from tilesmith.topi.utils import DType, normalize_axes

__all__ = ["Runs", "argsort", "comes_before", "sort", "topk"]

_RUN = 8
"""Length of the runs that are sorted by insertion, before runs are merged."""
_HEAP_SHARE = 4
"""A heap serves if at most one in so many elements is asked for."""

Order: TypeAlias = Callable[[PrimExpr, PrimExpr], PrimExpr]


def comes_before(ascending: bool) -> Order:
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


class Runs:
    """Two planes of keys and places, from one of which runs are merged into the other: merge sort.

    ``row`` says where in the planes: after its outer indices come the plane and the place.
    """

    def __init__(
        self, builder: IRBuilder, keys: BufferVar, places: BufferVar, row: Row, before: Order
    ) -> None:
        self._builder, self._keys, self._places = builder, keys, places
        self._row, self._before = row, before

    def key(self, plane: Any, place: Any) -> PrimExpr:
        return self._keys[[*self._row.outer, plane, place]]

    def place(self, plane: Any, place: Any) -> PrimExpr:
        return self._places[[*self._row.outer, plane, place]]

    def put(self, plane: Any, place: Any, key: PrimExpr, origin: PrimExpr) -> None:
        self._keys[[*self._row.outer, plane, place]] = key
        self._places[[*self._row.outer, plane, place]] = op.cast(self._places.dtype, origin)

    def sort_runs(
        self,
        key_of: Callable[[PrimExpr], PrimExpr],
        origin_of: Callable[[PrimExpr], PrimExpr],
        size: PrimExpr,
    ) -> None:
        """Store keys, each with where it comes from, as sorted runs in the first plane."""
        builder, zero = self._builder, const(0, size.dtype)
        with builder.for_range(0, size, "k") as k:
            start = k - op.floormod(k, const(_RUN, k.dtype))
            key = builder.let("key", key_of(k))
            origin = builder.let("origin", origin_of(k))
            hole = local(builder, k.dtype, "hole", k)
            left = op.maximum(hole[0] - 1, zero)
            comes_first = self._before(key, self.key(zero, left))
            with builder.while_loop(tir.And(hole[0] > start, comes_first)):
                self.put(zero, hole[0], self.key(zero, hole[0] - 1), self.place(zero, hole[0] - 1))
                hole[0] = hole[0] - 1
            self.put(zero, hole[0], key, origin)

    def merge(self, plane: PrimExpr, start: Any, middle: Any, end: Any) -> None:
        """Merge two neighbouring runs of a plane into the other one."""
        builder, other = self._builder, const(1, plane.dtype) - plane
        left = local(builder, start.dtype, "left", start)
        right = local(builder, start.dtype, "right", middle)
        target = local(builder, start.dtype, "target", start)
        with builder.while_loop(tir.And(left[0] < middle, right[0] < end)):
            first = self._before(self.key(plane, right[0]), self.key(plane, left[0]))
            turn = builder.let("is_right", first)
            source = builder.let("source", tir.Select(turn, right[0], left[0]))
            self.put(other, target[0], self.key(plane, source), self.place(plane, source))
            step = builder.let("step", op.cast(start.dtype, turn))
            right[0] = right[0] + step
            left[0] = left[0] + (1 - step)
            target[0] = target[0] + 1
        for run, stop in ((left, middle), (right, end)):
            with builder.for_range(0, stop - run[0], "k") as k:
                source = run[0] + k
                self.put(other, target[0] + k, self.key(plane, source), self.place(plane, source))
            if run is left:
                target[0] = target[0] + (stop - run[0])

    def merge_all(self, size: PrimExpr) -> BufferVar:
        """Merge runs until one is left; return the number of its plane."""
        builder, dtype = self._builder, size.dtype
        plane = local(builder, dtype, "plane", const(0, dtype))
        width = local(builder, dtype, "width", const(_RUN, dtype))
        with builder.while_loop(width[0] < size):
            start = local(builder, dtype, "start", const(0, dtype))
            with builder.while_loop(start[0] < size):
                first = builder.let("first", start[0])
                middle = builder.let("middle", op.minimum(first + width[0], size))
                end = builder.let("end", op.minimum(first + 2 * width[0], size))
                self.merge(plane[0], first, middle, end)
                start[0] = end
            plane[0] = 1 - plane[0]
            width[0] = width[0] * 2
        return plane


def _merge_sorted(
    data: Tensor, axis: int, ascending: bool, count: PrimExpr, dtype: DType, name: str
) -> list[Tensor]:
    """Return the first ``count`` elements in order and their places, by merge sort."""
    size, before = data.shape[axis], comes_before(ascending)
    kind = index_dtype(data.shape)
    shape = [count if i == axis else extent for i, extent in enumerate(data.shape)]
    planes = [*data.shape[:axis], *data.shape[axis + 1 :], const(2, size.dtype), size]

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, values, places, keys, origins = pointers(builder, [*inputs, *outputs])
        with rows_along(builder, data.shape, axis) as at:
            runs = Runs(builder, keys, origins, at, before)
            runs.sort_runs(lambda k: source[at(k)], lambda k: k, size)
            plane = runs.merge_all(size)
            with builder.for_range(0, count, "k") as k:
                values[at(k)] = runs.key(plane[0], k)
                places[at(k)] = op.cast(dtype, runs.place(plane[0], k))
        return builder.get()

    made: list[Tensor] = te.extern(
        [shape, shape, planes, planes], [data], body, name=name,
        dtype=[data.dtype, dtype, data.dtype, kind],
    )  # fmt: skip
    return made[:2]


def _heap_sorted(
    data: Tensor, axis: int, ascending: bool, count: PrimExpr, dtype: DType, name: str
) -> list[Tensor]:
    """Return the first ``count`` elements in order and their places, by a heap."""
    size, before = data.shape[axis], comes_before(ascending)
    shape = [count if i == axis else extent for i, extent in enumerate(data.shape)]
    counted = op.cast(size.dtype, count)

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, values, places = pointers(builder, [*inputs, *outputs])
        if not isinstance(size, IntImm):
            message = f"topk: the axis has fewer than {count} elements"
            builder.emit(AssertStmt(counted <= size, message, Evaluate(const(0, "int32"))))
        with rows_along(builder, data.shape, axis) as at:
            heap = _Heap(builder, values, places, at, before)
            _select_first(builder, source, heap, at, size, counted, before)
        return builder.get()

    made: list[Tensor] = te.extern(
        [shape, shape], [data], body, name=name, dtype=[data.dtype, dtype]
    )
    return made


def _first(
    data: Tensor, axis: int, ascending: bool, count: int | None, dtype: DType, name: str
) -> list[Tensor]:
    """Return the first ``count`` elements (all for None) along an axis in order: values, places."""
    size = data.shape[axis]
    if count is None:
        return _merge_sorted(data, axis, ascending, size, dtype, name)
    few = not isinstance(size, IntImm) or count * _HEAP_SHARE <= size.value
    sorter = _heap_sorted if few else _merge_sorted
    return sorter(data, axis, ascending, const(count, size.dtype), dtype, name)


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """Sort the elements along an axis."""
    (axis,) = normalize_axes(axis, len(data.shape))
    return _first(data, axis, bool(is_ascend), None, index_dtype(data.shape), "sort")[0]


def argsort(
    data: Tensor,
    valid_count: Tensor | None = None,
    axis: int = -1,
    is_ascend: bool = True,
    dtype: DType = "float32",
) -> Tensor:
    """Return the indices, as ``dtype``, that sort the elements along an axis.

    Raises UnsupportedError for a ``valid_count`` (rows that are sorted in part).
    """
    if valid_count is not None:
        raise UnsupportedError("argsort: valid_count is not supported; sort a slice instead")
    (axis,) = normalize_axes(axis, len(data.shape))
    return _first(data, axis, bool(is_ascend), None, dtype, "argsort")[1]


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
    values, places = _first(data, axis, bool(is_ascend), k if k >= 1 else None, dtype, "topk")
    if ret_type == "indices":
        return places
    return values if ret_type == "values" else [values, places]
