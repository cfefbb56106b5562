"""Builds calls that users write in scalar expressions: mathematics, bits, limits, choice, hints.

The functions accept Python scalars and fold nothing beyond what Python operators do. The operators
are registered in ``intrinsic_table``; calls of functions and memory are in ``call_intrinsics``.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from tilesmith.ir import operators
from tilesmith.ir.call_intrinsics import *  # noqa: F403
from tilesmith.ir.call_intrinsics import __all__ as _call_names
from tilesmith.ir.expr import (
    Call,
    FloatImm,
    GlobalVar,
    IntImm,
    Or,
    PrimExpr,
    Select,
    StringImm,
    as_prim_expr,
    convert,
)
from tilesmith.ir.intrinsic_table import intrinsic_call
from tilesmith.ir.op import CallEffectKind
from tilesmith.ir.operators import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    const,
    floordiv,
    floormod,
    match_types,
    shift_left,
    shift_right,
    truncdiv,
    truncmod,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TypeMismatchError

__all__ = [
    *_call_names, "abs", "acos", "acosh", "all", "any", "asin", "asinh", "assume", "atan", "atan2",
    "atanh",
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cast", "ceil", "ceildiv", "checked",
    "clz", "copysign", "cos", "cosh", "div", "dot_bf16bf16", "dot_i16i16", "dot_i8i8", "dot_u8i8",
    "erf", "exp", "exp10", "exp2", "fabs", "floor",
    "floordiv", "floormod", "fmod", "hypot", "if_then_else", "indexdiv", "indexmod", "infinity",
    "isfinite", "isinf", "isnan", "isnullptr", "large_uint_imm", "ldexp", "likely", "log", "log10",
    "log1p", "log2", "max_value", "min_value", "nearbyint", "nextafter", "popcount", "pow", "power",
    "prefetch", "q_multiply_shift", "q_multiply_shift_per_axis", "reinterpret", "round", "rsqrt",
    "shift_left", "shift_right", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    "truncdiv", "truncmod", "undef",
]  # fmt: skip


def effect_of(call: Call) -> CallEffectKind:
    """Return the side effects of evaluating a call; a call of a function of the module may change
    memory.
    """
    if isinstance(call.op, GlobalVar):
        return CallEffectKind.UpdateState
    kind: CallEffectKind = call.op.get_attr("TCallEffectKind", CallEffectKind.UpdateState)
    return kind


def _floating(value: Any) -> PrimExpr:
    """Convert an argument of a mathematical function: integers become float32 (float64 from 64
    bits).
    """
    number = as_prim_expr(value)
    if number.dtype.is_float:
        return number
    if not (number.dtype.is_integer or number.dtype.is_bool):
        raise TypeMismatchError(f"a number is needed here, got {number.dtype}")
    element = DataType("float64" if number.dtype.bits == 64 else "float32")
    return cast(element.with_lanes(number.dtype.lanes), number)


def _unary(name: str, x: Any) -> PrimExpr:
    x = _floating(x)
    return Call(x.dtype, "tir." + name, (x,))


def _binary(name: str, x1: Any, x2: Any) -> PrimExpr:
    x1, x2 = match_types(convert(x1), x2)
    x1, x2 = _floating(x1), _floating(x2)
    return Call(x1.dtype, "tir." + name, (x1, x2))


def _bool_like(value: PrimExpr) -> DataType:
    return DataType("bool").with_lanes(value.dtype.lanes)


# Mathematics.


def exp(x: Any) -> PrimExpr:
    """Return the exponential of ``x``."""
    return _unary("exp", x)


def exp2(x: Any) -> PrimExpr:
    """Two to the power ``x``."""
    return _unary("exp2", x)


def exp10(x: Any) -> PrimExpr:
    """Ten to the power ``x``."""
    return _unary("exp10", x)


def erf(x: Any) -> PrimExpr:
    """Return the Gauss error function of ``x``."""
    return _unary("erf", x)


def tanh(x: Any) -> PrimExpr:
    """Return the hyperbolic tangent."""
    return _unary("tanh", x)


def sigmoid(x: Any) -> PrimExpr:
    """``1 / (1 + exp(-x))``."""
    return _unary("sigmoid", x)


def log(x: Any) -> PrimExpr:
    """Return the natural logarithm."""
    return _unary("log", x)


def log2(x: Any) -> PrimExpr:
    """Return the logarithm to base two."""
    return _unary("log2", x)


def log10(x: Any) -> PrimExpr:
    """Return the logarithm to base ten."""
    return _unary("log10", x)


def log1p(x: Any) -> PrimExpr:
    """``log(1 + x)``, exact near zero."""
    return _unary("log1p", x)


def tan(x: Any) -> PrimExpr:
    """Return the tangent."""
    return _unary("tan", x)


def cos(x: Any) -> PrimExpr:
    """Return the cosine."""
    return _unary("cos", x)


def cosh(x: Any) -> PrimExpr:
    """Return the hyperbolic cosine."""
    return _unary("cosh", x)


def acos(x: Any) -> PrimExpr:
    """Return the inverse cosine."""
    return _unary("acos", x)


def acosh(x: Any) -> PrimExpr:
    """Return the inverse hyperbolic cosine."""
    return _unary("acosh", x)


def sin(x: Any) -> PrimExpr:
    """Return the sine."""
    return _unary("sin", x)


def sinh(x: Any) -> PrimExpr:
    """Return the hyperbolic sine."""
    return _unary("sinh", x)


def asin(x: Any) -> PrimExpr:
    """Return the inverse sine."""
    return _unary("asin", x)


def asinh(x: Any) -> PrimExpr:
    """Return the inverse hyperbolic sine."""
    return _unary("asinh", x)


def atan(x: Any) -> PrimExpr:
    """Return the inverse tangent."""
    return _unary("atan", x)


def atanh(x: Any) -> PrimExpr:
    """Return the inverse hyperbolic tangent."""
    return _unary("atanh", x)


def atan2(x1: Any, x2: Any) -> PrimExpr:
    """Return the angle of the point ``(x2, x1)``."""
    return _binary("atan2", x1, x2)


def sqrt(x: Any) -> PrimExpr:
    """Return the square root."""
    return _unary("sqrt", x)


def rsqrt(x: Any) -> PrimExpr:
    """One over the square root."""
    return _unary("rsqrt", x)


def _rounding(name: str, x: Any) -> PrimExpr:
    value = as_prim_expr(x)
    if value.dtype.is_integer or value.dtype.is_bool:
        return value
    folded = _rounded(name, value) if isinstance(value, FloatImm) else None
    return _unary(name, value) if folded is None else folded


_ROUNDINGS: dict[str, Callable[[float], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "nearbyint": builtins.round,
    "round": lambda value: math.floor(value + 0.5) if value > 0 else math.ceil(value - 0.5),
}


def _rounded(name: str, x: FloatImm) -> PrimExpr | None:
    """Round a constant at compile time; None where the constant itself is rounded only at run
    time.
    """
    value = operators.held(x.value, x.dtype)
    if value is None or not math.isfinite(value) or builtins.abs(value) > 1 << 50:
        return None
    return FloatImm(x.dtype, math.copysign(_ROUNDINGS[name](value), value))


def floor(x: Any, span: Any = None) -> PrimExpr:
    """Return the largest whole number not above ``x``; an integer stays as it is."""
    return _rounding("floor", x)


def ceil(x: Any, span: Any = None) -> PrimExpr:
    """Return the smallest whole number not below ``x``; an integer stays as it is."""
    return _rounding("ceil", x)


def trunc(x: Any, span: Any = None) -> PrimExpr:
    """``x`` rounded toward zero; an integer stays as it is."""
    return _rounding("trunc", x)


def round(x: Any, span: Any = None) -> PrimExpr:
    """``x`` rounded to the nearest whole number, halves away from zero."""
    return _rounding("round", x)


def nearbyint(x: Any, span: Any = None) -> PrimExpr:
    """``x`` rounded to the nearest whole number, halves to the even one."""
    return _rounding("nearbyint", x)


def abs(x: Any, span: Any = None) -> PrimExpr:
    """Return the absolute value."""
    value = as_prim_expr(x)
    if value.dtype.is_float:
        if isinstance(value, FloatImm):
            return FloatImm(value.dtype, builtins.abs(value.value))
        return _unary("fabs", value)
    if value.dtype.is_uint or value.dtype.is_bool:
        return value
    zero = const(0, value.dtype)
    if isinstance(value, IntImm):
        return operators.maximum(value, operators.subtract(zero, value))
    return Select(operators.greater_equal(value, zero), value, operators.subtract(zero, value))


fabs = abs


def nextafter(x1: Any, x2: Any) -> PrimExpr:
    """Return the next representable value after ``x1`` in the direction of ``x2``."""
    return _binary("nextafter", x1, x2)


def hypot(x1: Any, x2: Any) -> PrimExpr:
    """``sqrt(x1 * x1 + x2 * x2)`` without overflow."""
    return _binary("hypot", x1, x2)


def copysign(x1: Any, x2: Any) -> PrimExpr:
    """Return the magnitude of ``x1`` with the sign of ``x2``."""
    return _binary("copysign", x1, x2)


def ldexp(x1: Any, x2: Any) -> PrimExpr:
    """``x1`` times two to the integer power ``x2``."""
    x1, x2 = _floating(x1), convert(x2)
    return Call(x1.dtype, "tir.ldexp", (x1, x2))


def fmod(x: Any, y: Any) -> PrimExpr:
    """Return the remainder of ``x / y`` with the sign of ``x``."""
    return _binary("fmod", x, y)


def power(x: Any, y: Any, span: Any = None) -> PrimExpr:
    """``x`` to the power ``y``; integers stay integers."""
    x, y = match_types(convert(x), y)
    return Call(x.dtype, "tir.pow", (x, y))


pow = power


def isnan(x: Any, span: Any = None) -> PrimExpr:
    """True where ``x`` is NaN; never for an integer."""
    x = convert(x)
    if not x.dtype.is_float:
        return const(False, _bool_like(x))
    if isinstance(x, FloatImm):
        return const(math.isnan(x.value), "bool")
    return Call(_bool_like(x), "tir.isnan", (x,))


def isinf(x: Any, span: Any = None) -> PrimExpr:
    """True where ``x`` is infinite; never for an integer."""
    x = convert(x)
    if not x.dtype.is_float:
        return const(False, _bool_like(x))
    return operators.equal(abs(x), infinity(x.dtype))


def isfinite(x: Any, span: Any = None) -> PrimExpr:
    """True where ``x`` is neither infinite nor NaN; always for an integer."""
    x = convert(x)
    if not x.dtype.is_float:
        return const(True, _bool_like(x))
    return operators.less(abs(x), infinity(x.dtype))


# Integers and bits.


def clz(x: Any) -> PrimExpr:
    """Return the number of leading zero bits of an integer, as int32."""
    x = convert(x)
    return Call(DataType("int32").with_lanes(x.dtype.lanes), "tir.clz", (x,))


def popcount(x: Any) -> PrimExpr:
    """Return the number of bits that are set, in the dtype of ``x``."""
    x = convert(x)
    return Call(x.dtype, "tir.popcount", (x,))


def div(a: Any, b: Any, span: Any = None) -> PrimExpr:
    """``a / b`` as C has it: integers round toward zero."""
    a, b = match_types(convert(a), b)
    return truncdiv(a, b) if a.dtype.is_integer or a.dtype.is_bool else operators.divide(a, b)


def indexdiv(a: Any, b: Any, span: Any = None) -> PrimExpr:
    """``a // b`` of non-negative indices."""
    return floordiv(a, b)


