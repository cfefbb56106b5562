"""Reductions and scans as tensor expressions."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir, topi
from tilesmith.ir.operators import cast, const
from tilesmith.topi import tag
from tilesmith.topi.utils import product


def _axes(attrs: Any, x: Any) -> list[int]:
    ndim = len(x.shape)
    return list(range(ndim)) if attrs.axis is None else [axis % ndim for axis in attrs.axis]


def sum(attrs: Any, x: Any) -> Any:
    """The sum."""
    return topi.sum(x, _axes(attrs, x), attrs.keepdims)


def prod(attrs: Any, x: Any) -> Any:
    """The product."""
    return topi.prod(x, _axes(attrs, x), attrs.keepdims)


def max(attrs: Any, x: Any) -> Any:
    """The largest value."""
    return topi.max(x, _axes(attrs, x), attrs.keepdims)


def min(attrs: Any, x: Any) -> Any:
    """The smallest value."""
    return topi.min(x, _axes(attrs, x), attrs.keepdims)


def all(attrs: Any, x: Any) -> Any:
    """Whether all hold."""
    return topi.all(x, _axes(attrs, x), attrs.keepdims)


def any(attrs: Any, x: Any) -> Any:
    """Whether any holds."""
    return topi.any(x, _axes(attrs, x), attrs.keepdims)


def _count(x: Any, axes: list[int]) -> Any:
    return cast(x.dtype, product([x.shape[axis] for axis in axes]))


def _divided(total: Any, count: Any, name: str) -> Any:
    def element(*i: Any) -> Any:
        value = total(*i)
        return value / count if value.dtype.is_float else tir.truncdiv(value, count)

    return te.compute(total.shape, element, name=name, tag=tag.ELEMWISE)


def mean(attrs: Any, x: Any) -> Any:
    """The mean."""
    axes = _axes(attrs, x)
    return _divided(topi.sum(x, axes, attrs.keepdims), _count(x, axes), "T_mean")


def _variance(attrs: Any, x: Any, keepdims: bool) -> Any:
    axes = _axes(attrs, x)
    count = _count(x, axes)
    centre = _divided(topi.sum(x, axes, True), count, "T_mean")
    difference = topi.subtract(x, centre)
    squares = topi.multiply(difference, difference)
    return _divided(topi.sum(squares, axes, keepdims), count, "T_variance")


def variance(attrs: Any, x: Any) -> Any:
    """The variance."""
    return _variance(attrs, x, attrs.keepdims)


def std(attrs: Any, x: Any) -> Any:
    """The standard deviation."""
    return topi.sqrt(_variance(attrs, x, attrs.keepdims))


_product = tir.comm_reducer(lambda a, b: a * b, lambda kind: const(1, kind), name="prod")


def _scan(attrs: Any, x: Any, is_product: bool, name: str) -> Any:
    dtype = attrs.dtype or x.dtype
    axis = attrs.axis
    if axis is None:
        x, axis = topi.reshape(x, [product(x.shape)]), 0
    axis = axis % len(x.shape)
    k = te.reduce_axis((0, x.shape[axis]), name="k")
    identity = const(1 if is_product else 0, dtype)

    def element(*i: Any) -> Any:
        # Each element reduces over those before it: quadratic work, but no order between elements.
        counts = k < i[axis] if attrs.exclusive else k <= i[axis]
        value = cast(dtype, x(*i[:axis], k, *i[axis + 1 :]))
        value = tir.Select(counts, value, identity)
        return _product(value, axis=k) if is_product else te.sum(value, axis=k)

    return te.compute(x.shape, element, name=name)


def cumsum(attrs: Any, x: Any) -> Any:
    """The sums of the elements up to each one."""
    return _scan(attrs, x, False, "cumsum")


def cumprod(attrs: Any, x: Any) -> Any:
    """The products of the elements up to each one."""
    return _scan(attrs, x, True, "cumprod")
