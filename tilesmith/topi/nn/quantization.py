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

__all__ = ["dequantize", "quantize"]


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
