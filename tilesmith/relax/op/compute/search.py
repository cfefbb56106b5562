"""Choosing, sorting and conversion as tensor expressions."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir, topi
from tilesmith.ir.operators import cast, const, equal
from tilesmith.topi import tag


def astype(attrs: Any, x: Any) -> Any:
    """Another dtype."""
    return topi.cast(x, attrs.dtype)


def _arg(attrs: Any, x: Any, function: Any) -> Any:
    axis = None if attrs.axis is None else attrs.axis % len(x.shape)
    found = function(x, axis, attrs.keepdims)
    return found if found.dtype == "int64" else topi.cast(found, "int64")


def argmax(attrs: Any, x: Any) -> Any:
    """The index of the largest value."""
    return _arg(attrs, x, topi.argmax)


def argmin(attrs: Any, x: Any) -> Any:
    """The index of the smallest value."""
    return _arg(attrs, x, topi.argmin)


def one_hot(attrs: Any, indices: Any) -> Any:
    """A value at the places that indices name."""
    axis = attrs.axis % (len(indices.shape) + 1)
    shape = [*indices.shape[:axis], const(attrs.depth, "int64"), *indices.shape[axis:]]
    on, off = const(attrs.on_value, attrs.dtype), const(attrs.off_value, attrs.dtype)

    def element(*i: Any) -> Any:
        index = cast("int64", indices(*i[:axis], *i[axis + 1 :]))
        return tir.Select(equal(index, cast("int64", i[axis])), on, off)

    return te.compute(shape, element, name="T_one_hot", tag=tag.INJECTIVE)


def _rank(x: Any, axis: int, descending: bool) -> Any:
    """For each element how many come before it along an axis: its place in the order.

    Quadratic work, but no order between elements, so that it runs anywhere in parallel; equal
    elements keep their order.
    """
    k = te.reduce_axis((0, x.shape[axis]), name="k")

    def element(*i: Any) -> Any:
        other, own = x(*i[:axis], k, *i[axis + 1 :]), x(*i)
        before = other > own if descending else other < own
        earlier = tir.And(equal(other, own), k.var < i[axis])
        return te.sum(cast("int64", tir.Or(before, earlier)), axis=k)

    return te.compute(x.shape, element, name="T_rank")


def _order(x: Any, axis: int, descending: bool, count: Any = None) -> Any:
    """For each place of the order the index of the element that belongs there."""
    rank = _rank(x, axis, descending)
    shape = list(x.shape)
    if count is not None:
        shape[axis] = count
    k = te.reduce_axis((0, x.shape[axis]), name="k")

    def element(*i: Any) -> Any:
        here = equal(rank(*i[:axis], k, *i[axis + 1 :]), cast("int64", i[axis]))
        return te.sum(tir.Select(here, cast("int64", k.var), const(0, "int64")), axis=k)

    return te.compute(shape, element, name="T_order")


def _at(x: Any, order: Any, axis: int) -> Any:
    def element(*i: Any) -> Any:
        return x(*i[:axis], cast(i[axis].dtype, order(*i)), *i[axis + 1 :])

    return te.compute(order.shape, element, name="T_sorted", tag=tag.INJECTIVE)


def sort(attrs: Any, x: Any) -> Any:
    """The elements in order."""
    axis = attrs.axis % len(x.shape)
    return _at(x, _order(x, axis, attrs.descending), axis)


def argsort(attrs: Any, x: Any) -> Any:
    """The indices that put the elements in order."""
    order = _order(x, attrs.axis % len(x.shape), attrs.descending)
    return order if attrs.dtype == "int64" else topi.cast(order, attrs.dtype)


def topk(attrs: Any, x: Any) -> Any:
    """The first elements in order."""
    axis = attrs.axis % len(x.shape)
    count = const(attrs.k, "int64") if attrs.k >= 1 else None
    order = _order(x, axis, attrs.largest, count)
    indices = order if attrs.dtype == "int64" else topi.cast(order, attrs.dtype)
    if attrs.ret_type == "indices":
        return indices
    values = _at(x, order, axis)
    return values if attrs.ret_type == "values" else [values, indices]
