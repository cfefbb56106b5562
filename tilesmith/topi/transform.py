"""Operations that move elements: shapes, slices, joins, look-ups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import te, tir
from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.tir.functor import substitute
from tilesmith.topi import tag
from tilesmith.topi.accumulation import rounded, widened
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import (
    Axes,
    DType,
    Number,
    Shape,
    arange_size,
    equal_const_int,
    get_const_int,
    index_from_end,
    nonempty,
    normalize_axes,
    product,
    ravel_index,
    simplify,
)
from tilesmith.topi.utils import unravel_index as unravelled

__all__ = [
    "arange", "concatenate", "expand_dims", "expand_like", "flip", "gather", "gather_nd",
    "index_map_transform", "layout_transform", "one_hot", "repeat", "reshape", "shape", "split",
    "squeeze", "stack", "take", "take_grad", "tile", "transpose", "trilu",
    "unravel_index",
]  # fmt: skip


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """Insert axes of size 1 before ``axis``."""
    ndim = len(a.shape)
    axis = axis + ndim + 1 if axis < 0 else axis
    if not 0 <= axis <= ndim:
        raise ShapeError(f"axis {axis} is not within {ndim + 1} places")
    one = const(1, a.shape[0].dtype if a.shape else "int32")
    new_shape = [*a.shape[:axis], *[one] * num_newaxis, *a.shape[axis:]]
    return compute(
        new_shape,
        lambda *i: a(*i[:axis], *i[axis + num_newaxis :]),
        name="T_expand_dims",
        tag=tag.BROADCAST,
    )


def expand_like(a: Tensor, shape_like: Tensor, axis: Axes) -> Tensor:
    """Broadcast ``a`` along ``axis`` to the shape of another tensor."""
    axes = normalize_axes(axis, len(shape_like.shape))
    kept = [k for k in range(len(shape_like.shape)) if k not in axes]
    return compute(
        shape_like.shape,
        lambda *i: a(*[i[k] for k in kept]),
        name="T_expand_like",
        tag=tag.BROADCAST,
    )


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Permute the axes of ``a``; reversed by default."""
    ndim = len(a.shape)
    given = list(range(ndim))[::-1] if axes is None else [int(axis) for axis in axes]
    order = [axis + ndim if axis < 0 else axis for axis in given]
    if sorted(order) != list(range(ndim)):
        raise ShapeError(f"{axes} is not an order of {ndim} axes")

    def element(*indices: Any) -> PrimExpr:
        own: list[Any] = [None] * ndim
        for position, axis in enumerate(order):
            own[axis] = indices[position]
        return a(*own)

    return compute(
        [a.shape[axis] for axis in order], element, name="T_transpose", tag=tag.INJECTIVE
    )


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """Reverse ``a`` along an axis."""
    (axis,) = normalize_axes(axis, len(a.shape))
    size = a.shape[axis]
    return compute(
        a.shape,
        lambda *i: a(*i[:axis], size - 1 - i[axis], *i[axis + 1 :]),
        name="T_flip",
        tag=tag.INJECTIVE,
    )


def reshape(a: Tensor, newshape: Shape) -> Tensor:
    """Reshape ``a``; one size may be -1, which then follows from the number of elements."""
    sizes = [convert(size) for size in newshape]
    if any(op.is_const(size, -1) for size in sizes):
        rest = product([size for size in sizes if not op.is_const(size, -1)])
        found = simplify(op.floordiv(product(a.shape), rest))
        sizes = [found if op.is_const(size, -1) else size for size in sizes]
    total, wanted = simplify(product(a.shape)), simplify(product(sizes))
    if isinstance(total, IntImm) and isinstance(wanted, IntImm) and total.value != wanted.value:
        raise ShapeError(f"a tensor of {total} elements cannot be reshaped to {wanted} elements")
    shape = list(a.shape)

    def element(*indices: Any) -> PrimExpr:
        flat = ravel_index(indices, sizes)
        return a(*[simplify(index) for index in unravelled(flat, shape)]) if shape else a()

    return compute(sizes, element, name="T_reshape", tag=tag.INJECTIVE)


