"""Defines intervals with symbolic ends, and finds the interval of values of an expression."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from tilesmith.arith.engine import Engine
from tilesmith.arith.forms import TOO_LARGE, Sum, is_index, magnitude, plus, retyped, shifted
from tilesmith.arith.interval_eval import Ends, IntervalEvaluator
from tilesmith.ir import (
    Broadcast,
    IntImm,
    Max,
    Min,
    PrimExpr,
    Ramp,
    Range,
    Var,
    convert,
    post_order_visit,
)
from tilesmith.ir.operators import moved
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = ["IntSet", "IntervalSet", "neg_inf", "pos_inf"]

_POS_INF = Var("pos_inf", "handle")


_NEG_INF = Var("neg_inf", "handle")


def pos_inf() -> Var:
    """Returns the upper end of a set that is not bounded above."""
    return _POS_INF


def neg_inf() -> Var:
    """Returns the lower end of a set that is not bounded below."""
    return _NEG_INF


class IntSet:
    """Base of sets of integers."""

    __slots__ = ()

    @abstractmethod
    def is_nothing(self) -> bool:
        """Returns whether the set is known to be empty."""

    @abstractmethod
    def is_everything(self) -> bool:
        """Returns whether the set holds all integers."""

    @staticmethod
    def nothing() -> IntervalSet:
        """Returns the empty set."""
        return IntervalSet(_POS_INF, _NEG_INF)

    @staticmethod
    def everything() -> IntervalSet:
        """Returns the set of all integers."""
        return IntervalSet(_NEG_INF, _POS_INF)

    @staticmethod
    def single_point(point: Any) -> IntervalSet:
        """Returns the set of one value."""
        return IntervalSet(point, point)

    @staticmethod
    def interval(min_value: Any, max_value: Any) -> IntervalSet:
        """Returns the integers from ``min_value`` to ``max_value``, both included."""
        return IntervalSet(min_value, max_value)

    @staticmethod
    def vector(vec: PrimExpr) -> IntervalSet:
        """Returns an interval around the lanes of a vector."""
        return _of_vector(vec)

    @staticmethod
    def from_range(range_: Range) -> IntervalSet:
        """Returns the set of values of a range."""
        return IntSet.from_min_extent(range_.min, range_.extent)

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any) -> IntervalSet:
        """Returns the ``extent`` integers that start at ``min_value``."""
        return IntervalSet(min_value, moved(min_value + extent, -1))


class IntervalSet(IntSet):
    """Stands for the integers in ``[min_value, max_value]``; the ends are expressions or
    infinite."""

    __slots__ = ("max_value", "min_value")

    def __init__(self, min_value: Any, max_value: Any) -> None:
        self.min_value: PrimExpr = convert(min_value)
        self.max_value: PrimExpr = convert(max_value)

    def has_lower_bound(self) -> bool:
        """Returns whether the lower end is finite."""
        return self.min_value is not _NEG_INF and self.min_value is not _POS_INF

    def has_upper_bound(self) -> bool:
        """Returns whether the upper end is finite."""
        return self.max_value is not _POS_INF and self.max_value is not _NEG_INF

    def is_nothing(self) -> bool:
        """Returns True if it is written as the empty set (nothing is proven)."""
        return self.min_value is _POS_INF or self.max_value is _NEG_INF

    def is_everything(self) -> bool:
        """Returns True if both ends are infinite."""
        return self.min_value is _NEG_INF and self.max_value is _POS_INF

    def is_single_point(self) -> bool:
        """Returns True if both ends are the same expression."""
        return self.has_lower_bound() and self.min_value is self.max_value

    def point_value(self) -> PrimExpr:
        """Returns the value of a set with a single point."""
        if not self.is_single_point():
            raise TypeMismatchError(f"{self} is not a single point")
        return self.min_value

    def cover_range(self, max_range: Range) -> Range:
        """Converts to a range; returns ``max_range`` if an end is infinite."""
        if not (self.has_lower_bound() and self.has_upper_bound()):
            return max_range
        with deep_recursion():
            extent = Engine().rewriter.rewrite(moved(self.max_value - self.min_value, 1))
        return Range.from_min_extent(self.min_value, extent)

    def can_prove_positive(self) -> bool:
        """Returns True if all values are proven to be positive."""
        return self.has_lower_bound() and _is_at_least(self.min_value, 1)

    def can_prove_negative(self) -> bool:
        """Returns True if all values are proven to be negative."""
        return self.has_upper_bound() and _is_at_most(self.max_value, -1)

    def can_prove_non_negative(self) -> bool:
        """Returns True if all values are proven to be non-negative."""
        return self.has_lower_bound() and _is_at_least(self.min_value, 0)

    def can_prove_non_positive(self) -> bool:
        """Returns True if all values are proven to be zero or negative."""
        return self.has_upper_bound() and _is_at_most(self.max_value, 0)

    def __repr__(self) -> str:
        if self.is_nothing():
            return "IntervalSet(nothing)"
        low = "-inf" if not self.has_lower_bound() else str(self.min_value)
        high = "inf" if not self.has_upper_bound() else str(self.max_value)
        return f"IntervalSet[{low}, {high}]"


@deep_recursion
def _of_vector(vec: PrimExpr) -> IntervalSet:
    if isinstance(vec, Ramp) and vec.dtype.is_scalable and isinstance(vec.stride, IntImm):
        upwards = vec.stride.value >= 0  # by an unknown number of lanes
        return IntervalSet(vec.base, pos_inf()) if upwards else IntervalSet(neg_inf(), vec.base)
    return evaluate_alone(vec, {})


@deep_recursion
def _is_at_least(expr: PrimExpr, bound: int) -> bool:
    return Engine().is_at_least(expr, bound)


@deep_recursion
def _is_at_most(expr: PrimExpr, bound: int) -> bool:
    return Engine().is_at_most(expr, bound)


def as_set(value: Any) -> IntervalSet:
    """Converts a range, a set or an expression to a set."""
    if isinstance(value, IntervalSet):
        return value
    if isinstance(value, Range):
        return IntSet.from_range(value)
    if hasattr(value, "dom"):  # an iterator
        return IntSet.from_range(value.dom)
    return IntSet.single_point(value)


def evaluate(engine: Engine, expr: Any, dom_map: Mapping[Var, Any]) -> IntervalSet:
    """Returns an interval around all values of ``expr`` while the variables of ``dom_map`` range
    over their sets.

    ``expr`` may be a vector (all its lanes), a range or a set. The ends are written in terms of
    the other variables. Ranges are taken to be not empty.
    """
    saved = engine.facts.open_layer()
    try:
        return _evaluated(engine, expr, dom_map)
    finally:
        engine.facts.close_layer(saved)


def evaluate_alone(expr: Any, dom_map: Mapping[Var, Any]) -> IntervalSet:
    """Returns the interval of `evaluate`, without facts about other variables."""
    return _evaluated(Engine(), expr, dom_map)


def _evaluated(engine: Engine, expr: Any, dom_map: Mapping[Var, Any]) -> IntervalSet:
    """Returns the interval of an expression; adds the domains to the engine's facts."""
    domains = _domains(engine, expr, dom_map)
    evaluator = IntervalEvaluator(engine, domains)
    if isinstance(expr, Range):
        expr = IntSet.from_range(expr)
    if isinstance(expr, IntervalSet):
        low = _ends(engine, evaluator, expr.min_value)[0] if expr.has_lower_bound() else None
        high = _ends(engine, evaluator, expr.max_value)[1] if expr.has_upper_bound() else None
        return _made(engine, low, high)
    return _made(engine, *_ends(engine, evaluator, convert(expr)))


