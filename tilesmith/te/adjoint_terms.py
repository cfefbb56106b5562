"""Sums over the places where an element is read, with as few iterators as possible.

The adjoint of ``A[x]`` read as ``A[i + r]`` is a sum over all ``i`` and ``r`` with ``x == i + r``:

    sum(G[i] * K[r], axis=[i, r], where=x == i + r)  ->  sum(G[x - r] * K[r], axis=r, where=…)

Equations are solved as a whole where they map iterators one to one to indices (reshapes,
transpositions), else one by one for the iterator with the largest extent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tilesmith.arith import (
    Analyzer,
    detect_linear_equation,
    inverse_affine_iter_map,
)
from tilesmith.arith.iter_affine_map import find_iter_map
from tilesmith.ir import IntImm, PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of, cast, equal, floordiv, floormod, is_const
from tilesmith.ir.queries import any_node, conjuncts, mentions, variables
from tilesmith.tir.expr import ProducerLoad
from tilesmith.tir.functor import substitute

__all__ = ["Equation", "Term", "solved"]


class Term(NamedTuple):
    """The sum of ``value`` over ``axes`` where all conditions hold."""

    axes: dict[Var, Range]
    conditions: tuple[PrimExpr, ...]
    value: PrimExpr


class Equation(NamedTuple):
    """A wanted index, and the index of a read that has to be equal to it."""

    wanted: PrimExpr
    index: PrimExpr


def solved(term: Term, equations: Sequence[Equation], outer: Mapping[Var, Range]) -> Term | None:
    """Return a sum restricted to where equations hold, over fewer iterators; None if it is empty.

    ``outer`` are the ranges of the variables that the wanted indices use.
    """
    solver = _Solver(term, outer)
    for group in _connected(equations, term.axes):
        if not solver.invert(group):
            solver.solve_each(group)
    return solver.result()


def _connected(equations: Sequence[Equation], axes: Mapping[Var, Range]) -> list[list[Equation]]:
    """Divide equations into groups that share no iterator."""
    groups: list[tuple[set[Var], list[Equation]]] = []
    for one in equations:
        used = {var for var in variables(one.index) if var in axes}
        joined = [one]
        apart = []
        for names, members in groups:
            if names & used:
                used, joined = used | names, members + joined
            else:
                apart.append((names, members))
        groups = [*apart, (used, joined)]
    return [members for _, members in groups]


class _Solver:
    """Replaces iterators by their values."""

    def __init__(self, term: Term, outer: Mapping[Var, Range]) -> None:
        self.axes = dict(term.axes)
        self.outer = outer
        self.values: dict[Var, PrimExpr] = {}
        self.conditions = list(term.conditions)
        self.value = term.value

    def replaced(self, expr: PrimExpr) -> PrimExpr:
        """Return an expression with the values of iterators in their place."""
        return substitute(expr, self.values) if self.values else expr

    def settle(self, var: Var, value: PrimExpr) -> None:
        """Replace an iterator by a value, which has to lie in its range."""
        value = cast(var.dtype, value)
        rng = self.axes.pop(var)
        self.values = {one: substitute(old, {var: value}) for one, old in self.values.items()}
        self.values[var] = value
        self.conditions += [value >= rng.min, value < rng.min + rng.extent]

    def invert(self, equations: Sequence[Equation]) -> bool:
        """Solve equations whose indices are a one-to-one map of all their iterators."""
        used = [var for var in self.axes if mentions([e.index for e in equations], {var})]
        indices = [one.index for one in equations]
        if not used or any_node(indices, lambda one: isinstance(one, ProducerLoad)):
            return False
        found = find_iter_map(indices, {var: self.axes[var] for var in used}, True, "bijective")
        if not found.indices:
            return False
        wanted = [cast(one.index.dtype, one.wanted) for one in equations]
        inverse = inverse_affine_iter_map(found.indices, wanted)
        for var in used:
            self.settle(var, inverse.get(var, self.axes[var].min))
        self.conditions += [equal(a, b) for a, b in zip(wanted, indices)]
        return True

    def solve_each(self, equations: Sequence[Equation]) -> None:
        """Solve each equation for the iterator with the largest extent; keep as a condition what
        cannot be solved.
        """
        for one in equations:
            index = self.replaced(one.index)
            wanted = cast(index.dtype, one.wanted)
            pivot = self._pivot(index)
            if pivot is None:
                self.conditions.append(equal(wanted, index))
                continue
            var, factor, rest = pivot
            distance = wanted - rest
            if abs(factor) == 1:
                self.settle(var, distance if factor == 1 else -distance)
                continue
            step = const(abs(factor), index.dtype)
            self.conditions.append(equal(floormod(distance, step), const(0, index.dtype)))
            quotient = floordiv(distance if factor > 0 else -distance, step)
            self.settle(var, quotient)

    def _pivot(self, index: PrimExpr) -> tuple[Var, int, PrimExpr] | None:
        """Return the iterator to solve for, its factor and the rest of a linear index."""
        best = None
        for var in self.axes:
            if not mentions(index, {var}):
                continue
            parts = detect_linear_equation(index, [var])
            if len(parts) != 2 or mentions(parts[1], {var}):
                continue
            factor = Analyzer().simplify(parts[0])
            if not isinstance(factor, IntImm) or factor.value == 0:
                continue
            extent = self.axes[var].extent
            size = extent.value if isinstance(extent, IntImm) else math.inf
            if best is None or size > best[0]:
                best = (size, var, factor.value, parts[1])
        return None if best is None else best[1:]

    def result(self) -> Term | None:
        """Return what remains, simplified; None if the conditions never hold."""
        analyzer = Analyzer()
        for var, rng in [*self.outer.items(), *self.axes.items()]:
            analyzer.bind(var, rng)
        kept: list[PrimExpr] = []
        for condition in self.conditions:
            for part in conjuncts(analyzer.simplify(self.replaced(condition))):
                if is_const(part, 1):
                    continue
                if is_const(part, 0):
                    return None
                kept.append(part)
        value = self.replaced(self.value)
        if kept:
            together = all_of(*kept)
            kept = conjuncts(analyzer.simplify(together))
            with analyzer.constraint_scope(together):
                value = analyzer.simplify(value)
        else:
            value = analyzer.simplify(value)
        kept = [part for part in kept if not is_const(part, 1)]
        if any(is_const(part, 0) for part in kept) or is_const(value, 0):
            return None
        return Term(self.axes, tuple(kept), value)
