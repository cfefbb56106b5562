"""Takes vector indices apart: a scalar, and a constant offset for each lane.

  broadcast(p * 104 + 3, 16) + ramp(0, 1, 16) // broadcast(8, 16) * broadcast(8, 16)
is
  p * 104,  (3, 3, 3, 3, 3, 3, 3, 3, 11, 11, 11, 11, 11, 11, 11, 11)
"""

from __future__ import annotations

from tilesmith.codegen.facts import Facts
from tilesmith.ir import (
    Add,
    Broadcast,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Ramp,
    Sub,
    const,
)

__all__ = ["lane_offsets"]

_Found = tuple[PrimExpr | None, list[int]]


def lane_offsets(index: PrimExpr, facts: Facts) -> tuple[PrimExpr, tuple[int, ...]] | None:
    """Return the scalar part of a vector index, without its constant addends, and the offset of
    each lane from it; None if the lanes are not at constant distances.
    """
    if index.dtype.is_scalable:
        return None
    found = _parts(index, facts)
    if found is None:
        return None
    base, offsets = found
    return (const(0, index.dtype.element) if base is None else base), (*offsets,)


def _parts(index: PrimExpr, facts: Facts) -> _Found | None:
    if isinstance(index, Ramp):
        if not isinstance(index.stride, IntImm):
            return None
        base, known = _scalar(index.base)
        return base, [known + index.stride.value * lane for lane in range(index.dtype.lanes)]
    if isinstance(index, Broadcast):
        base, known = _scalar(index.value)
        return base, [known] * index.dtype.lanes
    if isinstance(index, (Add, Sub)):
        return _sum(index, facts)
    if isinstance(index, (Mul, FloorDiv, FloorMod)) and isinstance(index.b, Broadcast):
        factor = index.b.value
        found = _parts(index.a, facts)
        if found is not None and isinstance(factor, IntImm) and factor.value > 0:
            return _scaled(index, found, factor.value, facts)
    return None


def _scalar(expr: PrimExpr) -> tuple[PrimExpr | None, int]:
    """Return a scalar without its constant addends, and their sum."""
    known = 0
    while isinstance(expr, (Add, Sub)) and isinstance(expr.b, IntImm):
        known += expr.b.value if isinstance(expr, Add) else -expr.b.value
        expr = expr.a
    return (None, known + expr.value) if isinstance(expr, IntImm) else (expr, known)


def _sum(index: Add | Sub, facts: Facts) -> _Found | None:
    first, second = _parts(index.a, facts), _parts(index.b, facts)
    if first is None or second is None:
        return None
    sign = 1 if isinstance(index, Add) else -1
    offsets = [a + sign * b for a, b in zip(first[1], second[1])]
    if second[0] is None:
        return first[0], offsets
    if first[0] is None:
        return (second[0] if sign == 1 else const(0, second[0].dtype) - second[0]), offsets
    return type(index)(first[0], second[0]), offsets


def _scaled(index: PrimExpr, found: _Found, factor: int, facts: Facts) -> _Found | None:
    base, offsets = found
    if isinstance(index, Mul):
        return (None if base is None else base * factor), [one * factor for one in offsets]
    if base is not None and facts.multiple_of(base) % factor:
        return None
    if isinstance(index, FloorMod):
        return None, [one % factor for one in offsets]
    return (None if base is None else base // factor), [one // factor for one in offsets]
