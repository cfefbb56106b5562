"""Computes with sets of integers: intervals with symbolic ends, and the ranges of expressions.

eval_set(i * 4 + j, {i: Range(0, 8)})      # [j, j + 28]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.interval_set import (
    IntervalSet,
    IntSet,
    as_set,
    evaluate,
    evaluate_alone,
    neg_inf,
    pos_inf,
)
from tilesmith.ir import PrimExpr, Var
from tilesmith.ir.operators import maximum, minimum, moved
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "IntSet", "IntervalSet", "covers", "eval_set", "intersect", "neg_inf", "pos_inf",
    "region_union",
    "union", "union_lower_bound",
]  # fmt: skip


@deep_recursion
def eval_set(
    expr: Any, dom_map: Mapping[Var, Any], analyzer: Analyzer | None = None
) -> IntervalSet:
    """Returns an interval around all values of ``expr`` while the variables of ``dom_map`` range
    over their sets.

    ``expr`` may be a vector (all its lanes), a range or a set. The ends are written in terms of
    the other variables. Ranges are taken to be not empty.
    """
    if analyzer is None:
        return evaluate_alone(expr, dom_map)
    return evaluate(analyzer.engine, expr, dom_map)


def union(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """Returns the smallest interval around some sets."""
    analyzer = analyzer or Analyzer()
    kept = [as_set(item) for item in sets]
    kept = [item for item in kept if not item.is_nothing()]
    if not kept:
        return IntSet.nothing()
    low: PrimExpr = kept[0].min_value
    high: PrimExpr = kept[0].max_value
    for item in kept[1:]:
        bounded = low is not neg_inf() and item.has_lower_bound()
        low = minimum(low, item.min_value) if bounded else neg_inf()
        bounded = high is not pos_inf() and item.has_upper_bound()
        high = maximum(high, item.max_value) if bounded else pos_inf()
    return _simplified(analyzer, low, high)


def intersect(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """Returns the intersection of sets."""
    analyzer = analyzer or Analyzer()
    low: PrimExpr = neg_inf()
    high: PrimExpr = pos_inf()
    for item in [as_set(value) for value in sets]:
        if item.is_nothing():
            return item
        if item.has_lower_bound():
            low = item.min_value if low is neg_inf() else maximum(low, item.min_value)
        if item.has_upper_bound():
            high = item.max_value if high is pos_inf() else minimum(high, item.max_value)
    found = _simplified(analyzer, low, high)
    if found.has_lower_bound() and found.has_upper_bound():
        if analyzer.can_prove(found.max_value < found.min_value):
            return IntSet.nothing()
    return found


def _simplified(analyzer: Analyzer, low: PrimExpr, high: PrimExpr) -> IntervalSet:
    if low is not neg_inf():
        low = analyzer.simplify(low)
    if high is not pos_inf():
        high = analyzer.simplify(high)
    return IntervalSet(low, high)


def union_lower_bound(sets: Sequence[IntervalSet]) -> IntervalSet:
    """Returns an interval that the union of some sets certainly covers; sets that cannot be joined
    are left out.
    """
    analyzer = Analyzer()
    kept = [as_set(item) for item in sets]
    kept = [item for item in kept if not item.is_nothing()]
    if not kept:
        return IntSet.nothing()
    result = kept.pop(0)
    changed = True
    while changed and kept:
        changed = False
        for item in list(kept):
            if _touch(analyzer, result, item):
                result = union([result, item], analyzer)
                kept.remove(item)
                changed = True
    return result


def _touch(analyzer: Analyzer, a: IntervalSet, b: IntervalSet) -> bool:
    """Returns True if it is proven that no integer lies between two intervals."""

    def reaches(first: IntervalSet, second: IntervalSet) -> bool:
        if not first.has_lower_bound() or not second.has_upper_bound():
            return True
        return analyzer.can_prove(first.min_value <= moved(second.max_value, 1))

    return reaches(a, b) and reaches(b, a)


def covers(outer: IntervalSet, inner: IntervalSet, analyzer: Analyzer | None = None) -> bool:
    """Returns True if ``inner`` is proven to be a subset of ``outer``."""
    analyzer = analyzer or Analyzer()
    outer, inner = as_set(outer), as_set(inner)
    if inner.is_nothing() or outer.is_everything():
        return True
    if outer.has_lower_bound():
        if not inner.has_lower_bound() or not analyzer.can_prove(
            outer.min_value <= inner.min_value
        ):
            return False
    if outer.has_upper_bound():
        if not inner.has_upper_bound() or not analyzer.can_prove(
            inner.max_value <= outer.max_value
        ):
            return False
    return True


def region_union(
    regions: Sequence[Sequence[Any]], analyzer: Analyzer | None = None
) -> list[IntervalSet]:
    """Returns the smallest box around boxes of one rank, each given as a list of ranges or sets."""
    analyzer = analyzer or Analyzer()
    return [union([as_set(item) for item in dimension], analyzer) for dimension in zip(*regions)]
