"""Interns the atoms of normal forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from tilesmith.arith.forms import (
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
    Written,
    in_other_order,
    is_index,
    is_near_limits,
    is_wide,
    of_atom,
    retyped,
    times,
)  # fmt: skip
from tilesmith.arith.numbering import Numbering
from tilesmith.ir import BinaryOp, Div, IntImm, Mod, PrimExpr, Select, Var
from tilesmith.ir.queries import is_call
from tilesmith.runtime.dtype import DataType

Kind = TypeVar("Kind", bound=Atom)


class FormTable:
    """Interns atoms and numbers sums; belongs to one analyzer and is independent of facts.

    An atom is written in the order in which its terms were met last, so that an answer has the
    order of its question, not that of a question before.
    """

    __slots__ = ("_atoms", "_numbers", "_uid", "has_cases", "numbering", "register_length")

    def __init__(self, numbering: Numbering) -> None:
        self.numbering = numbering
        self.register_length: Atom | None = None  # ``vscale()``, once it has occurred
        self.has_cases = False  # whether a minimum, a maximum or a choice has occurred
        self._atoms: dict[object, Atom] = {}
        self._numbers: dict[object, int] = {}
        self._uid = 0

    @property
    def size(self) -> int:
        """Counts the atoms."""
        return self._uid

    def number(self, form: Sum) -> int:
        """Returns a number that is the same for equal sums of one dtype, whatever the order of
        their terms.
        """
        number = form.number
        if number < 0:
            terms = form.terms
            if len(terms) == 1:
                for atom, coefficient in terms.items():
                    key: object = (form.dtype, form.const, atom.uid, coefficient)
            else:
                ids = [(atom.uid, coefficient) for atom, coefficient in terms.items()]
                ids.sort()
                key = (form.dtype, form.const, *ids)
            number = form.number = self._numbers.setdefault(key, len(self._numbers))
        return number

    def _intern(self, kind: type[Kind], key: object, dtype: DataType) -> tuple[Kind, bool]:
        """Returns the atom of a key (whose first part is its kind), and whether it is new."""
        found = self._atoms.get(key)
        if found is not None:
            return found, False  # type: ignore[return-value]
        atom = kind()
        atom.uid = self._uid
        self._uid += 1
        atom.dtype = dtype
        atom.expr = None
        atom.is_data = False
        self._atoms[key] = atom
        return atom, True

    def variable(self, var: Var) -> Atom:
        """Returns the atom of a variable."""
        found = self._atoms.get(var)
        if found is None:
            found, _ = self._intern(Leaf, var, var.dtype)
            found.expr = var
        return found

    def leaf(self, expr: PrimExpr) -> Atom:
        """Returns the atom of a variable or an opaque expression."""
        if isinstance(expr, Var):
            return self.variable(expr)
        kind = _LEAVES.get(expr.__class__, Leaf) if is_index(expr.dtype) else Leaf
        atom, new = self._intern(kind, ("leaf", self.numbering.number(expr)), expr.dtype)
        if new:
            atom.expr = expr
            atom.is_data = kind is not Truncated or not _of_variables(expr)
            if kind is Choice:
                self.has_cases = True
            if kind is Leaf and is_call(expr, "tir.vscale"):
                self.register_length = atom
        return atom

    def packed(self, expr: PrimExpr, parts: Iterable[Sum]) -> Sum:
        """Returns an expression over sums as one atom, which is written unchanged."""
        key = ("written", self.numbering.number(expr))
        atom, new = self._intern(Written, key, expr.dtype)
        if new:
            atom.expr, atom.is_data = expr, max([is_near_limits(part) for part in parts])
        return of_atom(atom)

    def has_leaf(self, var: Var) -> bool:
        """Returns True if the table has an atom for a variable."""
        return var in self._atoms

    def split(self, index: Sum, lower: int, upper: int) -> Split:
        """Returns ``index // lower % (upper // lower)``; without a remainder if ``upper`` is 0."""
        atom, new = self._intern(Split, (Split, self.number(index), lower, upper), index.dtype)
        if new:
            atom.index, atom.lower, atom.upper = index, lower, upper
            atom.is_data = is_near_limits(index) or is_wide(index.dtype, upper // lower)
        elif atom.index is not index and in_other_order(atom.index, index):
            atom.index, atom.expr = index, None
        return atom

    def quotient(self, index: Sum, divisor: Sum) -> Quotient:
        """Returns ``index // divisor``."""
        key = (Quotient, self.number(index), self.number(divisor))
        atom, new = self._intern(Quotient, key, index.dtype)
        if new:
            atom.index, atom.divisor = index, divisor
            atom.is_data = is_near_limits(index) or is_near_limits(divisor)
        elif atom.index is not index and in_other_order(atom.index, index):
            atom.index, atom.expr = index, None
        return atom

    def remainder(self, index: Sum, divisor: Sum) -> Remainder:
        """Returns ``index % divisor``."""
        key = (Remainder, self.number(index), self.number(divisor))
        atom, new = self._intern(Remainder, key, index.dtype)
        if new:
            atom.index, atom.divisor = index, divisor
            atom.is_data = is_near_limits(index) or is_near_limits(divisor)
        elif atom.index is not index and in_other_order(atom.index, index):
            atom.index, atom.expr = index, None
        return atom

    def extreme(self, kind: type, args: list[Sum]) -> Extreme:
        """Returns the minimum or maximum of sums."""
        numbers = [self.number(arg) for arg in args]
        numbers.sort()
        atom, new = self._intern(Extreme, (kind, *numbers), args[0].dtype)
        if new:
            atom.kind, atom.args = kind, tuple(args)
            atom.is_data = max([is_near_limits(arg) for arg in args])
        elif self.number(atom.args[0]) != self.number(args[0]):
            atom.args, atom.expr = tuple(args), None
        return atom

    def product(self, factors: Iterable[Atom], dtype: DataType) -> Atom:
        """Returns the product of atoms; factors that are products themselves are flattened, but
        those that wrap around in a dtype of their own.
        """
        flat: list[Atom] = []
        for factor in factors:
            own = factor.dtype
            if factor.__class__ is Product and (own is dtype or is_index(own)):
                flat.extend(factor.factors)
            else:
                flat.append(factor)
        if len(flat) == 1:
            return flat[0]
        ordered = [(factor.uid, factor) for factor in flat]
        ordered.sort(key=_first)
        key = (Product, dtype, *[uid for uid, _ in ordered])
        atom, new = self._intern(Product, key, dtype)
        if new:
            atom.factors = tuple(flat)
            atom.is_data = max([factor.is_data for factor in flat]) or _wraps_near(dtype, flat)
        return atom

    def multiply(self, a: Sum, b: Sum) -> Sum:
        """Returns ``a * b`` multiplied out, in the dtype of ``a``."""
        if not b.terms:
            return times(a, b.const)
        if not a.terms:
            return retyped(times(b, a.const), a.dtype)
        terms: dict[Atom, int] = {}
        for atom_a, c_a in a.terms.items():
            for atom_b, c_b in b.terms.items():
                atom = self.product((atom_a, atom_b), a.dtype)
                _accumulate(terms, atom, c_a * c_b)
            if b.const:
                _accumulate(terms, atom_a, c_a * b.const)
        if a.const:
            for atom_b, c_b in b.terms.items():
                _accumulate(terms, atom_b, c_b * a.const)
        return Sum(a.dtype, terms, a.const * b.const)


def _wraps_near(dtype: DataType, factors: list[Atom]) -> bool:
    """Returns True if a product of casts from dtypes that wrap around may be near the limits."""
    bits = sum([factor.dtype.bits for factor in factors if not is_index(factor.dtype)])
    return is_index(dtype) and bits > dtype.bits - 3


def _of_variables(expr: PrimExpr) -> bool:
    """Returns True if an expression is arithmetic on variables and small constants."""
    stack: list[PrimExpr] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, BinaryOp):
            stack += (node.a, node.b)
        elif isinstance(node, IntImm):
            if is_wide(node.dtype, abs(node.value)):
                return False
        elif not isinstance(node, Var):
            return False
    return True


_LEAVES: dict[type, type[Leaf]] = {Div: Truncated, Mod: Truncated, Select: Choice}


def _first(pair: tuple[int, Atom]) -> int:
    return pair[0]


def _accumulate(terms: dict[Atom, int], atom: Atom, coefficient: int) -> None:
    coefficient += terms.get(atom, 0)
    if coefficient:
        terms[atom] = coefficient
    else:
        terms.pop(atom, None)
