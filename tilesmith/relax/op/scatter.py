"""Scatter operators: updates at given positions, and sums over repeated elements."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import (
    Schema,
    integer,
    text,
)
from tilesmith.relax.expr import Call, ShapeExpr, known_struct_info
from tilesmith.relax.op.agreement import scattered_sizes, scattered_tuples
from tilesmith.relax.op.base import shape_of
from tilesmith.relax.op.common import (
    check_axis,
    check_dtypes,
    prove_equal,
    result,
    shape_argument,
    size,
    size_text,
    sizes_of,
    surely_different,
    tensor,
)
from tilesmith.relax.op.declaration import define
from tilesmith.relax.relations import describe
from tilesmith.relax.spec import topi
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

# Sums over repeated elements


def _collapse(x: Any, shape: Any) -> Any:
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra))) if extra else x
    axes = tuple([i for i, (a, b) in enumerate(zip(x.shape, shape)) if a != b])
    return x.sum(axis=axes, keepdims=True) if axes else x


def _check_collapse(call: Call, data: TensorStructInfo, wanted: Any) -> None:
    """Refuse a shape that does not broadcast to the tensor's."""
    sizes = sizes_of(data)
    if sizes is None or wanted is None:
        return
    pairs = zip(reversed(sizes), reversed(wanted))
    if len(wanted) > len(sizes) or any(
        surely_different(a, b) and surely_different(b, size(1)) for a, b in pairs
    ):
        shown = ", ".join([size_text(one) for one in wanted])
        raise ShapeError(f"{call.op.name}: the shape ({shown}) does not fit {describe(data)}")


def _infer_collapse_to(call: Call) -> Any:
    data, shape = tensor(call, 0), shape_argument(call, 1)
    _check_collapse(call, data, shape.values)
    return TensorStructInfo(shape.shape, data.dtype, data.vdevice, shape.ndim)


collapse_sum_to = define(
    "collapse_sum_to",
    "data shape:shape",
    _infer_collapse_to,
    description=(
        "The sum over the axes that broadcasting to ``data`` repeats: the result has ``shape``."
    ),
    compute="topi.collapse_sum",
    evaluate=lambda attrs, x, shape: _collapse(x, shape),
)


def _infer_collapse_like(call: Call) -> Any:
    data, target = tensor(call, 0), tensor(call, 1)
    _check_collapse(call, data, sizes_of(target))
    return result(sizes_of(target), data.dtype, target.ndim, data)


collapse_sum_like = define(
    "collapse_sum_like",
    "data collapse_target",
    _infer_collapse_like,
    description="``collapse_sum_to`` the shape of a tensor.",
    compute=lambda attrs, x, target: topi.collapse_sum(x, target.shape),
    evaluate=lambda attrs, x, target: _collapse(x, target.shape),
)


def shape_like(expr: Any) -> Any:
    """Return the shape of a tensor as an operand."""
    sizes = sizes_of(known_struct_info(expr))
    return shape_of(expr) if sizes is None else ShapeExpr(sizes)


def collapsed(grad: Any, x: Any) -> Any:
    """Return a gradient summed over the elements of ``x`` that broadcasting repeated."""
    own, wanted = sizes_of(grad.struct_info), sizes_of(known_struct_info(x))
    if own is not None and wanted is not None and len(own) == len(wanted):
        if all(prove_equal(a, b) for a, b in zip(own, wanted)):
            return grad
    return collapse_sum_to(grad, shape_like(x))


# Scattering


def _infer_scatter(call: Call) -> Any:
    data, indices, updates = (tensor(call, index) for index in range(3))
    if not indices.dtype.is_void and not indices.dtype.is_integer:
        raise ShapeError(f"{call.op.name}: indices are integers, got {describe(indices)}")
    check_dtypes(call, (data, updates))
    if "axis" in call.attrs:
        check_axis(call, call.attrs.axis, data.ndim)
        a, b = sizes_of(indices), sizes_of(updates)
        if (
            a is not None
            and b is not None
            and (len(a) != len(b) or any(surely_different(x, y) for x, y in zip(a, b)))
        ):
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
    return topi.scatter_nd(data, indices, updates, attrs.reduction, tuples_last=True)


scatter_elements = define(
    "scatter_elements",
    "data indices updates",
    _infer_scatter,
    description="``data`` with ``updates`` at the places that ``indices`` give along an axis.",
    schema=Schema(axis=integer(0), reduction=text("update")),
    agreeing=scattered_sizes,
    compute="topi.scatter_elements",
    evaluate=_scatter_elements,
)
scatter_nd = define(
    "scatter_nd",
    "data indices updates",
    _infer_scatter,
    description=(
        "``data`` with ``updates`` at places whose indices are the last axis of ``indices``."
    ),
    schema=Schema(reduction=text("update")),
    agreeing=scattered_tuples,
    compute=_scatter_nd_expression,
    evaluate=_scatter_nd,
)
