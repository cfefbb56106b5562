"""Proves that sums are non-negative.

Every comparison of integers is a question ``form >= 0``. Constant bounds answer most. Where they do
not, `Prover.prove` adds a multiple of a known inequality that makes a term vanish and asks again:
with ``i < n`` in force, ``n - i + 3 >= 0`` becomes ``4 >= 0``. What defines an atom is such an
inequality too: ``16 * ((n + 15) // 16) >= n`` follows from how the division rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import gcd, prod

from tilesmith.arith.bounds import Bounds
from tilesmith.arith.facts import Facts
from tilesmith.arith.form_table import FormTable
from tilesmith.arith.forms import (
    Atom,
    Extreme,
    Product,
    Quotient,
    Remainder,
    Split,
    Sum,
    coefficient_gcd,
    exact_quotient,
    factors_of,
    is_index,
    of_atom,
    plus,
    shifted,
    times,
)  # fmt: skip
from tilesmith.arith.intervals import INFINITY
from tilesmith.arith.like_terms import LikeTerms
from tilesmith.ir import Min

__all__ = ["Prover"]

_MOST_CORNERS = 4  # variables
_BUDGET = 60  # inequalities tried in one proof


class Prover:
    """Proves inequalities from the facts."""

    __slots__ = ("_budget", "_depth", "_positive", "bounds", "facts", "table", "terms")

    def __init__(self, facts: Facts, table: FormTable, bounds: Bounds, terms: LikeTerms) -> None:
        self.facts = facts
        self.table = table
        self.bounds = bounds
        self.terms = terms
        self._budget = 0
        self._depth = 0  # of proofs that are going on
        self._positive: frozenset[Atom] = frozenset()

    def prove(self, form: Sum, depth: int = 3) -> bool:
        """Returns True if ``form >= 0`` is proven, else False."""
        low, high = self.bounds.of(form)
        if low >= 0:
            return True
        if high < 0 or depth <= 0 or not is_index(form.dtype):
            return False
        if self._depth:  # sums that a proof makes may ask for one more; not for more than that
            return self._depth == 1 and self._nested(form, depth)
        self._budget = _BUDGET
        self._positive = self._sizes(form) if self.facts.extents else frozenset()
        self._depth = 1
        try:
            return self._search(form, depth, set()) or self._at_corners(form)
        finally:
            self._depth = 0

    def _at_corners(self, form: Sum) -> bool:
        """Proves ``x * 9 + y * 9 - x * y >= 0`` from the bounds of ``x`` and ``y``: a sum of
        products is smallest where each variable is at one of its ends.
        """
        variables: list[Atom] = []
        for atom in form.terms:
            factors = factors_of(atom)
            if len(set(factors)) != len(factors) or not is_index(atom.dtype):
                return False  # a square is not smallest at an end, and what wraps around nowhere
            variables += [factor for factor in factors if factor not in variables]
        if len(variables) > _MOST_CORNERS:
            return False
        if all(atom.__class__ is not Product for atom in form.terms):
            return False
        ends = [self.bounds.of_atom(variable) for variable in variables]
        if any(low == -INFINITY or high == INFINITY for low, high in ends):
            return False
        for corner in product(*ends):
            values = dict(zip(variables, corner))
            total: float = form.const
            for atom, coefficient in form.terms.items():
                total += coefficient * prod([values[factor] for factor in factors_of(atom)])
            if total < 0:
                return False
        return True

    def _nested(self, form: Sum, depth: int) -> bool:
        self._depth = 2
        try:
            return self._search(form, min(depth, 1), set())
        finally:
            self._depth = 1

    def _sizes(self, form: Sum) -> frozenset[Atom]:
        """Returns the extents of the ranges of the variables in a sum; inside these ranges they are
        positive.
        """
        found = []
        stack: list[Atom] = list(form.terms)
        while stack:
            atom = stack.pop()
            if atom.__class__ is Product:
                stack += atom.factors
            elif atom.__class__ is Split:
                stack += atom.index.terms
            size = self.facts.extents.get(atom)
            if size is not None:
                found.append(size)
        return frozenset(found)

    def _lowest(self, form: Sum) -> float:
        """Returns the lower bound of a sum; extents of ranges in use count as at least 1."""
        low: float = form.const
        for atom, coefficient in form.terms.items():
            if atom in self._positive and coefficient > 0:
                low += coefficient * max(1, self.bounds.of_atom(atom)[0])
            else:
                low += coefficient * self.bounds.of_atom(atom)[0 if coefficient > 0 else 1]
        return low

    def _not_negative(self, atom: Atom) -> bool:
        return atom in self._positive or self.bounds.of_atom(atom)[0] >= 0

    def _search(self, form: Sum, depth: int, seen: set[int]) -> bool:
        low, high = self.bounds.of(form)
        if low >= 0 or (self._positive and self._lowest(form) >= 0):
            return True
        if depth <= 0 or high < 0:
            return False
        # x * 3 - 4 >= 0 is x - 2 >= 0: facts about x are rounded before they are added
        form = exact_quotient(form, coefficient_gcd(form))
        number = self.table.number(form)
        if number in seen:
            return False
        seen.add(number)
        for atom, coefficient in list(form.terms.items()):
            if atom.__class__ is Extreme and (atom.kind is Min) == (coefficient > 0):
                return self._all_cases(form, atom, depth, seen)
            for fact in self._useful(atom, coefficient):
                self._budget -= 1
                if self._budget < 0:
                    return False
                factor = fact.terms[atom]
                common = gcd(coefficient, factor)
                # form >= 0 just where form * scale + scale - 1 >= 0, for whole numbers
                scale = abs(factor) // common
                scaled = shifted(times(form, scale), scale - 1)
                without = plus(scaled, fact, -(abs(coefficient) // common))
                if self._search(self.terms.combine(without), depth - 1, seen):
                    return True
            if atom.__class__ is Quotient and self.bounds.of(atom.divisor)[0] >= 0:
                divisor = atom.divisor
                scaled = shifted(plus(self.table.multiply(form, divisor), divisor), -1)
                if self._search(self.terms.combine(scaled), depth - 1, seen):
                    return True
        return False

    def _all_cases(self, form: Sum, atom: Extreme, depth: int, seen: set[int]) -> bool:
        """Proves ``min(a, b) >= c`` where both ``a >= c`` and ``b >= c``."""
        coefficient = form.terms[atom]
        rest = plus(form, of_atom(atom), -coefficient)
        for arg in atom.args:
            if not self._search(self.terms.combine(plus(rest, arg, coefficient)), depth - 1, seen):
                return False
        return True

    def _useful(self, atom: Atom, coefficient: int) -> list[Sum]:
        """Finds inequalities ``fact >= 0`` in which ``atom`` has a coefficient of the given
        sign."""
        found = [
            fact
            for fact in self.facts.inequalities.get(atom, ())
            if fact.terms.get(atom, 0) * coefficient > 0
        ]
        rule = _DEFINING.get(atom.__class__)
        if rule is not None and is_index(atom.dtype):  # else it may have wrapped around
            found += rule(self, atom, coefficient > 0)
        return found

    # What defines an atom

    def _split_facts(self, atom: Split, positive: bool) -> list[Sum]:
        """Returns inequalities of a quotient or remainder: for ``q = x // c``, ``c * q >= x - c +
        1`` and ``c * q <= x``; for ``x % c``, at most ``x``.
        """
        index = atom.index
        if not is_index(index.dtype):
            return []
        this = of_atom(atom)
        if not atom.upper:
            difference = plus(times(this, atom.lower), index, -1)
            return [shifted(difference, atom.lower - 1) if positive else times(difference, -1)]
        if not positive and atom.lower == 1 and self.bounds.of(index)[0] >= 0:
            return [plus(index, this, -1)]
        return []

    def _quotient_facts(self, atom: Quotient, positive: bool) -> list[Sum]:
        if positive and self.bounds.of(atom.index)[0] >= 0 and self.bounds.of(atom.divisor)[0] >= 0:
            return [of_atom(atom)]
        if (
            not positive
            and self.bounds.of(atom.index)[0] >= 0
            and self.bounds.of(atom.divisor)[0] >= 0
        ):
            return [plus(atom.index, of_atom(atom), -1)]
        return []

    def _remainder_facts(self, atom: Remainder, positive: bool) -> list[Sum]:
        if positive or self.bounds.of(atom.divisor)[0] < 0:
            return []
        facts = [shifted(plus(atom.divisor, of_atom(atom), -1), -1)]
        if self.bounds.of(atom.index)[0] >= 0:
            facts.append(plus(atom.index, of_atom(atom), -1))
        return facts

    def _extreme_facts(self, atom: Extreme, positive: bool) -> list[Sum]:
        if (atom.kind is Min) == positive:
            return []
        this = of_atom(atom)
        if positive:
            return [plus(this, arg, -1) for arg in atom.args]
        return [plus(arg, this, -1) for arg in atom.args]

    def _product_facts(self, atom: Product, positive: bool) -> list[Sum]:
        """Multiplies facts about one factor by the other factors if those are non-negative: ``n *
        (x // n) <= x``.
        """
        found: list[Sum] = []
        if positive and all(self._not_negative(factor) for factor in atom.factors):
            found.append(of_atom(atom))
        for position, factor in enumerate(atom.factors):
            others = [other for p, other in enumerate(atom.factors) if p != position]
            cofactor = Sum(atom.dtype, {self.table.product(others, atom.dtype): 1}, 0)
            if not all(self._not_negative(other) for other in others):
                continue
            sign = 1 if positive else -1
            for fact in self.facts.inequalities.get(factor, ()):
                if fact.terms.get(factor, 0) * sign > 0:
                    found.append(self.table.multiply(fact, cofactor))
            if isinstance(factor, Quotient) and self.bounds.of(factor.divisor)[0] >= 0:
                found += self._quotient_product(factor, cofactor, positive)
        return [fact for fact in found if atom in fact.terms]

    def _quotient_product(self, factor: Quotient, cofactor: Sum, positive: bool) -> list[Sum]:
        if self.table.number(factor.divisor) != self.table.number(cofactor):
            return []
        whole = self.table.multiply(of_atom(factor), cofactor)
        if not positive:
            return [plus(factor.index, whole, -1)]
        return [shifted(plus(plus(whole, factor.index, -1), cofactor), -1)]


_DEFINING: dict[type, Callable[..., list[Sum]]] = {
    Split: Prover._split_facts,
    Quotient: Prover._quotient_facts,
    Remainder: Prover._remainder_facts,
    Extreme: Prover._extreme_facts,
    Product: Prover._product_facts,
}
