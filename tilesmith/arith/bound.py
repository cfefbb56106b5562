"""Solves a condition for one variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.engine import Engine
from tilesmith.arith.forms import (
    TOO_LARGE,
    Leaf,
    Product,
    Split,
    Sum,
    magnitude,
    of_atom,
    plus,
    shifted,
    times,
)
from tilesmith.arith.int_set import IntervalSet, IntSet, as_set, intersect
from tilesmith.arith.interval_eval import IntervalEvaluator
from tilesmith.arith.pattern import nonnegative_forms
from tilesmith.ir import PrimExpr, Range, Var, convert
from tilesmith.ir.operators import moved
from tilesmith.ir.queries import conjuncts
from tilesmith.support.recursion import deep_recursion

__all__ = ["deduce_bound"]


@deep_recursion
def deduce_bound(
    var: Var, cond: Any, hint_map: Mapping[Var, Any], relax_map: Mapping[Var, Any]
) -> IntervalSet:
    """Finds values of ``var`` for which ``cond`` is proven, whatever the values of the variables in
    ``relax_map``.

    ``hint_map`` tells domains of variables that may stay in the answer. The empty set where nothing
    can be said.
    """
    analyzer = Analyzer()
    for other, domain in {**dict(hint_map), **dict(relax_map)}.items():
        if other is var:
            continue
        bounds = as_set(domain)
        if bounds.has_lower_bound() and bounds.has_upper_bound():
            extent = analyzer.simplify(moved(bounds.max_value - bounds.min_value, 1))
            analyzer.bind(other, Range.from_min_extent(bounds.min_value, extent))
    engine = analyzer.engine
    domains = {}
    for other, domain in relax_map.items():
        bounds = as_set(domain)
        low = engine.normalizer.normal(bounds.min_value) if bounds.has_lower_bound() else None
        high = engine.normalizer.normal(bounds.max_value) if bounds.has_upper_bound() else None
        domains[other] = (low, high)
    found: list[IntervalSet] = []
    for part in conjuncts(convert(cond), through_likely=True):
        found.append(_solve_part(engine, var, part, IntervalEvaluator(engine, domains)))
    return intersect(found, analyzer)


def _solve_part(engine: Engine, var: Var, part: PrimExpr, relax: IntervalEvaluator) -> IntervalSet:
    forms = nonnegative_forms(engine, part)
    if forms is None:
        return IntSet.nothing()
    answers = [_Solver(engine, var, relax).solve(form) for form in forms]
    return intersect(answers)


class _Solver:
    """Isolates the variable in ``form >= 0``."""

    def __init__(self, engine: Engine, var: Var, relax: IntervalEvaluator) -> None:
        self.engine = engine
        self.var = var
        self.relax = relax
        self.occurs = IntervalEvaluator(engine, {var: (None, None)})

    def solve(self, form: Sum) -> IntervalSet:
        """Returns the values of the variable for which the sum is proven to be non-negative."""
        engine = self.engine
        holders = [atom for atom in form.terms if self.occurs.depends(atom)]
        if not holders:
            low = self.relax.ends(form)[0]
            certain = low is not None and engine.prover.prove(low)
            return IntSet.everything() if certain else IntSet.nothing()
        if len(holders) > 1:
            return IntSet.nothing()
        atom, factor = holders[0], form.terms[holders[0]]
        rest = plus(form, of_atom(atom), -factor)
        low = self.relax.ends(rest)[0]  # factor * atom >= -low whatever the others are
        return IntSet.nothing() if low is None else self._isolate(atom, factor, low)

    def _isolate(self, atom: Any, factor: int, low: Sum) -> IntervalSet:
        """Solves ``factor * atom + low >= 0``."""
        engine = self.engine
        if factor > 0:
            limit = engine.divider.divide(shifted(times(low, -1), factor - 1), factor)[0]
        else:
            limit = engine.divider.divide(low, -factor)[0]
        at_least = factor > 0  # atom >= limit, else atom <= limit
        if magnitude(limit) == TOO_LARGE:
            return IntSet.nothing()
        if isinstance(atom, Leaf) and atom.expr is self.var:
            end = engine.writer.to_expr(limit)
            return (
                IntervalSet(end, IntSet.everything().max_value)
                if at_least
                else IntervalSet(IntSet.everything().min_value, end)
            )
        if isinstance(atom, Split) and not atom.upper:
            scaled = times(limit, atom.lower)
            if at_least:
                return self.solve(plus(atom.index, scaled, -1))
            return self.solve(plus(shifted(scaled, atom.lower - 1), atom.index, -1))
        if isinstance(atom, Product):
            return self._isolate_product(atom, limit, at_least)
        return IntSet.nothing()

    def _isolate_product(self, atom: Product, limit: Sum, at_least: bool) -> IntervalSet:
        """Solves ``var * n >= limit``, where ``n`` is known to be positive."""
        engine = self.engine
        own = [factor for factor in atom.factors if self.occurs.depends(factor)]
        others = [factor for factor in atom.factors if not self.occurs.depends(factor)]
        cofactor = of_atom(engine.table.product(others, atom.dtype)) if others else None
        if len(own) != 1 or cofactor is None or not engine.prover.prove(shifted(cofactor, -1)):
            return IntSet.nothing()
        if any(self.relax.depends(other) for other in others):
            return IntSet.nothing()
        if at_least:
            limit = engine.divider.floordiv(shifted(plus(limit, cofactor), -1), cofactor)
            return self._isolate(own[0], 1, times(limit, -1))
        return self._isolate(own[0], -1, engine.divider.floordiv(limit, cofactor))
