"""Combines like terms of sums: ``x // 4 * 4 + x % 4`` is ``x``, ``min(x, y) - x`` is
``min(0, y - x)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.arith.bounds import Bounds
from tilesmith.arith.facts import Facts
from tilesmith.arith.form_table import FormTable
from tilesmith.arith.form_writer import FormWriter
from tilesmith.arith.forms import (
    Atom,
    Choice,
    Extreme,
    Product,
    Quotient,
    Remainder,
    Split,
    Sum,
    Truncated,
    exact_quotient,
    is_index,
    of_atom,
    plus,
    retyped,
    shifted,
    times,
    wrapped_sum,
)  # fmt: skip
from tilesmith.arith.interfaces import Digits, Minima, NormalForms
from tilesmith.arith.residues import Residues
from tilesmith.ir import Div, IntImm, Max, Min, Mod, Mul, PrimExpr, Select

__all__ = ["LikeTerms"]

_MOST_TERMS = 12  # a product with more terms than that is not multiplied out


class LikeTerms:
    """Combines terms of sums."""

    __slots__ = (
        "bounds", "digits", "facts", "minima", "normalizer", "residues", "table", "writer",
    )  # fmt: skip

    digits: Digits
    minima: Minima
    """What the joined terms become; both are set by the engine."""
    normalizer: NormalForms
    """Gives the sums inside choices and truncating divisions; set by the engine."""

    def __init__(
        self,
        facts: Facts,
        table: FormTable,
        writer: FormWriter,
        bounds: Bounds,
        residues: Residues,
    ) -> None:
        self.facts = facts
        self.table = table
        self.writer = writer
        self.bounds = bounds
        self.residues = residues

    def combine(self, form: Sum) -> Sum:
        """Joins digits of one number, and moves the rest of a sum into a minimum where that cancels
        terms.
        """
        if not is_index(form.dtype):
            return form
        for atom in form.terms:
            rule = _RULES.get(atom.__class__)
            if rule is not None:
                joined = rule(self, form, atom)
                if joined is not None:
                    return self.combine(joined)
        return form

    def multiply(self, a: Sum, b: Sum) -> Sum:
        """Returns ``a * b``."""
        many = len(a.terms) * len(b.terms) > _MOST_TERMS
        if many:
            return of_atom(self.table.leaf(Mul(self.writer.to_expr(a), self.writer.to_expr(b))))
        form = self.table.multiply(a, b)
        if not is_index(form.dtype):
            form = wrapped_sum(form)
            if len(form.terms) > 1:
                form.expr = Mul(self.writer.to_expr(a), self.writer.to_expr(b))
            return form
        if len(a.terms) + bool(a.const) > 1 or len(b.terms) + bool(b.const) > 1:
            if a.terms and b.terms:
                tidied = self.combine(form)
                if tidied is form:  # alone, it looks better as it was written
                    form.expr = Mul(self.writer.to_expr(a), self.writer.to_expr(b))
                return tidied
        return self.combine(form)

    def _join_split(self, form: Sum, atom: Split) -> Sum | None:
        coefficient = form.terms[atom]
        index, lower, upper = atom.index, atom.lower, atom.upper
        number = self.table.number(index)
        for other, factor in form.terms.items():
            if other is atom or other.__class__ is not Split:
                continue
            low, top = other.lower, other.upper
            near = self._join_near(atom, coefficient, other, factor)
            if near is not None:
                rest = {a: c for a, c in form.terms.items() if a is not atom and a is not other}
                return plus(Sum(form.dtype, rest, form.const), near, coefficient)
            if self.table.number(other.index) != number:
                if lower != 1 or top or upper != low or factor != coefficient * upper:
                    continue
                if not self._congruent(other.index, index, upper):
                    continue
                joined = other.index  # x * 9 // 8 * 8 + x % 8
            elif upper == low and factor * lower == coefficient * upper:
                joined = self.digits.digit(index, lower, top)
            elif upper == top and low % lower == 0 and factor * lower == -coefficient * low:
                joined = self.digits.digit(index, lower, low)
            else:
                continue
            rest = {a: c for a, c in form.terms.items() if a is not atom and a is not other}
            return plus(Sum(form.dtype, rest, form.const), joined, coefficient)
        if upper:
            return self._join_digit(form, atom, coefficient) if lower == 1 else None
        if coefficient % lower:
            return None
        factor = -(coefficient // lower)
        if contains(form, index, factor):  # x - x // 4 * 4  ->  x % 4
            rest = {a: c for a, c in form.terms.items() if a is not atom}
            without = plus(Sum(form.dtype, rest, form.const), index, -factor)
            return plus(without, self.digits.digit(index, 1, lower), factor)
        parted = self._without_offset(form, atom, index, factor)
        if parted is not None:
            return plus(parted, self.digits.digit(index, 1, lower), factor)
        if self.facts.has_residues():
            residue = self.residues.of(index)
            if residue[0] % lower == 0:  # n // 16 * 16  ->  n, for n a multiple of 16
                rest = {a: c for a, c in form.terms.items() if a is not atom}
                exact = shifted(index, -(residue[1] % lower))
                return plus(Sum(form.dtype, rest, form.const), exact, -factor)
        return None

    def _congruent(self, a: Sum, b: Sum, divisor: int) -> bool:
        """Returns True if ``a - b`` is known to be a multiple of the divisor: also that of
        ``x % 84 * 16`` and ``x * 16``, which is ``x // 84 * -1344``, of 24.
        """
        difference = plus(a, b, -1)
        return is_multiple(difference, divisor) or (
            len(difference.terms) > 1 and is_multiple(self.combine(difference), divisor)
        )

    def _join_near(self, atom: Split, coefficient: int, other: Split, factor: int) -> Sum | None:
        """Joins digits of numbers that differ by a constant: ``(x + 5) // 3 - x // 3`` becomes
        ``(x % 3 + 5) // 3``, ``x % 2 + (x + 1) % 2`` becomes 1, and ``x // 2 + x % 2`` becomes
        ``(x + 1) // 2``. Returns what the terms are, divided by the first one's coefficient.
        """
        index, base, lower = atom.index, other.index, atom.lower
        if (
            abs(factor) != abs(coefficient)
            or index.terms != base.terms
            or index.dtype is not base.dtype
        ):
            return None
        delta = index.const - base.const
        if not atom.upper and not other.upper and other.lower == lower and factor == -coefficient:
            if delta <= 0 or not is_index(index.dtype):
                return None
            digit = shifted(self.digits.digit(base, 1, lower), delta)
            return self.digits.divide(digit, lower)[0]
        if (other.lower, other.upper) != (1, 2) or not is_index(index.dtype):
            return None
        if (lower, atom.upper) == (1, 2):
            return Sum(index.dtype, {}, 1) if delta % 2 and factor == coefficient else None
        if (lower, atom.upper) != (2, 0) or delta % 2 != (factor != coefficient):
            return None
        moved = shifted(base, 1 if factor == coefficient else 0)
        if not self.bounds.flows(moved):
            return None
        return shifted(self.digits.divide(moved, 2)[0], delta // 2)

    def _without_offset(self, form: Sum, atom: Atom, index: Sum, factor: int) -> Sum | None:
        """Finds a part of ``index * factor`` in a sum with the quotient ``atom``: of
        ``y - (y + z) // 4 * 4`` it returns ``-z``, which is what remains beside ``(y + z) % 4``.

        None where the sum would get longer than it is.
        """
        terms = form.terms
        shared = [part for part, c in index.terms.items() if terms.get(part) == c * factor]
        left = len(index.terms) - len(shared) + bool(index.const)
        if not shared or len(shared) < left:
            return None
        rest = Sum(form.dtype, {a: c for a, c in terms.items() if a is not atom}, form.const)
        result = plus(rest, index, -factor)
        if len(result.terms) >= len(terms) or not self.bounds.flows(result):
            return None
        return result

    def divided(self, atom: Atom) -> tuple[Sum, int] | None:
        """Returns dividend and divisor of a quotient by a positive constant; None if it is
        another atom.
        """
        if atom.__class__ is Split:
            return None if atom.upper else (atom.index, atom.lower)
        expr: Any = atom.expr
        if atom.__class__ is not Truncated or expr.__class__ is not Div:
            return None
        if expr.b.__class__ is not IntImm or expr.b.value <= 0:
            return None
        return self.normalizer.normal(expr.a), expr.b.value

    def _join_truncated(self, form: Sum, atom: Truncated) -> Sum | None:
        """Rewrites ``x / 3 * 3 + x rem 3 -> x``, ``x - x / 3 * 3 -> x rem 3`` and ``x - x rem 3 ->
        x / 3 * 3`` of the division that rounds toward zero.
        """
        expr: Any = atom.expr
        if expr.b.__class__ is not IntImm or len(form.terms) == 1:
            return None
        coefficient, divisor = form.terms[atom], expr.b.value
        whole = expr.__class__ is Div
        if divisor <= 0 or (whole and coefficient % divisor):
            return None
        index = self.normalizer.normal(expr.a)
        twin = self.normalizer.normal((Mod if whole else Div)(expr.a, expr.b))
        rest = Sum(form.dtype, {a: c for a, c in form.terms.items() if a is not atom}, form.const)
        if not whole:
            if not contains(form, index, -coefficient):
                return None
            return plus(plus(rest, index, coefficient), twin, -coefficient * divisor)
        factor = -(coefficient // divisor)
        if contains(form, twin, -factor):
            return plus(plus(rest, twin, factor), index, -factor)
        if contains(form, index, factor):
            return plus(plus(rest, index, -factor), twin, factor)
        parted = self._without_offset(form, atom, index, factor)
        return None if parted is None else plus(parted, twin, factor)

    def _join_choice(self, form: Sum, atom: Choice) -> Sum | None:
        """Rewrites ``Select(p, a, b) + Select(p, c, d) -> Select(p, a + c, b + d)`` and
        ``Select(p, a, b) - a -> Select(p, 0, b - a)``.
        """
        if len(form.terms) == 1 or atom.dtype is not form.dtype:
            return None
        expr: Any = atom.expr
        yes, no = self.normalizer.normal(expr.true_value), self.normalizer.normal(expr.false_value)
        coefficient = form.terms[atom]
        rest = {a: c for a, c in form.terms.items() if a is not atom}
        numbering = self.table.numbering
        for other, factor in rest.items():
            if other.__class__ is not Choice or abs(factor) != abs(coefficient):
                continue
            second: Any = other.expr
            if numbering.number(second.condition) != numbering.number(expr.condition):
                continue
            sign = factor // coefficient
            sides = [
                plus(yes, self.normalizer.normal(second.true_value), sign),
                plus(no, self.normalizer.normal(second.false_value), sign),
            ]
            del rest[other]
            return self._chosen(
                expr.condition, sides, Sum(form.dtype, rest, form.const), coefficient
            )
        outside = Sum(form.dtype, rest, form.const)
        for side in (yes, no):
            if contains(outside, side, -coefficient):
                shared = shifted(side, -side.const)
                sides = [plus(yes, shared, -1), plus(no, shared, -1)]
                return self._chosen(
                    expr.condition, sides, plus(outside, shared, coefficient), coefficient
                )
        return None

    def _chosen(
        self, condition: PrimExpr, sides: list[Sum], rest: Sum, coefficient: int
    ) -> Sum | None:
        sides = [self.combine(side) for side in sides]
        if not self.bounds.all_flow(sides):
            return None
        chosen = Select(condition, self.writer.to_expr(sides[0]), self.writer.to_expr(sides[1]))
        return plus(rest, self.normalizer.normal(chosen), coefficient)

    def _join_digit(self, form: Sum, atom: Split, coefficient: int) -> Sum | None:
        """Rewrites ``x - x % 8 -> x // 8 * 8``."""
        if not contains(form, atom.index, -coefficient):
            return None
        rest = {a: c for a, c in form.terms.items() if a is not atom}
        without = plus(Sum(form.dtype, rest, form.const), atom.index, coefficient)
        return plus(
            without, self.digits.digit(atom.index, atom.upper, 0), -coefficient * atom.upper
        )

    def _join_remainder(self, form: Sum, atom: Remainder) -> Sum | None:
        """Rewrites ``x // n * n + x % n -> x``."""
        factor = form.terms[atom]
        quotient = of_atom(self.table.quotient(atom.index, atom.divisor))
        whole = self.table.multiply(quotient, atom.divisor)
        if not contains(form, whole, factor):
            return None
        rest = plus(form, plus(whole, of_atom(atom)), -factor)
        return plus(rest, atom.index, factor)

    def _join_product(self, form: Sum, atom: Product) -> Sum | None:
        """Rewrites ``x - x // n * n -> x % n``, ``min(x, y) * max(x, y) -> x * y``."""
        factor = -form.terms[atom]
        for part in atom.factors:
            if part.__class__ is Extreme:
                joined = self._join_extremes(form, atom, part)
                if joined is not None:
                    return joined
            if isinstance(part, Quotient) and len(part.divisor.terms) == 1:
                whole = self.table.multiply(of_atom(part), part.divisor)
                if whole.terms.get(atom) == 1 and contains(form, part.index, factor):
                    rest = plus(plus(form, part.index, -factor), whole, factor)
                    digit = of_atom(self.table.remainder(part.index, part.divisor))
                    return plus(rest, digit, factor)
        return None

    def _join_extremes(self, form: Sum, atom: Product, part: Extreme) -> Sum | None:
        """Rewrites a product that has both the minimum and the maximum of the same two sums."""
        for other in atom.factors:
            if other.__class__ is not Extreme or other.kind is part.kind or len(part.args) != 2:
                continue
            if not self._same_args(part, other):
                continue
            product = self.multiply(part.args[0], part.args[1])
            left = [factor for factor in atom.factors if factor is not part and factor is not other]
            if left:
                cofactor = Sum(atom.dtype, {self.table.product(left, atom.dtype): 1}, 0)
                product = self.multiply(product, cofactor)
            if not self.bounds.flows(product):
                return None
            rest = {a: c for a, c in form.terms.items() if a is not atom}
            return plus(Sum(form.dtype, rest, form.const), product, form.terms[atom])
        return None

    def _join_extreme(self, form: Sum, atom: Extreme) -> Sum | None:
        """Rewrites ``min(x, y) - x -> min(0, y - x)``, ``min(x, y) + max(x, y) -> x + y`` and
        ``max(x, y) - max(0, y - x) -> x``.
        """
        if len(form.terms) == 1:
            return None
        joined = self._join_pair(form, atom)
        if joined is not None:
            return joined
        factor = form.terms[atom]
        rest = {a: c for a, c in form.terms.items() if a is not atom}
        if any(coefficient % factor for coefficient in rest.values()):
            return None
        shift = exact_quotient(Sum(form.dtype, rest, 0), factor)
        moved = [self._paired(plus(retyped(arg, form.dtype), shift)) for arg in atom.args]
        kind = atom.kind
        if factor < 0:  # x - min(x, y)  ->  max(x - y, 0)
            moved = [times(arg, -1) for arg in moved]
            kind, factor = (Max if kind is Min else Min), -factor
        before = sum([len(arg.terms) for arg in atom.args]) + len(rest)
        if sum([len(arg.terms) for arg in moved]) >= before:
            return None
        if not self.bounds.all_flow(moved):
            return None
        if len(moved) == 2:
            if not atom.args[1].terms:  # min(n - x, 8) + x  ->  min(x + 8, n)
                moved.reverse()
            joined = self.minima.extreme_of_two(kind, moved[0], moved[1])
        else:
            joined = self.minima.extreme(kind, moved)
        return shifted(times(joined, factor), form.const)

    def _paired(self, form: Sum) -> Sum:
        """Joins the pairs of minima and maxima of a sum, and nothing else."""
        for atom in form.terms:
            if atom.__class__ is Extreme and len(form.terms) > 1:
                joined = self._join_pair(form, atom)
                if joined is not None:
                    return self._paired(joined)
        return form

    def _join_pair(self, form: Sum, atom: Extreme) -> Sum | None:
        """Rewrites ``min(x, y) + max(x, y) -> x + y`` and ``max(x, y) - max(0, y - x) -> x``."""
        factor = form.terms[atom]
        for other, coefficient in form.terms.items():
            if other is atom or other.__class__ is not Extreme or len(atom.args) != 2:
                continue
            both: Sum | None = None
            if coefficient == factor and other.kind is not atom.kind:
                if self._same_args(atom, other):
                    both = plus(retyped(atom.args[0], form.dtype), atom.args[1])
            elif coefficient == -factor and other.kind is atom.kind:
                both = self._shift(atom, other)
            if both is not None:
                rest = {a: c for a, c in form.terms.items() if a is not atom and a is not other}
                return plus(Sum(form.dtype, rest, form.const), both, factor)
        return None

    def _shift(self, a: Extreme, b: Extreme) -> Sum | None:
        """Returns what each operand of ``a`` has more than one of ``b``; None if that differs."""
        if len(b.args) != 2 or a.dtype is not b.dtype or not is_index(a.dtype):
            return None
        for first, second in (b.args, b.args[::-1]):
            shift = plus(a.args[0], first, -1)
            over = plus(plus(a.args[1], second, -1), shift, -1)
            if not over.terms and over.const == 0 and self.bounds.flows(shift):
                return shift
        return None

    def _same_args(self, a: Extreme, b: Extreme) -> bool:
        numbers = [sorted([self.table.number(arg) for arg in e.args]) for e in (a, b)]
        return numbers[0] == numbers[1]


