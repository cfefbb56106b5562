"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.accumulation import Axis, accumulator, reduce_axes, rounded, widened
from tilesmith.topi.compute import compute
from tilesmith.topi.math import cast, sqrt
from tilesmith.topi.utils import (
    Axes,
    Shape,
    equal_const_int,
    get_const_int,
    largest,
    normalize_axes,
    product,
    ravel_index,
    simplify,
    smallest,
)

__all__ = [
    "all", "any", "argmax", "argmin", "collapse_sum", "max", "mean", "min", "prod", "std", "sum",
    "variance",
]  # fmt: skip

_prod = tir.comm_reducer(lambda x, y: x * y, lambda dtype: const(1, dtype), name="prod")
_all = tir.comm_reducer(lambda x, y: tir.And(x, y), lambda dtype: const(True, "bool"), name="all")
_any = tir.comm_reducer(lambda x, y: tir.Or(x, y), lambda dtype: const(False, "bool"), name="any")


def _reduce(
    data: Tensor,
    axis: Axes,
    keepdims: bool,
    combine: Callable[..., Any],
    value: Callable[..., Any] | None = None,
    reduced: str | None = None,
) -> Tensor:
    """Reduce ``value(*indices)``, by default the elements of ``data``. The result is named after
    what is reduced, as published schedules expect: A_red.
    """
    name = (reduced or data.op.name) + "_red"
    value = value or data
    axes = normalize_axes(axis, len(data.shape))
    if not axes:
        return compute(data.shape, lambda *i: value(*i), name=name, tag=tag.ELEMWISE)
    space = [Axis(size, number in axes) for number, size in enumerate(data.shape)]
    return reduce_axes(space, value, combine, name, keepdims)


def _wide_sum(data: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    """Return the sum in the dtype in which ``data`` is added."""
    return _reduce(data, axis, keepdims, te.sum, lambda *i: widened(data(*i)))


def sum(data: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the sum over axes (all of them for None); errors as `accumulation` says."""
    return rounded(_wide_sum(data, axis, keepdims), data.dtype)


def prod(data: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the product over axes."""
    total = _reduce(data, axis, keepdims, _prod, lambda *i: widened(data(*i)))
    return rounded(total, data.dtype)


def max(data: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the largest value over axes."""
    return _reduce(data, axis, keepdims, largest)


def min(data: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the smallest value over axes."""
    return _reduce(data, axis, keepdims, smallest)


def all(data: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return whether all values over axes are true."""
    return _reduce(data, axis, keepdims, _all)


def any(data: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return whether some value over axes is true."""
    return _reduce(data, axis, keepdims, _any)


def _arg(data: Tensor, axis: Axes, keepdims: bool, name: str, extreme: Any, last: bool) -> Tensor:
    """Return where the extreme value stands: the extreme first, then the smallest (or largest)
    index of what equals it. Both are reductions that go by vectors, which pairs do not.

    Nothing equals NaN: where it is the extreme value, the index is 0.
    """
    axes = normalize_axes(axis, len(data.shape))
    count = _count(data, axes)
    if equal_const_int(count, 0):
        raise ShapeError(f"{name} of no elements")
    label = data.op.name + "_red"
    data = cast(data, "int8") if data.dtype.is_bool else data
    space = [Axis(size, number in axes) for number, size in enumerate(data.shape)]
    best = reduce_axes(space, data, extreme, label + "_value", True)
    is_short = isinstance(simplify(count), IntImm) and get_const_int(count) < 2**31
    kind = DataType("int32") if is_short else count.dtype
    missing = const(-1, kind) if last else tir.max_value(kind)

    def candidate(*i: Any) -> PrimExpr:
        place = ravel_index([i[number] for number in axes], [data.shape[n] for n in axes])
        value = best(*[0 if number in axes else index for number, index in enumerate(i)])
        return tir.Select(op.equal(data(*i), value), op.cast(kind, place), missing)

    choose = largest if last else smallest
    places = reduce_axes(space, candidate, choose, label + "_temp", keepdims)

    def found(*i: Any) -> PrimExpr:
        place: PrimExpr = places(*i)
        place = tir.Select(op.equal(place, missing), const(0, kind), place)
        place = op.cast(count.dtype, place)
        if isinstance(simplify(count), IntImm):
            return place
        empty = f"ShapeError: {name} of no elements"
        made: PrimExpr = tir.checked(place, op.greater(count, const(0, count.dtype)), empty)
        return made

    return compute(places.shape, found, name=label, tag=tag.ELEMWISE)


def argmax(
    data: Tensor, axis: Axes = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """Return the index of the largest value along an axis (of the flattened tensor for None)."""
    return _arg(data, axis, keepdims, "argmax", largest, select_last_index)


def argmin(
    data: Tensor, axis: Axes = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """Return the index of the smallest value along an axis (of the flattened tensor for None)."""
    return _arg(data, axis, keepdims, "argmin", smallest, select_last_index)


def _divided(total: Tensor, count: PrimExpr, dtype: DataType) -> Tensor:
    def element(*i: Any) -> PrimExpr:
        value = total(*i)
        divisor = op.cast(value.dtype, count)
        mean = value / divisor if value.dtype.is_float else op.truncdiv(value, divisor)
        return op.cast(dtype, mean)

    return compute(total.shape, element, name="T_divide", tag=tag.ELEMWISE)


def _count(data: Tensor, axis: Axes) -> PrimExpr:
    axes = normalize_axes(axis, len(data.shape))
    return product([data.shape[number] for number in axes])


def mean(data: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the mean over axes, in the dtype of ``data`` (integers are divided toward zero)."""
    return _divided(_wide_sum(data, axis, keepdims), _count(data, axis), data.dtype)


def variance(data: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the mean of the squared differences from the mean over axes."""
    axes = normalize_axes(axis, len(data.shape))
    count, dtype = _count(data, axis), accumulator(data.dtype)
    average = _divided(_wide_sum(data, axes, True), count, dtype)

    def square(*i: Any) -> PrimExpr:
        at = [0 if number in axes else x for number, x in enumerate(i)]
        difference = widened(data(*i)) - average(*at)
        return difference * difference

    squares = _reduce(data, axes, keepdims, te.sum, square, "T_multiply")
    return _divided(squares, count, data.dtype)


def std(data: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the standard deviation over axes: the square root of ``variance``."""
    return sqrt(variance(data, axis, keepdims))


def collapse_sum(data: Tensor, target_shape: Shape) -> Tensor:
    """Return the sum of ``data`` over the elements that broadcasting ``target_shape`` would repeat.

    (2, 3, 4) to (3, 1): summed over the first axis, and over the last one, which stays with size 1.
    Raises ShapeError where ``target_shape`` has more axes than ``data``.
    """
    extra = len(data.shape) - len(target_shape)
    if extra < 0:
        raise ShapeError(
            f"collapse_sum: {len(data.shape)} dimensions do not collapse to {len(target_shape)}"
        )
    if extra:
        data = sum(data, list(range(extra)))
    axes = [
        number
        for number, (size, target) in enumerate(zip(data.shape, target_shape))
        if equal_const_int(target, 1) and not equal_const_int(size, 1)
    ]
    return sum(data, axes, keepdims=True) if axes else data
