"""Finds constant bounds of sums: the smallest and the largest possible value.

A sum is bounded by the bounds of its atoms, which are kept until a new fact is learnt. An atom of
variables and sums is bounded from its parts here, an opaque expression by `leaf_bounds`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.arith.facts import Facts
from tilesmith.arith.forms import (
    NORMAL,
    TOO_LARGE,
    Atom,
    Choice,
    Extreme,
    Leaf,
    Product,
    Quotient,
    Remainder,
    Split,
    Sum,
    Truncated,
    direction,
    holds_data,
    is_index,
    magnitude,
)
from tilesmith.arith.interfaces import NormalForms
from tilesmith.arith.intervals import (
    INFINITY,
    Interval,
    dtype_interval,
    floor_quotient,
    intersect,
    product_interval,
    quotient_interval,
    wrapped,
)
from tilesmith.arith.leaf_bounds import LEAF_BOUNDS
from tilesmith.ir import IntImm, Min, PrimExpr, SizeVar, Var

__all__ = ["Bounds"]


class Bounds:
    """Finds constant bounds from the facts."""

    __slots__ = ("caches", "facts", "normalizer")

    normalizer: NormalForms
    """Gives the sums of the expressions inside opaque ones; set by the engine."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.caches = facts.caches

    def of(self, form: Sum) -> Interval:
        """Returns the smallest and the largest value of a sum."""
        interval = self.exact(form)
        return interval if is_index(form.dtype) else wrapped(form.dtype, *interval)

    def exact(self, form: Sum) -> Interval:
        """Returns the bounds that the sum would have if its dtype never wrapped around."""
        low: float = form.const
        high: float = form.const
        cache = self.caches.bounds
        for atom, coefficient in form.terms.items():
            found = cache.get(atom)
            if found is None:
                found = self.of_atom(atom)
            if coefficient > 0:
                low += coefficient * found[0]
                high += coefficient * found[1]
            else:
                low += coefficient * found[1]
                high += coefficient * found[0]
        if self.facts.sum_facts and len(form.terms) > 1:
            return self._refined(form, low, high)
        return low, high

    def is_exact(self, form: Sum) -> bool:
        """Returns True if the sum does not wrap around in its dtype."""
        if is_index(form.dtype):
            return True
        low, high = self.exact(form)
        limits = dtype_interval(form.dtype)
        return limits[0] <= low and high <= limits[1] and high < INFINITY

    def flows(self, form: Sum) -> bool:
        """Returns True if a new sum of int32 or int64 may be computed without overflow. A sum of
        variables is assumed not to overflow; a sum of loaded data needs bounds that show it.
        """
        size = magnitude(form)
        if size == NORMAL and not holds_data(form):
            return True
        if size == TOO_LARGE:
            return False
        if not form.terms or form.single() is not None:
            return True
        low, high = self.exact(form)
        return form.dtype.min_value <= low and high <= form.dtype.max_value

    def all_flow(self, forms: list[Sum]) -> bool:
        """Returns True if each of the sums may be computed without overflow (see `flows`)."""
        for form in forms:
            if not self.flows(form):
                return False
        return True

    def _refined(self, form: Sum, low: float, high: float) -> Interval:
        key, scale = direction(form)
        fact = self.facts.sum_facts.get(key)
        if fact is None:
            return low, high
        known = (
            (fact[0] * scale, fact[1] * scale) if scale > 0 else (fact[1] * scale, fact[0] * scale)
        )
        return intersect((low, high), (known[0] + form.const, known[1] + form.const))

    def of_atom(self, atom: Atom) -> Interval:
        """Returns the smallest and the largest value of an atom."""
        found = self.caches.bounds.get(atom)
        if found is None:
            found = _ATOM_BOUNDS[atom.__class__](self, atom)
            fact = self.facts.atom_facts.get(atom)
            if fact is not None:
                found = intersect(found, fact)
            self.caches.bounds[atom] = found
        return found

    def of_expr(self, expr: PrimExpr) -> Interval:
        """Returns the bounds of an integer or boolean expression."""
        dtype = expr.dtype
        if isinstance(expr, IntImm):
            return expr.value, expr.value
        if dtype.is_integer and dtype.lanes == 1:
            return self.of(self.normalizer.normal(expr))
        return dtype_interval(dtype)

    def _leaf_bounds(self, atom: Leaf) -> Interval:
        expr = atom.expr
        if isinstance(expr, Var):
            found = self.facts.var_bounds.get(expr)
            if found is None:
                found = dtype_interval(expr.dtype)
                if isinstance(expr, SizeVar):
                    found = (0, found[1])
            return found
        rule = LEAF_BOUNDS.get(expr.__class__)
        limits = dtype_interval(expr.dtype)
        return limits if rule is None else intersect(limits, rule(self.of_expr, expr))

    def _split_bounds(self, atom: Split) -> Interval:
        low, high = self.of(atom.index)
        low, high = floor_quotient(low, atom.lower), floor_quotient(high, atom.lower)
        if not atom.upper:
            return low, high
        width = atom.upper // atom.lower
        if -INFINITY < low and high < INFINITY and low // width == high // width:
            return low % width, high % width
        return 0, (min(high, width - 1) if low >= 0 else width - 1)

    def _product_bounds(self, atom: Product) -> Interval:
        result: Interval = (1, 1)
        powers: dict[Atom, int] = {}
        for factor in atom.factors:
            powers[factor] = powers.get(factor, 0) + 1
        for factor, power in powers.items():
            interval = self.of_atom(factor)
            if power % 2 == 0:
                largest = max(abs(interval[0]), abs(interval[1]))
                crosses = interval[0] <= 0 <= interval[1]
                smallest = 0 if crosses else min(abs(interval[0]), abs(interval[1]))
                result = product_interval(result, (smallest**power, largest**power))
            else:
                for _ in range(power):
                    result = product_interval(result, interval)
        return result if is_index(atom.dtype) else wrapped(atom.dtype, *result)

    def _quotient_bounds(self, atom: Quotient) -> Interval:
        return quotient_interval(self.of(atom.index), self.of(atom.divisor))

    def _remainder_bounds(self, atom: Remainder) -> Interval:
        divisor = self.of(atom.divisor)
        if divisor[0] < 0:
            return min(divisor[0] + 1, 0), max(divisor[1] - 1, 0)
        index = self.of(atom.index)
        largest = max(divisor[1] - 1, 0)
        return 0, (min(largest, index[1]) if index[0] >= 0 else largest)

    def _extreme_bounds(self, atom: Extreme) -> Interval:
        choose = min if atom.kind is Min else max
        low, high = self.of(atom.args[0])
        for arg in atom.args[1:]:
            other = self.of(arg)
            low, high = choose(low, other[0]), choose(high, other[1])
        return low, high


_ATOM_BOUNDS: dict[type, Callable[[Any, Any], Interval]] = {
    **dict.fromkeys((Leaf, Truncated, Choice), Bounds._leaf_bounds),
    Split: Bounds._split_bounds,
    Product: Bounds._product_bounds,
    Quotient: Bounds._quotient_bounds,
    Remainder: Bounds._remainder_bounds,
    Extreme: Bounds._extreme_bounds,
}
