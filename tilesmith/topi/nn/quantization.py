"""Quantisation: floats to small integers and back, by scale and zero point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import DType

__all__ = ["dequantize", "fixed_point_requantize", "quantize"]


def _parameter(tensor: Tensor, axis: int, indices: Sequence[PrimExpr]) -> PrimExpr:
    """Return the scale or zero point of an element: one for all, or one for each index of
    ``axis``.
    """
    if not tensor.shape:
        return tensor()
    return tensor(0 if op.is_const(tensor.shape[0], 1) else indices[axis])


def quantize(
    data: Tensor, scale: Tensor, zero_point: Tensor, axis: int = -1, out_dtype: DType = "int8"
) -> Tensor:
    """Return ``round(data / scale) + zero_point`` limited to the range of ``out_dtype``;
    halves are rounded to the even integer, as ONNX's QuantizeLinear demands.

    ``scale`` (in the dtype of data) and ``zero_point`` are scalars or vectors along ``axis``.
    """
    dtype = DataType(out_dtype)

    def element(*i: Any) -> PrimExpr:
        scaled = tir.nearbyint(data(*i) / _parameter(scale, axis, i))
        value = scaled + op.cast(data.dtype, _parameter(zero_point, axis, i))
        if dtype.is_integer:
            low, high = tir.min_value(dtype), tir.max_value(dtype)
            value = op.minimum(value, op.cast(data.dtype, high))
            value = op.maximum(value, op.cast(data.dtype, low))
        return op.cast(dtype, value)

    return compute(data.shape, element, name="quantized", tag=tag.BROADCAST)


def dequantize(
    data: Tensor, scale: Tensor, zero_point: Tensor, axis: int = -1, out_dtype: DType = "float32"
) -> Tensor:
    """Return ``(data - zero_point) * scale`` as ``out_dtype``; parameters as in `quantize`."""
    dtype = DataType(out_dtype)

    def element(*i: Any) -> PrimExpr:
        wide = "int32" if data.dtype.is_integer else dtype
        centred = op.cast(wide, data(*i)) - op.cast(wide, _parameter(zero_point, axis, i))
        return op.cast(dtype, centred) * op.cast(dtype, _parameter(scale, axis, i))

    return compute(data.shape, element, name="dequantized", tag=tag.BROADCAST)


def _broadcast(value: Any, indices: Sequence[PrimExpr], dtype: str) -> PrimExpr:
    """Return the element of a tensor that broadcasts with another one (a scalar as it is)."""
    if isinstance(value, Tensor):
        own = indices[len(indices) - len(value.shape) :]
        value = value(*[0 if op.is_const(size, 1) else i for size, i in zip(value.shape, own)])
    return op.cast(dtype, value)


def fixed_point_requantize(
    data: Tensor,
    multiplier: Any,
    shift: Any,
    in_zero_point: Any,
    out_zero_point: Any,
    rounding: str = "UPWARD",
    out_dtype: DType = "int8",
) -> Tensor:
    """Return ``round((data - in_zero_point) * multiplier * 2**(shift - 31)) + out_zero_point``,
    limited to the range of ``out_dtype``.

    Halves are rounded up ("UPWARD") or away from zero ("TONEAREST"). Parameters are numbers or
    tensors that broadcast with data.
    """
    dtype = DataType(out_dtype)

    def element(*i: Any) -> PrimExpr:
        factor, exponent, zero_in, zero_out = [
            _broadcast(one, i, "int64")
            for one in (multiplier, shift, in_zero_point, out_zero_point)
        ]
        product = (op.cast("int64", data(*i)) - zero_in) * factor
        right = 31 - exponent
        nudge = op.shift_left(op.cast("int64", 1), right - 1)
        if rounding == "TONEAREST":
            nudge = nudge - op.cast("int64", product < 0)
        value = op.shift_right(product + nudge, right) + zero_out
        for limit, end in ((tir.max_value(dtype), op.minimum), (tir.min_value(dtype), op.maximum)):
            value = end(value, op.cast("int64", limit))
        return op.cast(dtype, value)

    return compute(data.shape, element, name="requantized", tag=tag.BROADCAST)
