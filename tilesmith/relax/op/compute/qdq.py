"""Quantised numbers as tensor expressions."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir.operators import cast, is_const, maximum, minimum
from tilesmith.topi import tag


def _parameter(tensor: Any, attrs: Any, indices: Any) -> Any:
    if not tensor.shape:
        return tensor()
    if is_const(tensor.shape[0], 1):
        return tensor(0)
    return tensor(indices[attrs.axis])


def quantize(attrs: Any, data: Any, scale: Any, zero_point: Any) -> Any:
    """Floats as small integers."""
    dtype = attrs.out_dtype

    def element(*i: Any) -> Any:
        scaled = tir.round(data(*i) / _parameter(scale, attrs, i))
        value = scaled + cast(data.dtype, _parameter(zero_point, attrs, i))
        if dtype.is_integer:
            low, high = tir.min_value(dtype), tir.max_value(dtype)
            value = maximum(minimum(value, cast(data.dtype, high)), cast(data.dtype, low))
        return cast(dtype, value)

    return te.compute(data.shape, element, name="quantized", tag=tag.BROADCAST)


def dequantize(attrs: Any, data: Any, scale: Any, zero_point: Any) -> Any:
    """Small integers as floats."""
    dtype = attrs.out_dtype

    def element(*i: Any) -> Any:
        wide = "int32" if data.dtype.is_integer else dtype
        centred = cast(wide, data(*i)) - cast(wide, _parameter(zero_point, attrs, i))
        return cast(dtype, centred) * cast(dtype, _parameter(scale, attrs, i))

    return te.compute(data.shape, element, name="dequantized", tag=tag.BROADCAST)