def _domains(engine: Engine, expr: Any, dom_map: Mapping[Var, Any]) -> dict[Var, Ends]:
    """Returns the ends of those domains on which ``expr`` depends, and adds them to the engine's
    facts.
    """
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
        low, high = domains[var] = _domain_ends(engine, sets[var], var)
        if low is None or high is None:
            engine.assumptions.unbind(var)
        elif not low.terms or engine.table.number(low) != engine.table.number(high):
            engine.assumptions.bind_interval(var, low, high)  # divisions resolve by that
    return domains


def _variable(key: Any) -> Var:
    return key if isinstance(key, Var) else key.var


def _domain_ends(engine: Engine, value: Any, var: Var) -> Ends:
    if hasattr(value, "dom"):
        value = value.dom
    if isinstance(value, Range):
        low = retyped(engine.normalizer.normal(value.min), var.dtype)
        extent = retyped(engine.normalizer.normal(value.extent), var.dtype)
        return low, engine.terms.combine(shifted(plus(low, extent), -1))
    domain = as_set(value)
    dtype = var.dtype
    normal = engine.normalizer.normal
    first = retyped(normal(domain.min_value), dtype) if domain.has_lower_bound() else None
    last = retyped(normal(domain.max_value), dtype) if domain.has_upper_bound() else None
    return first, last


def _ends(engine: Engine, evaluator: IntervalEvaluator, expr: PrimExpr) -> Ends:
    if isinstance(expr, Broadcast):
        expr = expr.value
    if isinstance(expr, Ramp):
        if expr.dtype.is_scalable:
            return None, None
        first = evaluator.ends(engine.normalizer.normal(expr.base))
        last = evaluator.ends(engine.normalizer.normal(expr.base + expr.stride * (expr.lanes - 1)))
        return _hull(engine, first, last)
    if expr.dtype.lanes != 1 or not expr.dtype.is_integer:
        rewritten = engine.rewriter.rewrite(expr)
        if isinstance(rewritten, (Ramp, Broadcast)) and rewritten is not expr:
            return _ends(engine, evaluator, rewritten)
        return None, None
    return evaluator.ends(engine.normalizer.normal(expr))


def _hull(engine: Engine, a: Ends, b: Ends) -> Ends:
    low = None if a[0] is None or b[0] is None else engine.extremes.extreme(Min, [a[0], b[0]])
    high = None if a[1] is None or b[1] is None else engine.extremes.extreme(Max, [a[1], b[1]])
    return low, high


def _made(engine: Engine, low: Sum | None, high: Sum | None) -> IntervalSet:
    table, writer = engine.table, engine.writer
    # an end that cannot be written bounds nothing: values of the dtype do not reach it
    low = None if low is not None and _too_large(low) else low
    high = None if high is not None and _too_large(high) else high
    first = _NEG_INF if low is None else writer.to_expr(low)
    if low is not None and high is not None and table.number(low) == table.number(high):
        return IntervalSet(first, first)
    return IntervalSet(first, _POS_INF if high is None else writer.to_expr(high))


def _too_large(end: Sum) -> bool:
    return is_index(end.dtype) and magnitude(end) == TOO_LARGE
