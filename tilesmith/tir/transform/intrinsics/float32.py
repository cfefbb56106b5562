"""Computes mathematical functions of float32 by arithmetic, so that vector code calls no library.

Each is written with additions, multiplications, comparisons and bits only; the back end may fuse
a multiplication with an addition, which makes the results better, never worse. Coefficients come
from minimax fits (weighted least squares, Lawson's iteration) of our own. Largest errors, in units
in the last place, over dense samples of the whole range against float64:

    exp, exp2, exp10   1.0, 1.0, 1.3   Cody-Waite reduction, degree 6; exp of min(x, 0) is shorter
    exp (AVX-512)      0.9                the same with a table of 16 powers of two, degree 3
    log, log2, log10   0.9, 1.6, 1.6   reduction to [sqrt(1/2), sqrt(2)], degree 10
    log1p              2.0             through log, with the rounding of 1 + x made good
    tanh               5.3             rational 13/6
    erf                6.0             rational 13/8
    sigmoid            2.5             exp as a quotient of degree 4; through exp on AVX-512

Infinities, NaN and zeros give what the C library gives. float16 and bfloat16 go through float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilesmith.ir import (
    Broadcast,
    Call,
    Cast,
    FloatImm,
    Max,
    Min,
    PrimExpr,
    Select,
    Shuffle,
    StringImm,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.transform.intrinsics.lets import Formula

__all__ = [
    "FLOAT32_RULES", "Function", "SCALING_RULES", "clamped", "exponent_and_mantissa",
    "exponential", "log1p", "nearest_integer", "reduced_exponent", "rule",
]  # fmt: skip

Function = Callable[[Formula, PrimExpr], PrimExpr]
Rule = Callable[[Call], PrimExpr | None]

# exp(r) = 1 + r + r * r * P(r) for |r| <= log(2) / 2
_EXP = (0.4999999403953552, 0.16666515171527863, 0.04166845604777336, 0.008369418792426586,
        0.0013813143596053123)  # fmt: skip
# exp(r) = (P(r * r) + r) / (P(r * r) - r) for |r| <= log(2) / 2
_EXP_QUOTIENT = (2.0, 0.166666179895401, -0.0027659637853503227)
# exp(r) = 1 + r * P(r) for |r| <= log(2) / 32
_EXP_NEAR_ZERO = (1.0, 0.5000162720680237, 0.1666703224182129)
# log(1 + f) = f - f * f / 2 + f * f * f * P(f) for sqrt(1/2) <= 1 + f <= sqrt(2)
_LOG = (0.3333333134651184, -0.2500081956386566, 0.20001226663589478, -0.16623356938362122,
        0.14201760292053223, -0.13160189986228943, 0.12761563062667847,
        -0.07634460180997849)  # fmt: skip
# tanh(x) = x * P(x * x) / Q(x * x) for |x| <= 7.905
_TANH_P = (1.0, 0.13127949833869934, 0.003153440775349736, 1.1687237929436378e-05,
           -2.251516129092579e-08, 6.477019615092061e-11, -1.1906369445056908e-13)  # fmt: skip
_TANH_Q = (1.0, 0.46461281180381775, 0.02469107136130333, 0.00026190240168944)
# erf(x) = x * P(x * x) / Q(x * x) for |x| <= 4
_ERF_P = (1.1283791065216064, 0.20709964632987976, 0.05152131989598274, 0.003989329561591148,
          0.0001472458679927513, -1.941945129146916e-06, 1.910795432991108e-08)  # fmt: skip
_ERF_Q = (1.0, 0.516868531703949, 0.11795999109745026, 0.014955712482333183,
          0.0010207743616774678)  # fmt: skip

_ROUNDER = 12582912.0  # 1.5 * 2 ** 23: what is added to it is rounded to a whole number
_ROUNDER_BITS = 0x4B400000
_SCALED_LANES = 16  # of the instruction that multiplies by powers of two
_BIAS = 127  # of the exponent of a float32
_SUBNORMAL_POWERS = 24  # powers of two from the least normal number down to half the least of all
_LEAST_EXPONENT = -104.5  # exp of it is zero
_LOG2_E = 1.4426950408889634
_LOG2_HIGH, _LOG2_LOW = 0.693359375, -2.12194440e-4  # log(2); the first has 9 bits
_LOG10_2_HIGH, _LOG10_2_LOW = 0.30078125, 0.000248745663981195  # log10(2)


def clamped(f: Formula, x: PrimExpr, low: float, high: float) -> PrimExpr:
    """Return ``x`` clamped to bounds. NaN is kept, because Min and Max return their first operand
    then."""
    return f.name(Max(Min(x, f(high)), f(low)), "x")


def _scaled(f: Formula, value: PrimExpr, bits: PrimExpr, whole: PrimExpr | None = None) -> PrimExpr:
    """Return ``value * 2 ** n`` on a machine that has an instruction for it; `bits` and `whole` are
    those of `nearest_integer`.
    """
    if whole is not None and f.dtype.lanes == _SCALED_LANES:
        name = StringImm("llvm.x86.avx512.mask.scalef.ps.512")
        every, current = const(-1, "int16"), const(4, "int32")  # lanes; mode of rounding
        return Call(f.dtype, "tir.call_llvm_pure_intrin",
                    (name, value, whole, value, every, current))  # fmt: skip
    return Call(f.dtype, "tir.ldexp", (value, bits - f.whole(_ROUNDER_BITS)))


def nearest_integer(f: Formula, value: PrimExpr, more: int = 0) -> tuple[PrimExpr, PrimExpr]:
    """Return the integer n nearest to a moderate value: an integer whose lowest bits are those of
    ``n + more``, and n as a float."""
    rounder = f(_ROUNDER + more)
    shifted = f.name(value + rounder, "shifted")
    return f.name(f.bits(shifted), "bits"), f.name(shifted - rounder, "whole")


def _power_of_two(f: Formula, biased: PrimExpr) -> PrimExpr:
    """Return ``2 ** (biased - 127)`` for 1 to 254 in the lowest bits, infinity for 255."""
    return f.from_bits(ops.shift_left(biased, f.whole(23)))


def _biases(f: Formula) -> int:
    """Return what `exponential` wants added to its integer: the biases of two powers of two."""
    return 0 if f.scales else 2 * _BIAS


def exponential(f: Formula, r: PrimExpr, bits: PrimExpr, whole: PrimExpr) -> PrimExpr:
    """Return ``exp(r) * 2 ** n`` for a small ``r`` and n from -252 to 254, as `reduced_exponent`
    gives them.

    Two powers of two scale it: the result may be subnormal or infinite although neither is. Their
    exponents, n halved and rounded down and up, have their biases by the one that n has.
    """
    if f.scales:  # a machine with fused multiply-adds, too
        return _scaled(f, f.name(f.polynomial(r, (1.0, 1.0, *_EXP)), "e"), bits, whole)
    half = f.name(ops.shift_right(bits, f.whole(1)), "half")
    first = f.name(_power_of_two(f, half), "first")
    return _times_exp(f, r, first) * _power_of_two(f, bits - half)


def _times_exp(f: Formula, r: PrimExpr, power: PrimExpr) -> PrimExpr:
    """Return ``power * exp(r)`` for a power of two and a small ``r``."""
    square = f.name(r * r, "square")
    rest = f.name(f.polynomial_in_pairs(r, square, _EXP) * square + r, "rest")  # exp(r) - 1
    return f.name(rest * power + power, "e")


def reduced_exponent(f: Formula, x: PrimExpr, less: int = 0) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return arguments with which `exponential` gives ``exp(x) / 2 ** less``: a remainder and an
    integer in two forms."""
    return _reduced(f, x, _biases(f) - less)


