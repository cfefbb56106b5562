"""Slices: their bounds are constants or expressions, or tensors that are known when the program
runs; and slices that are set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tilesmith import te, tir
from tilesmith.ir import IntImm, PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import checked_index, get_const_int, simplify, slice_bounds

__all__ = [
    "dynamic_strided_slice", "slice_at_run_time", "slice_sizes", "strided_set", "strided_slice",
]  # fmt: skip

Bound: TypeAlias = Tensor | Sequence[int | PrimExpr]
"""One end of a slice, or the steps: a number for each of the first axes, or a tensor of them."""


def strided_slice(
    a: Tensor,
    begin: Tensor | Sequence[int | PrimExpr | None],
    end: Tensor | Sequence[int | PrimExpr | None],
    strides: Bound | None = None,
    axes: Sequence[int] | None = None,
    slice_mode: str = "end",
    assume_inbound: bool = False,
) -> Tensor:
    """Return ``a[begin:end:strides]`` along ``axes`` (the first ones by default), as numpy slices.

    ``slice_mode="size"``: ``end`` holds lengths, -1 for the rest, and strides are ignored.
    ``assume_inbound``: begin and end are known to lie within the axes, so that nothing is clamped.
    Where one of the bounds is a tensor, the result has new variables as its sizes, which are those
    of the tensor that the program is given for it: see `dynamic_strided_slice`.
    """
    ndim = len(a.shape)
    if isinstance(begin, Tensor) or isinstance(end, Tensor) or isinstance(strides, Tensor):
        if slice_mode != "end" or axes is not None:
            raise UnsupportedError(
                "strided_slice with tensors as bounds takes neither axes nor lengths",
                notes=("give it the bounds of the first axes, with the ends as positions",),
            )
        count = _bounds_count(begin, end)
        sizes = [te.size_var("dim", str(size.dtype)) for size in a.shape[:count]]
        steps = [1] * count if strides is None else strides
        return dynamic_strided_slice(a, begin, end, steps, [*sizes, *a.shape[count:]])
    axes = list(range(len(begin))) if axes is None else [int(axis) % ndim for axis in axes]
    steps_given = [1] if strides is None else [get_const_int(stride) for stride in strides]
    if len(steps_given) == 1:
        steps_given = steps_given * len(axes)
    if not len(begin) == len(end) == len(axes) == len(steps_given):
        raise ShapeError("strided_slice needs as many begins, ends and strides as axes")
    starts: list[Any] = [const(0, size.dtype) for size in a.shape]
    steps = [1] * ndim
    shape = list(a.shape)
    for axis, start, stop, step in zip(axes, begin, end, steps_given):
        if slice_mode == "size":
            stop = None if op.is_const(convert(stop), -1) else convert(start) + stop
            step = 1
        bounds = slice_bounds(a.shape[axis], start, stop, step, assume_inbound)
        starts[axis], steps[axis], shape[axis] = bounds[0], step, bounds[1]

    def element(*indices: Any) -> PrimExpr:
        return a(*[index * step + start for index, step, start in zip(indices, steps, starts)])

    return compute(shape, element, name="T_strided_slice", tag=tag.INJECTIVE)


# Bounds that are known when the program runs


def _bounds_count(*bounds: Any) -> int:
    """Return how many axes the bounds are for."""
    counts = {
        get_const_int(one.shape[0]) if isinstance(one, Tensor) else len(one) for one in bounds
    }
    if len(counts) != 1:
        raise ShapeError("a slice needs as many begins as ends and strides")
    return counts.pop()


def _bounds(
    size: PrimExpr, begin: PrimExpr, end: PrimExpr, stride: PrimExpr
) -> tuple[PrimExpr, PrimExpr]:
    """Return the first index of a slice by Python's rules, and how many elements it has."""
    zero, one = const(0, "int64"), const(1, "int64")
    size = op.cast("int64", size)
    forward = op.greater(stride, zero)
    low = tir.Select(forward, zero, const(-1, "int64"))
    high = tir.Select(forward, size, size - 1)

    def clamp(bound: PrimExpr) -> PrimExpr:
        bound = tir.Select(op.less(bound, zero), bound + size, bound)
        return op.minimum(op.maximum(bound, low), high)

    begin, end = clamp(begin), clamp(end)
    distance = tir.Select(forward, end - begin, begin - end)
    step = tir.Select(forward, stride, zero - stride)
    return begin, op.maximum(op.floordiv(distance + step - one, step), zero)


