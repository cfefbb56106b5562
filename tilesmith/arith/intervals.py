"""Computes with intervals of integers; infinities are the floats of that name."""

from __future__ import annotations

import math

from tilesmith.runtime.dtype import DataType

INFINITY = math.inf

Interval = tuple[float, float]
"""Smallest and largest value: Python ints, or an infinity."""


def dtype_interval(dtype: DataType) -> Interval:
    """Returns the interval of the values of a dtype; int64 counts as unbounded."""
    found = _INTERVALS.get(dtype)
    if found is None:
        found = -INFINITY, INFINITY
        if dtype.is_bool:
            found = 0, 1
        elif dtype.is_integer and not (dtype.is_int and dtype.bits >= 64):
            found = dtype.element.min_value, dtype.element.max_value
        _INTERVALS[dtype] = found
    return found


_INTERVALS: dict[DataType, Interval] = {}


def floor_quotient(value: float, divisor: float) -> float:
    """Returns ``value // divisor`` for a positive divisor, infinities included."""
    if value in (INFINITY, -INFINITY):
        return value
    if divisor == INFINITY:
        return 0 if value >= 0 else -1
    return value // divisor


def trunc_quotient(value: float, divisor: float) -> float:
    """Divides by a positive divisor and rounds toward zero."""
    quotient = floor_quotient(abs(value), divisor)
    return quotient if value >= 0 else -quotient


def _product(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def product_interval(a: Interval, b: Interval) -> Interval:
    """Returns the interval of the products of members of two intervals."""
    ends = (_product(a[0], b[0]), _product(a[0], b[1]), _product(a[1], b[0]), _product(a[1], b[1]))
    return min(ends), max(ends)


def intersect(a: Interval, b: Interval) -> Interval:
    """Returns the intersection of two intervals; if it is empty (in unreachable code), the first
    interval.
    """
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a


def union(a: Interval, b: Interval) -> Interval:
    """Returns the smallest interval around both."""
    return min(a[0], b[0]), max(a[1], b[1])


def signed_divisors(divisor: Interval) -> list[Interval]:
    """Returns the parts of an interval of divisors below and above zero."""
    low, high = divisor
    parts = [(low, min(high, -1)), (max(low, 1), high)]
    return [part for part in parts if part[0] <= part[1]]


def trunc_quotient_interval(index: Interval, divisor: Interval) -> Interval:
    """Returns the interval of ``index / divisor``, rounded toward zero; the divisor is not zero."""
    result: Interval | None = None
    for low, high in signed_divisors(divisor):
        ends = [trunc_quotient(end, abs(by)) for end in index for by in (low, high)]
        part = min(ends), max(ends)
        if high < 0:
            part = -part[1], -part[0]
        result = part if result is None else union(result, part)
    return (-INFINITY, INFINITY) if result is None else result


def quotient_interval(index: Interval, divisor: Interval) -> Interval:
    """Returns the interval of ``index // divisor``; the divisor is not zero."""
    parts = signed_divisors(divisor)
    if not parts:
        return -INFINITY, INFINITY
    if parts[0][1] < 0:
        opposite = -index[1], -index[0]
        low, high = parts[0]
        result = quotient_interval(opposite, (-high, -low))
        return result if len(parts) == 1 else union(result, quotient_interval(index, parts[1]))
    low, high = parts[0]
    smallest = floor_quotient(index[0], high if index[0] >= 0 else low)
    largest = floor_quotient(index[1], low if index[1] >= 0 else high)
    return smallest, largest


def wrapped(dtype: DataType, low: float, high: float) -> Interval:
    """Returns the bounds of a sum that wraps around modulo two to the power of its bits."""
    limits = dtype_interval(dtype)
    if limits[0] <= low and high <= limits[1]:
        return low, high
    if dtype.bits < 64 and -INFINITY < low and high < INFINITY:
        turn = 1 << dtype.bits
        turns = (low - limits[0]) // turn
        if turns == (high - limits[0]) // turn:
            return low - turns * turn, high - turns * turn
    return limits


def scaled_down(low: float, high: float, scale: int) -> Interval:
    """Returns the integers ``x`` with ``low <= scale * x <= high``."""
    if scale < 0:
        low, high, scale = -high, -low, -scale
    smallest = low if low == -INFINITY else -(-low // scale)
    largest = high if high == INFINITY else high // scale
    return smallest, largest
