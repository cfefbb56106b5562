"""Decides comparisons of integers.

``a < b`` asks for the sign of one sum, ``b - a - 1 >= 0``. If that is not decided, the comparison
is written anew with what cancels gone: ``i * 16 + j < n * 16 + j`` becomes ``i < n``.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from tilesmith.arith.bounds import Bounds
from tilesmith.arith.cases import Cases
from tilesmith.arith.division import Divider
from tilesmith.arith.facts import Facts
from tilesmith.arith.form_table import FormTable
from tilesmith.arith.form_writer import FormWriter
from tilesmith.arith.forms import (
    INT64,
    Extreme,
    Product,
    Quotient,
    Remainder,
    Split,
    Sum,
    coefficient_gcd,
    exact_quotient,
    is_index,
    of_atom,
    plus,
    retyped,
    same_expression,
    shifted,
    times,
)  # fmt: skip
from tilesmith.arith.interfaces import ExpressionRewriter, NormalForms
from tilesmith.arith.like_terms import LikeTerms, end_of_quotient
from tilesmith.arith.numbering import Numbering
from tilesmith.arith.prover import Prover
from tilesmith.arith.residues import Residues
from tilesmith.ir import EQ, GE, GT, LE, LT, NE, And, Min, Not, Or, PrimExpr, Var, const
from tilesmith.ir.operators import is_const
from tilesmith.runtime.dtype import DataType

__all__ = ["FALSE", "TRUE", "Comparisons"]

TRUE = const(True, "bool")
FALSE = const(False, "bool")
_WITH_STRUCTURE = (Split, Product, Quotient, Remainder, Extreme)
_FLIPPED = {GT: LT, GE: LE}


class Comparisons:
    """Decides comparisons, or rewrites them with fewer terms."""

    __slots__ = (
        "bounds", "cases", "divider", "facts", "normalizer", "numbering", "prover", "residues",
        "rewriter", "table", "terms", "writer",
    )  # fmt: skip

    rewriter: ExpressionRewriter
    """Simplifies the sides that are left; set by the engine."""

    def __init__(
        self,
        facts: Facts,
        numbering: Numbering,
        table: FormTable,
        writer: FormWriter,
        bounds: Bounds,
        residues: Residues,
        terms: LikeTerms,
        prover: Prover,
        divider: Divider,
        normalizer: NormalForms,
        cases: Cases,
    ) -> None:
        self.facts = facts
        self.numbering = numbering
        self.table = table
        self.writer = writer
        self.bounds = bounds
        self.residues = residues
        self.terms = terms
        self.prover = prover
        self.divider = divider
        self.normalizer = normalizer
        self.cases = cases

    def comparison(self, expr: Any) -> PrimExpr:
        """Decides a comparison, or rewrites it with fewer terms."""
        kind, a, b = expr.__class__, expr.a, expr.b
        if not a.dtype.is_integer:
            return self._other_comparison(expr)
        if kind is GT or kind is GE:
            kind, a, b = _FLIPPED[kind], b, a
        form_a, form_b = self.normalizer.normal(a), self.normalizer.normal(b)
        difference = self.difference(form_b, form_a)
        if difference is None:
            return self._wrapping_comparison(expr, kind, form_a, form_b)
        if not is_index(form_a.dtype):
            if kind is LT or kind is LE:
                answer = self.sign(shifted(difference, -1) if kind is LT else difference)
            else:
                answer = self._equality(difference)
                answer = answer if answer is None or kind is EQ else not answer
            return self._rebuilt(expr) if answer is None else TRUE if answer else FALSE
        if kind is LT or kind is LE:
            return self._inequality(expr, kind, form_a, form_b, difference)
        answer = self._equality(difference)
        if answer is not None:
            return TRUE if answer is (kind is EQ) else FALSE
        if kind is NE:  # x % 4 != 0  ->  0 < x % 4
            low, high = self.bounds.of(difference)
            if low >= 0:
                return self._inequality(expr, LT, form_a, form_b, difference)
            if high <= 0:
                return self._inequality(expr, LT, form_b, form_a, times(difference, -1))
        common = coefficient_gcd(difference)
        factors = self._zero_factors(kind, difference)
        if factors is not None:
            return factors
        return self._known(
            self._written(expr, kind, form_a, form_b, exact_quotient(difference, common))
        )

    def difference(self, a: Sum, b: Sum) -> Sum | None:
        """Returns ``a - b`` over the whole numbers, in int64 for the dtypes that wrap around; None
        if one of the sums may do so.
        """
        if is_index(a.dtype):
            return self.terms.combine(plus(a, b, -1))
        if not (self.bounds.is_exact(a) and self.bounds.is_exact(b)):
            return None
        return plus(retyped(a, INT64), retyped(b, INT64), -1)

    def _known(self, expr: PrimExpr) -> PrimExpr:
        """Decides a condition that is assumed to hold, or not to hold."""
        if self.facts.literals:
            truth = self.facts.literals.get(self.numbering.number(expr))
            if truth is not None:
                return TRUE if truth else FALSE
        return expr

    def _other_comparison(self, expr: Any) -> PrimExpr:
        new = self.rewriter.fold(expr)
        if (
            isinstance(new, (EQ, NE))
            and new.a.dtype.is_bool
            and self.numbering.number(new.a) == self.numbering.number(new.b)
        ):
            return TRUE if isinstance(new, EQ) else FALSE
        if isinstance(new, (EQ, NE)) and new.a.dtype.is_bool:
            for this, other in ((new.a, new.b), (new.b, new.a)):
                if is_const(this):
                    same = is_const(this, 1) == isinstance(new, EQ)
                    return other if same else self.rewriter.rewrite(Not(other))
        return self._known(new)

    def _wrapping_comparison(self, expr: Any, kind: type, a: Sum, b: Sum) -> PrimExpr:
        """Compares in a dtype that wraps around: only the bounds of both sides are used."""
        (low_a, high_a), (low_b, high_b) = self.bounds.of(a), self.bounds.of(b)
        if self.table.number(a) == self.table.number(b):
            return TRUE if kind in (EQ, LE) else FALSE
        if kind in (EQ, NE) and (high_a < low_b or high_b < low_a):
            return FALSE if kind is EQ else TRUE
        if kind is LT and (high_a < low_b or low_a >= high_b):
            return TRUE if high_a < low_b else FALSE
        if kind is LE and (high_a <= low_b or low_a > high_b):
            return TRUE if high_a <= low_b else FALSE
        return self._rebuilt(expr)

    def _rebuilt(self, expr: Any) -> PrimExpr:
        new_a, new_b = self.rewriter.rewrite(expr.a), self.rewriter.rewrite(expr.b)
        same = new_a is expr.a and new_b is expr.b
        rebuilt: PrimExpr = expr if same else expr.__class__(new_a, new_b)
        return rebuilt

    # Equalities

    def _equality(self, difference: Sum) -> bool | None:
        """Returns True or False if it is known whether a sum is zero, else None."""
        if not difference.terms:
            return difference.const == 0
        low, high = self.bounds.of(difference)
        if low > 0 or high < 0 or difference.const % coefficient_gcd(difference):
            return False
        if low == 0 == high:
            return True
        coeff, base = self.residues.of(difference) if self.facts.has_residues() else (1, 0)
        if coeff == 0:
            return base == 0
        if base % coeff or (self.facts.sum_facts and self.facts.is_hole(difference)):
            return False
        if self.facts.sum_facts and self.facts.inequalities and self._differs(difference):
            return False
        if self._worth_proving(difference):
            opposite, prove = times(difference, -1), self.prover.prove
            if prove(shifted(difference, -1), 2) or prove(shifted(opposite, -1), 2):
                return False
            if self.facts.inequalities and prove(difference, 2) and prove(opposite, 2):
                return True
        return None

    def _zero_factors(self, kind: type, difference: Sum) -> PrimExpr | None:
        """Rewrites ``x * y == 0`` as ``x == 0 or y == 0``, and ``x * y != 0`` as ``x != 0 and y !=
        0``.
        """
        atom = next(iter(difference.terms))
        if difference.const or len(difference.terms) > 1 or atom.__class__ is not Product:
            return None
        if not is_index(atom.dtype):
            return None  # 16 * 16 is 0 in 8 bits
        result: PrimExpr | None = None
        for factor in dict.fromkeys(atom.factors):
            one = kind(self.writer.atom_expr(factor), self.writer.constant(0, factor.dtype))
            if result is None:
                result = one
            else:
                result = Or(result, one) if kind is EQ else And(result, one)
        return None if result is None else self.rewriter.rewrite(result)

    def _differs(self, difference: Sum) -> bool:
        """Returns True if a sum is not zero, because an equal one is known not to be."""
        for atom, coefficient in difference.terms.items():
            known = self.facts.inequalities.get(atom, ())
            for fact in known:
                factor = fact.terms.get(atom, 0)
                if factor == 0 or coefficient % factor:
                    continue
                if any(self._opposite(fact, other) for other in known):  # fact == 0
                    equal = plus(difference, fact, -(coefficient // factor))
                    if equal.terms and self.facts.is_hole(equal):
                        return True
        return False

    def _opposite(self, a: Sum, b: Sum) -> bool:
        both = plus(a, b)
        return not both.terms and both.const == 0

    def _worth_proving(self, form: Sum) -> bool:
        if self.facts.inequalities:
            return True
        for atom in form.terms:
            if atom.__class__ in _WITH_STRUCTURE:
                return len(form.terms) > 1
        return False

    # Inequalities

    def _inequality(
        self, expr: Any, kind: type, form_a: Sum, form_b: Sum, difference: Sum
    ) -> PrimExpr:
        reduced = self._without_positive_factor(difference)
        if reduced is not difference:
            made = self.canonical(kind, reduced, False, True)
            if made is not None:
                return self.rewriter.rewrite(made)
        form = shifted(difference, -1) if kind is LT else difference  # holds where form >= 0
        low, high = self.bounds.of(form)
        if low >= 0 or high < 0:
            return TRUE if low >= 0 else FALSE
        answer = self._proven_sign(form)
        if answer is not None:
            return TRUE if answer else FALSE
        if kind is LE and self.facts.sum_facts and self.facts.is_hole(form):
            # x <= y, where x != y is known
            return self._inequality(expr, LT, form_a, form_b, difference)
        simpler = self._case_split(kind, form)
        if simpler is not None:
            return simpler
        if self.table.has_cases:
            answer = self._by_cases(expr, form)
            if answer is not None:
                return TRUE if answer else FALSE
        common = coefficient_gcd(form)
        reduced = exact_quotient(form, common)
        whole = self._digit_bound(self._without_tail(reduced))
        changed = whole is not reduced
        if changed:
            answer = self.sign(whole)
            if answer is not None:
                return TRUE if answer else FALSE
        difference = shifted(whole, 1) if kind is LT else whole
        if kind is LE and high <= 0 and not changed:
            kind = EQ  # x <= 0 of what is not negative
        if changed or common != 1:
            cancelled = len(form.terms) < len(form_a.terms) + len(form_b.terms)
            made = self.canonical(kind, difference, False, cancelled)
            return self._known(self._rebuilt(expr) if made is None else made)
        return self._known(self._written(expr, kind, form_a, form_b, difference))

    def _without_positive_factor(self, difference: Sum) -> Sum:
        """Returns ``x - y`` for ``x * n - y * n``, where ``n`` is positive."""
        if difference.const or not difference.terms:
            return difference
        if all(atom.__class__ is not Product for atom in difference.terms):
            return difference
        if not all(is_index(atom.dtype) for atom in difference.terms):
            return difference  # products that wrap around
        factor = self.divider.shared_factor(difference, difference)
        if factor is None or factor.dtype is not difference.dtype:
            return difference  # 0 - 1 of an unsigned factor is not negative
        if not self.prover.prove(shifted(of_atom(factor), -1), 1):
            return difference
        less = self.terms.combine(self.divider.without(difference, factor))
        return less if less.terms and self.bounds.flows(less) else difference

    def sign(self, form: Sum) -> bool | None:
        """Returns True or False if it is known whether ``form >= 0``, else None."""
        low, high = self.bounds.of(form)
        if low >= 0:
            return True
        if high < 0:
            return False
        return self._proven_sign(form)

    def _proven_sign(self, form: Sum) -> bool | None:
        if not self._worth_proving(form):
            return None
        if self.prover.prove(form, 3):
            return True
        return False if self.prover.prove(shifted(times(form, -1), -1), 3) else None

    def _without_tail(self, form: Sum) -> Sum:
        """Rewrites ``x * 4 + y < n * 4`` with ``y`` in [0, 4) as ``x < n``."""
        if len(form.terms) == 1:
            return form
        parts = sorted(form.terms.items(), key=_size)
        low: float = form.const
        high: float = form.const
        largest = abs(parts[-1][1])
        last = 0
        found = form  # with the largest unit that there is
        for position, (atom, coefficient) in enumerate(parts):
            unit = abs(coefficient)
            if unit != last and position and low // unit == high // unit:
                head = parts[position:]
                if gcd(*[factor for _, factor in head]) == unit:
                    terms = {part: factor // unit for part, factor in head}
                    found = Sum(form.dtype, terms, int(low // unit))
            bounds = self.bounds.of_atom(atom)
            first = coefficient < 0
            low += coefficient * bounds[first]
            high += coefficient * bounds[not first]
            if high - low >= largest:
                break
            last = unit
        return found

    def _digit_bound(self, form: Sum) -> Sum:
        """Rewrites ``x // 4 >= c`` as ``x >= 4 * c``, ``x // 4 <= c`` as ``x <= 4 * c + 3``; where
        the division rounds toward zero, quotients of one sign have these ends.
        """
        while len(form.terms) == 1:
            ((atom, sign),) = form.terms.items()
            if abs(sign) != 1:
                break
            found = self.terms.divided(atom)
            if found is None or not is_index(found[0].dtype):
                break
            index, lower = found
            form = shifted(times(index, sign), end_of_quotient(atom, sign, form.const, lower))
            form = exact_quotient(form, coefficient_gcd(form))
        return form

    def _case_split(self, kind: type, form: Sum) -> PrimExpr | None:
        """Rewrites ``min(a, b) >= c``, where ``a >= c`` is proven, as ``b >= c``; likewise for
        maxima.

        None where nothing is certain, or where the comparison that is left might overflow.
        """
        for atom, coefficient in form.terms.items():
            if atom.__class__ is not Extreme:
                continue
            every = (atom.kind is Min) == (coefficient > 0)
            rest = plus(form, of_atom(atom), -coefficient)
            open_cases: list[Sum] = []
            for arg in atom.args:
                case = self.terms.combine(plus(rest, arg, coefficient))
                answer = self.sign(case)
                if answer is None:
                    open_cases.append(case)
                elif answer is not every:
                    return TRUE if answer else FALSE
            if len(open_cases) == 1:
                difference = shifted(open_cases[0], 1) if kind is LT else open_cases[0]
                made = self.canonical(kind, difference, False)
                return None if made is None else self.rewriter.rewrite(made)
            if not open_cases:
                return TRUE if every else FALSE
        return None

    def _by_cases(self, expr: Any, form: Sum) -> bool | None:
        """Decides the sign of what an inequality asks for from the cases that its text names."""
        kind = expr.__class__
        answer = None
        if kind is LT or kind is LE:
            answer = self.cases.as_written(form, expr.a, expr.b)
        elif kind in _FLIPPED:
            answer = self.cases.as_written(form, expr.b, expr.a)
        return self.cases.of_choice(form, self.sign) if answer is None else answer

    # Writing them down

    def _written(self, expr: Any, kind: type, a: Sum, b: Sum, difference: Sum) -> PrimExpr:
        """Returns ``a kind b``, where ``b - a == difference``, written as similar to the user's
        text as possible.
        """
        kept = len(difference.terms) == len(a.terms) + len(b.terms)
        one_sided = (not a.terms and a.const == 0) or (not b.terms and b.const == 0)
        mixed = one_sided and min(difference.terms.values()) < 0 < max(difference.terms.values())
        ordered = kind is LT or kind is LE
        moves = (one_sided and difference.const) or (a.const and b.const)
        if ordered:
            moves = moves or _turns_strict(kind, difference) or _takes_away(a) or _takes_away(b)
        if kept and not mixed and not moves:
            for atom, coefficient in b.terms.items():
                if difference.terms.get(atom) != coefficient:
                    break
            else:
                if kind in (EQ, NE) and not a.terms:
                    a, b = b, a
                kept_sides = self._made(kind, a, b)
                return expr if self._unchanged(kept_sides, expr) else kept_sides
        made = self.canonical(kind, difference, bool(a.const) and not b.const, not kept)
        if made is None:
            return self._rebuilt(expr)
        if not kept and made.__class__ is kind and a.const == 0 == b.const:
            atoms = {**a.terms, **b.terms}
            same = all(atom in difference.terms for atom in atoms)
            if same or not all(atom in atoms for atom in difference.terms):
                plain = self._made(kind, a, b)  # nothing went out
                made = plain if _length(plain) <= _length(made) else made
        return expr if self._unchanged(made, expr) else made

    def _unchanged(self, made: Any, expr: Any) -> bool:
        if made.__class__ is not expr.__class__:
            return False
        return same_expression(made.a, expr.a) and same_expression(made.b, expr.b)

    def canonical(
        self, kind: type, difference: Sum, constant_left: bool, strict: bool = False
    ) -> PrimExpr | None:
        """Returns ``0 kind difference`` with the negative terms on the left and the positive ones
        on the right; None if a side might overflow. ``strict``: ``x < 0`` rather than ``x <= -1``.
        """
        dtype, constant = difference.dtype, difference.const
        right = {atom: c for atom, c in difference.terms.items() if c > 0}
        left = {atom: -c for atom, c in difference.terms.items() if c < 0}
        if _turns_strict(kind, difference, strict):
            kind, constant = (LT if kind is LE else LE), 0
        if kind in (EQ, NE) and not left:  # x == 3, with the constant on the right
            left, right, constant = right, left, -constant
        if right and left and kind in (LE, LT):  # a + 2 < b, not a < b - 2
            constant_left = constant < 0
        if not left or (right and constant_left):
            a, b = Sum(dtype, left, -constant), Sum(dtype, right, 0)
        else:
            a, b = Sum(dtype, left, 0), Sum(dtype, right, constant)
        if not (self.bounds.flows(a) and self.bounds.flows(b)):
            return None
        return self._made(kind, a, b)

    def _made(self, kind: type, a: Sum, b: Sum) -> PrimExpr:
        """Builds the comparison of two sums; ``cast(x) < cast(y)`` becomes ``x < y``."""
        dtype = _uncast(a) or _uncast(b)
        if dtype is not None and _as_narrow(a, dtype) and _as_narrow(b, dtype):
            a, b = retyped(a, dtype), retyped(b, dtype)
        made: PrimExpr = kind(self.writer.to_expr(a), self.writer.to_expr(b))
        return made


def _size(part: tuple[Any, int]) -> int:
    return abs(part[1])


def _turns_strict(kind: type, difference: Sum, one_sided: bool = False) -> bool:
    """Returns True if a comparison gets shorter when its strictness changes: ``a + 1 <= b`` to ``a
    < b``, ``a < b + 1`` to ``a <= b``.
    """
    if difference.const != (-1 if kind is LE else 1) or kind not in (LE, LT):
        return False
    if one_sided and kind is LE:
        return True
    coefficients = difference.terms.values()
    return min(coefficients) < 0 < max(coefficients)


def _length(expr: PrimExpr) -> int:
    """Counts the nodes of an expression."""
    count, stack = 0, [expr]
    while stack:
        node = stack.pop()
        count += 1
        if not isinstance(node, Var):
            stack.extend([child for child in node.children() if isinstance(child, PrimExpr)])
    return count


def _takes_away(form: Sum) -> bool:
    """Returns True if a side of a comparison subtracts (``x - 2``, ``3 - x`` or ``-x``): the
    subtracted terms move to the other side.
    """
    terms = form.terms
    return bool(terms) and (form.const < 0 or max(terms.values()) < 0)


def _uncast(form: Sum) -> DataType | None:
    """Returns the narrower dtype of the atom if a sum is a cast of one atom, else None."""
    atom = form.single()
    if atom is None or atom.dtype is form.dtype or not is_index(atom.dtype):
        return None
    return atom.dtype


def _as_narrow(form: Sum, dtype: DataType) -> bool:
    """Returns True if a sum is a constant or a single atom that fits ``dtype``."""
    if not form.terms:
        return dtype.min_value <= form.const <= dtype.max_value
    atom = form.single()
    return atom is not None and atom.dtype is dtype