def _reduced(f: Formula, x: PrimExpr, more: int) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return r, |r| at most about ``log(2) / 2``, and n as `nearest_integer` gives it, with
    ``x = r + n * log(2)``."""
    bits, whole = nearest_integer(f, x * f(_LOG2_E), more)
    r = f.name(x - whole * f(_LOG2_HIGH), "r")
    return f.name(r - whole * f(_LOG2_LOW), "r"), bits, whole


def _exp(f: Formula, x: PrimExpr) -> PrimExpr:
    return _exp_in_range(f, clamped(f, x, _LEAST_EXPONENT, 89.0))


def _exp_in_range(f: Formula, x: PrimExpr) -> PrimExpr:
    if f.scales and f.dtype.lanes == _SCALED_LANES:
        return _exp_by_table(f, x)
    return exponential(f, *reduced_exponent(f, x))


def _exp_of_nonpositive(f: Formula, x: PrimExpr) -> PrimExpr:
    """Return exp of what is not positive. One power of two scales it to 2 ** 24 times the result,
    which may be subnormal."""
    x = f.name(Max(x, f(_LEAST_EXPONENT)), "x")
    if f.scales:
        return _exp_in_range(f, x)
    r, bits, _ = _reduced(f, x, _BIAS + _SUBNORMAL_POWERS)
    power = f.name(_power_of_two(f, bits), "power")
    return _times_exp(f, r, power) * f(2.0**-_SUBNORMAL_POWERS)


def _exp_by_table(f: Formula, x: PrimExpr) -> PrimExpr:
    """Return ``2 ** n * exp(r)`` with ``x = r + n * log(2)``, n a multiple of 1/16: the whole part
    of n scales a power of two that its fraction, the lowest bits of the rounded sum, picks from the
    lanes of a vector. So |r| is small, and the polynomial short.
    """
    shifted = f.name(x * f(_LOG2_E) + f(_ROUNDER / _SCALED_LANES), "shifted")
    scale = f.name(shifted - f(_ROUNDER / _SCALED_LANES), "scale")
    r = f.name(x - scale * f(_LOG2_HIGH), "r")
    r = f.name(r - scale * f(_LOG2_LOW), "r")
    powers = [const(2.0 ** (place / _SCALED_LANES), "float32") for place in range(_SCALED_LANES)]
    table = Shuffle(powers, list(range(_SCALED_LANES)))
    name = StringImm("llvm.x86.avx512.permvar.sf.512")
    picked = Call(f.dtype, "tir.call_llvm_pure_intrin", (name, table, f.bits(shifted)))
    power = f.name(picked, "power")
    value = f.name(power + power * (r * f.polynomial(r, _EXP_NEAR_ZERO)), "e")
    return _scaled(f, value, f.bits(shifted), scale)


def _exp2(f: Formula, x: PrimExpr) -> PrimExpr:
    x = clamped(f, x, -151.0, 129.0)
    bits, whole = nearest_integer(f, x, _biases(f))
    return exponential(f, f.name((x - whole) * f(0.6931471805599453), "r"), bits, whole)


def _exp10(f: Formula, x: PrimExpr) -> PrimExpr:
    x = clamped(f, x, -45.5, 39.0)
    bits, whole = nearest_integer(f, x * f(3.321928094887362), _biases(f))
    r = f.name(x - whole * f(_LOG10_2_HIGH), "r")
    r = f.name(r - whole * f(_LOG10_2_LOW), "r")
    return exponential(f, f.name(r * f(2.302585092994046), "r"), bits, whole)


def exponent_and_mantissa(f: Formula, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return e (int32) and m with ``x = 2 ** e * m``, ``sqrt(1/2) <= m <= sqrt(2)``, for finite x >
    0."""
    tiny = f.name(x < f(1.1754943508222875e-38), "tiny")  # subnormal: scaled by 2 ** 23
    bits = f.name(f.bits(Select(tiny, x * f(8388608.0), x)), "bits")
    # the difference to sqrt(1/2) carries into the exponent where the mantissa is above it
    exponent = f.name(ops.shift_right(bits - f.whole(0x3F3504F3), f.whole(23)), "exponent")
    mantissa = f.from_bits(bits - ops.shift_left(exponent, f.whole(23)))
    return exponent - Select(tiny, f.whole(23), f.whole(0)), mantissa


