"""Computes sine, cosine, tangent and their inverses of float32 by arithmetic, for vector code.

Coefficients come from minimax fits of our own. Largest errors, in units in the last place, over
dense samples of the whole range against float64:

    sin, cos           1.5     reduced to |r| <= pi/4 in float64, degree 7 and 8
    tan                2.7     quotient of the two
    asin, acos         1.9     degree 11, through sqrt for |x| > 1/2
    atan               1.6     degree 19 on [0, 1]
    atan2              2.3     through atan of the smaller over the larger

Lanes beyond 1e5 send a vector's sines, cosines and tangents to the C library, lane by lane: rare,
and a reduction that serves them all would cost every vector three times as much. Scalars are left
to the library altogether.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilesmith.ir import Call, PrimExpr, Select, Shuffle, StringImm
from tilesmith.ir import operators as ops
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.transform.intrinsics.float32 import Function, nearest_integer, rule
from tilesmith.tir.transform.intrinsics.lets import Formula

__all__ = ["TRIGONOMETRIC_RULES"]

# sin(r) = r + r * z * P(z), cos(r) = 1 - z / 2 + z * z * P(z) for z = r * r, |r| <= pi / 4
_SIN = (-0.16666655242443085, 0.008332176133990288, -0.00019516974862199277)
_COS = (0.04166664555668831, -0.0013887364184483886, 2.4438088075839914e-05)
# asin(x) = x + x * z * P(z) for |x| <= 1/2
_ASIN = (0.16666753590106964, 0.07495241612195969, 0.04547710344195366, 0.024147585034370422,
         0.04221859574317932)  # fmt: skip
# atan(x) = x + x * z * P(z) for |x| <= 1
_ATAN = (-0.33333298563957214, 0.19998548924922943, -0.14264240860939026, 0.10952180624008179,
         -0.08403434604406357, 0.057957325130701065, -0.03117757849395275, 0.010914460755884647,
         -0.001793589093722403)  # fmt: skip

_LIMIT = 1e5  # up to here the nearest multiple of pi / 2 is found in float32
_HALF_PI_HIGH, _HALF_PI_LOW = 1.57079632673412561417, 6.07710050650619224932e-11  # 33 bits, rest
_HALF_PI, _HALF_PI_REST = 1.57079637050628662109375, -4.37113900018624283e-8  # float32, rest
_SIGN = -0x80000000


def _reduced(f: Formula, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Return the lowest bits of the number of the nearest multiple of pi/2, and the distance from
    it."""
    power, whole = nearest_integer(f, x * f(2 / math.pi))
    d = f.wide()
    number = d.name(ops.cast(d.dtype, whole), "number")
    r = ops.cast(d.dtype, x) - number * d(_HALF_PI_HIGH) - number * d(_HALF_PI_LOW)
    return power, f.name(ops.cast(f.dtype, r), "r")


