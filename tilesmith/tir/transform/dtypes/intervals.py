"""Constant bounds of integer expressions, for the question how many bits they need."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    Add,
    Broadcast,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
)
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType

__all__ = ["Interval", "Intervals", "holds", "of_loop", "of_operation"]

Interval = tuple[int, int]


def _union(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _corners(a: Interval, b: Interval, function: Any) -> Interval:
    values = [function(x, y) for x in a for y in b]
    return min(values), max(values)


def _truncated(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


def _remainder(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)


def _truncated_remainder(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    return (0 if a[0] >= 0 else 1 - b[1], 0 if a[1] <= 0 else b[1] - 1)


_RULES: dict[type, Any] = {
    Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    Mul: lambda a, b: _corners(a, b, lambda x, y: x * y),
    Min: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    Max: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    FloorDiv: lambda a, b: _corners(a, b, lambda x, y: x // y) if b[0] > 0 else None,
    FloorMod: _remainder,
    Div: lambda a, b: _corners(a, b, _truncated) if b[0] > 0 else None,
    Mod: _truncated_remainder,
}


def of_operation(kind: type, a: Interval | None, b: Interval | None) -> Interval | None:
    """Return the bounds of an operation on bounded operands."""
    found: Interval | None = None if a is None or b is None else _RULES[kind](a, b)
    return found


def of_loop(first: Interval | None, count: Interval | None) -> Interval | None:
    """Return the bounds of a loop variable from those of the loop's begin and extent."""
    if first is None or count is None:
        return None
    return first[0], max(first[0], first[1] + count[1] - 1)


def holds(dtype: DataType, interval: Interval) -> bool:
    """Return whether an integer type has all values of an interval."""
    return dtype.min_value <= interval[0] and interval[1] <= dtype.max_value


class Intervals:
    """Bounds expressions of variables whose ranges are known."""

    def __init__(self, bits: int) -> None:
        self.low, self.high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        self.ranges: dict[Var, Interval] = {}
        self.known: dict[int, tuple[PrimExpr, Interval | None]] = {}

    def fits(self, interval: Interval | None) -> bool:
        """Return whether all values of an interval have ``bits`` bits."""
        return interval is not None and self.low <= interval[0] and interval[1] <= self.high

    def of(self, expr: PrimExpr) -> Interval | None:
        """Return the bounds of an integer expression (of all its lanes)."""
        found = self.known.get(id(expr))
        if found is None:
            found = self.known[id(expr)] = (expr, self.computed(expr))
        return found[1]

    def computed(self, expr: PrimExpr) -> Interval | None:
        if isinstance(expr, IntImm):
            return expr.value, expr.value
        if isinstance(expr, Var):
            return self.ranges.get(expr)
        if not expr.dtype.is_int:
            return None
        found = self.combined(expr)
        if found is None or holds(expr.dtype, found):
            return found
        # a cast cuts bits off, and arithmetic of 8 or 16 bits wraps around; that of wider types
        # is assumed not to, so that its bounds say which indices are large
        return None if isinstance(expr, Cast) or expr.dtype.bits < 32 else found

    def combined(self, expr: PrimExpr) -> Interval | None:
        """Return the bounds of an expression computed without wrapping around."""
        if isinstance(expr, (Cast, Broadcast)):
            return self.of(expr.value)
        if isinstance(expr, Ramp):
            return self.spread(expr)
        rule = _RULES.get(expr.__class__)
        if rule is not None:
            a, b = self.of(expr.a), self.of(expr.b)  # type: ignore[attr-defined]
            return None if a is None or b is None else rule(a, b)
        if isinstance(expr, Select):
            return _union(self.of(expr.true_value), self.of(expr.false_value))
        if is_call(expr, "tir.if_then_else"):
            return _union(self.of(expr.args[1]), self.of(expr.args[2]))
        return None

    def spread(self, ramp: Ramp) -> Interval | None:
        base, stride = self.of(ramp.base), self.of(ramp.stride)
        if base is None or stride is None:
            return None
        reach = _corners(stride, (0, ramp.lanes - 1), lambda x, y: x * y)
        return base[0] + reach[0], base[1] + reach[1]

    def learn(self, var: Var, interval: Interval | None) -> None:
        """Record the bounds of a variable; None where they are unknown."""
        known = self.ranges.pop(var, interval)
        if known != interval:
            self.known.clear()  # bounds of what mentions the variable were for another binding
        if interval is not None:
            self.ranges[var] = interval