def indexmod(a: Any, b: Any, span: Any = None) -> PrimExpr:
    """``a % b`` of non-negative indices."""
    return floormod(a, b)


def ceildiv(lhs: Any, rhs: Any, span: Any = None) -> PrimExpr:
    """``lhs / rhs`` of integers, rounded up."""
    lhs, rhs = match_types(convert(lhs), rhs)
    if lhs.dtype.is_float:
        return ceil(operators.divide(lhs, rhs))
    return floordiv(operators.subtract(operators.add(lhs, rhs), 1), rhs)


def dot_u8i8(a: Any, b: Any) -> PrimExpr:
    """Return the sum of the products of the four bytes of ``a`` (a uint32, of unsigned bytes) with
    those of ``b`` (an int32, of signed bytes), as an int32.
    """
    return _dot_product("dot_u8i8", a, b)


def dot_i8i8(a: Any, b: Any) -> PrimExpr:
    """Return the sum of the products of the four bytes of ``a`` with those of ``b``, all signed, as
    an int32; ``a`` is a uint32, ``b`` an int32.
    """
    return _dot_product("dot_i8i8", a, b)


def dot_i16i16(a: Any, b: Any) -> PrimExpr:
    """Return the sum of the products of the two int16 in ``a`` (a uint32) with those in ``b`` (an
    int32), as an int32.
    """
    return _dot_product("dot_i16i16", a, b)


