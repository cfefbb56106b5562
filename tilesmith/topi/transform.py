"""Operations that move elements: shapes, slices, joins, look-ups."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.arith import Analyzer
from tilesmith.ir import IntImm, PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.utils import (
    equal_const_int,
    get_const_int,
    normalize_axes,
    product,
    ravel_index,
    simplify,
    unravel_index,
)

__all__ = [
    "arange", "concatenate", "expand_dims", "expand_like", "flip", "gather", "gather_nd",
    "layout_transform",
    "one_hot", "repeat", "reshape", "shape", "split", "squeeze", "stack", "strided_slice", "take",
    "tile",
    "transpose", "trilu",
]  # fmt: skip


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """``a`` with new axes of size 1 before ``axis``."""
    ndim = len(a.shape)
    axis = axis + ndim + 1 if axis < 0 else axis
    if not 0 <= axis <= ndim:
        raise ShapeError(f"axis {axis} is not within {ndim + 1} places")
    one = const(1, a.shape[0].dtype if a.shape else "int32")
    new_shape = [*a.shape[:axis], *[one] * num_newaxis, *a.shape[axis:]]
    return te.compute(
        new_shape,
        lambda *i: a(*i[:axis], *i[axis + num_newaxis :]),
        name="T_expand_dims",
        tag=tag.BROADCAST,
    )


def expand_like(a: Tensor, shape_like: Tensor, axis: Any) -> Tensor:
    """``a`` stretched along ``axis`` to the shape of another tensor."""
    axes = normalize_axes(axis, len(shape_like.shape))
    kept = [k for k in range(len(shape_like.shape)) if k not in axes]
    return te.compute(
        shape_like.shape,
        lambda *i: a(*[i[k] for k in kept]),
        name="T_expand_like",
        tag=tag.BROADCAST,
    )


def transpose(a: Tensor, axes: Any = None) -> Tensor:
    """``a`` with its axes in another order, reversed by default."""
    ndim = len(a.shape)
    order = list(range(ndim))[::-1] if axes is None else [int(axis) % ndim for axis in axes]
    if sorted(order) != list(range(ndim)):
        raise ShapeError(f"{axes} is no order of {ndim} axes")

    def element(*indices: Any) -> PrimExpr:
        own: list[Any] = [None] * ndim
        for position, axis in enumerate(order):
            own[axis] = indices[position]
        return a(*own)

    return te.compute(
        [a.shape[axis] for axis in order], element, name="T_transpose", tag=tag.INJECTIVE
    )


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """``a`` with one axis backwards."""
    (axis,) = normalize_axes(axis, len(a.shape))
    size = a.shape[axis]
    return te.compute(
        a.shape,
        lambda *i: a(*i[:axis], size - 1 - i[axis], *i[axis + 1 :]),
        name="T_flip",
        tag=tag.INJECTIVE,
    )


def reshape(a: Tensor, newshape: Any) -> Tensor:
    """``a`` in another shape with the same number of elements; -1 is found, 0 copies a size."""
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
        return a(*[simplify(index) for index in unravel_index(flat, shape)]) if shape else a()

    return te.compute(sizes, element, name="T_reshape", tag=tag.INJECTIVE)


def squeeze(a: Tensor, axis: Any = None) -> Tensor:
    """``a`` without axes of size 1 (all of them by default)."""
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

    return te.compute([a.shape[k] for k in kept], element, name="T_squeeze", tag=tag.INJECTIVE)


def concatenate(a_tuple: Any, axis: int = 0) -> Tensor:
    """Tensors one after the other along an axis."""
    tensors = list(a_tuple)
    (axis,) = normalize_axes(axis, len(tensors[0].shape))
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
    return te.compute(shape, element, name="T_concat", tag=tag.INJECTIVE)


def stack(tensors: Any, axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    tensors = list(tensors)
    axis = axis + len(tensors[0].shape) + 1 if axis < 0 else axis
    return concatenate([expand_dims(tensor, axis) for tensor in tensors], axis)


def split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts along an axis: that many equal ones, or cut at the given indices."""
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
    return te.compute(
        shape,
        lambda *i: a(*i[:axis], i[axis] + begin, *i[axis + 1 :]),
        name="T_split_sections",
        tag=tag.INJECTIVE,
    )


