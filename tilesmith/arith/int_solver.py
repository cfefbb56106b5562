"""Solves systems of linear equations and inequalities over the integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.forms import Sum, coefficient_gcd, exact_quotient, plus, shifted, times
from tilesmith.arith.int_set import eval_set
from tilesmith.arith.pattern import coefficient_of, nonnegative_forms
from tilesmith.arith.smith import smith_normal_form
from tilesmith.ir import EQ, PrimExpr, Range, Var, const, convert, queries
from tilesmith.ir import operators as op
from tilesmith.ir.queries import conjuncts
from tilesmith.support.errors import UnsupportedError
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "IntConstraints", "IntConstraintsTransform", "IntGroupBounds", "solve_linear_equations",
    "solve_linear_inequalities",
]  # fmt: skip


class IntGroupBounds:
    """Bounds one variable: ``coef * var`` is at least each of ``lower``, equal to each of
    ``equal``, at most each of ``upper``.
    """

    def __init__(
        self, coef: Any, lower: Sequence[Any], equal: Sequence[Any], upper: Sequence[Any]
    ) -> None:
        self.coef: PrimExpr = convert(coef)
        self.lower = tuple([convert(item) for item in lower])
        self.equal = tuple([convert(item) for item in equal])
        self.upper = tuple([convert(item) for item in upper])

    @staticmethod
    def from_range(rng: Range) -> IntGroupBounds:
        """Returns the bounds that a range implies."""
        one = const(1, rng.min.dtype)
        if op.is_const(rng.extent, 1):
            return IntGroupBounds(one, (), (rng.min,), ())
        top = Analyzer().simplify(op.moved(rng.min + rng.extent, -1))
        return IntGroupBounds(one, (rng.min,), (), (top,))

    def find_best_range(self, ranges: Mapping[Var, Range] | None = None) -> Range | None:
        """Returns the narrowest range that a lower bound (or an equality) and an upper bound
        imply.
        """
        analyzer = Analyzer()
        for var, domain in (ranges or {}).items():
            analyzer.bind(var, domain)
        lows = [self._up(bound) for bound in (*self.lower, *self.equal)]
        highs = [op.floordiv(bound, self.coef) for bound in (*self.upper, *self.equal)]
        best: tuple[int, Range] | None = None
        for low in lows:
            for high in highs:
                extent = analyzer.simplify(op.moved(high - low, 1))
                size = analyzer.const_int_bound(extent).max_value
                if best is None or size < best[0]:
                    best = (size, Range.from_min_extent(analyzer.simplify(low), extent))
        return None if best is None else best[1]

    def _up(self, bound: PrimExpr) -> PrimExpr:
        return op.floordiv(bound + self.coef - 1, self.coef)

    def __repr__(self) -> str:
        counts = f"{len(self.lower)} lower, {len(self.equal)} equal, {len(self.upper)} upper"
        return f"IntGroupBounds(coef={self.coef}, {counts})"


class IntConstraints:
    """Holds integer variables, their ranges, and relations between them that must hold."""

    def __init__(
        self, variables: Sequence[Var], ranges: Mapping[Var, Range], relations: Sequence[PrimExpr]
    ) -> None:
        self.variables = tuple(variables)
        self.ranges = dict(ranges or {})
        self.relations = tuple(relations)


class IntConstraintsTransform:
    """Holds two systems with the same solutions, and the substitutions between their variables."""

    def __init__(
        self, src: IntConstraints, dst: IntConstraints,
        src_to_dst: Mapping[Var, PrimExpr], dst_to_src: Mapping[Var, PrimExpr],
    ) -> None:  # fmt: skip
        self.src = src
        self.dst = dst
        self.src_to_dst = dict(src_to_dst)
        self.dst_to_src = dict(dst_to_src)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


# Equations


@deep_recursion
def solve_linear_equations(
    equations: Any, variables: Any = None, ranges: Mapping[Var, Range] | None = None
) -> IntConstraintsTransform:
    """Solves equations with constant coefficients for ``variables``, by the Smith normal form.

    The new system has a variable for each degree of freedom. Equations that can fail stay as
    relations of the new system.
    """
    conditions = [
        part
        for item in _listed(equations)
        for part in conjuncts(convert(item), through_likely=True)
    ]
    unknowns = _listed(variables) or queries.variables(conditions)
    ranges = dict(ranges or {})
    analyzer = Analyzer()
    engine = analyzer.engine
    matrix: list[list[int]] = []
    right: list[PrimExpr] = []
    others: list[PrimExpr] = []
    for condition in conditions:
        row = _row(engine, condition, unknowns) if isinstance(condition, EQ) else None
        if row is None:
            others.append(condition)
        else:
            matrix.append(row[0])
            right.append(engine.writer.to_expr(times(row[1], -1)))
    source = IntConstraints(unknowns, ranges, conditions)
    if not unknowns:
        return IntConstraintsTransform(source, source, {}, {})
    return _transformed(analyzer, source, matrix, right, others)


def _row(engine: Any, condition: EQ, unknowns: Sequence[Var]) -> tuple[list[int], Sum] | None:
    """Returns the coefficients of the unknowns and the rest of ``a - b``; None if it is not linear
    with constant coefficients.
    """
    if not condition.a.dtype.is_integer:
        return None
    form = engine.terms.combine(
        plus(engine.normalizer.normal(condition.a), engine.normalizer.normal(condition.b), -1)
    )
    coefficients = []
    for var in unknowns:
        found = coefficient_of(engine, form, var)
        if found is None or found[0].terms:
            return None
        coefficients.append(found[0].const)
        form = found[1]
    return coefficients, form


def _transformed(
    analyzer: Analyzer, source: IntConstraints, matrix: list[list[int]], right: list[PrimExpr],
    others: list[PrimExpr],
) -> IntConstraintsTransform:  # fmt: skip
    unknowns, count = source.variables, len(source.variables)
    dtype = unknowns[0].dtype
    left, columns, inverse = smith_normal_form(matrix, count)
    right = [_combined(analyzer, row, right, dtype) for row in left]
    relations: list[PrimExpr] = []
    inner: list[PrimExpr] = []  # the values of the changed unknowns
    fresh: dict[Var, list[int]] = {}
    for position in range(count):
        factor = matrix[position][position] if position < len(matrix) else 0
        if factor == 0:
            var = Var(f"n{len(fresh)}", dtype)
            fresh[var] = inverse[position]
            inner.append(var)
            continue
        relations.append(
            analyzer.simplify(op.equal(op.floormod(right[position], abs(factor)), const(0, dtype)))
        )
        inner.append(
            analyzer.simplify(op.floordiv(right[position] * (1 if factor > 0 else -1), abs(factor)))
        )
    for position, value in enumerate(right):
        if position >= count or matrix[position][position] == 0:
            relations.append(analyzer.simplify(op.equal(value, const(0, dtype))))
    relations = [relation for relation in relations if not op.is_const(relation, 1)]
    to_new = {
        var: _combined(analyzer, columns[position], inner, dtype)
        for position, var in enumerate(unknowns)
    }
    to_old = {var: _combined(analyzer, row, list(unknowns), dtype) for var, row in fresh.items()}
    new_ranges = _ranges_of(to_old, source.ranges)
    for var, value in to_new.items():
        domain = source.ranges.get(var)
        if domain is not None:  # what the range of an old variable asks of the new ones
            relations += _inside(analyzer, value, domain, new_ranges)
    relations += [_replaced(analyzer, condition, to_new) for condition in others]
    target = IntConstraints(list(fresh), new_ranges, relations)
    return IntConstraintsTransform(source, target, to_new, to_old)


def _combined(
    analyzer: Analyzer, factors: Sequence[int], values: Sequence[PrimExpr], dtype: Any
) -> PrimExpr:
    total: PrimExpr = const(0, dtype)
    for factor, value in zip(factors, values):
        total = total + value * factor
    return analyzer.simplify(total)


def _ranges_of(
    definitions: Mapping[Var, PrimExpr], ranges: Mapping[Var, Range]
) -> dict[Var, Range]:
    found: dict[Var, Range] = {}
    for var, value in definitions.items():
        interval = eval_set(value, ranges)
        used = set(queries.variables(value))
        if interval.has_lower_bound() and interval.has_upper_bound() and used <= set(ranges):
            extent = Analyzer().simplify(op.moved(interval.max_value - interval.min_value, 1))
            found[var] = Range.from_min_extent(interval.min_value, extent)
    return found


def _inside(
    analyzer: Analyzer, value: PrimExpr, domain: Range, ranges: Mapping[Var, Range]
) -> list[PrimExpr]:
    """Returns the conditions for ``value`` to lie in a range, without those that the new ranges
    imply.
    """
    known = Analyzer()
    for var, range_ in ranges.items():
        known.bind(var, range_)
    conditions = [domain.min <= value, value < analyzer.simplify(domain.min + domain.extent)]
    simple = [known.simplify(condition) for condition in conditions]
    return [condition for condition in simple if not op.is_const(condition, 1)]


def _replaced(analyzer: Analyzer, condition: PrimExpr, values: Mapping[Var, PrimExpr]) -> PrimExpr:
    inner = Analyzer()
    for var, value in values.items():
        inner.bind(var, value)
    return inner.simplify(condition)


# Inequalities


@deep_recursion
def solve_linear_inequalities(
    equations: Any,
    variables: Any = None,
    ranges: Mapping[Var, Range] | None = None,
    deskew_range: bool = False,
) -> Any:
    """Returns the ranges of ``variables`` that follow from inequalities, by Fourier-Motzkin
    elimination.

    The variables are solved in order: the range of one is written in terms of those after it. Gives
    `IntConstraints`, or an `IntConstraintsTransform` to variables that start at 0 with
    ``deskew_range``.
    """
    conditions = [
        part
        for item in _listed(equations)
        for part in conjuncts(convert(item), through_likely=True)
    ]
    unknowns = _listed(variables) or queries.variables(conditions)
    ranges = dict(ranges or {})
    analyzer = Analyzer()
    engine = analyzer.engine
    forms: list[Sum] = []
    relations: list[PrimExpr] = []
    for condition in conditions:
        found = nonnegative_forms(engine, condition)
        if found is None:
            relations.append(condition)
        else:
            forms += found
    for var in unknowns:
        if var in ranges:
            domain = ranges[var]
            forms += nonnegative_forms(engine, var >= domain.min) or []
            forms += nonnegative_forms(engine, var < domain.min + domain.extent) or []
    bounds: dict[Var, tuple[list[Sum], list[Sum]]] = {}
    for var in unknowns:
        lows, highs, forms = _eliminate(engine, var, forms)
        bounds[var] = (lows, highs)
    for form in forms:
        if not engine.prover.prove(form):
            relations.append(analyzer.simplify(engine.writer.to_expr(form) >= 0))
    solved = _solved_ranges(analyzer, unknowns, bounds, relations)
    source = IntConstraints(unknowns, ranges, conditions)
    target = IntConstraints(unknowns, solved, relations)
    return _deskewed(analyzer, source, target) if deskew_range else target


def _eliminate(engine: Any, var: Var, forms: list[Sum]) -> tuple[list[Sum], list[Sum], list[Sum]]:
    """Returns the bounds of ``var`` (lower, upper), and the inequalities between the other
    variables that remain.
    """
    lows: list[tuple[int, Sum]] = []
    highs: list[tuple[int, Sum]] = []
    rest: list[Sum] = []
    for form in forms:
        found = coefficient_of(engine, form, var)
        if found is None or found[0].terms:
            raise UnsupportedError(
                f"an inequality must be linear in '{var.name}' with a constant coefficient"
            )
        factor, other = found[0].const, found[1]
        if factor == 0:
            rest.append(form)
        elif factor > 0:
            lows.append((factor, other))
        else:
            highs.append((-factor, other))
    for factor_low, low in lows:
        for factor_high, high in highs:
            common = gcd(factor_low, factor_high)
            both = plus(times(low, factor_high // common), high, factor_low // common)
            both = engine.terms.combine(both)
            if both.terms:
                both = exact_quotient(both, coefficient_gcd(both))
            rest.append(both)
    lower = [
        engine.divider.divide(shifted(times(form, -1), factor - 1), factor)[0]
        for factor, form in lows
    ]
    upper = [engine.divider.divide(form, factor)[0] for factor, form in highs]
    return lower, upper, _distinct(engine, rest)


def _distinct(engine: Any, forms: list[Sum]) -> list[Sum]:
    found = {engine.table.number(form): form for form in forms}
    return [form for form in found.values() if form.terms or form.const < 0]


def _solved_ranges(
    analyzer: Analyzer, unknowns: Sequence[Var], bounds: dict[Var, tuple[list[Sum], list[Sum]]],
    relations: list[PrimExpr],
) -> dict[Var, Range]:  # fmt: skip
    from tilesmith.ir import Max, Min

    engine = analyzer.engine
    solved: dict[Var, Range] = {}
    for var in reversed(list(unknowns)):
        lows, highs = bounds[var]
        if lows and highs:
            low, high = engine.extremes.extreme(Max, lows), engine.extremes.extreme(Min, highs)
            extent = engine.writer.to_expr(engine.terms.combine(shifted(plus(high, low, -1), 1)))
            solved[var] = Range.from_min_extent(
                engine.writer.to_expr(low), analyzer.simplify(extent)
            )
            analyzer.bind(var, solved[var])
            continue
        for form in lows:
            relations.append(engine.writer.to_expr(form) <= var)
        for form in highs:
            relations.append(var <= engine.writer.to_expr(form))
    return solved


def _deskewed(
    analyzer: Analyzer, source: IntConstraints, target: IntConstraints
) -> IntConstraintsTransform:
    """Shifts each variable so that its range starts at 0."""
    to_new: dict[Var, PrimExpr] = {}
    to_old: dict[Var, PrimExpr] = {}
    ranges: dict[Var, Range] = {}
    fresh: list[Var] = []
    for var in reversed(target.variables):
        domain = target.ranges.get(var)
        new = Var(var.name, var.dtype)
        low = const(0, var.dtype) if domain is None else _replaced(analyzer, domain.min, to_new)
        to_new[var] = Analyzer().simplify(new + low)
        to_old[new] = Analyzer().simplify(
            var - (const(0, var.dtype) if domain is None else domain.min)
        )
        if domain is not None:
            extent = _replaced(analyzer, domain.extent, to_new)
            ranges[new] = Range.from_min_extent(const(0, var.dtype), extent)
        fresh.insert(0, new)
    relations = [_replaced(analyzer, relation, to_new) for relation in target.relations]
    return IntConstraintsTransform(source, IntConstraints(fresh, ranges, relations), to_new, to_old)