def dot_bf16bf16(a: Any, b: Any) -> PrimExpr:
    """Return the sum of the products of the two bfloat16 in ``a`` with those in ``b`` (the bits of
    each pair are a uint32), as a float32. How often the sum is rounded depends on the machine;
    the instructions of x86 and Arm take subnormal numbers as zero, and make zeros of such sums.
    """
    a, b = convert(a), convert(b)
    if a.dtype.element != "uint32" or b.dtype.element != "uint32":
        raise TypeMismatchError(f"dot_bf16bf16 takes two uint32, got {a.dtype}, {b.dtype}")
    return Call(DataType("float32").with_lanes(b.dtype.lanes), "tir.dot_bf16bf16", (a, b))


def _dot_product(name: str, a: Any, b: Any) -> PrimExpr:
    a, b = convert(a), convert(b)
    if a.dtype.element != "uint32" or b.dtype.element != "int32":
        raise TypeMismatchError(f"{name} takes a uint32 and an int32, got {a.dtype}, {b.dtype}")
    return Call(b.dtype, f"tir.{name}", (a, b))


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> PrimExpr:
    """Return the product with a fixed-point number: ``round(x * y * 2**-s)``."""
    x = convert(x)
    return Call(x.dtype, "tir.q_multiply_shift", (x, convert(y), convert(q), convert(s)))


