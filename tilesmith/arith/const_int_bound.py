"""Defines the constant bounds of an expression, the result of `Analyzer.const_int_bound`."""

from __future__ import annotations

from tilesmith.arith.intervals import INFINITY, Interval

__all__ = ["ConstIntBound"]


class ConstIntBound:
    """Stands for the closed interval ``[min_value, max_value]``; ``POS_INF`` and ``NEG_INF`` stand
    for a missing bound.
    """

    POS_INF = (1 << 63) - 1
    NEG_INF = -POS_INF

    __slots__ = ("max_value", "min_value")

    def __init__(self, min_value: int, max_value: int) -> None:
        self.min_value = int(min_value)
        self.max_value = int(max_value)

    @staticmethod
    def from_interval(interval: Interval) -> ConstIntBound:
        """Converts an internal interval, whose infinities are floats."""
        low = max(interval[0], ConstIntBound.NEG_INF)
        high = min(interval[1], ConstIntBound.POS_INF)
        return ConstIntBound(int(low), int(high))

    def interval(self) -> Interval:
        """Converts to an internal interval, whose infinities are floats."""
        low = -INFINITY if self.min_value <= self.NEG_INF else self.min_value
        high = INFINITY if self.max_value >= self.POS_INF else self.max_value
        return low, high

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConstIntBound):
            return NotImplemented
        return (self.min_value, self.max_value) == (other.min_value, other.max_value)

    def __hash__(self) -> int:
        return hash((self.min_value, self.max_value))

    def __repr__(self) -> str:
        return f"ConstIntBound[{self.min_value}, {self.max_value}]"
