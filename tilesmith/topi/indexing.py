"""Elements at places that tensors name, and matrices that are put together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.topi import tag
from tilesmith.topi.broadcast import broadcast_shape
from tilesmith.topi.compute import compute
from tilesmith.topi.procedure import loops, pointers
from tilesmith.topi.utils import (
    DType,
    Number,
    Shape,
    checked_index,
    get_const_int,
    index_from_end,
    normalize_axes,
    product,
    simplify,
)

__all__ = [
    "adv_index", "invert_permutation", "matrix_set_diag", "meshgrid", "ndarray_size",
    "sliding_window", "sparse_to_dense",
]  # fmt: skip


def ndarray_size(array: Tensor, dtype: DType = "int32") -> Tensor:
    """Return how many elements a tensor has, as a tensor of one value."""
    size = op.cast(dtype, product(array.shape))
    return compute((), lambda: size, name="ndarray_size", tag=tag.INJECTIVE)


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """Return ``data[indices]`` as numpy does: the indices of the first axes broadcast, the other
    axes follow. Negative ones count from the end; one outside is an error when the program runs.
    """
    if not 0 < len(indices) <= len(data.shape):
        raise ShapeError(f"{len(indices)} indices for a tensor of {len(data.shape)} dimensions")
    common = broadcast_shape(*[index.shape for index in indices])

    def element(*i: Any) -> PrimExpr:
        places = []
        for axis, index in enumerate(indices):
            own = i[len(common) - len(index.shape) : len(common)]
            at = [
                const(0, size.dtype) if op.is_const(size, 1) else place
                for place, size in zip(own, index.shape)
            ]
            places.append(index_from_end(index(*at), data.shape[axis], "adv_index"))
        return data(*places, *i[len(common) :])

    shape = [*common, *data.shape[len(indices) :]]
    return compute(shape, element, name="advanced_index", tag=tag.INJECTIVE)


def meshgrid(a_tuple: Sequence[Tensor], indexing: str = "ij") -> list[Tensor]:
    """Return the grids of coordinate vectors (or single values): one tensor for each of them, which
    changes along its own axis only. "xy" exchanges the first two axes.
    """
    if indexing not in ("ij", "xy"):
        raise UnsupportedError(f"meshgrid: indexing '{indexing}' is neither ij nor xy")
    order = list(range(len(a_tuple)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    one = const(1, "int32")
    sizes = [vector.shape[0] if vector.shape else one for vector in a_tuple]

    def grid(vector: Tensor, axis: int) -> Tensor:
        return compute(
            [sizes[number] for number in order],
            lambda *i: vector(i[axis]) if vector.shape else vector(),
            name="T_meshgrid",
            tag=tag.INJECTIVE,
        )

    return [grid(vector, order.index(number)) for number, vector in enumerate(a_tuple)]


def sliding_window(
    data: Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]
) -> Tensor:
    """Return the windows over the axes from ``axis`` on: first the axes before it, then the place
    of the window along each of the others, then the place within the window.
    """
    (axis,) = normalize_axes(axis, len(data.shape))
    rank = len(data.shape) - axis
    if len(window_shape) != rank or len(strides) != rank:
        raise ShapeError(
            f"sliding_window from axis {axis} on takes {rank} sizes and {rank} strides"
        )
    if min(*window_shape, *strides) < 1:
        raise OpAttributeInvalid("sliding_window: sizes and strides are at least 1")
    counts = [
        simplify(op.floordiv(size - window + stride, const(stride, size.dtype)))
        for size, window, stride in zip(data.shape[axis:], window_shape, strides)
    ]
    if any(op.is_const(count) and int(count) < 1 for count in counts):
        raise ShapeError("sliding_window: a window is larger than the data")

    def element(*i: Any) -> PrimExpr:
        starts, within = i[axis : axis + rank], i[axis + rank :]
        places = [at * stride + k for at, stride, k in zip(starts, strides, within)]
        return data(*i[:axis], *places)

    shape = [*data.shape[:axis], *counts, *window_shape]
    return compute(shape, element, name="T_sliding_window", tag=tag.INJECTIVE)


def matrix_set_diag(
    data: Tensor,
    diagonal: Tensor,
    k: int | tuple[int, int] = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Return matrices (the last two axes) with some of their diagonals replaced.

    ``k``: the number of the diagonal, positive above the main one, or those of the first and the
    last one of several. ``diagonal`` has its elements along its last axis; several stand one below
    the other, the uppermost first. Shorter ones fill a part of their row: ``align`` says which
    end it reaches for those above and those below the main diagonal.
    """
    if align not in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"):
        raise UnsupportedError(f"matrix_set_diag: align '{align}'")
    low, high = (int(k), int(k)) if isinstance(k, (int, tir.IntImm)) else [int(one) for one in k]
    if low > high:
        raise OpAttributeInvalid(f"matrix_set_diag: diagonal {low} is above diagonal {high}")
    above, below = [side == "RIGHT" for side in align.split("_")]
    rows, columns = data.shape[-2:]
    longest = diagonal.shape[-1]

    def element(*i: Any) -> PrimExpr:
        row, column = i[-2], i[-1]
        zero, number = const(0, row.dtype), column - row
        place = column - op.maximum(number, zero)
        length = op.minimum(columns - op.maximum(number, zero), rows + op.minimum(number, zero))
        free = longest - length
        upper = free if above else zero
        lower = free if below else zero
        if low == high:
            at = [*i[:-2], place + (upper if low >= 0 else lower)]
        else:
            shift = tir.Select(op.greater_equal(number, zero), upper, lower)
            at = [*i[:-2], high - number, place + shift]
        chosen = tir.all(op.greater_equal(number, low), op.less_equal(number, high))
        return tir.if_then_else(chosen, diagonal(*at), data(*i))

    return compute(data.shape, element, name="matrix_set_diag", tag=tag.INJECTIVE)


