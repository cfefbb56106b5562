"""Residues: what is known of an integer expression in the form ``coeff * anything + base``."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from tilesmith.arith.const_int_bound import Bounds
from tilesmith.arith.forms import Atom, Extreme, Leaf, Product, Split, Sum
from tilesmith.arith.state import is_index
from tilesmith.ir import Call, PrimExpr, Select, Var

__all__ = ["ModularSet", "Residues"]

Residue = tuple[int, int]
"""(coeff, base): the values ``coeff * k + base``; a coefficient of 0 means the constant base."""

ANY: Residue = (1, 0)


class ModularSet:
    """The integers ``coeff * k + base``; ``coeff`` 0 means exactly ``base``."""

    __slots__ = ("base", "coeff")

    def __init__(self, coeff: int, base: int) -> None:
        self.coeff = int(coeff)
        self.base = int(base)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModularSet):
            return NotImplemented
        return (self.coeff, self.base) == (other.coeff, other.base)

    def __hash__(self) -> int:
        return hash((self.coeff, self.base))

    def __repr__(self) -> str:
        return f"ModularSet(coeff={self.coeff}, base={self.base})"


def reduced(coeff: int, base: int) -> Residue:
    """With a coefficient that is not negative and a base below it."""
    coeff = abs(coeff)
    return coeff, (base % coeff if coeff else base)


def union_residue(a: Residue, b: Residue) -> Residue:
    """The finest residue around both."""
    return reduced(gcd(gcd(a[0], b[0]), a[1] - b[1]), a[1])


def intersect_residue(a: Residue, b: Residue) -> Residue:
    """Both hold: the finer where one contains the other, else by the Chinese remainder theorem."""
    if a[0] == 0 or b[0] == 0:
        return a if a[0] == 0 else b
    common = gcd(a[0], b[0])
    if (a[1] - b[1]) % common:
        return a  # cannot be: the code is unreachable
    modulus = a[0] // common * b[0]
    step = (b[1] - a[1]) // common * pow(a[0] // common, -1, b[0] // common)
    return reduced(modulus, a[1] + a[0] * step)


def product_residue(a: Residue, b: Residue) -> Residue:
    """(pk + q)(rl + s) is a multiple of gcd(pr, ps, qr), plus qs."""
    return reduced(gcd(gcd(a[0] * b[0], a[0] * b[1]), a[1] * b[0]), a[1] * b[1])


class Residues(Bounds):
    """The part of an analyzer that answers for residues."""

    def modular(self, form: Sum) -> Residue:
        """The residue of a sum."""
        coeff, base = 0, form.const
        for atom, coefficient in form.terms.items():
            c, b = self.atom_modular(atom)
            coeff = gcd(coeff, c * coefficient)
            base += b * coefficient
        if not is_index(form.dtype):  # wraps around: what is known modulo a power of two stays
            coeff = gcd(coeff, 1 << form.dtype.bits)
        return reduced(coeff, base)

    def atom_modular(self, atom: Atom) -> Residue:
        """The residue of an atom."""
        found = self.modular_cache.get(atom)
        if found is None:
            rule = _ATOM_MODULAR.get(atom.__class__)
            found = ANY if rule is None else rule(self, atom)
            fact = self.modular_facts.get(atom)
            if fact is not None:
                found = intersect_residue(found, fact)
            self.modular_cache[atom] = found
        return found

    def expr_modular(self, expr: PrimExpr) -> Residue:
        """The residue of an integer expression."""
        if expr.dtype.is_integer and expr.dtype.lanes == 1:
            return self.modular(self.normal(expr))
        return ANY

    def _leaf_modular(self, atom: Leaf) -> Residue:
        expr = atom.expr
        if isinstance(expr, Var):
            return self.var_modular.get(expr, ANY)
        if isinstance(expr, Select):
            return union_residue(
                self.expr_modular(expr.true_value), self.expr_modular(expr.false_value)
            )
        if isinstance(expr, Call):
            return self._call_modular(expr)
        return ANY

    def _call_modular(self, expr: Call) -> Residue:
        name = getattr(expr.op, "name", "")
        if name == "tir.if_then_else":
            return union_residue(self.expr_modular(expr.args[1]), self.expr_modular(expr.args[2]))
        if name == "tir.likely":
            return self.expr_modular(expr.args[0])
        if name == "tir.shift_left":
            low, high = self.expr_bounds(expr.args[1])
            if low == high and 0 <= low < 64 and is_index(expr.dtype):
                return product_residue(self.expr_modular(expr.args[0]), (0, 1 << int(low)))
        return ANY

    def _split_modular(self, atom: Split) -> Residue:
        coeff, base = self.modular(atom.index)
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
        result = self.atom_modular(atom.factors[0])
        for factor in atom.factors[1:]:
            result = product_residue(result, self.atom_modular(factor))
        return result

    def _extreme_modular(self, atom: Extreme) -> Residue:
        result = self.modular(atom.args[0])
        for arg in atom.args[1:]:
            result = union_residue(result, self.modular(arg))
        return result


_ATOM_MODULAR: dict[type, Callable[[Any, Any], Residue]] = {
    Leaf: Residues._leaf_modular,
    Split: Residues._split_modular,
    Product: Residues._product_modular,
    Extreme: Residues._extreme_modular,
}
