"""Terms of a sum that fit together: ``x // 4 * 4 + x % 4`` is ``x``, ``min(x, y) - x`` is
``min(0, y - x)``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.arith.forms import (
    Atom,
    Extreme,
    Product,
    Quotient,
    Remainder,
    Split,
    Sum,
    exact_quotient,
    holds_data,
    plus,
    retyped,
    shifted,
    times,
)  # fmt: skip
from tilesmith.arith.proofs import Proofs
from tilesmith.arith.state import is_index
from tilesmith.ir import Max, Min, PrimExpr


class Joiner(Proofs):
    """The part of an analyzer that joins terms of sums."""

    digit: Callable[[Sum, int, int], Sum]
    extreme: Callable[[type, list[Sum]], Sum]
    extreme_of_two: Callable[[type, Sum, Sum], Sum]

    def of_atom(self, atom: Atom) -> Sum:
        """The sum that is just this atom."""
        return Sum(atom.dtype, {atom: 1}, 0)

    def packed(self, expr: PrimExpr, parts: Iterable[Sum]) -> Sum:
        """An expression over sums as one atom, to be written as it is."""
        is_data = max([holds_data(part) for part in parts])
        return self.of_atom(self.table.written(expr, ("written", self.number(expr)), is_data))

    def tidy(self, form: Sum) -> Sum:
        """Join digits of one number, and put the rest of a sum into a minimum if that cancels."""
        if not is_index(form.dtype):
            return form
        for atom in form.terms:
            rule = _TIDY.get(atom.__class__)
            if rule is not None:
                joined = rule(self, form, atom)
                if joined is not None:
                    return self.tidy(joined)
        return form

    def _join_split(self, form: Sum, atom: Split) -> Sum | None:
        coefficient = form.terms[atom]
        index, lower, upper = atom.index, atom.lower, atom.upper
        number = self.table.number(index)
        for other, factor in form.terms.items():
            if other is atom or other.__class__ is not Split:
                continue
            low, top = other.lower, other.upper  # type: ignore[attr-defined]
            if self.table.number(other.index) != number:  # type: ignore[attr-defined]
                if lower != 1 or top or upper != low or factor != coefficient * upper:
                    continue
                if not congruent(other.index, index, upper):  # type: ignore[attr-defined]
                    continue
                joined = other.index  # type: ignore[attr-defined]  # x * 9 // 8 * 8 + x % 8
            elif upper == low and factor * lower == coefficient * upper:
                joined = self.digit(index, lower, top)
            elif upper == top and low % lower == 0 and factor * lower == -coefficient * low:
                joined = self.digit(index, lower, low)
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
            return plus(without, self.digit(index, 1, lower), factor)
        if self.has_residues:
            residue = self.modular(index)
            if residue[0] % lower == 0:  # n // 16 * 16  ->  n, for n a multiple of 16
                rest = {a: c for a, c in form.terms.items() if a is not atom}
                exact = shifted(index, -(residue[1] % lower))
                return plus(Sum(form.dtype, rest, form.const), exact, -factor)
        return None

    def _join_digit(self, form: Sum, atom: Split, coefficient: int) -> Sum | None:
        """``x - x % 8  ->  x // 8 * 8``."""
        if not contains(form, atom.index, -coefficient):
            return None
        rest = {a: c for a, c in form.terms.items() if a is not atom}
        without = plus(Sum(form.dtype, rest, form.const), atom.index, coefficient)
        return plus(without, self.digit(atom.index, atom.upper, 0), -coefficient * atom.upper)

    def _join_remainder(self, form: Sum, atom: Remainder) -> Sum | None:
        """``x // n * n + x % n  ->  x``."""
        factor = form.terms[atom]
        quotient = self.of_atom(self.table.quotient(atom.index, atom.divisor))
        whole = self.table.multiply(quotient, atom.divisor)
        if not contains(form, whole, factor):
            return None
        rest = plus(form, plus(whole, self.of_atom(atom)), -factor)
        return plus(rest, atom.index, factor)

    def _join_product(self, form: Sum, atom: Product) -> Sum | None:
        """``x - x // n * n  ->  x % n``."""
        factor = -form.terms[atom]
        for part in atom.factors:
            if isinstance(part, Quotient) and len(part.divisor.terms) == 1:
                whole = self.table.multiply(self.of_atom(part), part.divisor)
                if whole.terms.get(atom) == 1 and contains(form, part.index, factor):
                    rest = plus(plus(form, part.index, -factor), whole, factor)
                    digit = self.of_atom(self.table.remainder(part.index, part.divisor))
                    return plus(rest, digit, factor)
        return None

    def _join_extreme(self, form: Sum, atom: Extreme) -> Sum | None:
        """``min(x, y) - x  ->  min(0, y - x)``, ``min(x, y) + max(x, y)  ->  x + y``."""
        if len(form.terms) == 1:
            return None
        factor = form.terms[atom]
        rest = {a: c for a, c in form.terms.items() if a is not atom}
        for other, coefficient in rest.items():
            if other.__class__ is Extreme and coefficient == factor and len(atom.args) == 2:
                if other.kind is not atom.kind and self._same_args(atom, other):  # type: ignore
                    del rest[other]
                    both = plus(retyped(atom.args[0], form.dtype), atom.args[1])
                    return plus(Sum(form.dtype, rest, form.const), both, factor)
        if any(coefficient % factor for coefficient in rest.values()):
            return None
        shift = exact_quotient(Sum(form.dtype, rest, 0), factor)
        moved = [plus(retyped(arg, form.dtype), shift) for arg in atom.args]
        kind = atom.kind
        if factor < 0:  # x - min(x, y)  ->  max(x - y, 0)
            moved = [times(arg, -1) for arg in moved]
            kind, factor = (Max if kind is Min else Min), -factor
        before = sum([len(arg.terms) for arg in atom.args]) + len(rest)
        if sum([len(arg.terms) for arg in moved]) >= before:
            return None
        if not self.all_flow(moved):
            return None
        if len(moved) == 2:
            if not atom.args[1].terms:  # min(n - x, 8) + x  ->  min(x + 8, n)
                moved.reverse()
            joined = self.extreme_of_two(kind, moved[0], moved[1])
        else:
            joined = self.extreme(kind, moved)
        return shifted(times(joined, factor), form.const)

    def _same_args(self, a: Extreme, b: Extreme) -> bool:
        numbers = [sorted([self.table.number(arg) for arg in e.args]) for e in (a, b)]
        return numbers[0] == numbers[1]


def contains(form: Sum, part: Sum, factor: int) -> bool:
    """Whether the terms of ``part * factor`` are all in the sum, with these very coefficients."""
    if factor == 0 or not part.terms:
        return False
    terms = form.terms
    for atom, coefficient in part.terms.items():
        if terms.get(atom) != coefficient * factor:
            return False
    return True


def congruent(a: Sum, b: Sum, divisor: int) -> bool:
    """Whether the coefficients tell that ``a - b`` is a multiple of the divisor."""
    difference = plus(a, b, -1)
    if difference.const % divisor:
        return False
    for coefficient in difference.terms.values():
        if coefficient % divisor:
            return False
    return True


_TIDY: dict[type, Callable[[Any, Any, Any], Sum | None]] = {
    Split: Joiner._join_split,
    Remainder: Joiner._join_remainder,
    Product: Joiner._join_product,
    Extreme: Joiner._join_extreme,
}
