"""Divides sums, rounding down: terms that are multiples of the divisor are extracted; bounds and
residues decide the rest.

Of ``(i0 * 16 + i1) // 16`` the multiple of 16 goes out, and ``i1 // 16`` is 0 if ``i1`` is known to
lie in [0, 16). `Divider.divide` gives quotient and remainder at once, so that they fit together
again: ``x // 4 * 4 + x % 4`` gives ``x``.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from tilesmith.arith.bounds import Bounds
from tilesmith.arith.facts import Facts
from tilesmith.arith.form_table import FormTable
from tilesmith.arith.form_writer import FormWriter
from tilesmith.arith.forms import (
    Atom,
    Extreme,
    Remainder,
    Split,
    Sum,
    coefficient_gcd,
    exact_quotient,
    factors_of,
    in_other_order,
    is_index,
    of_atom,
    plus,
    retyped,
    shifted,
    times,
)  # fmt: skip
from tilesmith.arith.interfaces import Minima
from tilesmith.arith.intervals import INFINITY
from tilesmith.arith.like_terms import LikeTerms
from tilesmith.arith.prover import Prover
from tilesmith.arith.residues import Residues
from tilesmith.ir import FloorDiv, FloorMod

__all__ = ["Divider"]


class Divider:
    """Divides sums."""

    __slots__ = (
        "__weakref__", "bounds", "caches", "facts", "minima", "prover", "residues", "table",
        "terms", "writer",
    )  # fmt: skip

    minima: Minima
    """Builds the minima of quotients; set by the engine."""

    def __init__(
        self,
        facts: Facts,
        table: FormTable,
        writer: FormWriter,
        bounds: Bounds,
        residues: Residues,
        terms: LikeTerms,
        prover: Prover,
    ) -> None:
        self.facts = facts
        self.table = table
        self.writer = writer
        self.bounds = bounds
        self.residues = residues
        self.terms = terms
        self.prover = prover
        self.caches = facts.caches

    def wrapping_division(self, a: Sum, b: Sum) -> tuple[Sum, Sum] | None:
        """Divides in a dtype that wraps around; the sum is not split, because its parts might
        wrap.
        """
        if not self.bounds.is_exact(a) or b.terms or b.const <= 0:
            return None
        turn = self._turn(a, b.const)
        if turn is not None:
            return Sum(a.dtype, {}, turn), shifted(a, -turn * b.const)
        if all(coefficient % b.const == 0 for coefficient in a.terms.values()):
            return exact_quotient(a, b.const), Sum(a.dtype, {}, a.const % b.const)
        atom = a.single()
        if atom.__class__ is Split:
            found = self._divide_digit(atom, b.const)
            if found is not None:
                return retyped(found[0], a.dtype), retyped(found[1], a.dtype)
        quotient = of_atom(self.table.split(a, b.const, 0))
        return quotient, of_atom(self.table.split(a, 1, b.const))

    def floordiv(self, a: Sum, b: Sum) -> Sum:
        """Returns ``a // b``; a division by zero is left as it is."""
        if b.terms:
            return self.symbolic_divide(a, b)[0]
        if b.const == 0:
            return of_atom(self.table.quotient(a, b))
        if b.const < 0:
            opposite, divisor = times(a, -1), times(b, -1)
            if not (self.bounds.flows(opposite) and self.bounds.flows(divisor)):
                return of_atom(self.table.quotient(a, b))
            return self._by_negative(FloorDiv, a, b, self.divide(opposite, divisor.const)[0])
        return self.divide(a, b.const)[0]

    def _by_negative(self, kind: type, a: Sum, b: Sum, form: Sum) -> Sum:
        """Divides by a negative constant; returns the plain division if nothing can be
        extracted.
        """
        if len(form.terms) == 1 and form.const == 0:
            for atom, coefficient in form.terms.items():
                if atom.__class__ is Split and coefficient == (1 if kind is FloorDiv else -1):
                    form = Sum(form.dtype, form.terms, 0)
                    form.expr = kind(self.writer.to_expr(a), self.writer.to_expr(b))
        return form

    def floormod(self, a: Sum, b: Sum) -> Sum:
        """Returns ``a % b``, the remainder of the division that rounds down."""
        if b.terms:
            return self.symbolic_divide(a, b)[1]
        if b.const == 0:
            return of_atom(self.table.remainder(a, b))
        if b.const < 0:
            opposite, divisor = times(a, -1), times(b, -1)
            if not (self.bounds.flows(opposite) and self.bounds.flows(divisor)):
                return of_atom(self.table.remainder(a, b))
            rest = times(self.divide(opposite, divisor.const)[1], -1)
            return self._by_negative(FloorMod, a, b, rest)
        return self.divide(a, b.const)[1]

    def divide(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        """Returns the quotient and the remainder by a positive constant."""
        if divisor == 1:
            return form, Sum(form.dtype, {}, 0)
        key = (self.table.number(form), divisor)
        found = self.caches.divisions.get(key)
        if found is None or (found[1] is not form and in_other_order(found[1], form)):
            found = self.caches.divisions[key] = self._divide(form, divisor), form
        return found[0]

    def _divide(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        dtype = form.dtype
        whole: dict[Atom, int] = {}
        rest: dict[Atom, int] = {}
        common = divisor
        for atom, coefficient in form.terms.items():
            if coefficient % divisor:
                rest[atom] = coefficient
                common = gcd(common, coefficient)
            else:
                whole[atom] = coefficient // divisor
        constant, left = divmod(form.const, divisor)
        quotient, remainder = Sum(dtype, whole, constant), Sum(dtype, rest, left)
        if not whole and constant == 0:
            remainder = form  # keeps the way it is written
        if not rest:
            return quotient, remainder
        if remainder is not form and not self.bounds.flows(remainder):
            return self._undivided(form, divisor)
        turn = self._turn(remainder, divisor)
        if turn is not None:
            return shifted(quotient, turn), shifted(remainder, -turn * divisor)
        if common > 1:
            reduced = exact_quotient(remainder, common)
            inner, digit = self.divide(reduced, divisor // common)
            last = Sum(dtype, {}, left % common)
            result = (
                self.terms.combine(plus(quotient, inner)),
                self.terms.combine(plus(times(digit, common), last)),
            )
            self._write_unreduced(remainder, divisor, common, reduced, result)
            return result
        known = self._known_residues(remainder, divisor)
        if known is not None:
            inner, digit = self.divide(known[1], divisor)
            return self.terms.combine(plus(plus(quotient, known[0]), inner)), digit
        inner, digit = self._divide_rest(remainder, divisor)
        return self.terms.combine(plus(quotient, inner)), digit

    def _write_unreduced(
        self, form: Sum, divisor: int, common: int, reduced: Sum, result: tuple[Sum, Sum]
    ) -> None:
        """Keeps the text ``(x * 4 + 4) % 16`` instead of ``(x + 1) % 4 * 4`` where it is not
        longer.
        """
        units = sum([1 for coefficient in form.terms.values() if abs(coefficient) == common])
        several = len(reduced.terms) + bool(reduced.const) > 1
        if units > 1 or (units and not several):
            return
        quotient, rest = result
        dtype, width, number = form.dtype, divisor // common, self.table.number(reduced)
        atom: Any = quotient.single()
        if not units and atom.__class__ is Split and (atom.lower, atom.upper) == (width, 0):
            if self.table.number(atom.index) == number:
                by = self.writer.constant(divisor, dtype)
                quotient.expr = FloorDiv(self.writer.to_expr(form), by)
        atom = next(iter(rest.terms)) if len(rest.terms) == 1 else None
        if atom.__class__ is Split and (atom.lower, atom.upper) == (1, width):
            if self.table.number(atom.index) == number and rest.terms[atom] == common:
                by = self.writer.constant(divisor, dtype)
                rest.expr = FloorMod(self.writer.to_expr(form), by)

    def _undivided(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        """Returns quotient and remainder as unsimplified divisions."""
        quotient = of_atom(self.table.split(form, divisor, 0))
        return quotient, of_atom(self.table.split(form, 1, divisor))

    def _turn(self, form: Sum, divisor: int) -> int | None:
        """Returns the quotient if it is the same for all values of the form, else None."""
        low, high = self.bounds.of(form)
        if -INFINITY < low and high < INFINITY and low // divisor == high // divisor:
            return int(low // divisor)
        return None

    def _known_residues(self, form: Sum, divisor: int) -> tuple[Sum, Sum] | None:
        """Extracts the terms whose remainder is known from facts about their atoms: returns
        (quotient, rest), or None.
        """
        if not self.facts.has_residues():
            return None
        rest = dict(form.terms)
        constant = form.const
        whole: dict[Atom, int] = {}
        for atom, coefficient in form.terms.items():
            coeff, base = self.residues.of_atom(atom)
            if coeff and coeff * coefficient % divisor == 0:
                del rest[atom]
                whole[atom] = coefficient
                constant += base * coefficient
        if not whole:
            return None
        remainder = Sum(form.dtype, rest, constant)
        exact = plus(form, remainder, -1)  # a multiple of the divisor
        if not (self.bounds.flows(exact) and self.bounds.flows(remainder)):
            return None
        common = gcd(coefficient_gcd(exact), exact.const, divisor)
        exact, unit = exact_quotient(exact, common), divisor // common
        return (exact if unit == 1 else of_atom(self.table.split(exact, unit, 0))), remainder

    def _divide_rest(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        """Divides a sum without terms that are multiples of the divisor."""
        dtype = form.dtype
        if not form.terms:
            constant, left = divmod(form.const, divisor)
            return Sum(dtype, {}, constant), Sum(dtype, {}, left)
        turn = self._turn(form, divisor)
        if turn is not None:
            return Sum(dtype, {}, turn), shifted(form, -turn * divisor)
        if len(form.terms) > 1:
            padded = self._padded(form, divisor)
            if padded is not None:
                quotient, rest = self.divide(padded[0], divisor)
                return self.terms.combine(plus(quotient, padded[1])), rest
        if len(form.terms) > 1 or form.const:
            parted = self._split_tail(form, divisor)
            if parted is not None:
                head, tail, unit = parted
                quotient, digit = self.divide(head, divisor // unit)
                return quotient, self.terms.combine(plus(times(digit, unit), tail))
        atom = next(iter(form.terms)) if len(form.terms) == 1 else None
        if atom.__class__ is Split and form.terms[atom] == 1:
            found = self._divide_digit(atom, divisor, form.const)
            if found is not None:
                return retyped(found[0], dtype), retyped(found[1], dtype)
            line = self._on_a_line(form, divisor)
            if line is not None:
                return line, of_atom(self.table.split(form, 1, divisor))
        if atom.__class__ is Extreme and form.terms[atom] == 1 and form.const == 0:
            pair = self._divide_extreme(atom, divisor)
            if pair is not None:
                return pair, of_atom(self.table.split(form, 1, divisor))
        fewer = self._fewer_turns(form, divisor)
        if fewer is not None:
            turn = self._turn(fewer, divisor)
            if turn is not None:  # x * 9 // 8  ->  x, for x in [0, 8)
                whole = exact_quotient(plus(form, fewer, -1), divisor)
                return shifted(whole, turn), shifted(fewer, -turn * divisor)
            return of_atom(self.table.split(form, divisor, 0)), self.divide(fewer, divisor)[1]
        return self._undivided(form, divisor)

    def _on_a_line(self, form: Sum, divisor: int) -> Sum | None:
        """Divides a sum of one atom that is 0 or 1: ``(x % 2 + 1) // 2`` is ``x % 2``."""
        ((atom, coefficient),) = form.terms.items()
        if self.bounds.of_atom(atom) != (0, 1):
            return None
        first, second = form.const // divisor, (form.const + coefficient) // divisor
        return Sum(form.dtype, {atom: second - first} if first != second else {}, first)

    def _padded(self, form: Sum, divisor: int) -> tuple[Sum, Sum] | None:
        """Replaces remainders by what they are remainders of where terms cancel: ``x + x % 4 * 3``,
        to be divided by 4, is ``x * 4`` less ``x // 4 * 12``. Returns the new sum, and the quotient
        of what has gone.
        """
        for atom, coefficient in form.terms.items():
            if atom.__class__ is not Split or atom.lower != 1 or atom.upper % divisor:
                continue
            if not is_index(atom.index.dtype) or atom.upper == 0:
                continue
            less = plus(plus(form, of_atom(atom), -coefficient), atom.index, coefficient)
            whole = {a: c for a, c in less.terms.items() if c % divisor == 0}
            shorter = len(less.terms) - len(whole) < len(form.terms) - 1
            if shorter and self.bounds.flows(less):
                turns = self.digit(atom.index, atom.upper, 0)
                return less, times(turns, -coefficient * (atom.upper // divisor))
        return None

    def _divide_extreme(self, atom: Extreme, divisor: int) -> Sum | None:
        """Rewrites ``min(x * 8, y) // 4`` as ``min(x * 2, y // 4)``: one of them is divided
        exactly.
        """
        args = atom.args
        if len(args) != 2 or not is_index(atom.dtype):
            return None
        for arg in args:
            if arg.terms and arg.const % divisor == 0 == coefficient_gcd(arg) % divisor:
                sides = [self.divide(retyped(arg, atom.dtype), divisor)[0] for arg in args]
                return self.minima.extreme_of_two(atom.kind, sides[0], sides[1])
        return None

    def _fewer_turns(self, form: Sum, divisor: int) -> Sum | None:
        """Reduces coefficients modulo the divisor: ``x * 9``, divided by 8, becomes ``x``."""
        terms = {atom: c % divisor if abs(c) >= divisor else c for atom, c in form.terms.items()}
        if terms == form.terms:
            return None
        fewer = Sum(form.dtype, terms, form.const)
        return fewer if self.bounds.flows(fewer) else None

    def _split_tail(self, form: Sum, divisor: int) -> tuple[Sum, Sum, int] | None:
        """Finds ``form == head * unit + tail``, where the tail lies in [0, unit) and the unit
        divides the divisor.
        """
        units = {gcd(coefficient, divisor) for coefficient in form.terms.values()}
        units.discard(1)
        for unit in sorted(units, reverse=True):
            head: dict[Atom, int] = {}
            tail: dict[Atom, int] = {}
            for atom, coefficient in form.terms.items():
                if coefficient % unit:
                    tail[atom] = coefficient
                else:
                    head[atom] = coefficient // unit
            rest = Sum(form.dtype, tail, form.const)
            turn = self._turn(rest, unit)
            if turn is not None:
                return Sum(form.dtype, head, turn), shifted(rest, -turn * unit), unit
        return None

    def _divide_digit(self, atom: Split, divisor: int, constant: int = 0) -> tuple[Sum, Sum] | None:
        """Merges nested divisions: ``x // 4 // 2`` becomes ``x // 8``, and ``(x // 4 + 1) // 2``
        becomes ``(x + 4) // 8``.
        """
        index, lower, upper = atom.index, atom.lower, atom.upper
        if upper and (constant or upper // lower % divisor):
            return None
        middle = lower * divisor
        if middle > index.dtype.max_value:
            return None
        if constant:
            index = shifted(index, constant * lower)
            if not (is_index(index.dtype) and self.bounds.flows(index)):
                return None
        if not is_index(index.dtype):  # is not to be taken apart
            digits = self.table.split(index, middle, upper), self.table.split(index, lower, middle)
            return of_atom(digits[0]), of_atom(digits[1])
        quotient = self.digit(index, middle, upper) if upper else self.divide(index, middle)[0]
        rest = self.divide(index, middle)[1]
        plain = self.table.split(index, 1, middle)
        if rest.single() is plain:
            return quotient, of_atom(self.table.split(index, lower, middle))
        return quotient, self.divide(rest, lower)[0]

    def digit(self, index: Sum, lower: int, upper: int) -> Sum:
        """Returns ``index // lower % (upper // lower)``, simplified where the bounds allow it."""
        if lower == 1 and upper == 0:
            return index
        if upper == lower:
            return Sum(index.dtype, {}, 0)
        form = of_atom(self.table.split(index, lower, upper)) if upper else None
        if lower == 1:
            plain = self._turn(index, upper) is None and self._fewer_turns(index, upper) is None
            return form if form is not None and plain else self.divide(index, upper)[1]
        low, high = self.bounds.of(index)
        if -INFINITY < low and high < INFINITY:
            if low // lower == high // lower:
                value = int(low // lower)
                return Sum(index.dtype, {}, value % (upper // lower) if upper else value)
            if upper and low // upper == high // upper:
                whole = of_atom(self.table.split(index, lower, 0))
                return shifted(whole, -int(low // upper) * (upper // lower))
        return form or self.divide(index, lower)[0]

    def symbolic_divide(self, a: Sum, b: Sum) -> tuple[Sum, Sum]:
        """Returns the quotient and the remainder by a divisor that is not a constant."""
        key = (self.table.number(a), -1 - self.table.number(b))
        found = self.caches.divisions.get(key)
        if found is None or in_other_order(found[1], a):
            found = self.caches.divisions[key] = self._symbolic_divide(a, b), a
        return found[0]

    def _symbolic_divide(self, a: Sum, b: Sum) -> tuple[Sum, Sum]:
        quotient, rest = self.polynomial_divide(a, b)
        if rest is not a and not self.bounds.flows(rest):
            quotient, rest = Sum(a.dtype, {}, 0), a
        if not rest.terms and rest.const == 0:
            return quotient, rest
        # b > 0 follows from 0 <= rest < b
        if self.prover.prove(rest, 2) and self.prover.prove(shifted(plus(b, rest, -1), -1), 3):
            return quotient, rest
        if not rest.terms and rest.const < 0:  # of -b <= rest < 0 as well
            above = plus(b, rest)
            if self.prover.prove(above, 3):
                return shifted(quotient, -1), above
        low, high = self.bounds.of(b)
        if low == high and low > 0:  # only now: multiples of `b` in `a` would not be seen any more
            return self.divide(a, int(low))
        if len(rest.terms) == len(a.terms):  # nothing went out: leave it as it was
            quotient, rest = Sum(a.dtype, {}, 0), a
        padded = self._padded_by(rest, b) if len(rest.terms) > 1 else None
        if padded is not None:
            inner, digit = self.symbolic_divide(padded[0], b)
            return self.terms.combine(plus(plus(quotient, inner), padded[1])), digit
        common = gcd(coefficient_gcd(rest), rest.const, coefficient_gcd(b), b.const)
        unit = exact_quotient(b, common)
        reduced = exact_quotient(rest, common)
        factor = self.shared_factor(reduced, unit)
        if factor is not None:  # x * y // (y * 4)  ->  x // 4
            less, divisor = self.without(reduced, factor), self.without(unit, factor)
            inner, digit = self.floordiv(less, divisor), self.floormod(less, divisor)
            scale = Sum(a.dtype, {factor: common}, 0)
            return self.terms.combine(plus(quotient, inner)), self.terms.multiply(digit, scale)
        inner = of_atom(self.table.quotient(reduced, unit))
        digit = times(of_atom(self.table.remainder(reduced, unit)), common)
        return plus(quotient, inner), digit

    def _padded_by(self, form: Sum, b: Sum) -> tuple[Sum, Sum] | None:
        """Replaces remainders by ``b`` by what they are remainders of where terms cancel:
        ``x - x % n`` is ``x // n * n``. Returns the new sum, and the quotient of what has gone.
        """
        number = self.table.number(b)
        for atom, coefficient in form.terms.items():
            if atom.__class__ is not Remainder or self.table.number(atom.divisor) != number:
                continue
            less = plus(plus(form, of_atom(atom), -coefficient), atom.index, coefficient)
            if len(less.terms) < len(form.terms) - 1 and self.bounds.flows(less):
                turns = of_atom(self.table.quotient(atom.index, atom.divisor))
                return less, times(turns, -coefficient)
        return None

    def shared_factor(self, a: Sum, b: Sum) -> Atom | None:
        """Finds an atom that occurs in each term of both sums, so that the fraction can be
        reduced.
        """
        if a.const or b.const or not a.terms:
            return None
        for factor in factors_of(next(iter(b.terms))):
            missing = [term for term in (*a.terms, *b.terms) if factor not in factors_of(term)]
            if not missing:
                return factor
        return None

    def without(self, form: Sum, factor: Atom) -> Sum:
        """Returns ``form / factor``."""
        result = Sum(form.dtype, {}, 0)
        for atom, coefficient in form.terms.items():
            left = list(factors_of(atom))
            _removed(left, factor)
            if left:
                product = self.table.product(left, form.dtype)
                result = plus(result, Sum(form.dtype, {product: coefficient}, 0))
            else:
                result = shifted(result, coefficient)
        return result

    def polynomial_divide(self, a: Sum, b: Sum) -> tuple[Sum, Sum]:
        """Finds ``a == quotient * b + rest`` by polynomial long division."""
        lead, scale = next(iter(b.terms.items()))
        quotient, rest = Sum(a.dtype, {}, 0), a
        for _ in range(8):
            step = self._lead_quotient(rest, lead, scale)
            if step is None:
                break
            smaller = plus(rest, self.table.multiply(step, b), -1)
            if len(smaller.terms) >= len(rest.terms):
                break
            quotient, rest = plus(quotient, step), smaller
        return quotient, rest

    def _lead_quotient(self, form: Sum, lead: Atom, scale: int) -> Sum | None:
        factors = factors_of(lead)
        for atom, coefficient in form.terms.items():
            if coefficient % scale:
                continue
            left = list(factors_of(atom))
            if not all(_removed(left, factor) for factor in factors):
                continue
            if not left:
                return Sum(form.dtype, {}, coefficient // scale)
            return Sum(form.dtype, {self.table.product(left, atom.dtype): coefficient // scale}, 0)
        return None


def _removed(items: list[Atom], item: Atom) -> bool:
    for position, present in enumerate(items):
        if present is item:
            del items[position]
            return True
    return False