def q_multiply_shift_per_axis(
    x: Any, y: Any, ls: Any, rs: Any, q: Any, is_lshift_required: Any, is_rshift_required: Any
) -> PrimExpr:
    """Like ``q_multiply_shift``, with separate shifts to the left and to the right."""
    x = convert(x)
    arguments = (y, ls, rs, q, is_lshift_required, is_rshift_required)
    return intrinsic_call(x.dtype, "q_multiply_shift_per_axis", x, *arguments)


def reinterpret(dtype: Any, value: Any, span: Any = None) -> PrimExpr:
    """Return the bits of ``value`` read as ``dtype``, which has the same number of bits."""
    dtype, bits = DataType(dtype), as_prim_expr(value)
    source = bits.dtype
    if source is dtype:
        return bits
    if source.lanes == dtype.lanes and source.bits != dtype.bits and not source.is_bool:
        raise TypeMismatchError(f"reinterpret needs as many bits: {source} and {dtype} differ")
    return intrinsic_call(dtype, "reinterpret", bits)


def large_uint_imm(dtype: Any, low: int, high: int) -> PrimExpr:
    """Return an unsigned constant from its two 32-bit halves."""
    return const((int(high) << 32) | int(low), dtype)


# Limits.


CUSTOM_LEAST_VALUES: dict[str, Callable[[int], PrimExpr]] = {}
"""Code of a data type that a library defines → function from a width to its smallest value."""


def min_value(dtype: Any, span: Any = None) -> PrimExpr:
    """Return the smallest value of a dtype (of floats: the finite one)."""
    dtype = DataType(dtype)
    if dtype.is_custom:
        return CUSTOM_LEAST_VALUES[dtype.code](dtype.bits)
    if dtype.is_float:
        return const(-_largest_float(dtype.element), dtype)
    return const(dtype.min_value, dtype)


