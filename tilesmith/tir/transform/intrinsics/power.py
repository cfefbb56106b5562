"""Computes powers of float32 vectors by arithmetic: `exp2(y * log2(x))` in float64, correct to 0.6
ULP.

Zero, infinities, NaN and negative bases give what the C library gives. Scalars are left to it.
"""

from __future__ import annotations

import math

from tilesmith.ir import Call, Max, Min, PrimExpr, Select
from tilesmith.ir import operators as ops
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.transform.intrinsics.float32 import exponent_and_mantissa
from tilesmith.tir.transform.intrinsics.lets import Formula

__all__ = ["POWER_RULES"]

# log2(m) = s * P(s * s) for s = (m - 1) / (m + 1), sqrt(1/2) <= m <= sqrt(2)
_LOG2 = (2.8853900817778513, 0.9617966941134731, 0.577077942284317, 0.41220926321511947,
         0.319905177162126, 0.2829083661206212)  # fmt: skip
# exp2(r) = P(r) for |r| <= 1/2
_EXP2 = (0.9999999999997601, 0.6931471805465151, 0.2402265069888112, 0.05550410939339473,
         0.009618128542695725, 0.0013333452064381301, 0.00015403851872562192,
         1.5309736851173636e-05, 1.317582965692024e-06)  # fmt: skip
_ROUNDER = 6755399441055744.0  # 1.5 * 2 ** 52: what is added to it is rounded to a whole number
_ROUNDER_BITS = 0x4338000000000000


def _positive_power(f: Formula, a: PrimExpr, y: PrimExpr) -> PrimExpr:
    """Return `a ** y` for a positive finite `a`."""
    exponent, mantissa = exponent_and_mantissa(f, a)
    d = f.wide()
    m = d.name(ops.cast(d.dtype, mantissa), "m")
    s = d.name((m - d(1.0)) / (m + d(1.0)), "s")
    z = d.name(s * s, "z")
    logarithm = s * d.polynomial(z, _LOG2) + ops.cast(d.dtype, exponent)
    w = d.name(ops.cast(d.dtype, y) * logarithm, "w")
    w = d.name(Max(Min(w, d(200.0)), d(-200.0)), "w")
    shifted = d.name(w + d(_ROUNDER), "shifted")
    r = d.name(w - (shifted - d(_ROUNDER)), "r")
    power = d.bits(shifted) - d.whole(_ROUNDER_BITS - 1023)
    scale = d.from_bits(ops.shift_left(power, d.whole(52)))
    return f.name(ops.cast(f.dtype, d.polynomial(r, _EXP2) * scale), "power")


def _power(f: Formula, x: PrimExpr, y: PrimExpr) -> PrimExpr:
    a = f.name(Call(f.dtype, "tir.fabs", (x,)), "a")
    size = f.name(Call(f.dtype, "tir.fabs", (y,)), "size")
    zero, one, infinity = f(0.0), f(1.0), f(math.inf)
    is_regular = ops.logical_and(a > zero, a < infinity)
    value = _positive_power(f, f.name(Select(is_regular, a, one), "base"), y)
    # zero and infinity: the larger of the two where the sign of the exponent says so
    grows = f.name(ops.equal(a > one, y > zero), "grows")
    value = f.name(Select(is_regular, value, Select(grows, infinity, zero)), "value")
    value = f.name(Select(ops.equal(a, one), one, value), "value")  # also for infinite exponents
    # a negative base needs a whole exponent, and an odd one gives a negative result
    small = f.name(Min(size, f(16777216.0)), "small")  # above: whole and even
    whole = f.name(ops.cast(f.integer, small), "whole")
    is_whole = ops.equal(ops.cast(f.dtype, whole), small)
    is_odd = ops.not_equal(ops.bitwise_and(whole, f.whole(1)), f.whole(0))
    negative = f.name(f.bits(x) < f.whole(0), "negative")
    flips = ops.logical_and(ops.logical_and(negative, is_whole), is_odd)
    value = f.name(value * Select(flips, f(-1.0), one), "value")
    has_no_value = ops.logical_and(ops.logical_and(negative, is_regular), ops.logical_not(is_whole))
    value = f.name(Select(has_no_value, f(math.nan), value), "value")
    known = ops.logical_and(ops.equal(x, x), ops.equal(y, y))
    value = f.name(Select(known, value, x + y), "value")
    return Select(ops.logical_or(ops.equal(x, one), ops.equal(y, zero)), one, value)


def _rule(call: Call) -> PrimExpr | None:
    dtype = call.dtype
    if not dtype.is_float or dtype.bits > 32 or dtype.lanes == 1:
        return None
    f = Formula(DataType("float32").with_lanes(dtype.lanes))
    x, y = [f.name(ops.cast(f.dtype, arg), hint) for arg, hint in zip(call.args, "xy")]
    return ops.cast(dtype, f.result(_power(f, x, y)))


POWER_RULES = {"tir.pow": _rule}
"""Rules by operator name, for vectors of floats of up to 32 bits."""
