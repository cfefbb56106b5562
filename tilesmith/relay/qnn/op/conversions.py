"""Between floats and integers: quantize, dequantize, and what simulates them in floats."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, dtype, integer
from tilesmith.relax.expr import RelaxExpr
from tilesmith.relax.spec import topi
from tilesmith.relay.expr import const
from tilesmith.relay.op.view import computed, define, make_call, rank_of
from tilesmith.relay.qnn.op.parameters import (
    SCALE,
    ZERO_POINT,
    check_dtype,
    check_parameters,
    parameter,
    sizes_along,
)
from tilesmith.support.errors import TypeMismatchError

__all__ = ["dequantize", "quantize", "simulated_dequantize", "simulated_quantize"]


def _axis(attrs: Any, data: Any) -> int:
    return attrs.axis if rank_of(data) else -1


def _of_one_rank(*given: Any) -> list[Any]:
    """Return scale and zero point in one form: both by channel, or both scalars."""
    return [relax.reshape(one, []) if _is_single(one) else one for one in given]


def _is_single(expr: Any) -> bool:
    size = sizes_along(expr, 0)
    return getattr(size, "value", None) == 1


def _quantize(attrs: Any, data: Any, scale: Any, point: Any) -> Any:
    name = "qnn.quantize"
    check_dtype(name, "data", data, "float32", "float16", "float64")
    channels = sizes_along(data, _axis(attrs, data)) if rank_of(data) else None
    check_parameters(name, channels, output_scale=scale, output_zero_point=point)
    scale, point = _of_one_rank(scale, point)
    return relax.quantize(data, scale, point, _axis(attrs, data), attrs.out_dtype)


def _dequantize(attrs: Any, data: Any, scale: Any, point: Any) -> Any:
    name = "qnn.dequantize"
    check_dtype(name, "data", data, "int8", "uint8", "int16", "uint16", "int32")
    channels = sizes_along(data, _axis(attrs, data)) if rank_of(data) else None
    check_parameters(name, channels, input_scale=scale, input_zero_point=point)
    scale, point = _of_one_rank(scale, point)
    return relax.dequantize(data, scale, point, _axis(attrs, data), attrs.out_dtype)


define(
    "qnn.quantize",
    "data output_scale output_zero_point",
    _quantize,
    level=11,
    schema=Schema(out_dtype=dtype("int8"), axis=integer(-1)),
    record=relax.quantize.op.spec,
)
define(
    "qnn.dequantize",
    "data input_scale input_zero_point",
    _dequantize,
    level=11,
    schema=Schema(out_dtype=dtype("float32"), axis=integer(-1)),
    record=relax.dequantize.op.spec,
)


def quantize(
    data: Any, output_scale: Any, output_zero_point: Any, axis: int = -1, out_dtype: Any = "int8"
) -> Any:
    """Return floats as integers: ``round(data / scale) + zero_point`` within the range of
    ``out_dtype``; halves go to the even number.
    """
    operands = [data, parameter(output_scale, SCALE), parameter(output_zero_point, ZERO_POINT)]
    return make_call("qnn.quantize", operands, {"out_dtype": out_dtype, "axis": axis})


def dequantize(
    data: Any, input_scale: Any, input_zero_point: Any, axis: int = -1, out_dtype: Any = "float32"
) -> Any:
    """Return the numbers that integers stand for: ``(data - zero_point) * scale``."""
    operands = [data, parameter(input_scale, SCALE), parameter(input_zero_point, ZERO_POINT)]
    return make_call("qnn.dequantize", operands, {"out_dtype": out_dtype, "axis": axis})


for _name, _what in (
    ("simulated_quantize", "What `quantize` gives, in floats; the dtype is chosen at run time."),
    ("simulated_dequantize", "What `dequantize` gives; the dtype is chosen at run time."),
):
    computed(
        "qnn." + _name,
        "data dtype scale zero_point",
        lambda attrs, data, code, scale, point, _name=_name: getattr(topi.nn, _name)(
            data, code, scale, point, attrs.axis
        ),
        level=11,
        schema=Schema(axis=integer(-1)),
        description=_what,
    )


_CODES = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}  # as topi.nn.SQNN_DTYPE_TO_CODE


def _code(value: Any) -> Any:
    if isinstance(value, RelaxExpr):
        return value
    if value not in _CODES:
        raise TypeMismatchError(
            f"'{value}' cannot be simulated", notes=("known: " + ", ".join(_CODES),)
        )
    return const(_CODES[value], "int32")


def simulated_quantize(
    data: Any, output_scale: Any, output_zero_point: Any, axis: int = -1, out_dtype: Any = "int8"
) -> Any:
    """Return what `quantize` gives, as floats. ``out_dtype`` is a name ("int8", "uint8", "int32",
    "disable": the data as they are) or an expression that gives its code (``topi.nn``
    ``.SQNN_DTYPE_TO_CODE``).
    """
    parameters = [parameter(output_scale, SCALE), parameter(output_zero_point, ZERO_POINT)]
    operands = [data, _code(out_dtype), *parameters]
    return make_call("qnn.simulated_quantize", operands, {"axis": axis})


def simulated_dequantize(
    data: Any, input_scale: Any, input_zero_point: Any, axis: int = -1, in_dtype: Any = "int8"
) -> Any:
    """Return what `dequantize` gives for integers that are held as floats; see
    `simulated_quantize`.
    """
    parameters = [parameter(input_scale, SCALE), parameter(input_zero_point, ZERO_POINT)]
    operands = [data, _code(in_dtype), *parameters]
    return make_call("qnn.simulated_dequantize", operands, {"axis": axis})
