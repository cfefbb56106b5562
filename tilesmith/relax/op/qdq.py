"""Quantisation: floats to small integers and back."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, dtype, integer, text
from tilesmith.relax.expr import Call
from tilesmith.relax.op.agreement import vectors_along
from tilesmith.relax.op.common import check_axis, check_ndim, result, sizes_of, tensor
from tilesmith.relax.op.declaration import define
from tilesmith.relax.spec import Layout
from tilesmith.support.errors import OpAttributeInvalid, TypeMismatchError


def _infer_quantize(call: Call) -> Any:
    data = tensor(call, 0)
    for index in (1, 2):
        check_ndim(call, index, tensor(call, index), 0, 1)
    if any(tensor(call, index).ndim != 0 for index in (1, 2)):  # else no axis is meant
        check_axis(call, call.attrs.axis, data.ndim)
    out = call.attrs.out_dtype
    if out is None:
        raise TypeMismatchError(f"{call.op.name} needs out_dtype")
    return result(sizes_of(data), out, data.ndim)


def _along(attrs: Any, value: Any, ndim: int) -> Any:
    if value.ndim == 0 or value.size == 1:
        return value.reshape(())
    shape = [1] * ndim
    shape[attrs.axis] = -1
    return value.reshape(shape)


def _quantize(attrs: Any, data: Any, scale: Any, zero_point: Any) -> Any:
    out = attrs.out_dtype.numpy()
    # Divide in the data's own precision, as compiled code does: rounding depends on the last bit.
    scaled = data / _along(attrs, scale, data.ndim).astype(data.dtype)
    found = numpy.rint(scaled).astype("float64") + _along(attrs, zero_point, data.ndim)
    if attrs.out_dtype.is_integer:
        found = numpy.clip(found, attrs.out_dtype.min_value, attrs.out_dtype.max_value)
    return found.astype(out)


def _dequantize(attrs: Any, data: Any, scale: Any, zero_point: Any) -> Any:
    centred = data.astype("float64") - _along(attrs, zero_point, data.ndim)
    return (centred * _along(attrs, scale, data.ndim)).astype(attrs.out_dtype.numpy())


ROUNDINGS = ("UPWARD", "TONEAREST")
"""Where halves go: to the greater number, or away from zero."""


def _infer_requantize(call: Call) -> Any:
    data = tensor(call, 0)
    if not data.dtype.is_integer:
        raise TypeMismatchError(f"{call.op.name} takes integers, not {data.dtype}")
    if call.attrs.rounding not in ROUNDINGS:
        raise OpAttributeInvalid(
            f"{call.op.name}: rounding is one of {ROUNDINGS}, not '{call.attrs.rounding}'"
        )
    return result(sizes_of(data), call.attrs.out_dtype, data.ndim)


def _requantize(
    attrs: Any, data: Any, multiplier: Any, shift: Any, in_point: Any, out_point: Any
) -> Any:
    product = (data.astype("int64") - in_point) * multiplier
    right = 31 - numpy.asarray(shift, "int64")
    nudge = numpy.left_shift(numpy.int64(1), right - 1)
    if attrs.rounding == "TONEAREST":
        nudge = nudge - (product < 0)
    found = numpy.right_shift(product + nudge, right) + out_point
    limits = numpy.iinfo(attrs.out_dtype.numpy())
    return numpy.clip(found, limits.min, limits.max).astype(attrs.out_dtype.numpy())


fixed_point_requantize = define(
    "fixed_point_requantize",
    "data multiplier:number shift:number in_zero_point:number out_zero_point:number",
    _infer_requantize,
    description=(
        "``clamp(round((data - in_zero_point) * multiplier * 2**(shift - 31)) + out_zero_point)``, "
        "in 64-bit integers. The parameters broadcast with data; shifts are below 31. Halves go up "
        '(``rounding="UPWARD"``) or away from zero ("TONEAREST").'
    ),
    schema=Schema(rounding=text("UPWARD"), out_dtype=dtype("int8")),
    compute="topi.nn.fixed_point_requantize",
    evaluate=_requantize,
    layout=Layout.ELEMENTWISE,
)
quantize = define(
    "quantize",
    "data scale zero_point",
    _infer_quantize,
    description=(
        "``clamp(round(data / scale) + zero_point)``; scale and zero point of rank 0, or along "
        "``axis``."
    ),
    schema=Schema(axis=integer(-1), out_dtype=dtype("int8")),
    agreeing=vectors_along(lambda attrs: [attrs.axis]),
    compute="topi.nn.quantize",
    evaluate=_quantize,
    layout=Layout.ELEMENTWISE,
)
dequantize = define(
    "dequantize",
    "data scale zero_point",
    _infer_quantize,
    description="``(data - zero_point) * scale``.",
    schema=Schema(axis=integer(-1), out_dtype=dtype("float32")),
    agreeing=vectors_along(lambda attrs: [attrs.axis]),
    compute="topi.nn.dequantize",
    evaluate=_dequantize,
    layout=Layout.ELEMENTWISE,
)
