"""Finds shapes of expressions: linear in some variables, bounds on variables, repeated parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.engine import Engine
from tilesmith.arith.forms import (
    TOO_LARGE,
    Product,
    Sum,
    magnitude,
    of_atom,
    plus,
    retyped,
    shifted,
    times,
)
from tilesmith.arith.interval_eval import IntervalEvaluator
from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    And,
    CompareOp,
    IntImm,
    Max,
    Min,
    Node,
    Not,
    PrimExpr,
    StringImm,
    Var,
    const,
    convert,
)  # fmt: skip
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import conjuncts
from tilesmith.support.recursion import deep_recursion

__all__ = ["detect_clip_bound", "detect_common_subexpr", "detect_linear_equation"]


def coefficient_of(engine: Engine, form: Sum, var: Var) -> tuple[Sum, Sum] | None:
    """Finds ``form == coefficient * var + rest``; None if ``var`` occurs in any other way."""
    atom = engine.table.variable(var)
    inside = IntervalEvaluator(engine, {var: (None, None)})
    coefficient = Sum(form.dtype, {}, 0)
    rest = Sum(form.dtype, {}, form.const)
    for term, factor in form.terms.items():
        if term is atom:
            coefficient = shifted(coefficient, factor)
        elif not inside.depends(term):
            rest = plus(rest, of_atom(term), factor)
        elif isinstance(term, Product):
            others = list(term.factors)
            if atom not in others:
                return None
            others.remove(atom)
            if any(inside.depends(other) for other in others):
                return None
            coefficient = plus(
                coefficient, of_atom(engine.table.product(others, term.dtype)), factor
            )
        else:
            return None
    return coefficient, rest


@deep_recursion
def detect_linear_equation(expr: Any, var_list: Sequence[Var]) -> list[PrimExpr]:
    """Finds ``[c0, c1, ..., base]`` with ``expr == c0 * v0 + c1 * v1 + ... + base``; empty if it is
    not linear, or may wrap around."""
    expr = convert(expr)
    if not expr.dtype.is_integer or expr.dtype.lanes != 1:
        return []
    engine = Analyzer().engine
    form = engine.normalizer.normal(expr)
    if not engine.bounds.is_exact(form):
        return []
    coefficients: list[Sum] = []
    for var in var_list:
        found = coefficient_of(engine, form, var)
        if found is None:
            return []
        coefficient, form = found
        others = IntervalEvaluator(engine, dict.fromkeys(var_list, (None, None)))
        if any(others.depends(atom) for atom in coefficient.terms):
            return []
        coefficients.append(coefficient)
    parts = [engine.writer.to_expr(retyped(c, v.dtype)) for c, v in zip(coefficients, var_list)]
    if all(is_const(c, 0) for c in parts):  # as it is, where no variable occurs
        simple = engine.writer.to_expr(form)
        return [*parts, expr if _length(expr) <= _length(simple) else simple]
    return [*parts, engine.writer.to_expr(form)]


def _length(expr: PrimExpr) -> int:
    """Counts the nodes of an expression."""
    return 1 + sum([_length(child) for child in expr.children() if isinstance(child, PrimExpr)])


@deep_recursion
def detect_clip_bound(expr: Any, var_list: Sequence[Var]) -> list[PrimExpr | None]:
    """Finds ``[min0, max0, min1, max1, ...]``, the bounds that a conjunction of comparisons sets
    for the variables.

    None where there is no bound; an empty list if a comparison is not linear in one of them, or
    says something else than the bounds tell.
    """
    engine = Analyzer().engine
    bounds: dict[Var, list[Sum | None]] = {var: [None, None] for var in var_list}
    for part in conjuncts(_without_negation(engine, convert(expr)), through_likely=True):
        forms = nonnegative_forms(engine, part)
        if forms is None or not all(_clip(engine, form, var_list, bounds) for form in forms):
            return []
    found: list[PrimExpr | None] = []
    for var in var_list:
        found += [None if end is None else engine.writer.to_expr(end) for end in bounds[var]]
    return found


def _without_negation(engine: Engine, expr: PrimExpr) -> PrimExpr:
    if isinstance(expr, And):
        return And(_without_negation(engine, expr.a), _without_negation(engine, expr.b))
    return engine.rewriter.rewrite(expr) if isinstance(expr, Not) else expr


def nonnegative_forms(engine: Engine, part: PrimExpr) -> list[Sum] | None:
    """Returns sums that are non-negative exactly if a comparison holds; None if it is not a
    comparison of integers, or one whose sides may wrap around.
    """
    if not isinstance(part, (LT, LE, GT, GE, EQ)) or not isinstance(part, CompareOp):
        return None
    sides = (part.a, part.b) if isinstance(part, (GT, GE)) else (part.b, part.a)
    difference = engine.difference(*sides)
    if difference is None:
        return None
    if isinstance(part, EQ):
        return [difference, times(difference, -1)]
    return [shifted(difference, -1) if isinstance(part, (LT, GT)) else difference]


def _clip(
    engine: Engine, form: Sum, variables: Sequence[Var], bounds: dict[Var, list[Sum | None]]
) -> bool:
    """Tightens the bounds by one inequality; returns False if that is not possible."""
    used = []
    for var in variables:
        inside = IntervalEvaluator(engine, {var: (None, None)})
        if any(inside.depends(atom) for atom in form.terms):
            used.append(var)
    if len(used) != 1:
        return False  # a bound of one variable by another is not a bound
    found = coefficient_of(engine, form, used[0])
    if found is None or found[0].terms or found[0].const == 0:
        return False
    factor, rest = found[0].const, found[1]
    ends = bounds[used[0]]
    if factor > 0:  # var >= ceil(-rest / factor)
        low = engine.divider.divide(shifted(times(rest, -1), factor - 1), factor)[0]
        if magnitude(low) == TOO_LARGE:
            return False
        ends[0] = low if ends[0] is None else engine.extremes.extreme(Max, [ends[0], low])
    else:
        high = engine.divider.divide(rest, -factor)[0]
        if magnitude(high) == TOO_LARGE:
            return False
        ends[1] = high if ends[1] is None else engine.extremes.extreme(Min, [ends[1], high])
    return True


@deep_recursion
def detect_common_subexpr(expr: Any, threshold: int) -> dict[PrimExpr, int]:
    """Returns the subexpressions that occur at least ``threshold`` times, each with its number of
    occurrences.
    """
    engine = Analyzer().engine
    counts: dict[int, int] = {}
    first: dict[int, PrimExpr] = {}

    def walk(node: Any) -> None:
        if isinstance(node, PrimExpr) and not isinstance(node, (Var, IntImm, StringImm)):
            if node.dtype is not const(True, "bool").dtype:
                number = engine.numbering.number(node)
                counts[number] = counts.get(number, 0) + 1
                first.setdefault(number, node)
        if isinstance(node, Node) and not node.is_leaf:
            node.for_each_child(walk)

    walk(convert(expr))
    return {first[number]: count for number, count in counts.items() if count >= threshold}