def _number(bound: Bound, axis: int) -> PrimExpr:
    """Return what a bound says for an axis."""
    if isinstance(bound, Tensor):
        return op.cast("int64", bound(const(axis, "int64")))
    return op.cast("int64", convert(bound[axis]))


def _bounds_of(data: Tensor, bounds: Sequence[Bound], axis: int) -> tuple[PrimExpr, PrimExpr]:
    begin, end, stride = [_number(one, axis) for one in bounds]
    return _bounds(data.shape[axis], begin, end, stride)


def slice_sizes(data: Tensor, begin: Tensor, end: Tensor, strides: Tensor) -> Tensor:
    """Return the sizes of the slice of ``data`` from ``begin`` to before ``end``."""
    found = [_bounds_of(data, (begin, end, strides), axis)[1] for axis in range(len(data.shape))]

    def choose(k: PrimExpr) -> PrimExpr:
        size = found[-1]
        for axis in reversed(range(len(found) - 1)):
            size = tir.Select(op.equal(k, const(axis, k.dtype)), found[axis], size)
        return size

    return compute((len(found),), choose, name="slice_sizes")


def slice_at_run_time(
    sizes: Sequence[PrimExpr], data: Tensor, begin: Tensor, end: Tensor, strides: Tensor
) -> Tensor:
    """Return a slice of the sizes that `slice_sizes` has computed."""

    def element(*indices: PrimExpr) -> PrimExpr:
        places = []
        for axis, index in enumerate(indices):
            first = _bounds_of(data, (begin, end, strides), axis)[0]
            places.append(first + op.cast("int64", index) * _number(strides, axis))
        return data(*places)

    return compute(tuple(sizes), element, name="slice_at_run_time")


def dynamic_strided_slice(
    a: Tensor, begin: Bound, end: Bound, strides: Bound, output_shape: Sequence[int | PrimExpr]
) -> Tensor:
    """Return ``a[begin:end:strides]`` with bounds that are tensors, by Python's rules.

    ``output_shape`` has the sizes of the result, which the caller knows; an element of it that is
    not in the slice is an error when the program runs. The bounds are for the first axes.
    """
    count = _bounds_count(begin, end, strides)

    def element(*indices: PrimExpr) -> PrimExpr:
        places = list(indices)
        for axis in range(count):
            first, number = _bounds_of(a, (begin, end, strides), axis)
            index = op.cast("int64", indices[axis])
            inside = checked_index(index, number, "strided_slice", index)
            places[axis] = first + inside * _number(strides, axis)
        return a(*places)

    return compute(tuple(output_shape), element, name="T_strided_slice_dynamic", tag=tag.INJECTIVE)


def strided_set(
    a: Tensor, v: Tensor, begin: Bound, end: Bound, strides: Bound | None = None
) -> Tensor:
    """Return ``a`` after ``a[begin:end:strides] = v``, as numpy sets it, but without broadcasting.

    The bounds are for the first axes; bounds that are tensors and do not fit ``v`` are an error
    when the program runs.
    """
    if len(a.shape) != len(v.shape):
        raise ShapeError("strided_set: the values have as many dimensions as the tensor")
    count = _bounds_count(begin, end)
    bounds = (begin, end, [1] * count if strides is None else strides)
    found = [
        tuple([simplify(part) for part in _bounds_of(a, bounds, axis)]) for axis in range(count)
    ]
    for axis, (_, number) in enumerate(found):
        given = v.shape[axis]
        if isinstance(number, IntImm) and isinstance(given, IntImm) and number.value != given.value:
            raise ShapeError(
                f"strided_set: {given} values for the {number} elements of axis {axis} in the slice"
            )

    def element(*indices: PrimExpr) -> PrimExpr:
        inside, places = [], list(indices)
        for axis, (first, number) in enumerate(found):
            stride = _number(bounds[2], axis)
            distance = op.cast("int64", indices[axis]) - first
            place = simplify(op.floordiv(distance, stride))
            inside.append(simplify(op.equal(place * stride, distance)))
            inside += [op.greater_equal(place, const(0, "int64")), op.less(place, number)]
            if not isinstance(number, IntImm):
                place = checked_index(place, v.shape[axis], "strided_set", place)
            places[axis] = place
        return tir.if_then_else(tir.all(*inside), v(*places), a(*indices))

    return compute(a.shape, element, name="T_strided_set", tag=tag.INJECTIVE)
