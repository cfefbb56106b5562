"""Simplifies conjunctions and disjunctions: a part is dropped if the other parts imply it.

x < 5 and x < 8          ->  x < 5
p or p and q             ->  p
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith.comparisons import FALSE, TRUE, Comparisons
from tilesmith.arith.facts import Facts
from tilesmith.arith.forms import Split, Sum, direction, is_index, of_atom, plus, shifted, times
from tilesmith.arith.interfaces import ExpressionRewriter, NormalForms
from tilesmith.arith.like_terms import LikeTerms
from tilesmith.arith.numbering import Numbering
from tilesmith.ir import (
    EQ,
    LE,
    LT,
    NE,
    And,
    Call,
    CompareOp,
    Div,
    FloorDiv,
    FloorMod,
    Mod,
    Not,
    Or,
    PrimExpr,
    Var,
)  # fmt: skip
from tilesmith.ir.operators import is_const, logical_and, logical_or

__all__ = ["Connectives"]

Ray = tuple[object, float, float, bool]
"""A condition on one sum: key of the sum, smallest and largest value, whether inside."""

_MOST_CLAUSES = 64  # a condition with more clauses than that is not multiplied out


class Connectives:
    """Simplifies conjunctions and disjunctions."""

    __slots__ = ("caches", "comparisons", "normalizer", "numbering", "rewriter", "terms")

    rewriter: ExpressionRewriter
    """Simplifies a condition where another one holds; set by the engine."""

    def __init__(
        self,
        facts: Facts,
        numbering: Numbering,
        terms: LikeTerms,
        normalizer: NormalForms,
        comparisons: Comparisons,
    ) -> None:
        self.numbering = numbering
        self.terms = terms
        self.normalizer = normalizer
        self.comparisons = comparisons
        self.caches = facts.caches

    def joined(self, kind: type, expr: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Joins simplified operands to ``a and b`` (``a or b``) without parts that the rest
        implies.
        """
        first = _flat(kind, a)  # have been compared with each other when ``a`` was made
        second = _flat(kind, b)
        parts = list(first)
        joins_digits = False
        for part in second:
            keep = True
            for position, other in enumerate(parts):
                relation = self._relation(kind, other, part)
                if relation is None:
                    continue
                if isinstance(relation, And) and (relation.b is part or relation.b is other):
                    if sum([_is_of_digit(one) for one in (*first, *second)]) > 1:
                        continue  # together they may have no solution: then no bound would do
                keep = False
                if isinstance(relation, PrimExpr):  # what both say together
                    parts[position] = relation
                    joins_digits = joins_digits or relation.__class__ is kind
                elif relation == "decided":
                    return FALSE if kind is And else TRUE
                elif relation == "second":
                    parts[position] = part
                break
            if keep:
                parts.append(part)
        lighter = self._lightened_all(kind, parts)
        if lighter is parts and len(parts) == len(first) + len(second) and len(second) == 1:
            made: PrimExpr = expr if a is expr.a and b is expr.b else kind(a, b)
            return made
        join = logical_and if kind is And else logical_or
        result = lighter[0]
        for part in lighter[1:]:
            result = join(result, part)
        return self.rewriter.rewrite(result) if joins_digits else result

    # What extensions ask for

    def under_each_other(self, kind: type, expr: PrimExpr) -> PrimExpr:
        """Simplifies each part of a conjunction under the assumption that the others hold (of a
        disjunction: that the others fail).
        """
        parts = _flat(kind, expr)
        changed = False
        for position in range(len(parts)):
            # what comes later is known only of a part that may as well be evaluated after it
            end = len(parts) if _never_fails(parts[position]) else position
            others = [part for place, part in enumerate(parts[:end]) if place != position]
            others = [part for part in others if _never_fails(part)]
            if not others:
                continue
            context = others[0] if kind is And else Not(others[0])
            for other in others[1:]:
                context = And(context, other if kind is And else Not(other))
            new = self.rewriter.rewrite_under(context, parts[position])
            changed = changed or new is not parts[position]
            parts[position] = new
        return self._chained(kind, parts) if changed else expr

    def _chained(self, kind: type, parts: list[PrimExpr]) -> PrimExpr:
        result = parts[0]
        for part in parts[1:]:
            if is_const(result) or is_const(part):
                result = (logical_and if kind is And else logical_or)(result, part)
            else:
                result = self.joined(kind, kind(result, part), result, part)
        return result

    def and_of_ors(self, expr: PrimExpr) -> PrimExpr:
        """Multiplies a condition out to a conjunction of disjunctions; returns it unchanged if the
        result would be too long.
        """
        clauses = self._clauses(expr)
        if clauses is None:
            return expr
        return self._chained(And, [self._chained(Or, clause) for clause in clauses])

    def _clauses(self, expr: Any) -> list[list[PrimExpr]] | None:
        if expr.__class__ is And or expr.__class__ is Or:
            a, b = self._clauses(expr.a), self._clauses(expr.b)
            if a is None or b is None:
                return None
            if expr.__class__ is And:
                return a + b
            if len(a) * len(b) > _MOST_CLAUSES:
                return None
            return [[*x, *y] for x in a for y in b]
        return [[expr]]

    # One part beside another

    def _lightened_all(self, kind: type, parts: list[PrimExpr]) -> list[PrimExpr]:
        """Shortens the disjunctions of a conjunction (or the other way round) by what the other
        parts imply; returns the same list if nothing changed.
        """
        dual = Or if kind is And else And
        for position, part in enumerate(parts):
            if part.__class__ is dual and len(parts) > 1:
                others = parts[:position] + parts[position + 1 :]
                lighter = self._lightened(kind, dual, part, others)
                if lighter is not part:
                    kept = [lighter] if lighter is not None else []
                    left = [*parts[:position], *kept, *parts[position + 1 :]]
                    return self._lightened_all(kind, left)
        return parts

    def _lightened(
        self, kind: type, dual: type, part: PrimExpr, others: list[PrimExpr]
    ) -> PrimExpr | None:
        """Shortens ``p or q`` next to other parts of a conjunction: next to ``p`` it is dropped
        (None), next to ``not p`` it becomes ``q``.
        """
        items = _flat(dual, part)
        kept = []
        for item in items:
            relations = [self._relation(kind, other, item) for other in others]
            names = [found for found in relations if found.__class__ is str]
            if "first" in names:
                return None
            if "decided" not in names:
                kept.append(item)
        if len(kept) == len(items):
            return part
        join = logical_or if dual is Or else logical_and
        result: PrimExpr = FALSE if dual is Or else TRUE
        for item in kept:
            result = join(result, item)
        return result

    def _relation(self, kind: type, a: PrimExpr, b: PrimExpr) -> Any:
        """Compares two conditions: "first" or "second" names the one that alone determines the
        result, "decided" means that together they are constant; None if neither holds.
        """
        if a is b:
            return "first"
        dual = Or if kind is And else And
        if a.__class__ is dual and b.__class__ is dual:
            return self._clause_relation(kind, dual, a, b)
        this, that = self._ray(a), self._ray(b)
        if this is None or that is None:
            if this is not that:  # a comparison of integers, and something else
                return None
            if self.numbering.number(a) == self.numbering.number(b):
                return "first"
            if a.__class__ is Not and self.numbering.number(a.a) == self.numbering.number(b):
                return "decided"
            if b.__class__ is Not and self.numbering.number(b.a) == self.numbering.number(a):
                return "decided"
            return None
        if this[0] != that[0]:
            if kind is And and this[3] and that[3]:
                both = self._with_digit(a, this, b, that)
                return self._with_digit(b, that, a, this) if both is None else both
            return None
        found = _rays(kind, this, that)
        if found is None and kind is And and this[3] and that[3]:
            low, high = max(this[1], that[1]), min(this[2], that[2])
            return self._point(a, EQ, int(low)) if low == high else self._tile(a, low, high)
        if found is None and kind is Or and this[3] and that[3]:
            return self._united(a, this, that)
        return found

    def _clause_relation(self, kind: type, dual: type, a: PrimExpr, b: PrimExpr) -> Any:
        """Compares ``p or q`` with ``q or p or r`` (which it implies), and ``p or q`` with ``p or
        not q`` (which say ``p`` together); what `_relation` returns.
        """
        number = self.numbering.number
        first = {number(item): item for item in _flat(dual, a)}
        second = {number(item): item for item in _flat(dual, b)}
        only_first = [item for key, item in first.items() if key not in second]
        only_second = [item for key, item in second.items() if key not in first]
        if not only_first:
            return "first"
        if not only_second:
            return "second"
        if len(only_first) != 1 or len(only_second) != 1 or len(first) != len(second):
            return None
        relation = self._relation(kind, only_first[0], only_second[0])
        if relation.__class__ is not str:
            return None
        shared = [item for key, item in first.items() if key in second]
        if relation == "decided":
            return self._chained(dual, shared) if shared else None
        return relation

    def _with_digit(self, a: Any, this: Ray, b: Any, that: Ray) -> PrimExpr | None:
        """Joins a condition with one on a remainder: ``x // 4 == y and x % 4 < 3`` says that
        ``y * 4 <= x and x < y * 4 + 3``, and ``x < 34 and x % 7 < 3`` that ``x < 31``.
        """
        if FloorMod not in (b.a.__class__, b.b.__class__):
            return None
        form = self._difference(b)
        digit = next(iter(form.terms))
        if digit.__class__ is not Split or digit.lower != 1 or len(form.terms) != 1:
            return None
        width = digit.upper
        low, high = int(max(that[1], 0)), int(min(that[2], width - 1))
        if low > high:
            return None
        if a.__class__ is EQ:
            return self._whole(a, digit, low, high)
        index = digit.index
        key, scale = direction(index)
        if key != this[0] or scale != 1:
            return None
        if this[2] != float("inf"):
            last = int(this[2]) + index.const
            rest = last % width
            tight = last if low <= rest <= high else last - rest + high - width * (rest < low)
            bound = shifted(times(index, -1), tight)
        else:
            last = int(this[1]) + index.const
            rest = last % width
            tight = last if low <= rest <= high else last - rest + low + width * (rest > high)
            bound = shifted(index, -tight)
        if tight == last:
            return None
        strict = a.__class__ is LT
        made = self.comparisons.canonical(a.__class__, shifted(bound, int(strict)), False)
        return None if made is None else And(made, b)

    def _whole(self, a: Any, digit: Split, low: int, high: int) -> PrimExpr | None:
        """Joins ``x // 4 == y`` with bounds of ``x % 4``."""
        if FloorDiv not in (a.a.__class__, a.b.__class__):
            return None
        form = self._difference(a)
        for atom, coefficient in form.terms.items():
            if atom.__class__ is not Split or (atom.lower, atom.upper) != (digit.upper, 0):
                continue
            if atom.index is not digit.index and plus(atom.index, digit.index, -1).terms:
                continue
            if abs(coefficient) != 1 or atom.index.const != digit.index.const:
                continue
            value = times(plus(form, of_atom(atom), -coefficient), -coefficient * digit.upper)
            rest = self.terms.combine(plus(digit.index, value, -1))  # in [low, high]
            if low == high:
                return self.comparisons.canonical(EQ, shifted(times(rest, -1), low), False)
            first = self.comparisons.canonical(LE, shifted(rest, -low), False)
            second = self.comparisons.canonical(LT, shifted(times(rest, -1), high + 1), False)
            return None if first is None or second is None else And(first, second)
        return None

    def _difference(self, comparison: Any) -> Sum:
        return self.terms.combine(
            plus(self.normalizer.normal(comparison.b), self.normalizer.normal(comparison.a), -1)
        )

    def _united(self, comparison: Any, this: Ray, that: Ray) -> PrimExpr | None:
        """Unites ``x < y or x == y`` to ``x <= y``, ``x < y or y < x`` to ``x != y``."""
        (_, low_a, high_a, _), (_, low_b, high_b, _) = (this, that) if this[1] < that[1] else (
            that, this,
        )  # fmt: skip
        if high_a + 1 == low_b:
            if low_a == -float("inf"):
                return self._point(comparison, LE, int(high_b))
            if high_b == float("inf"):
                return self._point(comparison, LE, int(low_a), True)
        if high_a + 2 == low_b and low_a == -float("inf") and high_b == float("inf"):
            return self._point(comparison, NE, int(high_a) + 1)
        return None

    def _point(
        self, comparison: Any, kind: type, value: int, least: bool = False
    ) -> PrimExpr | None:
        """Returns ``x == 3`` for ``3 <= x and x <= 3``; with ``LE``, returns ``x <= 3`` or ``3 <=
        x``.
        """
        form = self.terms.combine(
            plus(self.normalizer.normal(comparison.b), self.normalizer.normal(comparison.a), -1)
        )
        scale = direction(form)[1]
        terms = {atom: coefficient // scale for atom, coefficient in form.terms.items()}
        form = Sum(form.dtype, terms, -value)
        if (not least) if kind is LE else scale < 0:  # sides as in the comparison
            form = times(form, -1)
        return self.comparisons.canonical(kind, form, False)

    def _tile(self, comparison: Any, low: float, high: float) -> PrimExpr | None:
        """Returns ``y == x // 4`` for ``0 <= x - y * 4 and x - y * 4 < 4``; None if the sum that
        is compared, which lies in [low, high], is not of that form.
        """
        width = high - low + 1
        form = self._difference(comparison)
        if len(form.terms) != 2 or not 2 <= width < float("inf"):
            return None
        scale = direction(form)[1]
        (x, one), (y, many) = sorted(form.terms.items(), key=lambda term: abs(term[1]))
        one, many = one // scale, many // scale
        if abs(one) != 1 or many != -one * width:
            return None
        start, size = int(low if one == 1 else -high), int(width)
        if start % size:  # x - start might overflow where x does not
            return None
        divisor = self.comparisons.writer.constant(size, form.dtype)
        dividend = self.comparisons.writer.to_expr(Sum(form.dtype, {x: 1}, 0))
        quotient = self.normalizer.normal(FloorDiv(dividend, divisor))
        difference = plus(quotient, Sum(form.dtype, {y: 1}, 0), -1)
        difference = self.terms.combine(shifted(difference, -(start // size)))
        return self.comparisons.canonical(EQ, difference, False)

    def _ray(self, expr: PrimExpr) -> Ray | None:
        """Describes a condition on one sum as (key of the sum, smallest value, largest value,
        whether the values lie inside).
        """
        found = self.caches.rays.get(id(expr))
        if found is None:
            found = self.caches.rays[id(expr)] = (expr, self._new_ray(expr))
        return found[1]

    def _new_ray(self, expr: PrimExpr) -> Ray | None:
        kind = expr.__class__
        if kind not in (LT, LE, EQ, NE) or not is_index(expr.a.dtype):  # type: ignore[attr-defined]
            return None
        form = plus(self.normalizer.normal(expr.b), self.normalizer.normal(expr.a), -1)  # type: ignore[attr-defined]
        form = self.terms.combine(shifted(form, -1) if kind is LT else form)
        if not form.terms:
            return None
        key, scale = direction(form)
        infinity = float("inf")
        if kind in (EQ, NE):
            if form.const % scale:
                return None
            return key, -form.const // scale, -form.const // scale, kind is EQ
        if scale > 0:
            return key, -(form.const // scale), infinity, True
        return key, -infinity, form.const // -scale, True


def _is_of_digit(expr: Any) -> bool:
    """Returns True for a comparison with a remainder."""
    return isinstance(expr, CompareOp) and FloorMod in (expr.a.__class__, expr.b.__class__)


def _never_fails(expr: PrimExpr) -> bool:
    """Returns True if evaluating a condition cannot fail: it contains no calls and no division by a
    value that may be zero.
    """
    stack: list[Any] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, (FloorDiv, FloorMod, Div, Mod)) and not is_const(node.b):
            return False
        if isinstance(node, Call):
            return False
        if not isinstance(node, Var):
            stack.extend(node.children())
    return True


def _rays(kind: type, a: Ray, b: Ray) -> Any:
    """Compares two sets of values of the same sum; the result is that of `_relation`."""
    _, low_a, high_a, in_a = a
    _, low_b, high_b, in_b = b
    apart = high_a < low_b or high_b < low_a
    if in_a and in_b:
        if kind is And and apart:
            return "decided"
        if kind is Or and (low_a <= high_b + 1 and low_b <= high_a + 1):
            if min(low_a, low_b) == -float("inf") and max(high_a, high_b) == float("inf"):
                return "decided"
        a_in_b = low_b <= low_a and high_a <= high_b
        b_in_a = low_a <= low_b and high_b <= high_a
        if a_in_b:
            return "first" if kind is And else "second"
        if b_in_a:
            return "second" if kind is And else "first"
        return None
    if in_a != in_b:  # one says which value it is not
        inside_is_first = in_a
        hole, low, high = (low_b, low_a, high_a) if in_a else (low_a, low_b, high_b)
        if kind is And:
            if low == high == hole:
                return "decided"
            if not low <= hole <= high:
                return "first" if inside_is_first else "second"
        else:
            if low <= hole <= high:
                return "decided"
            return "second" if inside_is_first else "first"
        return None
    if low_a == low_b:
        return "first"
    return "decided" if kind is Or else None


_MOST_PARTS = 16


def _flat(kind: type[Any], expr: Any) -> list[PrimExpr]:
    """Returns the operands of a chain of ``and`` (``or``) from left to right; if there are too
    many, the first ones remain one operand.
    """
    parts: list[PrimExpr] = []
    while expr.__class__ is kind and len(parts) < _MOST_PARTS:
        if expr.b.__class__ is kind:
            parts[:0] = _flat(kind, expr.b)
        else:
            parts.insert(0, expr.b)
        expr = expr.a
    parts.insert(0, expr)
    return parts
