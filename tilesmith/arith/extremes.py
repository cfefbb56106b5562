"""Minima and maxima of sums: what is dominated drops out, what all share is taken out.

min(x + 4, x)          ->  x
min(x * 4 + 8, 16)     ->  min(x, 2) * 4 + 8
"""

from __future__ import annotations

from math import gcd

from tilesmith.arith.forms import (
    Extreme,
    Sum,
    coefficient_gcd,
    exact_quotient,
    plus,
    retyped,
    shifted,
    times,
)  # fmt: skip
from tilesmith.arith.state import is_index
from tilesmith.arith.tidy import Joiner
from tilesmith.ir import Max, Min


def _all_negative(forms: list[Sum]) -> bool:
    for form in forms:
        if form.const > 0:
            return False
        for coefficient in form.terms.values():
            if coefficient > 0:
                return False
    return True


class Extremes(Joiner):
    """The part of an analyzer that makes minima and maxima."""

    def extreme(self, kind: type, args: list[Sum]) -> Sum:
        """The minimum or maximum of sums: dominated ones dropped, what they share taken out."""
        if not is_index(args[0].dtype):
            result = args[0]
            for arg in args[1:]:
                result = self._wrapping_extreme(kind, result, arg)
            return result
        args = self._undominated(kind, self._flattened(kind, args))
        if len(args) == 1:
            return args[0]
        shared, unit = self._shared(args)
        inner = [exact_quotient(plus(arg, shared, -1), unit) for arg in args]
        if not self.all_flow(inner):
            return self.of_atom(self.table.extreme(kind, args))
        if _all_negative(inner):  # max(x * -4, y * -4)  ->  min(x, y) * -4
            opposite = [times(arg, -1) for arg in inner]
            if self.all_flow(opposite):
                inner, unit, kind = opposite, -unit, Max if kind is Min else Min
        form = times(self.of_atom(self.table.extreme(kind, inner)), unit)
        return plus(form, shared)

    def _wrapping_extreme(self, kind: type, a: Sum, b: Sum) -> Sum:
        """Of a dtype that wraps around, only the bounds of both sides count."""
        (low_a, high_a), (low_b, high_b) = self.bounds(a), self.bounds(b)
        if high_a <= low_b or self.table.number(a) == self.table.number(b):
            return a if kind is Min else b
        if high_b <= low_a:
            return b if kind is Min else a
        return self.of_atom(self.leaf(kind(self.table.to_expr(a), self.table.to_expr(b))))

    def _flattened(self, kind: type, args: list[Sum]) -> list[Sum]:
        flat: list[Sum] = []
        for arg in args:
            atom = next(iter(arg.terms)) if len(arg.terms) == 1 else None
            if atom.__class__ is Extreme and atom.kind is kind and arg.terms[atom] == 1:  # type: ignore
                dtype = arg.dtype  # of a cast: wider than that of what is inside
                inner = [shifted(retyped(part, dtype), arg.const) for part in atom.args]  # type: ignore
                if arg.const == 0 or self.all_flow(inner):
                    flat.extend(inner)
                    continue
            flat.append(arg)
        return flat

    def _undominated(self, kind: type, args: list[Sum]) -> list[Sum]:
        kept: list[Sum] = []
        for arg in args:
            rivals, keep = [], True
            for other in kept:
                order = self.compare(arg, other)  # arg <= other, arg >= other
                if order[1] if kind is Min else order[0]:
                    keep = False
                    break
                if not (order[0] if kind is Min else order[1]):
                    rivals.append(other)
            if keep:
                kept = [*rivals, arg]
        return kept

    def compare(self, a: Sum, b: Sum) -> tuple[bool, bool]:
        """What is known for certain: (a <= b, a >= b)."""
        difference = self.tidy(plus(a, b, -1))
        low, high = self.bounds(difference)
        if low >= 0 or high <= 0:
            return high <= 0, low >= 0
        if not self.inequalities:
            return False, False
        return self.prove(times(difference, -1), 1), self.prove(difference, 1)

    def _shared(self, args: list[Sum]) -> tuple[Sum, int]:
        """What all have in common: a sum to take out, then a factor of what is left."""
        dtype = args[0].dtype
        terms = dict(args[0].terms)
        for arg in args[1:]:
            terms = {atom: c for atom, c in terms.items() if arg.terms.get(atom) == c}
        varying = [arg for arg in args if len(arg.terms) > len(terms)]
        lead = min(varying, key=self._core_number)
        shared = Sum(dtype, terms, lead.const)
        unit = 0
        for arg in args:
            rest = plus(arg, shared, -1)
            unit = gcd(unit, coefficient_gcd(rest), rest.const)
        return shared, unit

    def _core_number(self, form: Sum) -> int:
        return self.table.number(Sum(form.dtype, form.terms, 0))
