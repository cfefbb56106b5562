"""Sparse tensors as rows of indices with their values: rows filled up, shapes changed."""

from __future__ import annotations

from contextlib import ExitStack

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.topi.procedure import local, loops, pointers
from tilesmith.topi.utils import Shape, checked_index, get_const_int

__all__ = ["sparse_fill_empty_rows", "sparse_reshape"]


def sparse_fill_empty_rows(
    sparse_indices: Tensor,
    sparse_values: Tensor,
    dense_shape: Tensor,
    default_value: Tensor,
    new_sparse_indices_shape: Shape,
    new_sparse_values_shape: Shape,
    empty_row_indicator_shape: Shape,
) -> list[Tensor]:
    """Give each row that has no value the ``default_value``, in its first place.

    ``sparse_indices`` (values, dimensions), ``sparse_values`` (values,). Returns the indices and
    the values, row by row and in the order given within one, and which rows had none. The shapes
    are those of the results: as many values as were given and rows that had none. Whether the first
    two fit, and the rows lie within ``empty_row_indicator_shape``, is checked when the program
    runs. ``dense_shape`` only has to have a size for each index.
    """
    number, rank = sparse_indices.shape
    rows = convert(empty_row_indicator_shape[0])
    room = convert(new_sparse_values_shape[0])
    if get_const_int(dense_shape.shape[0]) != get_const_int(rank):
        raise ShapeError(f"sparse_fill_empty_rows: {rank} indices, {dense_shape.shape[0]} sizes")
    name, kind = "sparse_fill_empty_rows", sparse_indices.dtype

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        where, values, default, indices, filled, is_empty, next_place = pointers(
            builder, [*inputs, *outputs]
        )
        first = default[[const(0, "int32")] * len(default_value.shape)]

        def row_of(k: PrimExpr) -> PrimExpr:
            given = where[[k, 0]]
            return builder.let("row", checked_index(given, rows, name, given))

        def put(place: PrimExpr, k: PrimExpr | None, row: PrimExpr, value: PrimExpr) -> None:
            at = builder.let("at", checked_index(place, room, name, place))
            filled[at] = value
            with builder.for_range(const(0, rank.dtype), rank, "d") as d:
                other = const(0, kind) if k is None else where[[k, d]]
                is_row = op.equal(d, 0)
                indices[[at, d]] = tir.Select(is_row, op.cast(kind, row), other)

        with builder.for_range(const(0, rows.dtype), rows, "row") as row:
            next_place[row] = const(0, "int64")
        with builder.for_range(const(0, number.dtype), number, "k") as k:
            row = row_of(k)
            next_place[row] = next_place[row] + 1
        total = local(builder, "int64", "total", const(0, "int64"))
        with builder.for_range(const(0, rows.dtype), rows, "row") as row:
            count = builder.let("count", next_place[row])
            next_place[row] = total[0]
            is_empty[row] = op.equal(count, 0)
            with builder.if_scope(op.equal(count, 0)):
                put(total[0], None, row, first)
            total[0] = total[0] + op.maximum(count, const(1, "int64"))
        with builder.for_range(const(0, number.dtype), number, "k") as k:
            row = row_of(k)
            put(next_place[row], k, row, values[k])
            next_place[row] = next_place[row] + 1
        return builder.get()

    made: list[Tensor] = te.extern(
        [new_sparse_indices_shape, new_sparse_values_shape, empty_row_indicator_shape, [rows]],
        [sparse_indices, sparse_values, default_value], body, name,
        [kind, sparse_values.dtype, "bool", "int64"],
    )  # fmt: skip
    return made[:3]


def sparse_reshape(
    sparse_indices: Tensor,
    prev_shape: Tensor,
    new_shape: Tensor,
    new_sparse_indices_shape: Shape,
    new_shape_shape: Shape,
) -> list[Tensor]:
    """Return the indices that values of a sparse tensor have in another shape, and this shape.

    ``sparse_indices`` (values, dimensions), ``prev_shape`` and ``new_shape`` are vectors of sizes;
    a size of -1 is what the others leave. The last two parameters are the shapes of the results.
    """
    before, after = get_const_int(prev_shape.shape[0]), get_const_int(new_shape.shape[0])
    if get_const_int(sparse_indices.shape[1]) != before:
        raise ShapeError(f"sparse_reshape: {sparse_indices.shape[1]} indices for {before} sizes")
    if (
        get_const_int(new_sparse_indices_shape[1]) != after
        or get_const_int(new_shape_shape[0]) != after
    ):
        raise ShapeError(f"sparse_reshape: the results have {after} columns, as new_shape has")
    kind, wide = sparse_indices.dtype, "int64"

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        where, old, new, indices, sizes = pointers(builder, [*inputs, *outputs])
        total: PrimExpr = const(1, wide)
        for axis in range(before):
            total = total * op.cast(wide, old[axis])
        known: PrimExpr = const(1, wide)
        for axis in range(after):
            size = op.cast(wide, new[axis])
            known = known * tir.Select(size < 0, const(1, wide), size)
        known = builder.let("known", known)
        # Where a size is 0 there are no indices, whatever the size left open is.
        left = builder.let("left", op.floordiv(total, op.maximum(known, const(1, wide))))
        for axis in range(after):
            size = op.cast(wide, new[axis])
            sizes[axis] = op.cast(new_shape.dtype, tir.Select(size < 0, left, size))
        with ExitStack() as stack:
            (k,) = loops(builder, stack, [sparse_indices.shape[0]], "k")
            flat: PrimExpr = const(0, wide)
            for axis in range(before):
                flat = flat * op.cast(wide, old[axis]) + op.cast(wide, where[[k, axis]])
            flat = builder.let("flat", flat)
            for axis in reversed(range(after)):
                size = builder.let("size", op.maximum(op.cast(wide, sizes[axis]), const(1, wide)))
                place = op.floormod(flat, size) if axis else flat
                indices[[k, axis]] = op.cast(kind, place)
                flat = builder.let("flat", op.floordiv(flat, size))
        return builder.get()

    made: list[Tensor] = te.extern(
        [new_sparse_indices_shape, new_shape_shape], [sparse_indices, prev_shape, new_shape], body,
        "sparse_reshape", [kind, new_shape.dtype],
    )  # fmt: skip
    return made
