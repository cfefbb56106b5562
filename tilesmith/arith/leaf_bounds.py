"""Bounds opaque expressions: choices, casts, calls, and divisions that round toward zero.

Each rule is given the function that bounds the operands of the expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.arith.forms import is_index
from tilesmith.arith.intervals import (
    INFINITY,
    Interval,
    dtype_interval,
    product_interval,
    quotient_interval,
    trunc_quotient_interval,
    union,
)
from tilesmith.ir import Call, Cast, Div, FloorDiv, FloorMod, Mod, PrimExpr, Select
from tilesmith.ir.queries import called_name, checked_size

BoundsOf = Callable[[PrimExpr], Interval]
"""Gives the bounds of an operand."""

_WHOLE = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Whole numbers of up to so many bits are exact in a float."""


def _select_bounds(of: BoundsOf, expr: Select) -> Interval:
    return union(of(expr.true_value), of(expr.false_value))


def _cast_bounds(of: BoundsOf, expr: Cast) -> Interval:
    value = expr.value
    if value.dtype.is_float and isinstance(value, Cast):  # to a float and back
        value, digits = value.value, _WHOLE.get(value.dtype, 0)
        if value.dtype.is_integer:
            inner = of(value)
            if max(abs(inner[0]), abs(inner[1])) <= 1 << digits:
                return inner
    if not (expr.value.dtype.is_integer or expr.value.dtype.is_bool):
        return -INFINITY, INFINITY
    inner, limits = of(expr.value), dtype_interval(expr.dtype)
    if not (expr.dtype.is_int or expr.dtype.is_uint):
        return limits
    kept = expr.value.dtype.is_int and expr.dtype.is_int
    if not (kept and expr.value.dtype.bits <= expr.dtype.bits):
        low, high = expr.dtype.min_value, expr.dtype.max_value
        if inner[0] < low or high < inner[1]:
            return limits
    return inner


def _trunc_div_bounds(of: BoundsOf, expr: Div) -> Interval:
    return _without_wrap(expr, trunc_quotient_interval(of(expr.a), of(expr.b)))


def _floor_div_bounds(of: BoundsOf, expr: FloorDiv) -> Interval:
    return _without_wrap(expr, quotient_interval(of(expr.a), of(expr.b)))


def _without_wrap(expr: PrimExpr, interval: Interval) -> Interval:
    """Return the bounds of a quotient; none where it may wrap around, as -128 / -1 of int8 does."""
    if is_index(expr.dtype) or interval[1] <= dtype_interval(expr.dtype)[1]:
        return interval
    return -INFINITY, INFINITY


def _floor_mod_bounds(of: BoundsOf, expr: FloorMod) -> Interval:
    """Bound ``a % b`` where nothing is negative, as of unsigned integers."""
    index, divisor = of(expr.a), of(expr.b)
    if index[0] < 0 or divisor[0] < 0:
        return -INFINITY, INFINITY
    return 0, min(index[1], max(divisor[1] - 1, 0))


def _trunc_mod_bounds(of: BoundsOf, expr: Mod) -> Interval:
    low, high = of(expr.b)
    largest = max(abs(low), abs(high)) - 1
    if largest < 0:
        return -INFINITY, INFINITY
    index = of(expr.a)
    smallest = 0 if index[0] >= 0 else max(-largest, index[0])
    return smallest, 0 if index[1] <= 0 else min(largest, index[1])


def _call_bounds(of: BoundsOf, expr: Call) -> Interval:
    rule = _CALL_BOUNDS.get(called_name(expr))
    return (-INFINITY, INFINITY) if rule is None else rule(of, expr.args)


def _choice_bounds(of: BoundsOf, args: tuple[PrimExpr, ...]) -> Interval:
    return union(of(args[1]), of(args[2]))


def _annotation_bounds(of: BoundsOf, args: tuple[PrimExpr, ...]) -> Interval:
    return of(args[0])


def _checked_bounds(of: BoundsOf, args: tuple[PrimExpr, ...]) -> Interval:
    """Bound a value by the condition ``0 <= value and value < size`` that holds for it."""
    low, high = of(args[0])
    size = checked_size(args[0], args[1])
    return (low, high) if size is None else (max(low, 0), min(high, max(of(size)[1] - 1, 0)))


def _bitwise_and_bounds(of: BoundsOf, args: tuple[PrimExpr, ...]) -> Interval:
    a, b = of(args[0]), of(args[1])
    if a[0] >= 0 and b[0] >= 0:
        return 0, min(a[1], b[1])
    if b[0] >= 0:
        return 0, b[1]
    return (0, a[1]) if a[0] >= 0 else (-INFINITY, INFINITY)


def _bitwise_or_bounds(of: BoundsOf, args: tuple[PrimExpr, ...]) -> Interval:
    """Bounds ``a | b`` and ``a ^ b``: no bit is above those of both, if neither is negative."""
    a, b = of(args[0]), of(args[1])
    if a[0] < 0 or b[0] < 0 or a[1] == INFINITY or b[1] == INFINITY:
        return -INFINITY, INFINITY
    return 0, (1 << int(max(a[1], b[1])).bit_length()) - 1


def _bitwise_not_bounds(of: BoundsOf, args: tuple[PrimExpr, ...]) -> Interval:
    if not args[0].dtype.is_int:
        return -INFINITY, INFINITY
    low, high = of(args[0])
    return -1 - high, -1 - low


def _vscale_bounds(of: BoundsOf, args: tuple[PrimExpr, ...]) -> Interval:
    """Bound the length of a scalable register, in units of 128 bits: at most 2048 bits."""
    return 1, 16


def _count_bounds(of: BoundsOf, args: tuple[PrimExpr, ...]) -> Interval:
    return 0, args[0].dtype.bits


def _shift_right_bounds(of: BoundsOf, args: tuple[PrimExpr, ...]) -> Interval:
    by = of(args[1])
    if by[0] < 0 or by[1] > 63:
        return -INFINITY, INFINITY
    return quotient_interval(of(args[0]), (1 << int(by[0]), 1 << int(by[1])))


def _shift_left_bounds(of: BoundsOf, args: tuple[PrimExpr, ...]) -> Interval:
    by = of(args[1])
    if by[0] < 0 or by[1] > 63 or not is_index(args[0].dtype):
        return -INFINITY, INFINITY
    return product_interval(of(args[0]), (1 << int(by[0]), 1 << int(by[1])))


LEAF_BOUNDS: dict[type, Callable[[BoundsOf, Any], Interval]] = {
    Select: _select_bounds,
    Cast: _cast_bounds,
    Div: _trunc_div_bounds,
    FloorDiv: _floor_div_bounds,
    FloorMod: _floor_mod_bounds,
    Mod: _trunc_mod_bounds,
    Call: _call_bounds,
}
"""Class of an expression → the rule that bounds it."""

_CALL_BOUNDS: dict[str, Callable[[BoundsOf, tuple[PrimExpr, ...]], Interval]] = {
    "tir.if_then_else": _choice_bounds,
    "tir.likely": _annotation_bounds,
    "tir.checked": _checked_bounds,
    "tir.bitwise_and": _bitwise_and_bounds,
    "tir.bitwise_or": _bitwise_or_bounds,
    "tir.bitwise_xor": _bitwise_or_bounds,
    "tir.bitwise_not": _bitwise_not_bounds,
    "tir.vscale": _vscale_bounds,
    "tir.popcount": _count_bounds,
    "tir.clz": _count_bounds,
    "tir.shift_right": _shift_right_bounds,
    "tir.shift_left": _shift_left_bounds,
}
