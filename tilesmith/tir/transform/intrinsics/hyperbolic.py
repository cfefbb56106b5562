"""Computes hyperbolic functions of float32 by arithmetic, for vector code.

Largest errors, in units in the last place, over dense samples against float64:

    sinh, cosh         2.5, 2.0    through exp; sinh by a polynomial of degree 9 for |x| <= 1
    asinh, acosh       3.5, 3.5    through log1p
    atanh              3.5         through log1p
"""

from __future__ import annotations

import math

from tilesmith.ir import Call, PrimExpr, Select
from tilesmith.ir import operators as ops
from tilesmith.tir.transform.intrinsics.float32 import (
    clamped,
    exponential,
    log1p,
    reduced_exponent,
    rule,
)
from tilesmith.tir.transform.intrinsics.lets import Formula

__all__ = ["HYPERBOLIC_RULES"]

# sinh(x) = x + x * z * P(z) for z = x * x, |x| <= 1
_SINH = (0.1666666716337204, 0.008333350531756878, 0.0001983606634894386, 2.817439735736116e-06)
_LARGE = 1e9  # from here on x * x + 1 is x * x
_LOG_2 = 0.6931471805599453
_SIGN = -0x80000000


def _magnitude(f: Formula, x: PrimExpr) -> PrimExpr:
    return f.name(Call(f.dtype, "tir.fabs", (x,)), "magnitude")


def _root(f: Formula, x: PrimExpr) -> PrimExpr:
    return Call(f.dtype, "tir.sqrt", (x,))


def _signed(f: Formula, value: PrimExpr, x: PrimExpr) -> PrimExpr:
    """Return a nonnegative value with the sign of `x`."""
    sign = ops.bitwise_and(f.bits(x), f.whole(_SIGN))
    return f.from_bits(ops.bitwise_or(f.bits(value), sign))


def _half_exponential(f: Formula, a: PrimExpr) -> PrimExpr:
    """Return exp(a) / 2, which stays finite for larger a than exp(a) does."""
    a = clamped(f, a, 0.0, 90.0)
    return f.name(exponential(f, *reduced_exponent(f, a, less=1)), "half")


def _cosh(f: Formula, x: PrimExpr) -> PrimExpr:
    half = _half_exponential(f, _magnitude(f, x))
    return half + f(0.25) / half


def _sinh(f: Formula, x: PrimExpr) -> PrimExpr:
    a = _magnitude(f, x)
    z = f.name(x * x, "z")
    near = x + x * z * f.polynomial(z, _SINH)
    half = _half_exponential(f, a)
    return Select(a <= f(1.0), near, _signed(f, f.name(half - f(0.25) / half, "far"), x))


def _asinh(f: Formula, x: PrimExpr) -> PrimExpr:
    a = _magnitude(f, x)
    large = f.name(a > f(_LARGE), "large")
    square = f.name(a * a, "square")
    near = a + square / (f(1.0) + _root(f, square + f(1.0)))
    value = log1p(f, f.name(Select(large, a, near), "w")) + Select(large, f(_LOG_2), f(0.0))
    return _signed(f, f.name(value, "value"), x)


def _acosh(f: Formula, x: PrimExpr) -> PrimExpr:
    large = f.name(x > f(_LARGE), "large")
    t = f.name(x - f(1.0), "t")
    near = t + _root(f, t + t + t * t)
    value = log1p(f, f.name(Select(large, x, near), "w")) + Select(large, f(_LOG_2), f(0.0))
    return Select(x < f(1.0), f(math.nan), f.name(value, "value"))


def _atanh(f: Formula, x: PrimExpr) -> PrimExpr:
    a = _magnitude(f, x)
    value = log1p(f, f.name((a + a) / (f(1.0) - a), "w")) * f(0.5)
    return _signed(f, f.name(value, "value"), x)


HYPERBOLIC_RULES = {
    "tir.sinh": rule(_sinh),
    "tir.cosh": rule(_cosh),
    "tir.asinh": rule(_asinh),
    "tir.acosh": rule(_acosh),
    "tir.atanh": rule(_atanh),
}
"""Rules by operator name, for floats of up to 32 bits."""
