"""Scattering: updates at given places, and sums over what broadcasting repeated."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import (
    Schema,
    integer,
    text,
)
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import (
    as_shape,
    check_axis,
    check_dtypes,
    result,
    shape_argument,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.index import index_tuples_first
from tilesmith.relax.op.spec import FusionKind, call, define, topi
from tilesmith.relax.relations import describe
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

# Sums over what broadcasting repeated


def _collapse(x: Any, shape: Any) -> Any:
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra))) if extra else x
    axes = tuple([i for i, (a, b) in enumerate(zip(x.shape, shape)) if a != b])
    return x.sum(axis=axes, keepdims=True) if axes else x


def _infer_collapse_to(call: Call) -> Any:
    data, shape = tensor(call, 0), shape_argument(call, 1)
    return TensorStructInfo(shape.shape, data.dtype, data.vdevice, shape.ndim)


_COLLAPSE_TO = define(
    "collapse_sum_to",
    "data shape",
    _infer_collapse_to,
    compute="topi.collapse_sum",
    kind=FusionKind.COMM_REDUCE,
    evaluate=lambda attrs, x, shape: _collapse(x, shape),
)


def collapse_sum_to(data: Any, shape: Any) -> Call:
    """The sum over the axes that broadcasting to ``data`` repeats: the result has ``shape``."""
    return call(_COLLAPSE_TO, data, as_shape(shape))


def _infer_collapse_like(call: Call) -> Any:
    data, target = tensor(call, 0), tensor(call, 1)
    return result(sizes_of(target), data.dtype, target.ndim)


_COLLAPSE_LIKE = define(
    "collapse_sum_like",
    "data collapse_target",
    _infer_collapse_like,
    compute=lambda attrs, x, target: topi.collapse_sum(x, target.shape),
    kind=FusionKind.COMM_REDUCE,
    evaluate=lambda attrs, x, target: _collapse(x, target.shape),
)


def collapse_sum_like(data: Any, collapse_target: Any) -> Call:
    """``collapse_sum_to`` the shape of a tensor."""
    return call(_COLLAPSE_LIKE, data, collapse_target)


# Scattering


def _infer_scatter(call: Call) -> Any:
    data, indices, updates = (tensor(call, index) for index in range(3))
    if not indices.dtype.is_void and not indices.dtype.is_integer:
        raise ShapeError(f"{call.op.name}: indices are integers, got {describe(indices)}")
    check_dtypes(call, (data, updates))
    if "axis" in call.attrs:
        check_axis(call, call.attrs.axis, data.ndim)
        a, b = sizes_of(indices), sizes_of(updates)
        if a is not None and b is not None and len(a) != len(b):
            raise ShapeError(f"{call.op.name}: {describe(indices)} and {describe(updates)} differ")
    if call.attrs.reduction not in ("update", "none", "add", "mul", "min", "max", "mean"):
        raise OpAttributeInvalid(f"{call.op.name} has no reduction '{call.attrs.reduction}'")
    return data


_COMBINE = {
    "add": numpy.add,
    "mul": numpy.multiply,
    "min": numpy.minimum,
    "max": numpy.maximum,
}


def _scatter(out: Any, places: Any, updates: Any, reduction: str) -> Any:
    if reduction in ("update", "none"):
        out[places] = updates
    else:
        _COMBINE[reduction].at(out, places, updates)
    return out


def _scatter_elements(attrs: Any, data: Any, indices: Any, updates: Any) -> Any:
    axis = attrs.axis % data.ndim
    places = list(numpy.indices(indices.shape))
    places[axis] = numpy.where(indices < 0, indices + data.shape[axis], indices)
    return _scatter(data.copy(), tuple(places), updates, attrs.reduction)


def _scatter_nd(attrs: Any, data: Any, indices: Any, updates: Any) -> Any:
    places = tuple(numpy.moveaxis(indices, -1, 0))
    return _scatter(data.copy(), places, updates, attrs.reduction)


def _scatter_nd_expression(attrs: Any, data: Any, indices: Any, updates: Any) -> Any:
    return topi.scatter_nd(data, index_tuples_first(indices), updates, attrs.reduction)


_SCATTER_ELEMENTS = define(
    "scatter_elements",
    "data indices updates",
    _infer_scatter,
    schema=Schema(axis=integer(0), reduction=text("update")),
    compute="topi.scatter_elements",
    evaluate=_scatter_elements,
)
_SCATTER_ND = define(
    "scatter_nd",
    "data indices updates",
    _infer_scatter,
    schema=Schema(reduction=text("update")),
    compute=_scatter_nd_expression,
    evaluate=_scatter_nd,
)


def scatter_elements(
    data: Any, indices: Any, updates: Any, axis: int = 0, reduction: str = "update"
) -> Call:
    """``data`` with ``updates`` at the places that ``indices`` give along an axis."""
    return call(_SCATTER_ELEMENTS, data, indices, updates, axis=axis, reduction=reduction)


def scatter_nd(data: Any, indices: Any, updates: Any, reduction: str = "update") -> Call:
    """``data`` with ``updates`` at places whose indices are the last axis of ``indices``."""
    return call(_SCATTER_ND, data, indices, updates, reduction=reduction)