def _sine_and_cosine(f: Formula, r: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    z = f.name(r * r, "z")
    sine = f.name(r + r * z * f.polynomial(z, _SIN), "sine")
    cosine = f.name(f(1.0) + (z * f(-0.5) + z * z * f.polynomial(z, _COS)), "cosine")
    return sine, cosine


def _is_odd(f: Formula, power: PrimExpr) -> PrimExpr:
    return ops.not_equal(ops.bitwise_and(power, f.whole(1)), f.whole(0))


def _with_sign(f: Formula, value: PrimExpr, sign: PrimExpr) -> PrimExpr:
    """Return a value whose sign is flipped where the highest bit of `sign` is set."""
    flipped = ops.bitwise_and(sign, f.whole(_SIGN))
    return f.from_bits(ops.bitwise_xor(f.bits(value), flipped))


def _turned(f: Formula, x: PrimExpr, quarter: int) -> PrimExpr:
    """Return sin(x + quarter * pi/2)."""
    power, r = _reduced(f, x)
    if quarter:
        power = f.name(power + f.whole(quarter), "turned")
    sine, cosine = _sine_and_cosine(f, r)
    value = f.name(Select(_is_odd(f, power), cosine, sine), "value")
    return _with_sign(f, value, ops.shift_left(power, f.whole(30)))


def _sin(f: Formula, x: PrimExpr) -> PrimExpr:
    return Select(ops.equal(x, f(0.0)), x, _turned(f, x, 0))  # minus zero stays


def _cos(f: Formula, x: PrimExpr) -> PrimExpr:
    return _turned(f, x, 1)


def _tan(f: Formula, x: PrimExpr) -> PrimExpr:
    power, r = _reduced(f, x)
    sine, cosine = _sine_and_cosine(f, r)
    odd = f.name(_is_odd(f, power), "odd")
    value = f.name(Select(odd, cosine, sine) / Select(odd, sine, cosine), "value")
    signed = _with_sign(f, value, ops.shift_left(power, f.whole(31)))
    return Select(ops.equal(x, f(0.0)), x, signed)


def _or_library(name: str, function: Function) -> Function:
    """Return a function that calls the C library lane by lane if any lane is outside the range of
    the formula.
    """

    def formula(f: Formula, x: PrimExpr) -> PrimExpr:
        lanes = f.dtype.lanes
        value = f.name(function(f, x), "near")
        magnitude = Call(f.dtype, "tir.fabs", (x,))
        far = magnitude > f(_LIMIT)
        some = Call("bool", "tir.call_llvm_pure_intrin",
                    (StringImm(f"llvm.vector.reduce.or.v{lanes}i1"), far))  # fmt: skip
        asked = [
            Call("float32", "tir.call_pure_extern", (StringImm(name), Shuffle([x], [lane])))
            for lane in range(lanes)
        ]
        library = Shuffle(asked, list(range(lanes)))
        return Call(f.dtype, "tir.if_then_else", (some, library, value))

    return formula


def _vectors_only(function: Function) -> Callable[[Call], PrimExpr | None]:
    lower = rule(function)
    return lambda call: lower(call) if call.dtype.lanes > 1 else None


def _atan_of_unit(f: Formula, t: PrimExpr) -> PrimExpr:
    """Return the arc tangent of a number from 0 to 1."""
    z = f.name(t * t, "z")
    return f.name(t + t * z * f.polynomial(z, _ATAN), "atan")


def _complement(f: Formula, value: PrimExpr) -> PrimExpr:
    """Return pi/2 minus a value."""
    return (f(_HALF_PI) - value) + f(_HALF_PI_REST)


def _magnitude(f: Formula, x: PrimExpr) -> PrimExpr:
    return f.name(Call(f.dtype, "tir.fabs", (x,)), "magnitude")


def _atan(f: Formula, x: PrimExpr) -> PrimExpr:
    a = _magnitude(f, x)
    large = f.name(a > f(1.0), "large")
    part = _atan_of_unit(f, f.name(Select(large, f(1.0) / a, a), "t"))
    value = f.name(Select(large, _complement(f, part), part), "value")
    return _with_sign(f, value, f.bits(x))


def _atan2(f: Formula, y: PrimExpr, x: PrimExpr) -> PrimExpr:
    a, b = _magnitude(f, x), _magnitude(f, y)
    steep = f.name(b > a, "steep")
    small, large = f.name(Select(steep, a, b), "small"), f.name(Select(steep, b, a), "large")
    ratio = Select(ops.equal(small, f(math.inf)), f(1.0), small / large)
    ratio = Select(ops.equal(large, f(0.0)), f(0.0), ratio)
    part = _atan_of_unit(f, f.name(ratio, "ratio"))
    part = f.name(Select(steep, _complement(f, part), part), "part")
    left = f.bits(x) < f.whole(0)
    behind = (f(2 * _HALF_PI) - part) + f(2 * _HALF_PI_REST)
    value = _with_sign(f, f.name(Select(left, behind, part), "value"), f.bits(y))
    known = ops.logical_and(ops.equal(x, x), ops.equal(y, y))
    return Select(known, value, x + y)


def _asin_parts(f: Formula, x: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return whether |x| > 1/2, and the arc sine of sqrt((1 - |x|) / 2) in that case, else of
    |x|."""
    a = _magnitude(f, x)
    large = f.name(a > f(0.5), "large")
    z = f.name(Select(large, (f(1.0) - a) * f(0.5), a * a), "z")
    s = f.name(Select(large, Call(f.dtype, "tir.sqrt", (z,)), a), "s")
    return a, large, f.name(s + s * z * f.polynomial(z, _ASIN), "part")


def _asin(f: Formula, x: PrimExpr) -> PrimExpr:
    _, large, part = _asin_parts(f, x)
    value = f.name(Select(large, _complement(f, part + part), part), "value")
    return _with_sign(f, value, f.bits(x))


def _acos(f: Formula, x: PrimExpr) -> PrimExpr:
    _, large, part = _asin_parts(f, x)
    double = f.name(part + part, "double")
    behind = (f(2 * _HALF_PI) - double) + f(2 * _HALF_PI_REST)
    outer = Select(x < f(0.0), behind, double)
    return Select(large, outer, _complement(f, _with_sign(f, part, f.bits(x))))


def _atan2_rule(call: Call) -> PrimExpr | None:
    dtype = call.dtype
    if not dtype.is_float or dtype.bits > 32:
        return None
    f = Formula(DataType("float32").with_lanes(dtype.lanes))
    y, x = [f.name(ops.cast(f.dtype, arg), hint) for arg, hint in zip(call.args, "yx")]
    return ops.cast(dtype, f.result(_atan2(f, y, x)))


TRIGONOMETRIC_RULES = {
    "tir.sin": _vectors_only(_or_library("sinf", _sin)),
    "tir.cos": _vectors_only(_or_library("cosf", _cos)),
    "tir.tan": _vectors_only(_or_library("tanf", _tan)),
    "tir.asin": rule(_asin),
    "tir.acos": rule(_acos),
    "tir.atan": rule(_atan),
    "tir.atan2": _atan2_rule,
}
"""Rules by operator name, for floats of up to 32 bits."""
