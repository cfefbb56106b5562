"""Joining, pooling and softmax of quantised tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, boolean, integer, paddings, repeated, text
from tilesmith.relax.expr import Tuple, TupleGetItem, as_expr
from tilesmith.relax.struct_info import TupleStructInfo
from tilesmith.relay.op.tensor import tuple_of
from tilesmith.relay.op.view import define, make_call, name_or_empty
from tilesmith.relay.qnn.op.elementwise import apply
from tilesmith.relay.qnn.op.parameters import (
    SCALE,
    ZERO_POINT,
    centred,
    check_dtype,
    check_parameters,
    info_of,
    number_of,
    parameter,
    raw,
)
from tilesmith.relay.qnn.op.requantize import ratio, rescaled
from tilesmith.support.errors import ShapeError, TypeMismatchError

__all__ = ["avg_pool2d", "concatenate", "softmax"]

_BYTES = ("int8", "uint8", "int16", "int32")


def _fields(value: Any, what: str) -> Any:
    if isinstance(value, Tuple):
        return value.fields
    info = info_of(value)
    if not isinstance(info, TupleStructInfo):
        raise TypeMismatchError(f"qnn.concatenate: {what} has to be a tuple")
    return [TupleGetItem(value, place) for place in range(len(info.fields))]


def _concatenate(
    attrs: Any, data: Any, scales: Any, points: Any, out_scale: Any, out_point: Any
) -> Any:
    name = "qnn.concatenate"
    infos, parts = info_of(data).fields, _fields(data, "data")
    scales, points = _fields(scales, "input_scales"), _fields(points, "input_zero_points")
    if not len(parts) == len(scales) == len(points):
        raise ShapeError(
            f"{name}: {len(parts)} tensors, {len(scales)} scales and {len(points)} zero points"
        )
    check_parameters(name, None, output_scale=out_scale, output_zero_point=out_point)
    moved = []
    for part, info, scale, point in zip(parts, infos, scales, points):
        check_dtype(name, "data", part, *_BYTES)
        check_parameters(name, None, input_scale=scale, input_zero_point=point)
        is_same = number_of(scale) == number_of(out_scale) is not None
        if is_same and number_of(point) == number_of(out_point) is not None:
            moved.append(part)
            continue
        dtype = str(info.dtype)
        moved.append(rescaled(part, ratio(scale, out_scale), point, out_point, out_dtype=dtype))
    return relax.concat(moved, attrs.axis)


define(
    "qnn.concatenate",
    "data input_scales input_zero_points output_scale output_zero_point",
    _concatenate,
    level=11,
    schema=Schema(axis=integer(0)),
    description="Quantised tensors, brought to one scale and zero point and joined.",
)


def concatenate(
    data: Any,
    input_scales: Any,
    input_zero_points: Any,
    output_scale: Any,
    output_zero_point: Any,
    axis: int,
) -> Any:
    """Join quantised tensors along an axis, each with a scale and zero point of its own."""

    def listed(values: Any, dtype: str) -> Any:
        if isinstance(values, (list, tuple)):
            return Tuple([parameter(one, dtype) for one in values])
        return as_expr(values)

    operands = [
        tuple_of(data),
        listed(input_scales, SCALE),
        listed(input_zero_points, ZERO_POINT),
        parameter(output_scale, SCALE),
        parameter(output_zero_point, ZERO_POINT),
    ]
    return make_call("qnn.concatenate", operands, {"axis": axis})


def _softmax(attrs: Any, x: Any, *given: Any) -> Any:
    function = partial(relax.nn.softmax, axis=attrs.axis)
    return apply("qnn.softmax", None, function, x, *given)


define(
    "qnn.softmax",
    "x scale zero_point output_scale output_zero_point",
    _softmax,
    level=11,
    schema=Schema(axis=integer(-1)),
    description="The softmax of a quantised tensor, computed as floats.",
)


def softmax(
    x: Any, scale: Any, zero_point: Any, output_scale: Any, output_zero_point: Any, axis: int = -1
) -> Any:
    """Return the softmax of a quantised tensor along an axis, rounded to the nearest integer."""
    operands = [
        x,
        parameter(scale, SCALE),
        parameter(zero_point, ZERO_POINT),
        parameter(output_scale, SCALE),
        parameter(output_zero_point, ZERO_POINT),
    ]
    return make_call("qnn.softmax", operands, {"axis": axis})


def _avg_pool2d(
    attrs: Any, data: Any, in_scale: Any, in_point: Any, out_scale: Any, out_point: Any
) -> Any:
    name = "qnn.avg_pool2d"
    check_dtype(name, "data", data, *_BYTES)
    check_parameters(name, None, input_scale=in_scale, input_zero_point=in_point)
    check_parameters(name, None, output_scale=out_scale, output_zero_point=out_point)
    options = {**dict(attrs.items()), "out_layout": attrs.out_layout or None}
    real = relax.astype(centred(data, in_point, -1), "float32")
    mean = relax.nn.avg_pool2d(real, **options)
    factor = ratio(in_scale, out_scale)
    scale = (
        relax.astype(factor, "float32")
        if not isinstance(factor, numpy.ndarray)
        else raw(factor.reshape(()).astype("float32"))
    )
    one, zero = raw(numpy.float32(1)), out_point
    dtype = info_of(data).dtype
    return relax.quantize(relax.multiply(mean, scale), one, zero, out_dtype=dtype)


define(
    "qnn.avg_pool2d",
    "data input_scale input_zero_point output_scale output_zero_point",
    _avg_pool2d,
    level=11,
    schema=Schema(
        pool_size=repeated(2, least=1),
        strides=repeated(2, least=1),
        padding=paddings(2),
        dilation=repeated(2, least=1),
        ceil_mode=boolean(False),
        count_include_pad=boolean(True),
        layout=text("NHWC"),
        out_layout=name_or_empty(),
    ),
    description="The mean of each window of a quantised tensor; padding stands for zero.",
)


def avg_pool2d(
    data: Any,
    input_scale: Any,
    input_zero_point: Any,
    output_scale: Any,
    output_zero_point: Any,
    pool_size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NHWC",
    out_layout: str = "",
) -> Any:
    """Return the mean of each window, rounded to the nearest integer of the result's scale."""
    operands = [
        data,
        parameter(input_scale, SCALE),
        parameter(input_zero_point, ZERO_POINT),
        parameter(output_scale, SCALE),
        parameter(output_zero_point, ZERO_POINT),
    ]
    attributes = {
        "pool_size": pool_size, "strides": strides, "padding": padding, "dilation": dilation,
        "ceil_mode": ceil_mode, "count_include_pad": count_include_pad, "layout": layout,
        "out_layout": out_layout,
    }  # fmt: skip
    return make_call("qnn.avg_pool2d", operands, attributes)
