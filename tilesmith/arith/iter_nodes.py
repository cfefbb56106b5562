"""Expressions over iterators in the form that shows whether a map of iterators loses or repeats
anything.

An `IterMark` is an iterator: a loop variable, or the number that some digits spell. An
`IterSplitExpr`
is a digit of it, ``source // lower_factor % extent * scale``; an `IterSumExpr` is a sum of digits.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.ir import IntImm, Node, PrimExpr, child, const
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TypeMismatchError

__all__ = [
    "IterMapExpr",
    "IterMapLevel",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "expression_of",
]


class IterMapLevel(IntEnum):
    """What a map of iterators is asked to be."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def from_str(name: str | IterMapLevel | None) -> IterMapLevel | None:
        """The level of a name in lower case; None stays None."""
        if name is None or isinstance(name, IterMapLevel):
            return name
        levels = {"bijective": IterMapLevel.Bijective, "surjective": IterMapLevel.Surjective}
        levels["nocheck"] = IterMapLevel.NoCheck
        found = levels.get(str(name).lower())
        if found is None:
            raise TypeMismatchError(
                f"no level of iterator maps: {name!r}", notes=(", ".join(levels),)
            )
        return found


class IterMapExpr(PrimExpr, key="arith.IterMapExpr"):
    """Base of sums and digits of iterators."""


class IterMark(Node, key="arith.IterMark"):
    """An iterator over ``[0, extent)``; ``source`` is a variable, an expression, or an
    `IterSumExpr`."""

    source: PrimExpr = child()
    extent: PrimExpr = child()


class IterSplitExpr(IterMapExpr, key="arith.IterSplitExpr"):
    """``source // lower_factor % extent * scale``."""

    source: IterMark = child()
    lower_factor: PrimExpr = child()
    extent: PrimExpr = child()
    scale: PrimExpr = child()

    def __init__(
        self, source: IterMark, lower_factor: Any = None, extent: Any = None, scale: Any = None
    ) -> None:
        self.source = source
        self.dtype = source.extent.dtype
        one = const(1, self.dtype)
        self.lower_factor = one if lower_factor is None else _sized(lower_factor, self.dtype)
        self.extent = source.extent if extent is None else _sized(extent, self.dtype)
        self.scale = one if scale is None else _sized(scale, self.dtype)


class IterSumExpr(IterMapExpr, key="arith.IterSumExpr"):
    """The sum of digits, plus ``base``."""

    args: tuple[IterSplitExpr, ...] = child()
    base: PrimExpr = child()

    def __init__(self, args: Any, base: Any) -> None:
        self.args = tuple(args)
        self.base = base if isinstance(base, PrimExpr) else op.const(base, _dtype(self.args))
        self.dtype = self.base.dtype


def _sized(value: Any, dtype: DataType) -> PrimExpr:
    return value if isinstance(value, PrimExpr) else const(value, dtype)


def _dtype(args: tuple[IterSplitExpr, ...]) -> DataType:
    return args[0].dtype if args else DataType("int32")


def expression_of(expr: Any, analyzer: Analyzer | None = None) -> PrimExpr:
    """The plain expression of a sum, a digit or an iterator."""
    analyzer = analyzer or Analyzer()
    if isinstance(expr, IterSumExpr):
        result = expr.base
        parts = [expression_of(arg, analyzer) for arg in expr.args]
        total: PrimExpr | None = None
        for part in parts:
            total = part if total is None else total + part
        if total is None:
            return result
        return total + result
    if isinstance(expr, IterSplitExpr):
        return _digit(expr, analyzer)
    if isinstance(expr, IterMark):
        return expression_of(expr.source, analyzer)
    return expr


def _digit(expr: IterSplitExpr, analyzer: Analyzer) -> PrimExpr:
    source = expression_of(expr.source.source, analyzer)
    if isinstance(expr.extent, IntImm) and expr.extent.value == 1:
        if not analyzer.can_prove_equal(expr.source.extent, 1):
            return const(0, expr.dtype)
    whole = analyzer.can_prove_equal(expr.source.extent, expr.lower_factor * expr.extent)
    value = op.floordiv(source, expr.lower_factor)
    if not whole:
        value = op.floormod(value, expr.extent)
    return value * expr.scale