def strided_slice(
    a: Tensor, begin: Any, end: Any, strides: Any = None, axes: Any = None, slice_mode: str = "end"
) -> Tensor:
    """``a[begin:end:strides]`` along ``axes`` (the first ones by default), as numpy slices.

    ``slice_mode="size"``: ``end`` holds lengths, -1 for the rest.
    """
    ndim = len(a.shape)
    axes = list(range(len(begin))) if axes is None else [int(axis) % ndim for axis in axes]
    strides = [1] * len(axes) if strides is None else [get_const_int(stride) for stride in strides]
    if len(strides) == 1 and len(axes) > 1:
        strides = strides * len(axes)
    starts: list[Any] = [const(0, size.dtype) for size in a.shape]
    steps = [1] * ndim
    shape = list(a.shape)
    for position, axis in enumerate(axes):
        size = a.shape[axis]
        step = strides[position]
        if step == 0:
            raise ShapeError("a slice has stride 0")
        if slice_mode == "size":
            start = convert(begin[position])
            length = convert(end[position])
            stop = size if op.is_const(length, -1) else start + length
            step = 1
        else:
            start, stop = begin[position], end[position]
        first, count = _slice_bounds(start, stop, step, size)
        starts[axis], steps[axis], shape[axis] = first, step, count

    def element(*indices: Any) -> PrimExpr:
        return a(*[index * step + start for index, step, start in zip(indices, steps, starts)])

    return te.compute(shape, element, name="T_strided_slice", tag=tag.INJECTIVE)


