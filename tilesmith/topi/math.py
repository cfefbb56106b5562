"""Elementwise operations of one operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TypeMismatchError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import DType

__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cast", "ceil", "ceil_log2",
    "clip", "cos", "cosh", "erf", "exp", "fast_erf", "fast_exp", "fast_tanh",
    "fixed_point_multiply", "fixed_point_multiply_per_axis", "floor", "identity", "isfinite",
    "isinf", "isnan", "log", "log10", "log2", "negative", "reinterpret", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip


_POINT = const(31, "int32")
"""The bits behind the point of a fixed-point factor."""


def _unary(name: str, function: Callable[[PrimExpr], PrimExpr], x: Any) -> Any:
    if not isinstance(x, Tensor):
        return function(convert(x))
    return compute(x.shape, lambda *i: function(x(*i)), name=name, tag=tag.ELEMWISE)


def _make(name: str, meaning: str) -> Callable[[Any], Any]:
    def operation(x: Any) -> Any:
        return _unary("T_" + name, getattr(tir, name), x)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = meaning
    return operation


acos = _make("acos", "The arc cosine.")
acosh = _make("acosh", "The inverse hyperbolic cosine.")
asin = _make("asin", "The arc sine.")
asinh = _make("asinh", "The inverse hyperbolic sine.")
atan = _make("atan", "The arc tangent.")
atanh = _make("atanh", "The inverse hyperbolic tangent.")
cos = _make("cos", "The cosine.")
cosh = _make("cosh", "The hyperbolic cosine.")
erf = _make("erf", "The error function.")
exp = _make("exp", "e to the power of x.")
isfinite = _make("isfinite", "Whether x is neither infinite nor NaN.")
isinf = _make("isinf", "Whether x is infinite.")
isnan = _make("isnan", "Whether x is NaN.")
log = _make("log", "The natural logarithm.")
log2 = _make("log2", "The logarithm to base 2.")
log10 = _make("log10", "The logarithm to base 10.")
rsqrt = _make("rsqrt", "One over the square root.")
sigmoid = _make("sigmoid", "1 / (1 + exp(-x)).")
sin = _make("sin", "The sine.")
sinh = _make("sinh", "The hyperbolic sine.")
sqrt = _make("sqrt", "The square root.")
tan = _make("tan", "The tangent.")
tanh = _make("tanh", "The hyperbolic tangent.")
fast_exp, fast_erf, fast_tanh = exp, erf, tanh


def _rounding(name: str, meaning: str) -> Callable[[Any], Any]:
    def operation(x: Any) -> Any:
        def function(value: PrimExpr) -> PrimExpr:
            return getattr(tir, name)(value) if value.dtype.is_float else value

        return _unary("T_" + name, function, x)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = meaning
    return operation


ceil = _rounding("ceil", "The smallest integer not below x.")
floor = _rounding("floor", "The largest integer not above x.")
trunc = _rounding("trunc", "x rounded toward zero.")


def round(x: Any) -> Any:
    """Round x to the nearest integer, halves to the even one."""
    return _unary("T_round", lambda v: tir.nearbyint(v) if v.dtype.is_float else v, x)


def abs(x: Any) -> Any:
    """Return the absolute value."""
    return _unary("T_abs", lambda v: v if v.dtype.is_uint else tir.abs(v), x)


def identity(x: Any) -> Any:
    """Return a copy."""
    return _unary("T_identity", lambda v: v, x)


def negative(x: Any) -> Any:
    """Return -x."""
    return _unary("T_negative", op.negate, x)


def sign(x: Any) -> Any:
    """Return the sign: -1, 0 or 1."""

    def function(value: PrimExpr) -> PrimExpr:
        zero, one, minus = const(0, value.dtype), const(1, value.dtype), const(-1, value.dtype)
        return tir.Select(value < zero, minus, tir.Select(value > zero, one, zero))

    return _unary("T_sign", function, x)


def clip(x: Any, a_min: Any, a_max: Any) -> Any:
    """Limit x to ``[a_min, a_max]``."""

    def function(value: PrimExpr) -> PrimExpr:
        low, high = (
            const(limit, value.dtype) if not isinstance(limit, PrimExpr) else limit
            for limit in (a_min, a_max)
        )
        return op.maximum(op.minimum(value, high), low)

    return _unary("T_clip", function, x)


def cast(x: Any, dtype: str, span: Any = None) -> Any:
    """Convert x to another dtype."""
    target = DataType(dtype)

    def function(value: PrimExpr) -> PrimExpr:
        if target.is_bool and not value.dtype.is_bool:
            return op.not_equal(value, const(0, value.dtype))
        return op.cast(target, value)

    return _unary("T_cast", function, x)


def reinterpret(x: Any, dtype: DType) -> Any:
    """Return the values whose bits x has; the dtypes are of one size."""
    target = DataType(dtype)

    def function(value: PrimExpr) -> PrimExpr:
        if value.dtype.bits != target.bits:
            raise TypeMismatchError(
                f"reinterpret: {value.dtype} and {target} are not of one size",
                notes=("cast converts values",),
            )
        made: PrimExpr = tir.reinterpret(target, value)
        return made

    return _unary("T_reinterpret", function, x)


def left_shift(x: Any, n: Any) -> Any:
    """Shift the bits of x by ``n`` to the left; `topi.left_shift` takes a tensor as ``n``."""
    return _unary("T_left_shift", lambda v: v << n, x)


def right_shift(x: Any, n: Any) -> Any:
    """Shift the bits of x by ``n`` to the right; `topi.right_shift` takes a tensor as ``n``."""
    return _unary("T_right_shift", lambda v: v >> n, x)


def fixed_point_multiply(x: Tensor, multiplier: int, shift: int) -> Tensor:
    """Multiply int32 values by ``multiplier * 2**(shift - 31)`` and round, halves up.

    These are the significand (as a number with 31 bits behind the point) and the exponent that
    ``frexp`` gives for a real factor.
    """
    factor, exponent = const(multiplier, "int32"), const(-shift, "int32")
    return compute(
        x.shape,
        lambda *i: tir.q_multiply_shift(x(*i), factor, _POINT, exponent),
        name="T_fixed_point_multiply",
        tag=tag.ELEMWISE,
    )


def fixed_point_multiply_per_axis(
    x: Tensor,
    y: Tensor,
    lshift: Tensor,
    rshift: Tensor,
    is_lshift_required: bool | int,
    is_rshift_required: bool | int,
    axes: Sequence[int],
) -> Tensor:
    """Multiply int32 values by ``y * 2**(lshift - rshift - 31)`` and round, halves up.

    ``y``, ``lshift`` and ``rshift`` have a value for each index along ``axes`` of ``x``.
    Shifts that are not required are not done.
    """

    def element(*i: Any) -> PrimExpr:
        at = [i[axis] for axis in axes]
        made: PrimExpr = tir.q_multiply_shift_per_axis(
            x(*i), y(*at), lshift(*at), rshift(*at), _POINT,
            const(bool(is_lshift_required), "bool"), const(bool(is_rshift_required), "bool"),
        )  # fmt: skip
        return made

    return compute(x.shape, element, name="T_fixed_point_multiply_per_axis", tag=tag.ELEMWISE)


def ceil_log2(x: Any) -> Any:
    """Return the logarithm of positive numbers to base 2, rounded up, in the dtype of x."""

    def function(value: PrimExpr) -> PrimExpr:
        exact = value if value.dtype.is_float else op.cast("float64", value)
        return op.cast(value.dtype, tir.ceil(tir.log2(exact)))

    return _unary("T_ceil_log2", function, x)
