"""Defines the form of index expressions that shows whether a map of iterators is injective and
complete.

An `IterMark` is an iterator: a loop variable, or the number that some digits spell. An
`IterSplitExpr`
is a digit of it, ``source // lower_factor % extent * scale``; an `IterSumExpr` is a sum of digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.ir import IntImm, Node, PrimExpr, Var, child, const
from tilesmith.ir import operators as op
from tilesmith.ir.queries import nodes
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TypeMismatchError

__all__ = [
    "IterMapExpr",
    "IterMapLevel",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "expression_of",
    "sum_of_digits",
]


class IterMapLevel(IntEnum):
    """Names the property that a map of iterators must have."""

    Bijective = 0
    Surjective = 1
    NoCheck = 3

    @staticmethod
    def from_str(name: str | IterMapLevel | None) -> IterMapLevel | None:
        """Returns the level with a name in lower case; None stays None."""
        if name is None or isinstance(name, IterMapLevel):
            return name
        levels = {"bijective": IterMapLevel.Bijective, "surjective": IterMapLevel.Surjective}
        levels["nocheck"] = IterMapLevel.NoCheck
        found = levels.get(str(name).lower())
        if found is None:
            raise TypeMismatchError(
                f"not a level of iterator maps: {name!r}", notes=(", ".join(levels),)
            )
        return found


class IterMapExpr(PrimExpr, key="arith.IterMapExpr"):
    """Base of sums and digits of iterators."""


class IterMark(Node, key="arith.IterMark"):
    """Stands for an iterator over ``[0, extent)``; ``source`` is a variable, an expression, or an
    `IterSumExpr`."""

    source: PrimExpr = child()
    extent: PrimExpr = child()

    def __init__(self, source: PrimExpr, extent: Any) -> None:
        self.source = source
        self.extent = _sized(extent, source.dtype)


class IterSplitExpr(IterMapExpr, key="arith.IterSplitExpr"):
    """Stands for ``source // lower_factor % extent * scale``.

    The digit is taken in the dtype of its iterator, which ``lower_factor`` has, and then cast to
    that of ``extent`` and ``scale``: ``cast(int32, i // 4 % 37)`` is a digit of the int64 iterator
    ``i``, which may have more iterations than an int32 can count.
    """

    source: IterMark = child()
    lower_factor: PrimExpr = child()
    extent: PrimExpr = child()
    scale: PrimExpr = child()

    def __init__(
        self, source: IterMark, lower_factor: Any = None, extent: Any = None, scale: Any = None
    ) -> None:
        wide = dtype = source.extent.dtype
        for size in (extent, scale):
            if isinstance(size, PrimExpr):
                dtype = size.dtype
        self.source = source
        self.dtype = dtype
        self.lower_factor = _sized(1 if lower_factor is None else lower_factor, wide)
        whole = op.cast(dtype, source.extent) if extent is None else extent
        self.extent = _sized(whole, dtype)
        self.scale = _sized(1 if scale is None else scale, dtype)

    def end(self) -> PrimExpr:
        """Returns where the next digit of the same iterator begins, in the iterator's dtype."""
        return self.lower_factor * self.wide_extent()

    def wide_extent(self) -> PrimExpr:
        """Returns the extent in the iterator's dtype."""
        wide = self.lower_factor.dtype
        return self.extent if self.dtype is wide else op.cast(wide, self.extent)


class IterSumExpr(IterMapExpr, key="arith.IterSumExpr"):
    """Stands for the sum of digits, plus ``base``."""

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
    """Returns the plain expression of a sum, a digit or an iterator."""
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
    plain: PrimExpr = expr
    return plain


def _digit(expr: IterSplitExpr, analyzer: Analyzer) -> PrimExpr:
    source = expression_of(expr.source.source, analyzer)
    if isinstance(expr.extent, IntImm) and expr.extent.value == 1:
        if not analyzer.can_prove_equal(expr.source.extent, 1):
            return const(0, expr.dtype)
    if not analyzer.can_prove_equal(expr.source.extent, expr.end()):
        source = op.floormod(source, analyzer.simplify(expr.end()))
    return op.cast(expr.dtype, op.floordiv(source, expr.lower_factor)) * expr.scale


def sum_of_digits(expr: Any, bounded: Sequence[frozenset[Var]] = ()) -> PrimExpr:
    """Returns the plain expression of a sum, digit or iterator, in the form that schedules use.

    A digit is its iterator's value, cut off above by ``%``, then below by ``//``; nothing is
    simplified further, so that detecting the result again finds the same digits. Multiples of a sum
    are written out, ``(i * 8 + j) * 4 + k`` as ``i * 32 + j * 4 + k``, except where a predicate
    bounds that sum: ``bounded`` has the variables of each.
    """
    if isinstance(expr, IterSumExpr):
        total: PrimExpr | None = None
        for arg in _written_out(expr.args, bounded):
            part = _spelled_digit(arg, bounded)
            total = part if total is None else total + part
        if total is None:
            return expr.base
        return total if op.is_const(expr.base, 0) else Analyzer().simplify(total + expr.base)
    if isinstance(expr, IterSplitExpr):
        return _spelled_digit(expr, bounded)
    if isinstance(expr, IterMark):
        return sum_of_digits(expr.source, bounded)
    plain: PrimExpr = expr
    return plain


def _written_out(
    args: Sequence[IterSplitExpr], bounded: Sequence[frozenset[Var]]
) -> list[IterSplitExpr]:
    """Returns the terms of a sum, with multiples of inner sums expanded into their terms."""
    result: list[IterSplitExpr] = []
    for arg in args:
        source = arg.source.source
        if (
            isinstance(source, IterSumExpr)
            and op.is_const(arg.lower_factor, 1)
            and op.is_const(source.base, 0)
            and not op.is_const(arg.scale, 1)
            and source.dtype.bits <= arg.dtype.bits  # else the terms may not fit
            and _are_equal(arg.source.extent, arg.extent)
            and _iterators(source) not in bounded
        ):
            for inner in _written_out(source.args, bounded):
                extent, scale = op.cast(arg.dtype, inner.extent), op.cast(arg.dtype, inner.scale)
                result.append(
                    IterSplitExpr(inner.source, inner.lower_factor, extent, scale * arg.scale)
                )
        else:
            result.append(arg)
    return result


def _iterators(expr: IterSumExpr) -> frozenset[PrimExpr]:
    """Returns the variables that a sum has digits of; not those in its extents and its base."""
    return frozenset([m.source for m in nodes(expr, IterMark) if isinstance(m.source, Var)])


def _spelled_digit(expr: IterSplitExpr, bounded: Sequence[frozenset[Var]]) -> PrimExpr:
    whole = expr.source.extent
    if op.is_const(expr.extent, 1) and not op.is_const(whole, 1):
        return const(0, expr.dtype)
    value = sum_of_digits(expr.source.source, bounded)
    end = expr.end()
    if not _are_equal(whole, end):
        value = op.floormod(value, end)
    return op.cast(expr.dtype, op.floordiv(value, expr.lower_factor)) * expr.scale


def _are_equal(a: PrimExpr, b: PrimExpr) -> bool:
    """Returns True if two sizes are proven to be equal; most are constants, which need no
    analyzer.
    """
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return Analyzer().can_prove_equal(a, b)
