"""Operators whose sizes depend on data, in two parts: the first counts, the second fills.

    count, planes = nonzero_places(x)        # planes have room for all elements
    n = count[0]                             # read when the program runs
    result = nonzero(n, planes)

Whoever calls both parts reads the sizes in between; `relax.transform.LegalizeOps` does for graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.compute import compute
from tilesmith.topi.digit_sort import DigitSort, sortable
from tilesmith.topi.procedure import Row, index_dtype, local, loops, pointers
from tilesmith.topi.transform import reshape
from tilesmith.topi.utils import product

__all__ = [
    "nonzero", "nonzero_places", "unique_groups", "unique_results",
]  # fmt: skip

_INT64 = DataType("int64")


# Elements that are not 0


def nonzero_places(data: Tensor) -> list[Tensor]:
    """Return how many elements are not 0, and their indices: one row for each axis, in front."""
    shape = list(data.shape)
    kind, total = index_dtype(shape), product(shape)

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, counted, places = pointers(builder, [*inputs, *outputs])
        count = local(builder, total.dtype, "count", const(0, total.dtype))
        with ExitStack() as stack:
            indices = loops(builder, stack, shape, "i")
            # Every index is stored, the next one over it unless the element counts: no branch.
            # There is room, because no more elements were counted than were visited.
            for axis, index in enumerate(indices):
                places[[const(axis, "int32"), count[0]]] = op.cast(kind, index)
            value = source[indices]
            hit = value if value.dtype.is_bool else op.not_equal(value, const(0, value.dtype))
            count[0] = count[0] + op.cast(total.dtype, hit)
        counted[0] = op.cast(_INT64, count[0])
        return builder.get()

    found: list[Tensor] = te.extern(
        [(1,), (len(shape), total)], [data], body, name="nonzero", dtype=[_INT64, kind]
    )
    return found


def nonzero(count: PrimExpr, places: Tensor) -> Tensor:
    """Return the first ``count`` indices that `nonzero_places` has found, as int64."""
    return compute(
        (places.shape[0], count), lambda i, k: op.cast(_INT64, places(i, k)), name="nonzero"
    )


# Distinct values


class _Sorting:
    """Puts the rows of a matrix in order and numbers the groups of equal ones."""

    def __init__(
        self, builder: IRBuilder, source: BufferVar, keys: BufferVar, order: BufferVar,
        sizes: tuple[PrimExpr, PrimExpr],
    ) -> None:  # fmt: skip
        self.builder, self.source, self.order = builder, source, order
        self.rows, self.columns = sizes
        self.sorter = DigitSort(builder, keys, order, Row([], 0), True)

    def sort(self) -> None:
        """Sort by the last column first: the order among equal keys stays."""
        builder, dtype = self.builder, self.rows.dtype
        with builder.for_range(0, self.rows, "k") as k:
            self.order[[const(2, dtype), k]] = op.cast(self.order.dtype, k)
        with builder.for_range(0, self.columns, "c") as c:
            column = self.columns - 1 - c

            def key(k: PrimExpr) -> PrimExpr:
                return self.source[[self.order[[const(2, dtype), k]], column]]

            def origin(k: PrimExpr) -> PrimExpr:
                return self.order[[const(2, dtype), k]]

            plane = self.sorter.sort(key, origin, self.rows)
            with builder.for_range(0, self.rows, "k") as k:
                self.order[[const(2, dtype), k]] = self.order[[plane[0], k]]

    def place(self, k: PrimExpr) -> PrimExpr:
        """Return which row comes at place ``k``."""
        return self.order[[const(2, self.rows.dtype), k]]

    def begins_group(self, k: PrimExpr) -> PrimExpr:
        """Return whether the row at place ``k`` differs from the one before it."""
        builder = self.builder
        left = op.maximum(k - 1, const(0, k.dtype))
        begins = local(builder, "int32", "begins", op.cast("int32", op.equal(k, const(0, k.dtype))))
        with builder.for_range(0, self.columns, "c") as c:
            one, other = self.source[[self.place(left), c]], self.source[[self.place(k), c]]
            differs = op.cast("int32", op.not_equal(one, other))
            begins[0] = tir.bitwise_or(begins[0], differs)
        return begins[0]


def _rows(data: Tensor, axis: int | None) -> Tensor:
    """Return a matrix with a row for each element (each slice along ``axis``), as integers of the
    same order.
    """
    given = data
    data = compute(given.shape, lambda *i: sortable(given(*i)), name="T_sortable")
    shape = list(data.shape)
    if axis is None:
        return reshape(data, [product(shape), const(1, "int64")])
    others = [*shape[:axis], *shape[axis + 1 :]]
    if axis > 0:
        order = [axis, *[i for i in range(len(shape)) if i != axis]]
        whole = data
        data = compute(
            [shape[i] for i in order],
            lambda *i: whole(*[i[order.index(axis)] for axis in range(len(shape))]),
            name="T_slices",
        )
    return reshape(data, [shape[axis], product(others)])


def unique_groups(data: Tensor, axis: int | None) -> list[Tensor]:
    """Return how many distinct elements (slices along ``axis``) there are; then, with room for all:
    the place of the first one of each group, how many are in each group, and each one's group.

    Groups are in ascending order. NaN equals NaN.
    """
    matrix = _rows(data, axis)
    rows, columns = matrix.shape
    kind = index_dtype([rows])

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, counted, first, members, group_of, keys, order = pointers(
            builder, [*inputs, *outputs]
        )
        sorting = _Sorting(builder, source, keys, order, (rows, columns))
        sorting.sort()
        group = local(builder, rows.dtype, "group", const(-1, rows.dtype))
        with builder.for_range(0, rows, "k") as k:
            begins = builder.let("is_new", sorting.begins_group(k))
            place = builder.let("place", sorting.place(k))
            with builder.if_scope(op.not_equal(begins, const(0, "int32"))):
                group[0] = group[0] + 1
                first[group[0]] = op.cast(_INT64, place)
                members[group[0]] = const(0, "int64")
            members[group[0]] = members[group[0]] + 1
            group_of[place] = op.cast(_INT64, group[0])
        counted[0] = op.cast(_INT64, group[0] + 1)
        return builder.get()

    found: list[Tensor] = te.extern(
        [(1,), (rows,), (rows,), (rows,), (2, rows), (3, rows)], [matrix], body, name="unique",
        dtype=[_INT64, _INT64, _INT64, _INT64, matrix.dtype, kind],
    )  # fmt: skip
    return found[:4]


def unique_results(
    count: PrimExpr,
    data: Tensor,
    groups: Sequence[Tensor],
    axis: int | None,
    wanted: Sequence[bool],
) -> list[Tensor]:
    """Return the distinct elements (slices along ``axis``), then those ``wanted`` of: the place of
    the first one, each one's group, sizes of groups.
    """
    first, members, group_of = groups
    if axis is None:
        flat = reshape(data, [product(list(data.shape))])
        values = compute((count,), lambda k: flat(first(k)), name="unique")
    else:
        shape = [count if i == axis else size for i, size in enumerate(data.shape)]
        values = compute(
            shape,
            lambda *i: data(*i[:axis], first(i[axis]), *i[axis + 1 :]),
            name="unique",
        )
    sizes = [count, group_of.shape[0], count]
    names = ["unique_first", "unique_inverse", "unique_counts"]
    parts = [
        compute((size,), part, name=name)
        for part, size, name, is_wanted in zip((first, group_of, members), sizes, names, wanted)
        if is_wanted
    ]
    return [values, *parts]
