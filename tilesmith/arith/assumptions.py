"""Turns bindings of variables and conditions into facts.

``i < n`` becomes the inequality ``n - i - 1 >= 0``, ``x % 4 == 1`` a residue of ``x``, and a
condition that is not about integers is kept as one that holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.arith.bounds import Bounds
from tilesmith.arith.facts import Facts
from tilesmith.arith.form_table import FormTable
from tilesmith.arith.forms import (
    Atom,
    Extreme,
    Leaf,
    Product,
    Remainder,
    Split,
    Sum,
    Truncated,
    coefficient_gcd,
    exact_quotient,
    is_index,
    of_atom,
    plus,
    shifted,
    times,
)
from tilesmith.arith.interfaces import NormalForms
from tilesmith.arith.intervals import INFINITY
from tilesmith.arith.like_terms import LikeTerms, end_of_quotient
from tilesmith.arith.numbering import Numbering
from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    BinaryOp,
    CompareOp,
    FloatImm,
    IntImm,
    Mod,
    Not,
    Or,
    PrimExpr,
    Range,
    Var,
)  # fmt: skip
from tilesmith.ir.queries import is_call

__all__ = ["NEGATED", "Assumptions", "is_stable"]

NEGATED: dict[type, type] = {EQ: NE, NE: EQ, LT: GE, GE: LT, GT: LE, LE: GT}
"""Class of a comparison → that of the opposite one."""


class Assumptions:
    """Derives facts from bindings and conditions."""

    __slots__ = ("bounds", "facts", "normalizer", "numbering", "table", "terms")

    def __init__(
        self,
        facts: Facts,
        numbering: Numbering,
        table: FormTable,
        bounds: Bounds,
        terms: LikeTerms,
        normalizer: NormalForms,
    ) -> None:
        self.facts = facts
        self.numbering = numbering
        self.table = table
        self.bounds = bounds
        self.terms = terms
        self.normalizer = normalizer

    # Bindings

    def bind_constants(self, var: Var, range_: Range) -> bool:
        """Does the same as `bind_range` for a range of constants; returns False for any other
        range.
        """
        first, extent = range_.min, range_.extent
        if first.__class__ is not IntImm or extent.__class__ is not IntImm:
            return False
        low, count = first.value, extent.value
        if count == 1:
            self.unbind(var)
            self.facts.values[var] = Sum(var.dtype, {}, low)
            return True
        high = low + count - 1
        if not var.dtype.is_integer or not (
            var.dtype.min_value <= low and high <= var.dtype.max_value
        ):
            return False
        self.unbind(var)
        self.facts.var_bounds[var] = (low, high)
        return True

    def bind_range(self, var: Var, range_: Range) -> None:
        """Records that ``var`` lies in a range, which is not empty."""
        low, extent = self.normalizer.normal(range_.min), self.normalizer.normal(range_.extent)
        if not extent.terms and extent.const == 1:
            self.unbind(var)
            self.facts.values[var] = Sum(var.dtype, low.terms, low.const)
            return
        self.bind_interval(var, low, self.terms.combine(shifted(plus(low, extent), -1)))
        size = extent.single()
        if size is not None:
            self.facts.extents[self.table.variable(var)] = size

    def bind_interval(self, var: Var, low: Sum, top: Sum) -> None:
        """Records that ``var`` lies between two sums, both included."""
        self.unbind(var)
        self.facts.var_bounds[var] = (self.bounds.of(low)[0], self.bounds.of(top)[1])
        variable = Sum(var.dtype, {self.table.variable(var): 1}, 0)
        # Only about this variable: a query outside of its loop must not learn that the loop runs
        atom = self.table.variable(var)
        facts = [self.terms.combine(plus(variable, low, -1))] if low.terms else []
        if top.terms:
            facts.append(self.terms.combine(plus(top, variable, -1)))
        if facts:
            self.facts.inequalities[atom] = (*self.facts.inequalities.get(atom, ()), *facts)

    def bind_value(self, var: Var, value: PrimExpr) -> None:
        """Records that ``var`` equals ``value``."""
        if not (var.dtype.is_integer and var.dtype.lanes == 1):
            self.facts.forget()
            self.facts.replacements[var] = value
            return
        self.unbind(var)
        form = self.normalizer.normal(value)
        self.facts.values[var] = (
            form if form.dtype is var.dtype else Sum(var.dtype, form.terms, form.const)
        )

    def unbind(self, var: Var) -> None:
        """Drops what is known about a variable."""
        if self.table.has_leaf(var) or var in self.facts.values:
            self.facts.drop(var, self.table.variable(var))

    # Conditions

    def assume(self, condition: PrimExpr) -> None:
        """Records a condition as a fact in the current layer."""
        if isinstance(condition, And):
            self.assume(condition.a)
            self.assume(condition.b)
        elif is_call(condition, "tir.likely"):
            self.assume(condition.args[0])
        elif isinstance(condition, Not) and isinstance(condition.a, Or):
            self.assume(Not(condition.a.a))
            self.assume(Not(condition.a.b))
        elif isinstance(condition, CompareOp) and is_index(condition.a.dtype):
            self._assume_comparison(condition)
        elif isinstance(condition, Not) and isinstance(condition.a, CompareOp):
            self.assume(NEGATED[type(condition.a)](condition.a.a, condition.a.b))
        elif not isinstance(condition, (IntImm, FloatImm)) and condition.dtype.lanes == 1:
            holds = not isinstance(condition, Not)
            inner = condition.a if isinstance(condition, Not) else condition
            self._assume_literal(inner, holds)
            bound = self.facts.definitions.get(inner) if isinstance(inner, Var) else None
            if bound is not None:
                self.assume(bound if holds else Not(bound))

    def _assume_literal(self, condition: PrimExpr, truth: bool) -> None:
        if is_stable(condition):
            self.facts.literals[self.numbering.number(condition)] = truth

    def _assume_comparison(self, condition: CompareOp) -> None:
        kind, a, b = type(condition), condition.a, condition.b
        if kind in (GT, GE):
            kind, a, b = (LT if kind is GT else LE), b, a
        form = self.terms.combine(plus(self.normalizer.normal(b), self.normalizer.normal(a), -1))
        if not form.terms or not _stable_atoms(form.terms):
            return
        if kind is EQ:
            self._assume_zero(form)
        elif kind is NE:
            self._assume_nonzero(form)
        else:
            self._assume_nonnegative(shifted(form, -1) if kind is LT else form)

    def _assume_nonnegative(self, form: Sum) -> None:
        common = coefficient_gcd(form)
        form = exact_quotient(form, common)
        if len(form.terms) > 1:
            self.facts.add_inequality(form)
        self.facts.narrow(form, (0, INFINITY))
        if len(form.terms) == 1:  # i // 4 >= c  is  i >= 4 * c;  i // 4 <= c  is  i <= 4 * c + 3
            ((atom, sign),) = form.terms.items()
            found = self.terms.divided(atom)
            if found is not None and abs(sign) == 1 and is_index(found[0].dtype):
                end = end_of_quotient(atom, sign, form.const, found[1])
                self._assume_nonnegative(shifted(times(found[0], sign), end))
        self._assume_divisors(form)
        self.facts.forget()

    def _assume_divisors(self, form: Sum) -> None:
        """Records that divisors are positive: ``x % m < m`` holds for no other ``m``."""
        for atom, coefficient in form.terms.items():
            if coefficient == -1 and isinstance(atom, Remainder):
                rest = plus(plus(form, of_atom(atom)), atom.divisor, -1)
                if not rest.terms and rest.const < 0:
                    self._assume_nonnegative(shifted(atom.divisor, -1))

    def assume_value(self, atom: Atom, value: int) -> None:
        """Records that an atom, of whatever kind, equals a number in the current layer."""
        self._assume_zero(Sum(atom.dtype, {atom: 1}, -value))

    def _assume_zero(self, form: Sum) -> None:
        self.facts.add_inequality(form)
        self.facts.add_inequality(times(form, -1))
        self.facts.narrow(form, (0, 0))
        self.facts.learn_residue(form)
        self._assume_remainder(form)
        self._assume_quotients(form)
        self._solve(form)
        self.facts.forget()

    def _assume_quotients(self, form: Sum) -> None:
        """Records ``y * 4 <= x`` and ``x < y * 4 + 4`` from ``x // 4 == y``."""
        if len(form.terms) < 2:
            return
        for atom, coefficient in form.terms.items():
            if atom.__class__ is not Split or atom.upper or abs(coefficient) != 1:
                continue
            index, divisor = atom.index, atom.lower
            value = times(plus(form, of_atom(atom), -coefficient), -coefficient * divisor)
            rest = self.terms.combine(plus(index, value, -1))  # in [0, divisor)
            for bound in (rest, shifted(times(rest, -1), divisor - 1)):
                if bound.terms:
                    self._assume_nonnegative(bound)

    def _assume_remainder(self, form: Sum) -> None:
        """Records the residue of ``x`` from ``x rem 4 == 1``, whichever way the division rounds."""
        atom = next(iter(form.terms))
        expr: Any = atom.expr
        if atom.__class__ is not Truncated or expr.__class__ is not Mod or len(form.terms) != 1:
            return
        if isinstance(expr.b, IntImm) and expr.b.value > 0 and abs(form.terms[atom]) == 1:
            digit = -form.const * form.terms[atom]
            self.facts.learn_remainder(self.normalizer.normal(expr.a), expr.b.value, digit)

    def _solve(self, form: Sum) -> None:
        """Records the value of a variable that an equation like ``x == 3`` determines."""
        if len(form.terms) != 1:
            return
        ((atom, coefficient),) = form.terms.items()
        if isinstance(atom, Leaf) and isinstance(atom.expr, Var) and form.const % coefficient == 0:
            self.facts.values[atom.expr] = Sum(atom.dtype, {}, -form.const // coefficient)

    def _assume_nonzero(self, form: Sum) -> None:
        low, high = self.bounds.of(form)
        if low == 0:
            self._assume_nonnegative(shifted(form, -1))
        elif high == 0:
            self._assume_nonnegative(shifted(times(form, -1), -1))
        else:
            self.facts.exclude_zero(form)


def is_stable(expr: PrimExpr) -> bool:
    """Returns True if the value cannot change between a condition and the code that it guards: no
    loads, no calls.
    """
    stack: list[Any] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, (Var, IntImm, FloatImm)):
            continue
        if not isinstance(node, (BinaryOp, Not)):
            return False
        stack.extend(node.children())
    return True


def _stable_atom(atom: Atom) -> bool:
    if isinstance(atom, Leaf):
        if isinstance(atom, Truncated):
            return not atom.is_data
        return isinstance(atom.expr, Var) or is_call(atom.expr, "tir.vscale")
    if isinstance(atom, Product):
        return _stable_atoms(atom.factors)
    if isinstance(atom, Extreme):
        parts: tuple[Sum, ...] = atom.args
    elif isinstance(atom, Split):
        parts = (atom.index,)
    else:
        parts = (atom.index, atom.divisor)  # type: ignore[attr-defined]
    return _stable_atoms([inner for part in parts for inner in part.terms])


def _stable_atoms(atoms: Iterable[Atom]) -> bool:
    for atom in atoms:
        if not _stable_atom(atom):
            return False
    return True
