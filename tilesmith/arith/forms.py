"""Defines normal forms of integer expressions: sums of atoms with constant coefficients.

``i * 16 + j - n + 3`` is the `Sum` ``{i: 16, j: 1, n: -1} + 3``. An *atom* is what a sum cannot
look through: a variable, a product of atoms, a digit of a number (`Split`: ``index // lower %
width``), a quotient by something that is not a constant, a minimum or maximum, or a `Leaf`, any
other expression. Atoms are interned in a `FormTable` (``form_table.py``), so that equality of atoms
is identity and equality of sums is equality of their numbers; the hundred rules about sums of
products that a rewriting simplifier would carry are one dictionary addition here.

Sums are written with the largest coefficient first: ``i * 16 + j + 3 - n``. Only sums of data keep
the order in which terms were met, so that no intermediate result arises that was not there.
"""

from __future__ import annotations

from math import gcd

from tilesmith.ir import Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr
from tilesmith.ir.expr import Add, Sub
from tilesmith.ir.operators import wrap
from tilesmith.runtime.dtype import DataType

__all__ = [
    "Atom",
    "Extreme",
    "Leaf",
    "Product",
    "Quotient",
    "Remainder",
    "Split",
    "Sum",
]

INT32 = DataType("int32")
INT64 = DataType("int64")
_LIMITS = {
    dtype: (dtype.min_value // 4, dtype.max_value // 4, dtype.min_value, dtype.max_value)
    for dtype in (INT32, INT64)
}


class Atom:
    """Base of the atoms of a sum; ``uid`` numbers the atoms of one table in order of creation.

    ``is_data`` tells that more than variables and small numbers is inside. Variables are indices,
    far from the limits of their dtype; data, and remainders of large numbers, have any value, so
    that no sum of them may be formed that was not there.
    """

    __slots__ = ("dtype", "expr", "is_data", "uid")

    uid: int
    is_data: bool
    dtype: DataType
    expr: PrimExpr | None


class Leaf(Atom):
    """Stands for a variable or an expression that is opaque to integer arithmetic."""

    __slots__ = ()

    expr: PrimExpr


class Product(Atom):
    """Stands for a product of two or more atoms, which are not products themselves, ordered by
    number.
    """

    __slots__ = ("factors",)

    factors: tuple[Atom, ...]


class Written(Leaf):
    """Stands for an expression over sums that is written unchanged."""

    __slots__ = ()


class Truncated(Leaf):
    """Stands for ``a / b``, or the remainder that goes with it, of the division that rounds toward
    zero.
    """

    __slots__ = ()


class Choice(Leaf):
    """Stands for ``Select(condition, a, b)``."""

    __slots__ = ()


class Split(Atom):
    """Stands for ``(index // lower) % (upper // lower)``, without the remainder where ``upper`` is
    0.

    A digit of ``index``: both numbers are positive and ``lower`` divides ``upper``.
    """

    __slots__ = ("index", "lower", "upper")

    index: Sum
    lower: int
    upper: int


class Quotient(Atom):
    """Stands for ``index // divisor`` (rounded down) where the divisor is not a constant."""

    __slots__ = ("divisor", "index")

    index: Sum
    divisor: Sum


class Remainder(Atom):
    """Stands for ``index % divisor`` (of the division that rounds down) where the divisor is not a
    constant."""

    __slots__ = ("divisor", "index")

    index: Sum
    divisor: Sum


class Extreme(Atom):
    """Stands for the smallest (``kind`` is ``Min``) or largest of two or more sums."""

    __slots__ = ("args", "kind")

    kind: type
    args: tuple[Sum, ...]


class Sum:
    """Stands for ``const`` plus the atoms times their nonzero coefficients. Immutable by
    convention.
    """

    __slots__ = ("const", "dtype", "expr", "number", "terms")

    def __init__(self, dtype: DataType, terms: dict[Atom, int], constant: int) -> None:
        self.dtype = dtype
        self.terms = terms
        self.const = constant
        self.expr: PrimExpr | None = None
        self.number = -1

    def single(self) -> Atom | None:
        """Returns the atom if this sum consists of one atom alone, else None."""
        if self.const == 0 and len(self.terms) == 1:
            for atom, coefficient in self.terms.items():
                if coefficient == 1:
                    return atom
        return None

    def __repr__(self) -> str:
        terms = " + ".join([f"{c}*a{a.uid}" for a, c in self.terms.items()])
        return f"Sum({terms} + {self.const})"


def is_index(dtype: DataType) -> bool:
    """Returns True for scalar int32 and int64, whose arithmetic is assumed not to overflow."""
    return dtype is INT32 or dtype is INT64


def of_atom(atom: Atom) -> Sum:
    """Returns the sum of one atom."""
    return Sum(atom.dtype, {atom: 1}, 0)


def plus(a: Sum, b: Sum, factor: int = 1) -> Sum:
    """Returns ``a + b * factor`` in the dtype of ``a``."""
    if not b.terms:
        if b.const == 0:
            return a
        return Sum(a.dtype, a.terms, a.const + b.const * factor)
    terms = dict(a.terms)
    for atom, coefficient in b.terms.items():
        coefficient = terms.get(atom, 0) + coefficient * factor
        if coefficient:
            terms[atom] = coefficient
        else:
            terms.pop(atom, None)
    return Sum(a.dtype, terms, a.const + b.const * factor)


def times(a: Sum, factor: int) -> Sum:
    """Returns ``a * factor``."""
    if factor == 1:
        return a
    if factor == 0:
        return Sum(a.dtype, {}, 0)
    return Sum(a.dtype, {atom: c * factor for atom, c in a.terms.items()}, a.const * factor)


def shifted(a: Sum, constant: int) -> Sum:
    """Returns ``a + constant``."""
    return a if constant == 0 else Sum(a.dtype, a.terms, a.const + constant)


def retyped(a: Sum, dtype: DataType) -> Sum:
    """Returns the same sum in another dtype, in which it fits."""
    return a if a.dtype is dtype else Sum(dtype, a.terms, a.const)


def exact_quotient(a: Sum, divisor: int) -> Sum:
    """Returns ``a / divisor`` where the divisor divides every coefficient; the constant is rounded
    down.
    """
    if divisor == 1:
        return a
    terms = {atom: c // divisor for atom, c in a.terms.items()}
    return Sum(a.dtype, terms, a.const // divisor)


def wrapped_sum(form: Sum) -> Sum:
    """Returns a sum of a dtype that wraps around, with each coefficient reduced to the smallest
    magnitude.
    """
    half, turn = 1 << (form.dtype.bits - 1), 1 << form.dtype.bits
    terms = {atom: (c + half) % turn - half for atom, c in form.terms.items()}
    terms = {atom: c for atom, c in terms.items() if c}
    if not terms:
        return Sum(form.dtype, terms, wrap(form.const, form.dtype))
    return Sum(form.dtype, terms, (form.const + half) % turn - half)


def direction(form: Sum) -> tuple[object, int]:
    """Returns a sum without its constant, reduced to a key, and the factor by which it was
    divided.
    """
    terms = form.terms
    if len(terms) == 1:
        for atom, coefficient in terms.items():
            return ((atom.uid, 1),), coefficient
    pairs = [(atom.uid, coefficient) for atom, coefficient in terms.items()]
    pairs.sort()
    scale = gcd(*terms.values())
    if pairs[0][1] < 0:
        scale = -scale
    if scale != 1:
        pairs = [(uid, coefficient // scale) for uid, coefficient in pairs]
    return tuple(pairs), scale


def in_other_order(a: Sum, b: Sum) -> bool:
    """Returns True if equal sums list their terms in different orders."""
    return a is not b and len(a.terms) > 1 and [*a.terms] != [*b.terms]


def is_zero(a: Sum) -> bool:
    """Returns whether a sum is the constant 0."""
    return a.const == 0 and not a.terms


def holds_data(a: Sum) -> bool:
    """Returns True if a sum contains anything but variables that are indices: loaded data, calls,
    and casts of dtypes that wrap around, unless every multiple of theirs is small.
    """
    dtype = a.dtype
    for atom, coefficient in a.terms.items():
        if atom.is_data:
            return True
        if atom.dtype is not dtype and is_index(dtype) and not is_index(atom.dtype):
            if atom.dtype.bits + abs(coefficient).bit_length() > dtype.bits - 2:
                return True
    return False


def is_near_limits(a: Sum) -> bool:
    """Returns True if a sum, or a number in it, may be near the limits of its dtype."""
    return holds_data(a) or (is_index(a.dtype) and magnitude(a) != NORMAL)


NORMAL, LARGE, TOO_LARGE = 0, 1, 2


def is_wide(dtype: DataType, width: int) -> bool:
    """Returns True if remainders of a divisor may be near the limits of int32 or int64."""
    return is_index(dtype) and width > _LIMITS[dtype][1]


def magnitude(a: Sum) -> int:
    """Classifies the size of the numbers in a sum of int32 or int64: `NORMAL`, more than a quarter
    of the dtype's range, or too large for the dtype.
    """
    low, high, lowest, highest = _LIMITS[a.dtype]
    size = NORMAL
    if not low <= a.const <= high:
        if not lowest <= a.const <= highest:
            return TOO_LARGE
        size = LARGE
    for coefficient in a.terms.values():
        if not low <= coefficient <= high:
            if not lowest <= coefficient <= highest:
                return TOO_LARGE
            size = LARGE
    return size


def coefficient_gcd(a: Sum) -> int:
    """Returns the greatest common divisor of the coefficients (without the constant)."""
    result = 0
    for coefficient in a.terms.values():
        result = gcd(result, coefficient)
    return result


def factors_of(atom: Atom) -> tuple[Atom, ...]:
    """Returns the factors of a product; a list with the atom itself for anything else."""
    return atom.factors if atom.__class__ is Product else (atom,)


def same_expression(a: object, b: object) -> bool:
    """Returns True if two expressions are equal: variables by identity, constants by value."""
    if a is b:
        return True
    kind = a.__class__
    if kind is not b.__class__:
        return False
    if kind is IntImm:
        return a.value == b.value and a.dtype is b.dtype  # type: ignore[attr-defined]
    if kind is Cast:
        return a.dtype is b.dtype and same_expression(a.value, b.value)  # type: ignore[attr-defined]
    if kind in _BINARY:
        return same_expression(a.a, b.a) and same_expression(a.b, b.b)  # type: ignore[attr-defined]
    return False


_BINARY = frozenset((Add, Sub, Mul, FloorDiv, FloorMod, Min, Max))
