"""Tables of functions of 8-bit integers, for programs that replace operators by look-ups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IRModule, RelaxExpr
from tilesmith.relay.expr import const
from tilesmith.relay.op.view import find_function
from tilesmith.relay.qnn.op.elementwise import table_of
from tilesmith.relay.qnn.op.parameters import constant_of
from tilesmith.relay.transform.fold_constant import FoldConstantExpr
from tilesmith.support.errors import TypeMismatchError, UnsupportedError

__all__ = ["create_integer_lookup_op", "create_integer_lookup_table", "run_const_expr"]


def run_const_expr(expr: Any) -> numpy.ndarray:
    """Return the value of an expression of constants as an array."""
    value = constant_of(FoldConstantExpr(expr, IRModule(), fold_qnn=True))
    if value is None:
        raise TypeMismatchError("run_const_expr takes an expression that consists of constants")
    return numpy.asarray(value)


def _parameters(given: Any, dtype: Any) -> numpy.ndarray:
    value = run_const_expr(given) if isinstance(given, RelaxExpr) else given
    return numpy.asarray(value, dtype).reshape(-1)


def create_integer_lookup_table(
    floating_point_func: Callable[[numpy.ndarray], numpy.ndarray],
    input_scale: Any,
    input_zero_point: Any,
    output_scale: Any,
    output_zero_point: Any,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> numpy.ndarray:
    """Return the quantised results of a function of arrays for all 8-bit integers; the place in the
    table is the integer's bits read as an unsigned number.
    """
    if numpy.dtype(in_dtype).itemsize != 1:
        raise UnsupportedError(f"a table for {in_dtype} would be too long", notes=("use 8 bits",))
    scales = [_parameters(one, "float64") for one in (input_scale, output_scale)]
    points = [_parameters(one, "int64") for one in (input_zero_point, output_zero_point)]
    if any(one.size != 1 for one in (*scales, *points)):
        raise UnsupportedError("a table has one scale and zero point, not several by channel")
    found = table_of(
        floating_point_func, float(scales[0][0]), int(points[0][0]), float(scales[1][0]),
        int(points[1][0]), in_dtype, out_dtype,
    )  # fmt: skip
    return found if in_dtype == "uint8" else numpy.roll(found, 128)


def create_integer_lookup_op(
    input_arg: Any,
    floating_point_func: Callable[[numpy.ndarray], numpy.ndarray],
    in_scale: Any,
    in_zero_point: Any,
    out_scale: Any,
    out_zero_point: Any,
    in_axis: int = -1,
    out_axis: int = -1,
    in_dtype: str = "uint8",
    out_dtype: str = "uint8",
) -> Any:
    """Return the expression that looks up a quantised function of an 8-bit tensor in a table."""
    table = create_integer_lookup_table(
        floating_point_func, in_scale, in_zero_point, out_scale, out_zero_point, in_axis, out_axis,
        in_dtype, out_dtype,
    )  # fmt: skip
    place = find_function("cast")(find_function("reinterpret")(input_arg, dtype="uint8"), "int32")
    return find_function("take")(const(table), place, axis=0, mode="clip")
