"""Operators whose result is a view: the same elements in other sizes."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IntImm
from tilesmith.relax.attrs import (
    Schema,
    ints,
    optional_ints,
)
from tilesmith.relax.expr import Call, ShapeExpr
from tilesmith.relax.op.common import (
    as_shape,
    check_axes,
    number_of_elements,
    result,
    shape_argument,
    simplify_size,
    size,
    size_text,
    sizes_of,
    surely_different,
    tensor,
)
from tilesmith.relax.op.declaration import call, define, function, function_of
from tilesmith.relax.op.scatter import shape_like
from tilesmith.relax.relations import describe
from tilesmith.relax.spec import Precision, topi
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.support.errors import ShapeError

_FOLLOW = Precision.FOLLOW


def _reshape_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the gradient in the old shape."""
    rest = [None] * (len(orig_call.args) - 1)
    return [reshape(output_grad, shape_like(orig_call.args[0])), *rest]


def _infer_reshape(call: Call) -> Any:
    data, shape = tensor(call, 0), shape_argument(call, 1)
    if shape.values is None:
        return TensorStructInfo(None, data.dtype, data.vdevice, shape.ndim)
    sizes = sizes_of(data)
    if sizes is not None:
        before = simplify_size(number_of_elements(sizes))
        after = simplify_size(number_of_elements(shape.values))
        if surely_different(before, after):
            raise ShapeError(
                f"reshape keeps the number of elements: {describe(data)} has {size_text(before)}, "
                f"{describe(shape)} has {size_text(after)}"
            )
    return TensorStructInfo(shape.values, data.dtype, data.vdevice)


_reshape_call = define(
    "reshape",
    "x shape",
    _infer_reshape,
    compute="topi.reshape",
    gradient=_reshape_gradient,
    precision=_FOLLOW,
    view_of=0,
    evaluate=lambda attrs, x, shape: numpy.reshape(x, shape),
)


@function_of(_reshape_call)
def reshape(x: Any, shape: Any) -> Call:
    """Reshape ``x`` with elements in the same order; -1 stands for the remaining size, 0 for the
    old size.
    """
    shape = as_shape(shape)
    if isinstance(shape, ShapeExpr):
        shape = _complete_shape(x, shape)
    return call(_reshape_call.op, x, shape)


def _complete_shape(x: Any, shape: ShapeExpr) -> ShapeExpr:
    info = getattr(x, "struct_info", None)
    values = list(shape.values)
    special = [i for i, v in enumerate(values) if isinstance(v, IntImm) and v.value <= 0]
    if not special:
        return shape
    old = sizes_of(info) if isinstance(info, TensorStructInfo) else None
    if old is None:
        if all(values[i].value == 0 for i in special):
            return shape
        raise ShapeError("reshape with -1 needs a tensor of known shape")
    rest = None
    for i in special:
        if values[i].value == 0:
            if i < len(old) and not (isinstance(old[i], IntImm) and old[i].value == 0):
                values[i] = old[i]
        elif values[i].value != -1 or rest is not None:
            raise ShapeError(f"reshape: at most one size is -1, got {describe(shape.struct_info)}")
        else:
            rest = i
    if rest is not None:
        known = simplify_size(number_of_elements(values[:rest] + values[rest + 1 :]))
        if isinstance(known, IntImm) and known.value == 0:
            raise ShapeError("reshape: -1 beside a size of 0 is not determined")
        total = simplify_size(number_of_elements(old))
        if isinstance(total, IntImm) and isinstance(known, IntImm) and total.value % known.value:
            raise ShapeError(
                f"reshape: {total.value} elements cannot be divided by {known.value} (for -1)"
            )
        values[rest] = simplify_size(total // known)
    return ShapeExpr(values)


def _infer_flatten(call: Call) -> Any:
    data = tensor(call, 0)
    sizes = sizes_of(data)
    return result(None if sizes is None else [number_of_elements(sizes)], data.dtype, 1, data)


flatten = define(
    "flatten",
    "x",
    _infer_flatten,
    description="All elements in one axis.",
    compute=lambda attrs, x: topi.reshape(x, [number_of_elements(x.shape)]),
    gradient=_reshape_gradient,
    precision=_FOLLOW,
    view_of=0,
    evaluate=lambda attrs, x: x.reshape(-1),
)


def _infer_batch_flatten(call: Call) -> Any:
    data = tensor(call, 0)
    sizes = sizes_of(data)
    if sizes is None or not sizes:
        return result(None, data.dtype, 2)
    return result([sizes[0], number_of_elements(sizes[1:])], data.dtype, 2, data)


batch_flatten = define(
    "nn.batch_flatten",
    "data",
    _infer_batch_flatten,
    description="All axes but the first in one.",
    compute="topi.nn.flatten",
    gradient=_reshape_gradient,
    view_of=0,
    evaluate=lambda attrs, x: x.reshape(x.shape[0], -1),
)
function("batch_flatten")(batch_flatten)


def _infer_expand_dims(call: Call) -> Any:
    data = tensor(call, 0)
    axes = call.attrs.axis
    if data.ndim == -1:
        return result(None, data.dtype)
    ndim = data.ndim + len(axes)
    places = check_axes(call, axes, ndim)
    sizes = sizes_of(data)
    if sizes is None:
        return result(None, data.dtype, ndim)
    rest = iter(sizes)
    return result(
        [size(1) if i in places else next(rest) for i in range(ndim)], data.dtype, ndim, data
    )


def _expand_dims(attrs: Any, x: Any) -> Any:
    ndim = len(x.shape) + len(attrs.axis)
    for axis in sorted([axis % ndim for axis in attrs.axis]):
        x = topi.expand_dims(x, axis)
    return x


expand_dims = define(
    "expand_dims",
    "x",
    _infer_expand_dims,
    description="New axes of size 1 at these places of the result.",
    schema=Schema(axis=ints()),
    compute=_expand_dims,
    gradient=_reshape_gradient,
    precision=_FOLLOW,
    view_of=0,
    evaluate=lambda attrs, x: numpy.expand_dims(x, attrs.axis),
)


def _infer_squeeze(call: Call) -> Any:
    data = tensor(call, 0)
    axes, sizes = call.attrs.axis, sizes_of(data)
    if axes is not None and data.ndim != -1:
        axes = check_axes(call, axes, data.ndim)
    if sizes is None:
        known = axes is not None and data.ndim != -1
        return result(None, data.dtype, data.ndim - len(axes) if known else -1)
    if axes is None:
        kept = [s for s in sizes if not (isinstance(s, IntImm) and s.value == 1)]
        if any(not isinstance(s, IntImm) for s in kept):
            return result(None, data.dtype)  # a symbolic size may be 1
        return result(kept, data.dtype, -1, data)
    for axis in axes:
        if isinstance(sizes[axis], IntImm) and sizes[axis].value != 1:
            raise ShapeError(f"squeeze: axis {axis} of {describe(data)} does not have the size 1")
    return result([s for i, s in enumerate(sizes) if i not in axes], data.dtype, -1, data)


squeeze = define(
    "squeeze",
    "x",
    _infer_squeeze,
    description="``x`` without these axes of size 1 (all of them unless ``axis`` is given).",
    schema=Schema(axis=optional_ints()),
    compute="topi.squeeze",
    gradient=_reshape_gradient,
    precision=_FOLLOW,
    view_of=0,
    evaluate=lambda attrs, x: numpy.squeeze(x, None if attrs.axis is None else tuple(attrs.axis)),
)
