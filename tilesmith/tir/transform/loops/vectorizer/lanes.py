"""The lanes that stand for the iterations of a loop, and arithmetic on evenly spaced ones."""

from __future__ import annotations

from tilesmith.arith import Analyzer
from tilesmith.ir import Add, BinaryOp, Broadcast, IntImm, Mul, PrimExpr, Ramp, Var, const
from tilesmith.ir import operators as ops
from tilesmith.runtime.dtype import ScalableLanes

__all__ = ["VECTORS_ALREADY", "Lanes", "NeedsLanes", "linear"]

VECTORS_ALREADY = "it is made of vectors already"
"""The reason why code whose lanes would be vectors has no vector form."""


class NeedsLanes(Exception):
    """Raised for code without a vector form, with the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Lanes:
    """The lanes of one loop: iteration ``low + i`` of ``var`` is lane ``i`` of ``count``.

    Unless conditions and indices may change their form ``freely``, only operations are combined
    that surely keep the order of the lanes.
    """

    def __init__(
        self, var: Var, low: PrimExpr, count: int, analyzer: Analyzer, freely: bool = True
    ) -> None:
        self.var = var
        self.low = low
        self.count = count
        self.analyzer = analyzer
        self.freely = freely
        self.is_scalable = isinstance(count, ScalableLanes)

    def wide(self, expr: PrimExpr) -> PrimExpr:
        """Return a value broadcast to all lanes."""
        return expr if expr.dtype.lanes > 1 else Broadcast(expr, self.count)

    def ramp(self, base: PrimExpr, stride: PrimExpr | None) -> PrimExpr:
        """Return the vector of evenly spaced lanes; the base itself if the stride is zero."""
        if stride is None or ops.is_const(stride, 0):
            return base
        return Ramp(base, stride, self.count)

    def stays_even(self, vector: Ramp) -> bool:
        """Return whether the numbers in a Ramp are evenly spaced: it may not wrap around.

        Signed integers of 32 bits and more do not overflow.
        """
        dtype, stride = vector.base.dtype, vector.stride
        if dtype.is_int and dtype.bits >= 32:
            return True
        if self.is_scalable or not isinstance(stride, IntImm):
            return False
        bound, reach = self.analyzer.const_int_bound(vector.base), stride.value * (self.count - 1)
        low, high = bound.min_value + min(reach, 0), bound.max_value + max(reach, 0)
        return dtype.min_value <= low and high <= dtype.max_value

    def combined(self, kind: type[BinaryOp], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        """Return a sum, difference or product as a Ramp; None if it is not one."""
        left, right = linear(a), linear(b)
        if left is None or right is None:
            return None
        zero = const(0, left[0].dtype)
        if kind is Mul:
            if left[1] is None:
                left, right = right, left
            if right[1] is not None:
                return None
            if left[1] is not None and not self.freely:
                if not self.analyzer.can_prove(right[0] > 0):
                    return None
            stride = None if left[1] is None else left[1] * right[0]
            return self.ramp(left[0] * right[0], stride)
        if not self.freely and left[1] is not None and right[1] is not None:
            return None
        combine = ops.add if kind is Add else ops.subtract
        strides = combine(
            zero if left[1] is None else left[1], zero if right[1] is None else right[1]
        )
        return self.ramp(combine(left[0], right[0]), strides)


def linear(expr: PrimExpr) -> tuple[PrimExpr, PrimExpr | None] | None:
    """Return base and stride of evenly spaced lanes (no stride: all equal); None for others."""
    if isinstance(expr, Ramp):
        return expr.base, expr.stride
    if isinstance(expr, Broadcast):
        return expr.value, None
    return (expr, None) if expr.dtype.lanes == 1 else None
