"""Finds residues of sums from the residues of their atoms."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from tilesmith.arith.bounds import Bounds
from tilesmith.arith.facts import Facts
from tilesmith.arith.forms import (
    Atom,
    Choice,
    Extreme,
    Leaf,
    Product,
    Split,
    Sum,
    Truncated,
    is_index,
)
from tilesmith.arith.interfaces import NormalForms
from tilesmith.arith.modular_set import (
    ANY,
    Residue,
    intersect_residue,
    product_residue,
    reduced,
    union_residue,
)
from tilesmith.ir import Call, Let, PrimExpr, Select, Var
from tilesmith.ir.queries import called_name

__all__ = ["Residues"]


class Residues:
    """Finds residues from the facts."""

    __slots__ = ("bounds", "caches", "facts", "normalizer")

    normalizer: NormalForms
    """Gives the sums of the expressions inside opaque ones; set by the engine."""

    def __init__(self, facts: Facts, bounds: Bounds) -> None:
        self.facts = facts
        self.bounds = bounds
        self.caches = facts.caches

    def of(self, form: Sum) -> Residue:
        """Returns the residue of a sum."""
        coeff, base = 0, form.const
        for atom, coefficient in form.terms.items():
            c, b = self.of_atom(atom)
            coeff = gcd(coeff, c * coefficient)
            base += b * coefficient
        if not is_index(form.dtype):  # wraps around: what is known modulo a power of two stays
            coeff = gcd(coeff, 1 << form.dtype.bits)
        return reduced(coeff, base)

    def of_atom(self, atom: Atom) -> Residue:
        """Returns the residue of an atom."""
        found = self.caches.residues.get(atom)
        if found is None:
            rule = _ATOM_MODULAR.get(atom.__class__)
            found = ANY if rule is None else rule(self, atom)
            fact = self.facts.modular_facts.get(atom)
            if fact is not None:
                found = intersect_residue(found, fact)
            self.caches.residues[atom] = found
        return found

    def of_expr(self, expr: PrimExpr) -> Residue:
        """Returns the residue of an integer expression."""
        if expr.dtype.is_integer and expr.dtype.lanes == 1:
            return self.of(self.normalizer.normal(expr))
        return ANY

    def _leaf_modular(self, atom: Leaf) -> Residue:
        expr = atom.expr
        if isinstance(expr, Var):
            return self.facts.var_modular.get(expr, ANY)
        if isinstance(expr, Select):
            return union_residue(self.of_expr(expr.true_value), self.of_expr(expr.false_value))
        if isinstance(expr, Call):
            return self._call_modular(expr)
        if isinstance(expr, Let):
            return self._let_modular(expr)
        return ANY

    def _let_modular(self, expr: Let) -> Residue:
        saved = self.facts.open_layer()
        try:
            self.facts.var_modular[expr.var] = self.of_expr(expr.value)
            return self.of_expr(expr.body)
        finally:
            self.facts.close_layer(saved)

    def _call_modular(self, expr: Call) -> Residue:
        name = called_name(expr)
        if name == "tir.if_then_else":
            return union_residue(self.of_expr(expr.args[1]), self.of_expr(expr.args[2]))
        if name == "tir.likely":
            return self.of_expr(expr.args[0])
        if name == "tir.shift_left":
            low, high = self.bounds.of_expr(expr.args[1])
            if low == high and 0 <= low < 64 and is_index(expr.dtype):
                return product_residue(self.of_expr(expr.args[0]), (0, 1 << int(low)))
        return ANY

    def _split_modular(self, atom: Split) -> Residue:
        coeff, base = self.of(atom.index)
        if coeff % atom.lower:
            return ANY
        coeff, base = coeff // atom.lower, base // atom.lower
        if atom.upper:
            width = atom.upper // atom.lower
            if coeff == 0:
                return 0, base % width
            coeff = gcd(coeff, width)
            if coeff == width:
                return 0, base % width
        return reduced(coeff, base)

    def _product_modular(self, atom: Product) -> Residue:
        result = self.of_atom(atom.factors[0])
        for factor in atom.factors[1:]:
            result = product_residue(result, self.of_atom(factor))
        return result

    def _extreme_modular(self, atom: Extreme) -> Residue:
        result = self.of(atom.args[0])
        for arg in atom.args[1:]:
            result = union_residue(result, self.of(arg))
        return result


_ATOM_MODULAR: dict[type, Callable[[Any, Any], Residue]] = {
    **dict.fromkeys((Leaf, Truncated, Choice), Residues._leaf_modular),
    Split: Residues._split_modular,
    Product: Residues._product_modular,
    Extreme: Residues._extreme_modular,
}
