"""Finds symbolic bounds: the interval of a sum while some of its variables range over intervals.

`IntervalEvaluator` works on normal forms, so that what cancels cannot widen the answer: over
``i`` in
[0, n), ``(i * 4 + 3) - i * 4`` is 3, and ``(i * 16 + j) // 16`` over ``j`` in [0, 16) is ``i``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.arith.engine import Engine
from tilesmith.arith.forms import (
    Atom,
    Extreme,
    Leaf,
    Product,
    Quotient,
    Remainder,
    Split,
    Sum,
    is_index,
    is_zero,
    of_atom,
    plus,
    retyped,
    shifted,
    times,
)
from tilesmith.arith.intervals import INFINITY
from tilesmith.ir import Call, Cast, Max, Min, PrimExpr, Select, Var
from tilesmith.ir.operators import moved
from tilesmith.ir.queries import called_name, checked_size, mentions

Ends = tuple[Sum | None, Sum | None]
"""Smallest and largest value, None where there is no bound."""

UNBOUNDED: Ends = (None, None)


class IntervalEvaluator:
    """Evaluates sums over intervals of some variables, ``domains``."""

    def __init__(self, engine: Engine, domains: dict[Var, Ends]) -> None:
        self.engine = engine
        self.domains = domains
        self._depends: dict[Atom, bool] = {}

    def ends(self, form: Sum) -> Ends:
        """Returns the interval of a sum, in terms of variables outside the domains."""
        low, high = self._once(form)
        for _ in self.domains:  # a domain may be written in terms of another variable's
            if low is not None and self._varies(low):
                low = self._once(low)[0]
            if high is not None and self._varies(high):
                high = self._once(high)[1]
        if low is not None and self._varies(low):
            low = None
        if high is not None and self._varies(high):
            high = None
        return low, high

    def _varies(self, form: Sum) -> bool:
        return self._any(form.terms)

    def _any(self, atoms: Iterable[Atom]) -> bool:
        for atom in atoms:
            if self.depends(atom):
                return True
        return False

    def depends(self, atom: Atom) -> bool:
        """Returns whether a variable of the domains occurs in an atom."""
        found = self._depends.get(atom)
        if found is None:
            found = self._depends[atom] = self._occurs(atom)
        return found

    def _occurs(self, atom: Atom) -> bool:
        if isinstance(atom, Leaf):
            return atom.expr is not None and mentions(atom.expr, self.domains)
        if isinstance(atom, Product):
            return self._any(atom.factors)
        if isinstance(atom, Extreme):
            return self._any([inner for arg in atom.args for inner in arg.terms])
        if isinstance(atom, Split):
            return self._varies(atom.index)
        return self._varies(atom.index) or self._varies(atom.divisor)  # type: ignore[attr-defined]

    def _once(self, form: Sum) -> Ends:
        """Replaces the variables by the ends of their domains; variables inside these ends stay."""
        if not self.engine.bounds.is_exact(
            form
        ):  # may wrap around: its ends are not where the terms' are
            return self._wrapping(form)
        zero = Sum(form.dtype, {}, form.const)
        low: Sum | None = zero
        high: Sum | None = zero
        for atom, coefficient in form.terms.items():
            smallest, largest = self._atom(atom)
            if coefficient < 0:
                smallest, largest = largest, smallest
            low = None if low is None or smallest is None else plus(low, smallest, coefficient)
            high = None if high is None or largest is None else plus(high, largest, coefficient)
        low = None if low is None else self.engine.terms.combine(low)
        high = None if high is None else self.engine.terms.combine(high)
        return self._with_constant_bounds(form, low, high)

    def _wrapping(self, form: Sum) -> Ends:
        if not self._varies(form):
            return form, form
        low, high = self.engine.bounds.of(form)
        return Sum(form.dtype, {}, int(low)), Sum(form.dtype, {}, int(high))

    def _with_constant_bounds(self, form: Sum, low: Sum | None, high: Sum | None) -> Ends:
        if low is None or high is None:
            known = self.engine.bounds.of(form)
            # what is near to the ends of the dtype says no more than the dtype
            limit = form.dtype.max_value >> 8
            if low is None and known[0] >= -limit:
                low = Sum(form.dtype, {}, int(known[0]))
            if high is None and known[1] <= limit:
                high = Sum(form.dtype, {}, int(known[1]))
        return low, high

    def _atom(self, atom: Atom) -> Ends:
        if not self.depends(atom):
            this = of_atom(atom)
            return this, this
        if isinstance(atom, Leaf):
            return self._leaf(atom)
        if not is_index(atom.dtype):
            return self._constant(atom)
        if isinstance(atom, Product):
            return self._product(atom)
        if isinstance(atom, Extreme):
            return self._extreme(atom)
        if isinstance(atom, Split):
            return self._split(atom)
        if isinstance(atom, Quotient):
            return self._quotient(atom)
        return self._remainder(atom)  # type: ignore[arg-type]

    def _constant(self, atom: Atom) -> Ends:
        low, high = self.engine.bounds.of_atom(atom)
        if high - low == INFINITY:
            return UNBOUNDED
        return Sum(atom.dtype, {}, int(low)), Sum(atom.dtype, {}, int(high))

    def _leaf(self, atom: Leaf) -> Ends:
        expr: Any = atom.expr
        if isinstance(expr, Var):
            return self.domains[expr]
        if isinstance(expr, Select):
            return self._union(expr.true_value, expr.false_value)
        if isinstance(expr, Call):
            name = called_name(expr)
            if name == "tir.if_then_else":
                return self._union(expr.args[1], expr.args[2])
            if name == "tir.likely":
                return self._once(self.engine.normalizer.normal(expr.args[0]))
            if name == "tir.checked":
                return self._checked(expr)
        if isinstance(expr, Cast) and expr.value.dtype.is_bool:
            return Sum(atom.dtype, {}, 0), Sum(atom.dtype, {}, 1)
        return UNBOUNDED

    def _checked(self, call: Call) -> Ends:
        """Bound an index by the size that it has been compared with."""
        size = checked_size(call.args[0], call.args[1])
        if size is None:
            return self._once(self.engine.normalizer.normal(call.args[0]))
        _, high = self._once(self.engine.normalizer.normal(moved(size, -1)))
        return Sum(call.dtype, {}, 0), high

    def _union(self, a: PrimExpr, b: PrimExpr) -> Ends:
        low_a, high_a = self._once(self.engine.normalizer.normal(a))
        low_b, high_b = self._once(self.engine.normalizer.normal(b))
        low = (
            None
            if low_a is None or low_b is None
            else self.engine.extremes.extreme(Min, [low_a, low_b])
        )
        high = (
            None
            if high_a is None or high_b is None
            else self.engine.extremes.extreme(Max, [high_a, high_b])
        )
        return low, high

    def _product(self, atom: Product) -> Ends:
        fixed = [factor for factor in atom.factors if not self.depends(factor)]
        varying = [factor for factor in atom.factors if self.depends(factor)]
        engine = self.engine
        factor = Sum(atom.dtype, {}, 1)
        for part in fixed:
            factor = engine.table.multiply(factor, of_atom(part))
        if len(varying) == 1:
            return self._scaled(self._atom(varying[0]), factor)
        low, high = Sum(atom.dtype, {}, 1), Sum(atom.dtype, {}, 1)
        for part in varying:  # all parts not negative: the product grows with each
            smallest, largest = self._atom(part)
            if smallest is None or largest is None or not engine.prover.prove(smallest):
                return UNBOUNDED
            low, high = engine.terms.multiply(low, smallest), engine.terms.multiply(high, largest)
        return self._scaled((low, high), factor)

    def _scaled(self, ends: Ends, factor: Sum) -> Ends:
        """Multiplies an interval by a constant factor."""
        engine = self.engine
        low, high = ends
        dtype = factor.dtype
        first = None if low is None else engine.terms.multiply(retyped(low, dtype), factor)
        second = None if high is None else engine.terms.multiply(retyped(high, dtype), factor)
        if engine.prover.prove(factor):
            return first, second
        if engine.prover.prove(times(factor, -1)):
            return second, first
        if first is None or second is None:
            return UNBOUNDED
        return engine.extremes.extreme(Min, [first, second]), engine.extremes.extreme(
            Max, [first, second]
        )

    def _extreme(self, atom: Extreme) -> Ends:
        found = [self._once(arg) for arg in atom.args]
        lows = [low for low, _ in found if low is not None]
        highs = [high for _, high in found if high is not None]
        every_low, every_high = len(lows) == len(found), len(highs) == len(found)
        if atom.kind is Min:
            low = self.engine.extremes.extreme(Min, lows) if every_low else None
            return low, (self.engine.extremes.extreme(Min, highs) if highs else None)
        low = self.engine.extremes.extreme(Max, lows) if lows else None
        return low, (self.engine.extremes.extreme(Max, highs) if every_high else None)

    def _split(self, atom: Split) -> Ends:
        engine, index = self.engine, atom.index
        low, high = self._once(index)
        if not atom.upper:
            return self._digit(low, atom.lower, 0), self._digit(high, atom.lower, 0)
        width = atom.upper // atom.lower
        if low is not None and high is not None:
            turns = (
                engine.divider.divide(low, atom.upper)[0],
                engine.divider.divide(high, atom.upper)[0],
            )
            if self._are_equal(*turns):
                return self._digit(low, atom.lower, atom.upper), self._digit(
                    high, atom.lower, atom.upper
                )
        last = Sum(atom.dtype, {}, width - 1)
        if low is not None and high is not None and engine.prover.prove(low):
            return Sum(atom.dtype, {}, 0), engine.extremes.extreme(
                Min, [last, engine.divider.digit(high, atom.lower, 0)]
            )
        return Sum(atom.dtype, {}, 0), last

    def _digit(self, form: Sum | None, lower: int, upper: int) -> Sum | None:
        if form is None:
            return None
        quotient = self.engine.divider.divide(form, lower)[0]
        return self.engine.divider.divide(quotient, upper // lower)[1] if upper else quotient

    def _quotient(self, atom: Quotient) -> Ends:
        engine = self.engine
        if self._varies(atom.divisor) or not engine.prover.prove(shifted(atom.divisor, -1)):
            known = engine.bounds.of(atom.divisor)
            if self._varies(atom.divisor) or known[0] < 0:
                return UNBOUNDED
        low, high = self._once(atom.index)
        first = None if low is None else engine.divider.floordiv(low, atom.divisor)
        return first, (None if high is None else engine.divider.floordiv(high, atom.divisor))

    def _remainder(self, atom: Remainder) -> Ends:
        engine, divisor = self.engine, atom.divisor
        ends = self._known(atom.index) if not self._varies(divisor) else None
        if ends is not None and self._are_equal(*ends):
            value = engine.divider.floormod(ends[0], divisor)
            return value, value
        if engine.bounds.of(divisor)[0] < 0 and not engine.prover.prove(shifted(divisor, -1)):
            return UNBOUNDED
        if ends is not None:
            low, high = ends
            divide, remainder = engine.divider.floordiv, engine.divider.floormod
            if self._are_equal(divide(low, divisor), divide(high, divisor)):
                return remainder(low, divisor), remainder(high, divisor)
        largest = self._once(divisor)[1]
        return Sum(atom.dtype, {}, 0), (None if largest is None else shifted(largest, -1))

    def _known(self, form: Sum) -> tuple[Sum, Sum] | None:
        """Return the smallest and the largest value if both are known."""
        low, high = self._once(form)
        return None if low is None or high is None else (low, high)

    def _are_equal(self, a: Sum, b: Sum) -> bool:
        return is_zero(self.engine.terms.combine(plus(a, b, -1)))
