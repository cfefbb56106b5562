"""Facts from bindings and constraints, and proofs that a sum is not negative.

Every comparison of integers is a question ``form >= 0``. Constant bounds answer most. Where they do
not, `Proofs.prove` adds a multiple of a known inequality that makes a term vanish and asks again:
with ``i < n`` in force, ``n - i + 3 >= 0`` becomes ``4 >= 0``. What defines an atom is such an
inequality too: ``16 * ((n + 15) // 16) >= n`` follows from how the division rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd

from tilesmith.arith.const_int_bound import direction, intersect
from tilesmith.arith.forms import (
    Atom,
    Extreme,
    Leaf,
    Product,
    Quotient,
    Remainder,
    Split,
    Sum,
    coefficient_gcd,
    exact_quotient,
    plus,
    shifted,
    times,
)  # fmt: skip
from tilesmith.arith.modular_set import Residues, intersect_residue, reduced
from tilesmith.arith.state import INFINITY, Interval, is_index
from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    BinaryOp,
    Call,
    CompareOp,
    FloatImm,
    IntImm,
    Min,
    Not,
    Or,
    PrimExpr,
    Range,
    Var,
)  # fmt: skip

_BUDGET = 60  # inequalities tried in one proof


class Proofs(Residues):
    """The part of an analyzer that holds facts and proves inequalities."""

    tidy: Callable[[Sum], Sum]
    of_atom: Callable[[Atom], Sum]
    simplify_condition: Callable[[PrimExpr], PrimExpr]

    @property
    def has_residues(self) -> bool:
        """Whether anything is known about remainders of variables."""
        return bool(self.var_modular or self.modular_facts)

    # Bindings

    def bind_constants(self, var: Var, range_: Range) -> bool:
        """The same as `bind_range` for a range of constants; whether it was one."""
        first, extent = range_.min, range_.extent
        if first.__class__ is not IntImm or extent.__class__ is not IntImm:
            return False
        low, count = first.value, extent.value  # type: ignore[attr-defined]
        if count == 1:
            self._unbind(var)
            self.values[var] = Sum(var.dtype, {}, low)
            return True
        high = low + count - 1
        if not var.dtype.is_integer or not (
            var.dtype.min_value <= low and high <= var.dtype.max_value
        ):
            return False
        self._unbind(var)
        self.var_bounds[var] = (low, high)
        return True

    def bind_range(self, var: Var, range_: Range) -> None:
        """From now on ``var`` lies in the range, which is not empty."""
        low, extent = self.normal(range_.min), self.normal(range_.extent)
        if not extent.terms and extent.const == 1:
            self._unbind(var)
            self.values[var] = Sum(var.dtype, low.terms, low.const)
            return
        self.bind_interval(var, low, self.tidy(shifted(plus(low, extent), -1)))
        size = extent.single()
        if size is not None:
            self.extents[self.table.leaf(var, var)] = size

    def bind_interval(self, var: Var, low: Sum, top: Sum) -> None:
        """From now on ``var`` lies between two sums, both included."""
        self._unbind(var)
        self.var_bounds[var] = (self.bounds(low)[0], self.bounds(top)[1])
        variable = Sum(var.dtype, {self.table.leaf(var, var): 1}, 0)
        # Only about this variable: a query outside of its loop must not learn that the loop runs
        atom = self.table.leaf(var, var)
        facts = [self.tidy(plus(variable, low, -1))] if low.terms else []
        if top.terms:
            facts.append(self.tidy(plus(top, variable, -1)))
        if facts:
            self.inequalities[atom] = (*self.inequalities.get(atom, ()), *facts)

    def bind_value(self, var: Var, value: PrimExpr) -> None:
        """From now on ``var`` equals ``value``."""
        if not (var.dtype.is_integer and var.dtype.lanes == 1):
            self.forget()
            self.replacements[var] = value
            return
        self._unbind(var)
        form = self.normal(value)
        self.values[var] = (
            form if form.dtype is var.dtype else Sum(var.dtype, form.terms, form.const)
        )

    def _unbind(self, var: Var) -> None:
        if not self.table.known(var) and var not in self.values:
            return
        self.forget()
        self.values.pop(var, None)
        self.var_bounds.pop(var, None)
        self.var_modular.pop(var, None)
        atom = self.table.leaf(var, var)
        self.atom_facts.pop(atom, None)
        self.extents.pop(atom, None)
        for other, known in list(self.inequalities.items()):
            kept = tuple([fact for fact in known if atom not in fact.terms])
            if len(kept) != len(known):
                self.inequalities[other] = kept

    # Constraints

    def assume(self, condition: PrimExpr) -> None:
        """Take a condition as a fact, within the current layer."""
        if isinstance(condition, And):
            self.assume(condition.a)
            self.assume(condition.b)
        elif isinstance(condition, Call) and getattr(condition.op, "name", "") == "tir.likely":
            self.assume(condition.args[0])
        elif isinstance(condition, Not) and isinstance(condition.a, Or):
            self.assume(Not(condition.a.a))
            self.assume(Not(condition.a.b))
        elif isinstance(condition, CompareOp) and is_index(condition.a.dtype):
            self._assume_comparison(condition)
        elif isinstance(condition, Not) and isinstance(condition.a, CompareOp):
            self.assume(NEGATED[type(condition.a)](condition.a.a, condition.a.b))
        elif not isinstance(condition, (IntImm, FloatImm)) and condition.dtype.lanes == 1:
            if isinstance(condition, Not):
                self._assume_literal(condition.a, False)
            else:
                self._assume_literal(condition, True)

    def _assume_literal(self, condition: PrimExpr, truth: bool) -> None:
        if self.is_stable(condition):
            self.literals[self.number(condition)] = truth

    def is_stable(self, expr: PrimExpr) -> bool:
        """Whether the value cannot change between the condition and what it guards: no loads, no
        calls."""
        stack = [expr]
        while stack:
            node = stack.pop()
            if isinstance(node, (Var, IntImm, FloatImm)):
                continue
            if not isinstance(node, (BinaryOp, Not)):
                return False
            stack.extend(node.children())
        return True

    def _assume_comparison(self, condition: CompareOp) -> None:
        kind, a, b = type(condition), condition.a, condition.b
        if kind in (GT, GE):
            kind, a, b = (LT if kind is GT else LE), b, a
        form = self.tidy(plus(self.normal(b), self.normal(a), -1))
        if not form.terms or not self._stable_atoms(form.terms):
            return
        if kind is EQ:
            self._assume_zero(form)
        elif kind is NE:
            self._assume_nonzero(form)
        else:
            self._assume_nonnegative(shifted(form, -1) if kind is LT else form)

    def _stable_atom(self, atom: Atom) -> bool:
        if isinstance(atom, Leaf):
            return isinstance(atom.expr, Var)
        if isinstance(atom, Product):
            return self._stable_atoms(atom.factors)
        if isinstance(atom, Extreme):
            parts: tuple[Sum, ...] = atom.args
        elif isinstance(atom, Split):
            parts = (atom.index,)
        else:
            parts = (atom.index, atom.divisor)  # type: ignore[attr-defined]
        return self._stable_atoms([inner for part in parts for inner in part.terms])

    def _stable_atoms(self, atoms: Iterable[Atom]) -> bool:
        for atom in atoms:
            if not self._stable_atom(atom):
                return False
        return True

    def _assume_nonnegative(self, form: Sum) -> None:
        common = coefficient_gcd(form)
        form = exact_quotient(form, common)
        if len(form.terms) > 1:
            self._add_inequality(form)
        self._narrow(form, (0, INFINITY))
        if len(form.terms) == 1:  # i // 4 >= c  is  i >= 4 * c;  i // 4 <= c  is  i <= 4 * c + 3
            ((atom, sign),) = form.terms.items()
            if isinstance(atom, Split) and not atom.upper and is_index(atom.index.dtype):
                last = 0 if sign > 0 else atom.lower - 1
                self._assume_nonnegative(
                    shifted(times(atom.index, sign), form.const * atom.lower + last)
                )
        self.forget()

    def _assume_zero(self, form: Sum) -> None:
        self._add_inequality(form)
        self._add_inequality(times(form, -1))
        self._narrow(form, (0, 0))
        self._learn_residue(form)
        self._solve(form)
        self.forget()

    def _solve(self, form: Sum) -> None:
        """``x == 3``: put the constant in the place of the variable."""
        if len(form.terms) != 1:
            return
        ((atom, coefficient),) = form.terms.items()
        if isinstance(atom, Leaf) and isinstance(atom.expr, Var) and form.const % coefficient == 0:
            self.values[atom.expr] = Sum(atom.dtype, {}, -form.const // coefficient)

    def _assume_nonzero(self, form: Sum) -> None:
        low, high = self.bounds(form)
        if low == 0:
            self._assume_nonnegative(shifted(form, -1))
        elif high == 0:
            self._assume_nonnegative(shifted(times(form, -1), -1))
        else:
            key, scale = direction(form)
            if form.const % scale == 0:
                known = self.sum_facts.get((Sum, key), frozenset())
                self.sum_facts[Sum, key] = known | {-form.const // scale}

    def is_hole(self, form: Sum) -> bool:
        """Whether a sum is known not to be zero from a condition that said so."""
        key, scale = direction(form)
        return form.const % scale == 0 and -form.const // scale in self.sum_facts.get(
            (Sum, key), ()
        )

    def _learn_residue(self, form: Sum) -> None:
        """``x % 4 == 1`` tells the residue of ``x``."""
        if len(form.terms) != 1:
            return
        ((atom, coefficient),) = form.terms.items()
        if not isinstance(atom, Split) or atom.lower != 1 or form.const % coefficient:
            return
        digit = -form.const // coefficient
        if len(atom.index.terms) != 1:
            return
        ((inner, scale),) = atom.index.terms.items()
        if gcd(scale, atom.upper) == 1:
            base = (digit - atom.index.const) * pow(scale, -1, atom.upper)
            known = self.modular_facts.get(inner)
            residue = reduced(atom.upper, base)
            if known is not None:
                residue = intersect_residue(known, residue)
            self.modular_facts[inner] = residue

    def _narrow(self, form: Sum, interval: Interval) -> None:
        """Record that ``form`` lies in ``interval``."""
        low, high = interval[0] - form.const, interval[1] - form.const
        if len(form.terms) == 1:
            ((atom, scale),) = form.terms.items()
            low, high = _scaled_down(low, high, scale)
            known = self.atom_facts.get(atom)
            fact = (low, high) if known is None else intersect(known, (low, high))
            self.atom_facts[atom] = fact
            return
        key, scale = direction(form)
        low, high = _scaled_down(low, high, scale)
        known = self.sum_facts.get(key)
        self.sum_facts[key] = (low, high) if known is None else intersect(known, (low, high))

    def _add_inequality(self, form: Sum) -> None:
        for atom in form.terms:
            parts = atom.factors if isinstance(atom, Product) else ()
            for part in (atom, *parts):
                known = self.inequalities.get(part, ())
                if form not in known:
                    self.inequalities[part] = (*known, form)

    # Proofs

    def prove(self, form: Sum, depth: int = 3) -> bool:
        """Whether ``form >= 0`` certainly holds; False when that is not known."""
        low, high = self.bounds(form)
        if low >= 0:
            return True
        if high < 0 or depth <= 0 or not is_index(form.dtype):
            return False
        if self._proving:  # sums that a proof makes may ask for one more; not for more than that
            return self._proving == 1 and self._nested(form, depth)
        self._budget = _BUDGET
        self._positive = self._sizes(form) if self.extents else frozenset()
        self._proving = 1
        try:
            return self._search(form, depth, set())
        finally:
            self._proving = 0

    def _nested(self, form: Sum, depth: int) -> bool:
        self._proving = 2
        try:
            return self._search(form, min(depth, 1), set())
        finally:
            self._proving = 1

    _budget: int = 0
    _proving: int = 0
    _positive: frozenset[Atom] = frozenset()

    def _sizes(self, form: Sum) -> frozenset[Atom]:
        """Extents of the ranges of the variables in a sum: those ranges are not empty here."""
        found = []
        for atom in form.terms:
            for part in atom.factors if isinstance(atom, Product) else (atom,):
                size = self.extents.get(part)
                if size is not None:
                    found.append(size)
        return frozenset(found)

    def _lowest(self, form: Sum) -> float:
        """The lower bound of a sum, where sizes of ranges that are in use are at least 1."""
        low: float = form.const
        for atom, coefficient in form.terms.items():
            if atom in self._positive and coefficient > 0:
                low += coefficient * max(1, self.atom_bounds(atom)[0])
            else:
                low += coefficient * self.atom_bounds(atom)[0 if coefficient > 0 else 1]
        return low

    def _not_negative(self, atom: Atom) -> bool:
        return atom in self._positive or self.atom_bounds(atom)[0] >= 0

    def _search(self, form: Sum, depth: int, seen: set[int]) -> bool:
        low, high = self.bounds(form)
        if low >= 0 or (self._positive and self._lowest(form) >= 0):
            return True
        if depth <= 0 or high < 0:
            return False
        number = self.table.number(form)
        if number in seen:
            return False
        seen.add(number)
        for atom, coefficient in list(form.terms.items()):
            if atom.__class__ is Extreme and (atom.kind is Min) == (coefficient > 0):  # type: ignore
                return self._all_cases(form, atom, depth, seen)  # type: ignore[arg-type]
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
                if self._search(self.tidy(without), depth - 1, seen):
                    return True
            if atom.__class__ is Quotient and self.bounds(atom.divisor)[0] >= 0:  # type: ignore
                divisor = atom.divisor  # type: ignore[attr-defined]
                scaled = shifted(plus(self.table.multiply(form, divisor), divisor), -1)
                if self._search(self.tidy(scaled), depth - 1, seen):
                    return True
        return False

    def _all_cases(self, form: Sum, atom: Extreme, depth: int, seen: set[int]) -> bool:
        """``min(a, b) >= c`` where both ``a >= c`` and ``b >= c``."""
        coefficient = form.terms[atom]
        rest = plus(form, self.of_atom(atom), -coefficient)
        for arg in atom.args:
            if not self._search(self.tidy(plus(rest, arg, coefficient)), depth - 1, seen):
                return False
        return True

    def _useful(self, atom: Atom, coefficient: int) -> list[Sum]:
        """Inequalities ``fact >= 0`` in which ``atom`` has a coefficient of the given sign."""
        found = [
            fact
            for fact in self.inequalities.get(atom, ())
            if fact.terms.get(atom, 0) * coefficient > 0
        ]
        rule = _DEFINING.get(atom.__class__)
        if rule is not None and is_index(atom.dtype):  # else it may have wrapped around
            found += rule(self, atom, coefficient > 0)
        return found

    def _split_facts(self, atom: Split, positive: bool) -> list[Sum]:
        """Of ``q = x // c``: ``c * q >= x - c + 1`` and ``c * q <= x``; of ``x % c``: at most
        ``x``."""
        index = atom.index
        if not is_index(index.dtype):
            return []
        this = self.of_atom(atom)
        if not atom.upper:
            difference = plus(times(this, atom.lower), index, -1)
            return [shifted(difference, atom.lower - 1) if positive else times(difference, -1)]
        if not positive and atom.lower == 1 and self.bounds(index)[0] >= 0:
            return [plus(index, this, -1)]
        return []

    def _quotient_facts(self, atom: Quotient, positive: bool) -> list[Sum]:
        if positive and self.bounds(atom.index)[0] >= 0 and self.bounds(atom.divisor)[0] >= 0:
            return [self.of_atom(atom)]
        if not positive and self.bounds(atom.index)[0] >= 0 and self.bounds(atom.divisor)[0] >= 0:
            return [plus(atom.index, self.of_atom(atom), -1)]
        return []

    def _remainder_facts(self, atom: Remainder, positive: bool) -> list[Sum]:
        if positive or self.bounds(atom.divisor)[0] < 0:
            return []
        facts = [shifted(plus(atom.divisor, self.of_atom(atom), -1), -1)]
        if self.bounds(atom.index)[0] >= 0:
            facts.append(plus(atom.index, self.of_atom(atom), -1))
        return facts

    def _extreme_facts(self, atom: Extreme, positive: bool) -> list[Sum]:
        if (atom.kind is Min) == positive:
            return []
        this = self.of_atom(atom)
        if positive:
            return [plus(this, arg, -1) for arg in atom.args]
        return [plus(arg, this, -1) for arg in atom.args]

    def _product_facts(self, atom: Product, positive: bool) -> list[Sum]:
        """Facts about one factor, times the others if those are not negative; ``n * (x // n) <=
        x``."""
        found: list[Sum] = []
        if positive and all(self._not_negative(factor) for factor in atom.factors):
            found.append(self.of_atom(atom))
        for position, factor in enumerate(atom.factors):
            others = [other for p, other in enumerate(atom.factors) if p != position]
            cofactor = Sum(atom.dtype, {self.table.product(others, atom.dtype): 1}, 0)
            if not all(self._not_negative(other) for other in others):
                continue
            sign = 1 if positive else -1
            for fact in self.inequalities.get(factor, ()):
                if fact.terms.get(factor, 0) * sign > 0:
                    found.append(self.table.multiply(fact, cofactor))
            if isinstance(factor, Quotient) and self.bounds(factor.divisor)[0] >= 0:
                found += self._quotient_product(factor, cofactor, positive)
        return [fact for fact in found if atom in fact.terms]

    def _quotient_product(self, factor: Quotient, cofactor: Sum, positive: bool) -> list[Sum]:
        if self.table.number(factor.divisor) != self.table.number(cofactor):
            return []
        whole = self.table.multiply(self.of_atom(factor), cofactor)
        if not positive:
            return [plus(factor.index, whole, -1)]
        return [shifted(plus(plus(whole, factor.index, -1), cofactor), -1)]


def _scaled_down(low: float, high: float, scale: int) -> Interval:
    """The integers ``x`` with ``low <= scale * x <= high``."""
    if scale < 0:
        low, high, scale = -high, -low, -scale
    smallest = low if low == -INFINITY else -(-low // scale)
    largest = high if high == INFINITY else high // scale
    return smallest, largest


NEGATED: dict[type, type] = {EQ: NE, NE: EQ, LT: GE, GE: LT, GT: LE, LE: GT}

_DEFINING: dict[type, Callable[..., list[Sum]]] = {
    Split: Proofs._split_facts,
    Quotient: Proofs._quotient_facts,
    Remainder: Proofs._remainder_facts,
    Extreme: Proofs._extreme_facts,
    Product: Proofs._product_facts,
}
