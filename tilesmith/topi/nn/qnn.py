"""Quantisation that stays in floats, for networks whose dtypes are chosen when they run.

A code says which dtype is simulated: ``SQNN_DTYPE_TO_CODE["int8"]``; "disable" leaves the data as
they are.
"""

from __future__ import annotations

from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import normalize_axes

__all__ = [
    "SQNN_CODE_TO_DTYPE", "SQNN_DISABLE", "SQNN_DTYPE_TO_CODE", "SQNN_INT8", "SQNN_INT32",
    "SQNN_UINT8", "simulated_dequantize", "simulated_quantize",
]  # fmt: skip

SQNN_DISABLE = 0
SQNN_INT8 = 1
SQNN_UINT8 = 2
SQNN_INT32 = 3

SQNN_DTYPE_TO_CODE = {
    "disable": SQNN_DISABLE, "int8": SQNN_INT8, "uint8": SQNN_UINT8, "int32": SQNN_INT32,
}  # fmt: skip
SQNN_CODE_TO_DTYPE = {code: dtype for dtype, code in SQNN_DTYPE_TO_CODE.items()}


def _code(dtype: Any) -> Any:
    """Return the code of a dtype as an expression; a tensor holds it as its only element."""
    if isinstance(dtype, str):
        return const(SQNN_DTYPE_TO_CODE[dtype], "int32")
    if isinstance(dtype, Tensor):
        return dtype(*[0 for _ in dtype.shape])
    return convert(dtype)


def _parameter(given: Any, index: PrimExpr, default: float, dtype: Any) -> PrimExpr:
    """Return the scale or zero point of an element: one for all, or one for each channel."""
    if given is None:
        return const(default, dtype)
    if not isinstance(given, Tensor):
        return op.cast(dtype, convert(given))
    if not given.shape:
        return op.cast(dtype, given())
    return op.cast(dtype, given(0 if op.is_const(given.shape[0], 1) else index))


def simulated_quantize(
    data: Tensor,
    out_dtype: Any,
    output_scale: Any = None,
    output_zero_point: Any = None,
    axis: int = -1,
) -> Tensor:
    """Return the floats that `quantize` would give, in the dtype of the data.

    ``out_dtype`` is a code (a number, an expression or a tensor of one element). Scales and zero
    points are numbers, tensors of one element, or vectors along ``axis``.
    """
    (axis,) = normalize_axes(axis, len(data.shape))
    code, dtype = _code(out_dtype), data.dtype

    def element(*i: Any) -> PrimExpr:
        value = data(*i)
        scale = _parameter(output_scale, i[axis], 1, dtype)
        moved = tir.nearbyint(value / scale) + _parameter(output_zero_point, i[axis], 0, dtype)
        result = value
        for number, name in SQNN_CODE_TO_DTYPE.items():
            if number != SQNN_DISABLE:
                low, high = [op.cast(dtype, end(name)) for end in (tir.min_value, tir.max_value)]
                limited = op.maximum(op.minimum(moved, high), low)
                is_meant = op.equal(code, const(number, code.dtype))
                result = tir.if_then_else(is_meant, limited, result)
        return result

    return compute(data.shape, element, name="simulated_quantize", tag=tag.BROADCAST)


def simulated_dequantize(
    data: Tensor,
    in_dtype: Any,
    input_scale: Any = None,
    input_zero_point: Any = None,
    axis: int = -1,
) -> Tensor:
    """Return ``(data - zero_point) * scale``, or the data where the code says "disable"; parameters
    as in `simulated_quantize`.
    """
    (axis,) = normalize_axes(axis, len(data.shape))
    code, dtype = _code(in_dtype), data.dtype

    def element(*i: Any) -> PrimExpr:
        value = data(*i)
        centred = value - _parameter(input_zero_point, i[axis], 0, dtype)
        made: PrimExpr = tir.if_then_else(
            op.equal(code, const(SQNN_DISABLE, code.dtype)),
            value,
            centred * _parameter(input_scale, i[axis], 1, dtype),
        )
        return made

    return compute(data.shape, element, name="simulated_dequantize", tag=tag.BROADCAST)