def squeeze(a: Tensor, axis: Axes = None) -> Tensor:
    """Remove axes of size 1 (all of them by default)."""
    ndim = len(a.shape)
    if axis is None:
        axes = [k for k, size in enumerate(a.shape) if equal_const_int(size, 1)]
    else:
        axes = normalize_axes(axis, ndim)
        for number in axes:
            if isinstance(a.shape[number], IntImm) and not equal_const_int(a.shape[number], 1):
                raise ShapeError(f"axis {number} of size {a.shape[number]} cannot be squeezed")
    kept = [k for k in range(ndim) if k not in axes]

    def element(*indices: Any) -> PrimExpr:
        own: list[Any] = [const(0, size.dtype) for size in a.shape]
        for position, number in enumerate(kept):
            own[number] = indices[position]
        return a(*own)

    return compute([a.shape[k] for k in kept], element, name="T_squeeze", tag=tag.INJECTIVE)


def _check_joined(tensors: Sequence[Tensor], axis: int) -> None:
    """Refuse tensors that are known to differ elsewhere than along the axis where they are
    joined.
    """
    wanted = tensors[0].shape
    for tensor in tensors[1:]:
        differ = len(tensor.shape) != len(wanted) or any(
            isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value
            for k, (a, b) in enumerate(zip(wanted, tensor.shape))
            if k != axis
        )
        if differ:
            raise ShapeError(
                f"tensors of shapes {wanted} and {tensor.shape} cannot be joined along axis {axis}",
                notes=("all other sizes have to be equal",),
            )


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Concatenate tensors along an axis."""
    tensors = list(a_tuple)
    if not tensors:
        raise ShapeError("concatenate needs at least one tensor")
    (axis,) = normalize_axes(axis, len(tensors[0].shape))
    _check_joined(tensors, axis)
    total = tensors[0].shape[axis]
    for tensor in tensors[1:]:
        total = total + tensor.shape[axis]

    def element(*indices: Any) -> PrimExpr:
        index = indices[axis]
        starts, start = [], const(0, index.dtype)
        for tensor in tensors:
            starts.append(start)
            start = start + tensor.shape[axis]
        value = tensors[0](*indices)
        for tensor, begin in zip(tensors[1:], starts[1:]):
            inside = tensor(*indices[:axis], index - begin, *indices[axis + 1 :])
            value = tir.if_then_else(op.less_equal(begin, index), inside, value)
        return value

    shape = list(tensors[0].shape)
    shape[axis] = simplify(total)
    return compute(shape, element, name="T_concat", tag=tag.INJECTIVE)


def stack(a: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Stack tensors of one shape along a new axis."""
    tensors = list(a)
    axis = axis + len(tensors[0].shape) + 1 if axis < 0 else axis
    return concatenate([expand_dims(tensor, axis) for tensor in tensors], axis)