def end_of_quotient(atom: Atom, sign: int, const: int, divisor: int) -> int:
    """Returns ``end``, such that ``q * sign + const >= 0`` of a quotient ``q = x / divisor`` is
    ``x * sign + end >= 0``.
    """
    if atom.__class__ is Truncated:  # x / 4 >= 0 is x >= -3, x / 4 <= -1 is x <= -4
        return const * divisor + (divisor - 1 if const >= 0 else 0)
    return const * divisor + (0 if sign > 0 else divisor - 1)


def contains(form: Sum, part: Sum, factor: int) -> bool:
    """Returns True if the sum contains all terms of ``part * factor``, with exactly these
    coefficients.
    """
    if factor == 0 or not part.terms:
        return False
    terms = form.terms
    for atom, coefficient in part.terms.items():
        if terms.get(atom) != coefficient * factor:
            return False
    return True


def is_multiple(form: Sum, divisor: int) -> bool:
    """Returns True if all coefficients of a sum are multiples of the divisor."""
    return form.const % divisor == 0 and all(
        coefficient % divisor == 0 for coefficient in form.terms.values()
    )


_RULES: dict[type, Callable[[Any, Any, Any], Sum | None]] = {
    Split: LikeTerms._join_split,
    Remainder: LikeTerms._join_remainder,
    Product: LikeTerms._join_product,
    Extreme: LikeTerms._join_extreme,
    Truncated: LikeTerms._join_truncated,
    Choice: LikeTerms._join_choice,
}