def max_value(dtype: Any, span: Any = None) -> PrimExpr:
    """Return the largest value of a dtype (of floats: the finite one)."""
    dtype = DataType(dtype)
    if dtype.is_float:
        return const(_largest_float(dtype.element), dtype)
    return const(dtype.max_value, dtype)


_LARGEST = {
    "float16": 65504.0,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
    "bfloat16": 3.3895313892515355e38,
}


def _largest_float(dtype: DataType) -> float:
    largest = _LARGEST.get(dtype)
    if largest is None:
        import ml_dtypes

        finfo: Any = ml_dtypes.finfo
        largest = float(finfo(dtype.numpy()).max)
    return largest


def infinity(dtype: Any, span: Any = None) -> PrimExpr:
    """Plus infinity of a floating-point dtype."""
    if not DataType(dtype).is_float:
        raise TypeMismatchError(f"{dtype} has no infinity")
    return const(float("inf"), dtype)


# Choice, hints, conditions.


def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> PrimExpr:
    """Return ``t`` where the condition holds, else ``f``; only the chosen one is evaluated."""
    cond = convert(cond)
    if not cond.dtype.is_bool:
        cond = operators.not_equal(cond, 0)
    if cond.dtype.lanes != 1:
        raise TypeMismatchError("if_then_else needs a scalar condition; use Select for vectors")
    true, false = match_types(t if isinstance(t, PrimExpr) else _like(t, f), f)
    if isinstance(cond, IntImm):
        return true if cond.value else false
    return Call(true.dtype, "tir.if_then_else", (cond, true, false))


def _like(value: Any, other: Any) -> PrimExpr:
    return match_types(value, other)[0] if isinstance(other, PrimExpr) else convert(value)


def likely(cond: Any, span: Any = None) -> PrimExpr:
    """Return ``cond``, marked as mostly true; loops are partitioned at such conditions."""
    cond = convert(cond)
    return cond if isinstance(cond, (IntImm, FloatImm)) else Call(cond.dtype, "tir.likely", (cond,))


def checked(value: Any, condition: Any, *message: Any) -> PrimExpr:
    """Return ``value``; where the condition does not hold, the program ends with an error.

    The message consists of texts and integers. Where the first text begins with the name of an
    error, as in ``"OutOfBoundsError: ..."``, that error is raised. A check is made only where its
    value is computed, and takes no part in a vector's inactive lanes.
    """
    given: PrimExpr = convert(value)
    condition = convert(condition)
    if isinstance(condition, IntImm) and condition.value:
        return given
    parts = [StringImm(part) if isinstance(part, str) else convert(part) for part in message]
    return Call(given.dtype, "tir.checked", (given, condition, *parts))


def all(*args: Any, span: Any = None) -> PrimExpr:
    """Return whether all conditions hold, as an expression (``tir.all(a < b, c)``)."""
    return operators.all_of(*args)


def any(*args: Any, span: Any = None) -> PrimExpr:
    """Return whether some condition holds, as an expression."""
    return operators.any_of(*args)


def logical_implies(premise: Any, conclusion: Any) -> PrimExpr:
    """Return whether ``conclusion`` holds wherever ``premise`` does, as an expression."""
    return Or(operators.logical_not(premise), convert(conclusion))


def assume(cond: Any = None) -> PrimExpr:
    """Promise that the condition holds here."""
    return intrinsic_call("bool", "assume", True if cond is None else cond)


def undef(*, dtype: Any = "int32") -> PrimExpr:
    """Return an undefined value, for stores that only mark memory as initialised."""
    return Call(dtype, "tir.undef", ())


def isnullptr(x: Any, span: Any = None) -> PrimExpr:
    """True where a pointer is null."""
    return intrinsic_call("bool", "isnullptr", x)


def prefetch(address: Any, rw: Any = 0, locality: Any = 3, cache: Any = 1) -> PrimExpr:
    """Hint that memory is needed soon; arguments as those of ``llvm.prefetch``."""
    return intrinsic_call("void", "prefetch", address, rw, locality, cache)
