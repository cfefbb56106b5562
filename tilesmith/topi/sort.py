"""Sorting by counting: the place of an element is the number of elements that come before it.

Quadratic work, but no order between elements, so that it runs anywhere in parallel; equal elements
keep their order.
"""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.math import cast
from tilesmith.topi.utils import DType, normalize_axes

__all__ = ["argsort", "sort", "topk"]


def _rank(x: Tensor, axis: int, ascending: bool) -> Tensor:
    """Return, for each element, how many come before it along an axis: its position in the
    order.
    """
    k = te.reduce_axis((0, x.shape[axis]), name="k")

    def element(*i: Any) -> PrimExpr:
        other, own = x(*i[:axis], k, *i[axis + 1 :]), x(*i)
        before = other < own if ascending else other > own
        earlier = tir.And(op.equal(other, own), k.var < i[axis])
        return te.sum(op.cast("int64", tir.Or(before, earlier)), axis=k)

    return te.compute(x.shape, element, name="T_rank")


def _order(x: Tensor, axis: int, ascending: bool, count: int | None = None) -> Tensor:
    """Return, for each position in the order, the index (int64) of the element that belongs
    there.
    """
    rank = _rank(x, axis, ascending)
    shape = list(x.shape)
    if count is not None:
        shape[axis] = const(count, shape[axis].dtype)
    k = te.reduce_axis((0, x.shape[axis]), name="k")

    def element(*i: Any) -> PrimExpr:
        here = op.equal(rank(*i[:axis], k, *i[axis + 1 :]), op.cast("int64", i[axis]))
        return te.sum(tir.Select(here, op.cast("int64", k.var), const(0, "int64")), axis=k)

    return te.compute(shape, element, name="T_order")


def _at(x: Tensor, order: Tensor, axis: int) -> Tensor:
    def element(*i: Any) -> PrimExpr:
        return x(*i[:axis], op.cast(i[axis].dtype, order(*i)), *i[axis + 1 :])

    return te.compute(order.shape, element, name="T_sorted", tag=tag.INJECTIVE)


def _indices(order: Tensor, dtype: DType) -> Tensor:
    return order if dtype == "int64" else cast(order, dtype)


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """Sort the elements along an axis."""
    (axis,) = normalize_axes(axis, len(data.shape))
    return _at(data, _order(data, axis, bool(is_ascend)), axis)


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
    return _indices(_order(data, axis, bool(is_ascend)), dtype)


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
    if hasattr(size, "value") and k > size.value:
        raise ShapeError(f"topk: {k} elements of an axis of {size}")
    order = _order(data, axis, bool(is_ascend), k if k >= 1 else None)
    if ret_type == "indices":
        return _indices(order, dtype)
    values = _at(data, order, axis)
    return values if ret_type == "values" else [values, _indices(order, dtype)]