def _log_parts(f: Formula, x: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return exponent e (as a float), f and ``log(1 + f) - f`` with ``x = 2 ** e * (1 + f)``."""
    exponent, mantissa = exponent_and_mantissa(f, x)
    part = f.name(mantissa - f(1.0), "part")
    square = f.name(part * part, "square")
    rest = f.polynomial(part, _LOG) * part * square
    number = f.name(Cast(f.dtype, exponent), "number")
    return number, part, f.name(square * f(-0.5) + rest, "rest")


def _log_specials(f: Formula, x: PrimExpr, value: PrimExpr) -> PrimExpr:
    """Replace the logarithm where ``x`` is zero, negative, infinite or NaN."""
    value = Select(x < f(math.inf), value, x)  # infinity and NaN
    value = Select(x > f(0.0), value, Select(x < f(0.0), f(math.nan), value))
    return Select(ops.equal(x, f(0.0)), f(-math.inf), value)


def _log(f: Formula, x: PrimExpr) -> PrimExpr:
    x = f.name(x, "x")
    number, part, rest = _log_parts(f, x)
    value = number * f(_LOG2_HIGH) + (part + (number * f(_LOG2_LOW) + rest))
    return _log_specials(f, x, f.name(value, "log"))


def _log2(f: Formula, x: PrimExpr) -> PrimExpr:
    x = f.name(x, "x")
    number, part, rest = _log_parts(f, x)
    # log2(e) = 1.4375 + 0.0051950408889634: the product with the high part of `part` is exact
    high = f.name(f.from_bits(ops.bitwise_and(f.bits(part), f.whole(-0x1000))), "high")
    low = f.name(part - high, "low")
    value = high * f(1.4375) + ((low + rest) * f(1.4426950408889634) + high * f(0.0051950408889634))
    return _log_specials(f, x, f.name(number + value, "log"))


def _log10(f: Formula, x: PrimExpr) -> PrimExpr:
    x = f.name(x, "x")
    number, part, rest = _log_parts(f, x)
    natural = part + rest
    low = number * f(_LOG10_2_LOW) + natural * f(0.4342944819032518)
    return _log_specials(f, x, f.name(number * f(_LOG10_2_HIGH) + low, "log"))


def log1p(f: Formula, x: PrimExpr) -> PrimExpr:
    """Return ``log(1 + x)``; minus infinity at -1, NaN below."""
    x = f.name(x, "x")
    u = f.name(x + f(1.0), "u")
    error = f.name(x - (u - f(1.0)), "error")
    value = _log(f, u) + error / u
    inside = ops.logical_and(u > f(0.0), u < f(math.inf))
    return Select(inside, Select(ops.equal(u, f(1.0)), x, f.name(value, "log")), _log(f, u))


def _rational(
    f: Formula, x: PrimExpr, limit: float, above: tuple[float, ...], below: tuple[float, ...]
) -> PrimExpr:
    """Return an odd function that tends to one, as a quotient of polynomials."""
    x = clamped(f, x, -limit, limit)
    square = f.name(x * x, "square")
    value = x * f.polynomial(square, above) / f.polynomial(square, below)
    return Max(Min(value, f(1.0)), f(-1.0))


def _tanh(f: Formula, x: PrimExpr) -> PrimExpr:
    return _rational(f, x, 7.905, _TANH_P, _TANH_Q)


def _erf(f: Formula, x: PrimExpr) -> PrimExpr:
    return _rational(f, x, 4.0, _ERF_P, _ERF_Q)


def _sigmoid(f: Formula, x: PrimExpr) -> PrimExpr:
    """Return ``1 / (1 + exp(-x))``. With ``exp(-x) = 2 ** n * above / below`` that is
    ``below / (below + 2 ** n * above)``: one division, and a quotient needs few coefficients.
    """
    if f.scales:
        return f(1.0) / (f(1.0) + _exp(f, f(0.0) - x))
    x = clamped(f, x, -89.0, 86.0)  # from here on zero, because 2 ** 128 is infinite, and one
    bits, whole = nearest_integer(f, x * f(-_LOG2_E), _BIAS)
    r = f.name(whole * f(-_LOG2_HIGH) - x, "r")
    r = f.name(r - whole * f(_LOG2_LOW), "r")
    mean = f.name(f.polynomial(f.name(r * r, "square"), _EXP_QUOTIENT), "mean")
    below = f.name(mean - r, "below")
    return below / ((mean + r) * _power_of_two(f, bits) + below)


def rule(function: Function, scales: bool = False) -> Rule:
    """Return the rule for calls with one argument, whose formula is `function`."""

    def lower(call: Call) -> PrimExpr | None:
        dtype, arg = call.dtype, call.args[0]
        if not dtype.is_float or dtype.bits > 32 or arg.dtype is not dtype:
            return None
        wide = DataType("float32").with_lanes(dtype.lanes)
        formula = Formula(wide, scales)
        x = formula.name(ops.cast(wide, arg), "x")
        return ops.cast(dtype, formula.result(function(formula, x)))

    return lower


def _exp_rule(scales: bool) -> Rule:
    """Return the rule for exp, which sees bounds of its argument."""
    of_any, of_nonpositive = rule(_exp, scales), rule(_exp_of_nonpositive, scales)
    return lambda call: (of_nonpositive if _is_nonpositive(call.args[0]) else of_any)(call)


def _is_nonpositive(value: PrimExpr) -> bool:
    """Return whether a value is ``min(…, 0)``: not positive, or NaN."""
    if not isinstance(value, Min):
        return False
    bound = value.b.value if isinstance(value.b, Broadcast) else value.b
    return isinstance(bound, FloatImm) and bound.value <= 0


_THROUGH_EXP: dict[str, Function] = {
    "tir.exp2": _exp2,
    "tir.exp10": _exp10,
    "tir.sigmoid": _sigmoid,
}
FLOAT32_RULES = {"tir.exp": _exp_rule(scales=False)} | {
    name: rule(function)
    for name, function in {
        **_THROUGH_EXP,
        "tir.log": _log,
        "tir.log2": _log2,
        "tir.log10": _log10,
        "tir.log1p": log1p,
        "tir.tanh": _tanh,
        "tir.erf": _erf,
    }.items()
}
"""Rules by operator name, for floats of up to 32 bits."""
SCALING_RULES = {"tir.exp": _exp_rule(scales=True)} | {
    name: rule(function, scales=True) for name, function in _THROUGH_EXP.items()
}
"""Rules for machines that multiply vectors by powers of two in one instruction (AVX-512)."""