def _slice_bounds(start: Any, stop: Any, step: int, size: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """First index and number of elements of a slice; negative indices count from the end."""
    start = None if start is None else simplify(convert(start))
    stop = None if stop is None else simplify(convert(stop))
    known = (start is None or isinstance(start, IntImm)) and (
        stop is None or isinstance(stop, IntImm)
    )
    if isinstance(size, IntImm) and known:
        first = None if start is None else int(start)
        last = None if stop is None else int(stop)
        chosen = range(size.value)[slice(first, last, step)]
        begin = chosen.start if len(chosen) else 0
        return const(begin, size.dtype), const(len(chosen), size.dtype)

    def limited(value: PrimExpr) -> PrimExpr:
        value = op.cast(size.dtype, value)
        if isinstance(value, IntImm) and value.value < 0:
            return value + size
        return value

    if step > 0:
        begin = const(0, size.dtype) if start is None else limited(start)
        far = isinstance(stop, IntImm) and stop.value >= 2**31 - 1
        end = size if stop is None or far else op.minimum(limited(stop), size)
    else:
        begin = size - 1 if start is None else op.minimum(limited(start), size - 1)
        far = isinstance(stop, IntImm) and stop.value <= -(2**31) + 1
        end = const(-1, size.dtype) if stop is None or far else limited(stop)
    count = op.floordiv(end - begin + (step - (1 if step > 0 else -1)), const(step, size.dtype))
    return simplify(begin), simplify(op.maximum(count, const(0, size.dtype)))


def take(
    a: Tensor, indices: Any, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> Tensor:
    """Elements (slices along ``axis``) at the given indices.

    ``mode``: "clip" limits indices to the range, "wrap" takes them modulo the size, "fast" trusts
    them. Negative indices count from the end in modes "clip" and "wrap".
    """
    if mode not in ("clip", "wrap", "fast", "nan"):
        raise UnsupportedError(f"take: mode '{mode}' is not one of clip, wrap, fast, nan")
    if not isinstance(indices, Tensor):
        index = convert(indices)
        indices = te.compute((), lambda: index, name="T_index")
    if axis is None:
        a = reshape(a, [product(a.shape)])
        axis = 0
    (axis,) = normalize_axes(axis, len(a.shape))
    size = a.shape[axis]
    count = len(indices.shape)
    shape = [*a.shape[:axis], *indices.shape[batch_dims:], *a.shape[axis + 1 :]]

    def element(*i: Any) -> PrimExpr:
        middle = i[axis : axis + count - batch_dims]
        index = op.cast(size.dtype, indices(*i[:batch_dims], *middle))
        inside = _index_in_mode(index, size, mode)
        value = a(*i[:axis], inside, *i[axis + count - batch_dims :])
        if mode == "nan":
            valid = op.logical_and(op.greater_equal(index, -size), op.less(index, size))
            missing = const(float("nan"), a.dtype) if a.dtype.is_float else tir.min_value(a.dtype)
            return tir.if_then_else(valid, value, missing)
        return value

    return te.compute(shape, element, name="T_take", tag=tag.INJECTIVE)


def _index_in_mode(index: PrimExpr, size: PrimExpr, mode: str) -> PrimExpr:
    if mode == "fast":
        return index
    if mode == "wrap":
        return op.floormod(index, size)
    index = tir.Select(op.less(index, const(0, index.dtype)), index + size, index)
    return op.maximum(op.minimum(index, size - 1), const(0, index.dtype))


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """``data`` at ``indices`` along an axis, elementwise in the other ones."""
    (axis,) = normalize_axes(axis, len(data.shape))
    size = data.shape[axis]

    def element(*i: Any) -> PrimExpr:
        index = op.cast(size.dtype, indices(*i))
        index = tir.Select(op.less(index, const(0, index.dtype)), index + size, index)
        return data(*i[:axis], index, *i[axis + 1 :])

    return te.compute(indices.shape, element, name="T_gather", tag=tag.INJECTIVE)


def gather_nd(a: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Slices of ``a`` at index tuples, which stand along the first axis of ``indices``."""
    depth = get_const_int(indices.shape[0])
    count = len(indices.shape) - 1
    shape = [*indices.shape[1:], *a.shape[depth + batch_dims :]]

    def element(*i: Any) -> PrimExpr:
        picked = [
            op.cast(a.shape[batch_dims + k].dtype, indices(k, *i[:count])) for k in range(depth)
        ]
        return a(*i[:batch_dims], *picked, *i[count:])

    return te.compute(shape, element, name="T_gather_nd", tag=tag.INJECTIVE)


def repeat(a: Tensor, repeats: int, axis: int) -> Tensor:
    """Each element several times along an axis."""
    (axis,) = normalize_axes(axis, len(a.shape))
    shape = list(a.shape)
    shape[axis] = simplify(shape[axis] * repeats)
    return te.compute(
        shape,
        lambda *i: a(*i[:axis], op.floordiv(i[axis], repeats), *i[axis + 1 :]),
        name="T_repeat",
        tag=tag.BROADCAST,
    )


def tile(a: Tensor, reps: Any) -> Tensor:
    """Copies of ``a`` side by side, ``reps`` along each axis."""
    reps = list(reps) if isinstance(reps, (list, tuple)) else [reps]
    ndim = max(len(reps), len(a.shape))
    reps = [1] * (ndim - len(reps)) + reps
    one = const(1, a.shape[0].dtype if a.shape else "int32")
    sizes = [one] * (ndim - len(a.shape)) + list(a.shape)
    shape = [simplify(size * count) for size, count in zip(sizes, reps)]
    skip = ndim - len(a.shape)

    def element(*i: Any) -> PrimExpr:
        return a(*[op.floormod(index, size) for index, size in zip(i[skip:], a.shape)])

    return te.compute(shape, element, name="T_tile", tag=tag.BROADCAST)


def shape(array: Tensor, dtype: str = "int32") -> Tensor:
    """The shape of a tensor as a tensor."""
    sizes = list(array.shape)

    def element(index: Any) -> PrimExpr:
        value: PrimExpr = const(0, dtype)
        for number, size in enumerate(sizes):
            value = tir.Select(op.equal(index, number), op.cast(dtype, size), value)
        return value

    return te.compute((len(sizes),), element, name="T_shape", tag=tag.INJECTIVE)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: str = "float32") -> Tensor:
    """``start, start + step, ...`` below ``stop``."""
    if stop is None:
        start, stop = 0, start
    start, stop, step = convert(start), convert(stop), convert(step)
    if start.dtype.is_integer and stop.dtype.is_integer and step.dtype.is_integer:
        count = simplify(op.floordiv(stop - start + step - 1, step))
    else:
        count = simplify(op.cast("int32", tir.ceil((op.cast("float32", stop) - start) / step)))
    return te.compute(
        (count,),
        lambda i: op.cast(dtype, start) + op.cast(dtype, step) * op.cast(dtype, i),
        name="T_arange",
        tag=tag.INJECTIVE,
    )


def one_hot(
    indices: Tensor, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str
) -> Tensor:
    """``on_value`` where the new axis equals the index, ``off_value`` elsewhere."""
    ndim = len(indices.shape)
    axis = ndim if axis == -1 else axis
    new_shape = [*indices.shape[:axis], convert(depth), *indices.shape[axis:]]

    def element(*i: Any) -> PrimExpr:
        own = indices(*i[:axis], *i[axis + 1 :])
        hit = op.equal(own, op.cast(own.dtype, i[axis]))
        return tir.Select(
            hit, op.cast(dtype, convert(on_value)), op.cast(dtype, convert(off_value))
        )

    return te.compute(new_shape, element, name="T_one_hot", tag=tag.INJECTIVE)


def trilu(data: Tensor, k: Any, upper: bool) -> Tensor:
    """The upper (or lower) triangle of the last two axes, zero elsewhere; ``k`` shifts the
    diagonal.
    """

    def element(*i: Any) -> PrimExpr:
        row, column = i[-2], i[-1]
        shift = op.cast(row.dtype, convert(k))
        keep = (
            op.less_equal(row + shift, column) if upper else op.greater_equal(row + shift, column)
        )
        return tir.Select(keep, data(*i), const(0, data.dtype))

    return te.compute(data.shape, element, name="T_trilu", tag=tag.INJECTIVE)


def layout_transform(array: Tensor, src_layout: str, dst_layout: str, **_: Any) -> Tensor:
    """An array in another layout: letters are axes, a number before a small letter is a block size.

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

    return te.compute(shape, element, name="T_layout_trans", tag=tag.INJECTIVE)