def sparse_to_dense(
    sparse_indices: Tensor,
    output_shape: Shape,
    sparse_values: Tensor,
    default_value: Tensor | Number = 0,
) -> Tensor:
    """Return a tensor of ``default_value`` with some values at the given places; of values for one
    place the last one counts.

    ``sparse_indices``: one place along the only axis, a vector of these, or a row of indices for
    each value. ``sparse_values``: a value for each of them, or one for all. A place outside is an
    error when the program runs.
    """
    shape = [convert(size) for size in output_shape]
    rank = len(sparse_indices.shape)
    if rank > 2 or (rank < 2 and len(shape) != 1):
        raise ShapeError("sparse_to_dense: a row of indices is needed for each value")
    if rank == 2 and get_const_int(sparse_indices.shape[1]) != len(shape):
        raise ShapeError(
            f"sparse_to_dense: {sparse_indices.shape[1]} indices for {len(shape)} dimensions"
        )
    inputs = [sparse_indices, sparse_values]
    if isinstance(default_value, Tensor):
        inputs.append(default_value)

    def body(given: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        where, values, *rest, out = pointers(builder, [*given, *outputs])
        other = rest[0][[]] if rest else const(default_value, out.dtype)
        with ExitStack() as stack:
            out[loops(builder, stack, shape, "i")] = other
        with ExitStack() as stack:
            at = loops(builder, stack, sparse_indices.shape[:1], "k")
            places = []
            for axis, size in enumerate(shape):
                index = where[[*at, axis] if rank == 2 else at]
                places.append(checked_index(index, size, "sparse_to_dense", index))
            out[places] = values[at if sparse_values.shape else []]
        return builder.get()

    made: Tensor = te.extern([shape], inputs, body, "sparse_to_dense", [sparse_values.dtype])
    return made


def invert_permutation(data: Tensor) -> Tensor:
    """Return the permutation that undoes another one: the place of each number in ``data``."""

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, out = pointers(builder, [*inputs, *outputs])
        size = data.shape[0]
        with builder.for_range(const(0, size.dtype), size, "i") as i:
            index = source[i]
            out[checked_index(index, size, "invert_permutation", index)] = op.cast(data.dtype, i)
        return builder.get()

    made: Tensor = te.extern([data.shape], [data], body, "invert_permutation", [data.dtype])
    return made