def unravel_index(
    indices: Tensor | PrimExpr, shape: Sequence[int | PrimExpr] | Tensor
) -> Tensor | list[PrimExpr]:
    """Return the places in a shape of flat, row-major positions: one row for each axis, as numpy
    does; of a single position, its indices.
    """
    if isinstance(shape, Tensor):
        count = get_const_int(shape.shape[0])
        sizes = [shape(const(axis, "int32")) for axis in range(count)]
    else:
        sizes = [convert(size) for size in shape]
    if not isinstance(indices, Tensor):
        return unravelled(indices, sizes)
    dtype = indices.dtype
    sizes = [op.cast(dtype, size) for size in sizes]

    def element(*place: PrimExpr) -> PrimExpr:
        axis, *position = place
        places = unravelled(indices(*position), sizes)
        chosen = places[-1]
        for number in range(len(places) - 2, -1, -1):
            chosen = tir.Select(op.equal(axis, const(number, axis.dtype)), places[number], chosen)
        return chosen

    return compute((len(sizes), *indices.shape), element, name="T_unravel", tag=tag.INJECTIVE)


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int | PrimExpr], axis: int = 0
) -> list[Tensor]:
    """Split along an axis: into equal parts, or at the given indices."""
    (axis,) = normalize_axes(axis, len(ary.shape))
    size = ary.shape[axis]
    if isinstance(indices_or_sections, (int, IntImm)):
        sections = int(indices_or_sections)
        total = get_const_int(size)
        if total % sections:
            raise ShapeError(f"an axis of {total} elements does not divide into {sections} parts")
        cuts: list[Any] = [total // sections * k for k in range(1, sections)]
    else:
        cuts = [convert(cut) for cut in indices_or_sections]
    begins = [const(0, size.dtype), *[convert(cut) for cut in cuts]]
    ends = [*begins[1:], size]
    return [
        _slice_axis(ary, axis, begin, simplify(end - begin)) for begin, end in zip(begins, ends)
    ]


def _slice_axis(a: Tensor, axis: int, begin: PrimExpr, length: PrimExpr) -> Tensor:
    shape = list(a.shape)
    shape[axis] = length
    return compute(
        shape,
        lambda *i: a(*i[:axis], i[axis] + begin, *i[axis + 1 :]),
        name="T_split_sections",
        tag=tag.INJECTIVE,
    )


def take(
    a: Tensor,
    indices: Tensor | int | PrimExpr,
    axis: int | None = None,
    batch_dims: int = 0,
    mode: str = "clip",
) -> Tensor:
    """Return elements (slices along ``axis``) at the given indices.

    ``mode``: "clip" limits indices to the range, "wrap" takes them modulo the size, "nan" gives NaN
    (of integers the smallest one) for those out of range; in mode "fast" they are an error when the
    program runs. Negative indices count from the end.
    """
    if mode not in ("clip", "wrap", "fast", "nan"):
        raise UnsupportedError(f"take: mode '{mode}' is not one of clip, wrap, fast, nan")
    if not isinstance(indices, Tensor):
        index = convert(indices)
        indices = compute((), lambda: index, name="T_index")
    if axis is None:
        a = a if len(a.shape) == 1 else reshape(a, [product(a.shape)])
        axis = 0
    (axis,) = normalize_axes(axis, len(a.shape))
    size = a.shape[axis]
    count = len(indices.shape)
    shape = [*a.shape[:axis], *indices.shape[batch_dims:], *a.shape[axis + 1 :]]

    def element(*i: Any) -> PrimExpr:
        middle = i[axis : axis + count - batch_dims]
        index = indices(*i[:batch_dims], *middle)
        inside = _index_in_mode(index, size, mode)
        value = a(*i[:axis], inside, *i[axis + count - batch_dims :])
        if mode == "nan":
            wide, limit = op.cast("int64", index), op.cast("int64", size)
            valid = op.logical_and(op.greater_equal(wide, -limit), op.less(wide, limit))
            missing = const(float("nan"), a.dtype) if a.dtype.is_float else tir.min_value(a.dtype)
            return tir.if_then_else(valid, value, missing)
        return value

    return compute(shape, element, name="T_take", tag=tag.INJECTIVE)


def _index_in_mode(index: PrimExpr, size: PrimExpr, mode: str) -> PrimExpr:
    if mode == "fast":
        return index_from_end(index, size, "take")
    index = op.cast(size.dtype, index)
    if mode == "wrap":
        return op.floormod(index, nonempty(size, size, "take"))
    index = tir.Select(op.less(index, const(0, index.dtype)), index + size, index)
    index = op.maximum(op.minimum(index, size - 1), const(0, index.dtype))
    return index if mode == "nan" else nonempty(index, size, "take")


def take_grad(grads: Tensor, data: Tensor, indices: Tensor, axis: int | None = None) -> Tensor:
    """Return the gradient of `take` by its data: each place of the data sums what was taken from
    it.

    ``axis`` None stands for the only axis of a vector. Negative indices count from the end.
    """
    (axis,) = normalize_axes(0 if axis is None else axis, len(data.shape))
    places = [te.reduce_axis((0, size), name=f"k{n}") for n, size in enumerate(indices.shape)]

    def gathered(*i: Any) -> PrimExpr:
        index = index_from_end(indices(*places), data.shape[axis], "take_grad")
        here = op.equal(index, op.cast(index.dtype, i[axis]))
        value = grads(*i[:axis], *places, *i[axis + 1 :])
        value = tir.Select(here, value, const(0, grads.dtype))
        return te.sum(widened(value), axis=places) if places else value

    return rounded(compute(data.shape, gathered, name="take_grad"), grads.dtype)


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Return ``data`` at ``indices`` along an axis, elementwise in the other ones. Negative indices
    count from the end.
    """
    (axis,) = normalize_axes(axis, len(data.shape))
    size = data.shape[axis]

    def element(*i: Any) -> PrimExpr:
        index = index_from_end(indices(*i), size, "gather")
        return data(*i[:axis], index, *i[axis + 1 :])

    return compute(indices.shape, element, name="T_gather", tag=tag.INJECTIVE)


def gather_nd(a: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Return slices of ``a`` at index tuples, which lie along the first axis of ``indices``.
    Negative indices count from the end.
    """
    depth = get_const_int(indices.shape[0])
    count = len(indices.shape) - 1
    shape = [*indices.shape[1:], *a.shape[depth + batch_dims :]]

    def element(*i: Any) -> PrimExpr:
        picked = [
            index_from_end(indices(k, *i[:count]), a.shape[batch_dims + k], "gather_nd")
            for k in range(depth)
        ]
        return a(*i[:batch_dims], *picked, *i[count:])

    return compute(shape, element, name="T_gather_nd", tag=tag.INJECTIVE)


def repeat(a: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Repeat each element along an axis (of the flattened tensor for None)."""
    if axis is None:
        a, axis = reshape(a, [product(a.shape)]), 0
    (axis,) = normalize_axes(axis, len(a.shape))
    shape = list(a.shape)
    shape[axis] = simplify(shape[axis] * repeats)
    return compute(
        shape,
        lambda *i: a(*i[:axis], op.floordiv(i[axis], repeats), *i[axis + 1 :]),
        name="T_repeat",
        tag=tag.BROADCAST,
    )


def tile(a: Tensor, reps: int | Sequence[int]) -> Tensor:
    """Repeat ``a`` as a whole, ``reps`` times along each axis."""
    reps = list(reps) if isinstance(reps, (list, tuple)) else [reps]
    ndim = max(len(reps), len(a.shape))
    reps = [1] * (ndim - len(reps)) + reps
    one = const(1, a.shape[0].dtype if a.shape else "int32")
    sizes = [one] * (ndim - len(a.shape)) + list(a.shape)
    shape = [simplify(size * count) for size, count in zip(sizes, reps)]
    skip = ndim - len(a.shape)

    def element(*i: Any) -> PrimExpr:
        return a(*[op.floormod(index, size) for index, size in zip(i[skip:], a.shape)])

    return compute(shape, element, name="T_tile", tag=tag.BROADCAST)


def shape(array: Tensor, dtype: DType = "int32") -> Tensor:
    """Return the shape of a tensor as a tensor."""
    sizes = list(array.shape)

    def element(index: Any) -> PrimExpr:
        value: PrimExpr = const(0, dtype)
        for number, size in enumerate(sizes):
            value = tir.Select(op.equal(index, number), op.cast(dtype, size), value)
        return value

    return compute((len(sizes),), element, name="T_shape", tag=tag.INJECTIVE)


def arange(
    start: Number, stop: Number | None = None, step: Number = 1, dtype: DType = "float32"
) -> Tensor:
    """Return ``start, start + step, ...`` as long as they lie before ``stop``; one number is the
    stop.
    """
    if stop is None:
        start, stop = 0, start
    start, stop, step = convert(start), convert(stop), convert(step)
    return compute(
        (arange_size(start, stop, step),),
        lambda i: op.cast(dtype, start) + op.cast(dtype, step) * op.cast(dtype, i),
        name="T_arange",
        tag=tag.INJECTIVE,
    )


def one_hot(
    indices: Tensor, on_value: Number, off_value: Number, depth: int, axis: int, dtype: DType
) -> Tensor:
    """Return ``on_value`` where the index along a new axis of size ``depth`` is the one in
    ``indices``, ``off_value`` elsewhere; an out-of-range index gives ``off_value`` only.
    """
    axis = axis % (len(indices.shape) + 1)
    size_dtype = indices.shape[0].dtype if indices.shape else "int32"
    new_shape = [*indices.shape[:axis], const(int(depth), size_dtype), *indices.shape[axis:]]
    on, off = op.cast(dtype, convert(on_value)), op.cast(dtype, convert(off_value))

    def element(*i: Any) -> PrimExpr:
        index, place = indices(*i[:axis], *i[axis + 1 :]), i[axis]
        # In the wider of the two dtypes, so that neither wraps around.
        wide = index.dtype if index.dtype.bits > place.dtype.bits else place.dtype
        return tir.Select(op.equal(op.cast(wide, index), op.cast(wide, place)), on, off)

    return compute(new_shape, element, name="T_one_hot", tag=tag.INJECTIVE)


def trilu(data: Tensor, k: int | PrimExpr, upper: bool) -> Tensor:
    """Return the upper (or lower) triangle of the last two axes, zero elsewhere; ``k`` shifts the
    diagonal.
    """

    def element(*i: Any) -> PrimExpr:
        row, column = i[-2], i[-1]
        shift = op.cast(row.dtype, convert(k))
        keep = (
            op.less_equal(row + shift, column) if upper else op.greater_equal(row + shift, column)
        )
        return tir.Select(keep, data(*i), const(0, data.dtype))

    return compute(data.shape, element, name="T_trilu", tag=tag.INJECTIVE)


def layout_transform(array: Tensor, src_layout: str, dst_layout: str, **_: Any) -> Tensor:
    """Convert an array to another layout: letters are axes, a number before a small letter is a
    block size.

    layout_transform(x, "NCHW", "NCHW16c")
    """
    way = tir.bijective_layout(src_layout, dst_layout)
    shape = way.forward_shape(array.shape)
    whole = way.backward_shape(shape)

    def element(*i: Any) -> PrimExpr:
        own = way.backward_index(i)
        guards = [
            op.less(index, size)
            for index, size, padded in zip(own, array.shape, whole)
            if not Analyzer().can_prove_equal(size, padded)
        ]
        value = array(*own)
        if guards:
            value = tir.if_then_else(tir.all(*guards), value, const(0, array.dtype))
        return value

    return compute(shape, element, name="T_layout_trans", tag=tag.INJECTIVE)


def index_map_transform(
    data: Tensor, index_map: tir.IndexMap, pad_value: int | float | None = None
) -> Tensor:
    """Move each element to the position that ``index_map`` gives for its indices.

    Places of the result to which no element is sent hold ``pad_value`` (0 for None). Raises what
    ``IndexMap.non_surjective_inverse`` raises for a map that has no inverse.
    """
    inverse, padding = index_map.non_surjective_inverse(list(data.shape))
    shape = index_map.map_shape(list(data.shape))
    fill = const(pad_value or 0, data.dtype)

    def element(*indices: Any) -> PrimExpr:
        value = data(*inverse.map_indices(list(indices)))
        own = inverse.initial_indices
        places = {var: op.cast(var.dtype, index) for var, index in zip(own, indices)}
        outside = simplify(substitute(padding, places))
        return value if op.is_const(outside, 0) else tir.if_then_else(outside, fill, value)

    return compute(shape, element, name="te_layout_transform", tag=tag.INJECTIVE)
