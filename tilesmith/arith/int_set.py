"""Sets of integers: intervals with symbolic ends, and what an expression ranges over.

eval_set(i * 4 + j, {i: Range(0, 8)})      # [j, j + 28]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.forms import TOO_LARGE, Sum, magnitude, plus, retyped, shifted
from tilesmith.arith.interval_eval import Ends, IntervalEvaluator
from tilesmith.arith.state import is_index
from tilesmith.ir import Broadcast, Max, Min, PrimExpr, Ramp, Range, Var, convert, post_order_visit
from tilesmith.ir.operators import maximum, minimum
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "IntSet", "IntervalSet", "covers", "eval_set", "intersect", "neg_inf", "pos_inf",
    "region_union",
    "union", "union_lower_bound",
]  # fmt: skip

_POS_INF = Var("pos_inf", "handle")
_NEG_INF = Var("neg_inf", "handle")


def pos_inf() -> Var:
    """The upper end of a set without one."""
    return _POS_INF


def neg_inf() -> Var:
    """The lower end of a set without one."""
    return _NEG_INF


class IntSet:
    """Base of sets of integers."""

    @staticmethod
    def nothing() -> IntervalSet:
        """The empty set."""
        return IntervalSet(_POS_INF, _NEG_INF)

    @staticmethod
    def everything() -> IntervalSet:
        """All integers."""
        return IntervalSet(_NEG_INF, _POS_INF)

    @staticmethod
    def single_point(point: Any) -> IntervalSet:
        """The set of one value."""
        return IntervalSet(point, point)

    @staticmethod
    def interval(min_value: Any, max_value: Any) -> IntervalSet:
        """The integers from ``min_value`` to ``max_value``, both included."""
        return IntervalSet(min_value, max_value)

    @staticmethod
    def vector(vec: PrimExpr) -> IntervalSet:
        """An interval around the lanes of a vector."""
        return eval_set(vec, {})

    @staticmethod
    def from_range(range_: Range) -> IntervalSet:
        """The values of a range."""
        return IntSet.from_min_extent(range_.min, range_.extent)

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any) -> IntervalSet:
        """The ``extent`` integers that start at ``min_value``."""
        return IntervalSet(min_value, min_value + extent - 1)


class IntervalSet(IntSet):
    """The integers in ``[min_value, max_value]``; the ends are expressions or infinite."""

    __slots__ = ("max_value", "min_value")

    def __init__(self, min_value: Any, max_value: Any) -> None:
        self.min_value: PrimExpr = convert(min_value)
        self.max_value: PrimExpr = convert(max_value)

    def has_lower_bound(self) -> bool:
        """Whether the lower end is finite."""
        return self.min_value is not _NEG_INF and self.min_value is not _POS_INF

    def has_upper_bound(self) -> bool:
        """Whether the upper end is finite."""
        return self.max_value is not _POS_INF and self.max_value is not _NEG_INF

    def is_nothing(self) -> bool:
        """Whether it is the empty set (as it is written, not by proof)."""
        return self.min_value is _POS_INF or self.max_value is _NEG_INF

    def is_everything(self) -> bool:
        """Whether there is neither a lower nor an upper end."""
        return self.min_value is _NEG_INF and self.max_value is _POS_INF

    def is_single_point(self) -> bool:
        """Whether both ends are the same expression."""
        return self.has_lower_bound() and self.min_value is self.max_value

    def point_value(self) -> PrimExpr:
        """The only value of a single point."""
        if not self.is_single_point():
            raise TypeMismatchError(f"{self} is no single point")
        return self.min_value

    def cover_range(self, max_range: Range) -> Range:
        """This set as a range; ``max_range`` where an end is infinite."""
        if not (self.has_lower_bound() and self.has_upper_bound()):
            return max_range
        extent = Analyzer().simplify(self.max_value - self.min_value + 1)
        return Range.from_min_extent(self.min_value, extent)

    def can_prove_positive(self) -> bool:
        """Whether all values are above zero."""
        return self.has_lower_bound() and Analyzer().can_prove_greater_equal(self.min_value, 1)

    def can_prove_negative(self) -> bool:
        """Whether all values are below zero."""
        return self.has_upper_bound() and Analyzer().can_prove_less(self.max_value, 0)

    def can_prove_non_negative(self) -> bool:
        """Whether no value is below zero."""
        return self.has_lower_bound() and Analyzer().can_prove_greater_equal(self.min_value, 0)

    def can_prove_non_positive(self) -> bool:
        """Whether no value is above zero."""
        return self.has_upper_bound() and Analyzer().can_prove_less(self.max_value, 1)

    def __repr__(self) -> str:
        if self.is_nothing():
            return "IntervalSet(nothing)"
        low = "-inf" if not self.has_lower_bound() else str(self.min_value)
        high = "inf" if not self.has_upper_bound() else str(self.max_value)
        return f"IntervalSet[{low}, {high}]"


def as_set(value: Any) -> IntervalSet:
    """A range, a set or an expression as a set."""
    if isinstance(value, IntervalSet):
        return value
    if isinstance(value, Range):
        return IntSet.from_range(value)
    if hasattr(value, "dom"):  # an iterator
        return IntSet.from_range(value.dom)
    return IntSet.single_point(value)


def _variable(key: Any) -> Var:
    return key if isinstance(key, Var) else key.var


@deep_recursion
def eval_set(
    expr: Any, dom_map: Mapping[Var, Any], analyzer: Analyzer | None = None
) -> IntervalSet:
    """An interval around all values of ``expr`` while the variables of ``dom_map`` range over
    their sets.

    ``expr`` may be a vector (all its lanes), a range or a set. The ends are written in terms of
    the other variables. Ranges are taken to be not empty.
    """
    analyzer = analyzer or Analyzer()
    engine = analyzer._engine
    saved = engine.open_layer()
    try:
        domains = _domains(analyzer, expr, dom_map)
        evaluator = IntervalEvaluator(engine, domains)
        if isinstance(expr, Range):
            expr = IntSet.from_range(expr)
        if isinstance(expr, IntervalSet):
            low = _ends(analyzer, evaluator, expr.min_value)[0] if expr.has_lower_bound() else None
            high = _ends(analyzer, evaluator, expr.max_value)[1] if expr.has_upper_bound() else None
            return _made(analyzer, low, high)
        return _made(analyzer, *_ends(analyzer, evaluator, convert(expr)))
    finally:
        engine.close_layer(saved)


def _domains(analyzer: Analyzer, expr: Any, dom_map: Mapping[Var, Any]) -> dict[Var, Ends]:
    """The ends of the domains that matter to ``expr``; the analyzer is told of them."""
    engine = analyzer._engine
    sets = {_variable(key): value for key, value in dom_map.items()}
    domains: dict[Var, Ends] = {}

    def note(node: Any) -> None:
        if isinstance(node, Var) and node in sets and node not in domains:
            domains[node] = (None, None)
            visit(sets[node])

    def visit(value: Any) -> None:
        if hasattr(value, "dom"):
            value = value.dom
        if isinstance(value, Range):
            post_order_visit(value.min, note)
            post_order_visit(value.extent, note)
        elif isinstance(value, IntervalSet):
            post_order_visit(value.min_value, note)
            post_order_visit(value.max_value, note)
        elif isinstance(value, PrimExpr):
            post_order_visit(value, note)

    visit(expr)
    for var in domains:
        low, high = domains[var] = _domain_ends(analyzer, sets[var], var)
        if low is None or high is None:
            engine._unbind(var)
        elif not low.terms or engine.table.number(low) != engine.table.number(high):
            engine.bind_interval(var, low, high)  # divisions resolve by that
    return domains


def _domain_ends(analyzer: Analyzer, value: Any, var: Var) -> Ends:
    engine = analyzer._engine
    if hasattr(value, "dom"):
        value = value.dom
    if isinstance(value, Range):
        low = retyped(engine.normal(value.min), var.dtype)
        extent = retyped(engine.normal(value.extent), var.dtype)
        return low, engine.tidy(shifted(plus(low, extent), -1))
    domain = as_set(value)
    dtype = var.dtype
    low = engine.normal(domain.min_value) if domain.has_lower_bound() else None
    high = engine.normal(domain.max_value) if domain.has_upper_bound() else None
    return None if low is None else retyped(low, dtype), None if high is None else retyped(
        high, dtype
    )


def _ends(analyzer: Analyzer, evaluator: IntervalEvaluator, expr: PrimExpr) -> Ends:
    engine = analyzer._engine
    if isinstance(expr, Broadcast):
        expr = expr.value
    if isinstance(expr, Ramp):
        if expr.dtype.is_scalable:
            return None, None
        first = evaluator.ends(engine.normal(expr.base))
        last = evaluator.ends(engine.normal(expr.base + expr.stride * (expr.lanes - 1)))
        return _hull(analyzer, first, last)
    if expr.dtype.lanes != 1 or not expr.dtype.is_integer:
        rewritten = engine.rewrite(expr)
        if isinstance(rewritten, (Ramp, Broadcast)) and rewritten is not expr:
            return _ends(analyzer, evaluator, rewritten)
        return None, None
    return evaluator.ends(engine.normal(expr))


def _hull(analyzer: Analyzer, a: Ends, b: Ends) -> Ends:
    engine = analyzer._engine
    low = None if a[0] is None or b[0] is None else engine.extreme(Min, [a[0], b[0]])
    high = None if a[1] is None or b[1] is None else engine.extreme(Max, [a[1], b[1]])
    return low, high


def _made(analyzer: Analyzer, low: Sum | None, high: Sum | None) -> IntervalSet:
    table = analyzer._engine.table
    # an end that cannot be written bounds nothing: values of the dtype do not reach it
    low = None if low is not None and _too_large(low) else low
    high = None if high is not None and _too_large(high) else high
    first = _NEG_INF if low is None else table.to_expr(low)
    if low is not None and high is not None and table.number(low) == table.number(high):
        return IntervalSet(first, first)
    return IntervalSet(first, _POS_INF if high is None else table.to_expr(high))


def _too_large(end: Sum) -> bool:
    return is_index(end.dtype) and magnitude(end) == TOO_LARGE


def union(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """The smallest interval around some sets."""
    analyzer = analyzer or Analyzer()
    kept = [as_set(item) for item in sets]
    kept = [item for item in kept if not item.is_nothing()]
    if not kept:
        return IntSet.nothing()
    low: PrimExpr = kept[0].min_value
    high: PrimExpr = kept[0].max_value
    for item in kept[1:]:
        bounded = low is not _NEG_INF and item.has_lower_bound()
        low = minimum(low, item.min_value) if bounded else _NEG_INF
        bounded = high is not _POS_INF and item.has_upper_bound()
        high = maximum(high, item.max_value) if bounded else _POS_INF
    return _simplified(analyzer, low, high)


def intersect(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """What is in all of the sets."""
    analyzer = analyzer or Analyzer()
    low: PrimExpr = _NEG_INF
    high: PrimExpr = _POS_INF
    for item in [as_set(value) for value in sets]:
        if item.is_nothing():
            return item
        if item.has_lower_bound():
            low = item.min_value if low is _NEG_INF else maximum(low, item.min_value)
        if item.has_upper_bound():
            high = item.max_value if high is _POS_INF else minimum(high, item.max_value)
    found = _simplified(analyzer, low, high)
    if found.has_lower_bound() and found.has_upper_bound():
        if analyzer.can_prove(found.max_value < found.min_value):
            return IntSet.nothing()
    return found


def _simplified(analyzer: Analyzer, low: PrimExpr, high: PrimExpr) -> IntervalSet:
    if low is not _NEG_INF:
        low = analyzer.simplify(low)
    if high is not _POS_INF:
        high = analyzer.simplify(high)
    return IntervalSet(low, high)


def union_lower_bound(sets: Sequence[IntervalSet]) -> IntervalSet:
    """An interval that the union of some sets certainly fills; sets that cannot be joined are
    left out."""
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
    """Whether certainly no integer lies between two intervals."""

    def reaches(first: IntervalSet, second: IntervalSet) -> bool:
        if not first.has_lower_bound() or not second.has_upper_bound():
            return True
        return analyzer.can_prove(first.min_value <= second.max_value + 1)

    return reaches(a, b) and reaches(b, a)


def covers(outer: IntervalSet, inner: IntervalSet, analyzer: Analyzer | None = None) -> bool:
    """Whether everything in ``inner`` is certainly in ``outer``."""
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
    """The smallest box around boxes of one rank, each given as a list of ranges or sets."""
    analyzer = analyzer or Analyzer()
    return [union([as_set(item) for item in dimension], analyzer) for dimension in zip(*regions)]
