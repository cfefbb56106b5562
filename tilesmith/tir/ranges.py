"""Computes the length of a range from its ends, and the end from the length."""

from __future__ import annotations

from tilesmith.arith import Analyzer
from tilesmith.ir import Add, IntImm, PrimExpr, Sub, const, is_const
from tilesmith.ir.operators import add, subtract
from tilesmith.ir.structural import structural_equal

__all__ = ["extent_between", "stop_of"]


def extent_between(start: PrimExpr, stop: PrimExpr) -> PrimExpr:
    """Return the length of the range from ``start`` to ``stop``: the term that is added to the
    start, if there is one.

    ``extent_between(i * 4, i * 4 + n)`` is ``n``; else the difference is simplified.
    """
    if is_const(start, 0):
        return stop
    if isinstance(start, IntImm) and isinstance(stop, IntImm):
        return const(stop.value - start.value, stop.dtype)
    if isinstance(stop, Add) and structural_equal(start, stop.a):
        return stop.b
    return Analyzer().simplify(subtract(stop, start))


def stop_of(low: PrimExpr, extent: PrimExpr) -> PrimExpr:
    """Return the end of a range for printing, such that ``extent_between`` reproduces the
    extent.
    """
    if is_const(low, 0):
        return extent
    if isinstance(extent, Sub) and structural_equal(extent.b, low):
        if structural_equal(extent_between(low, extent.a), extent):
            return extent.a
    if isinstance(low, IntImm) and isinstance(extent, IntImm):
        return add(low, extent)
    return Add(low, extent)
