"""Normal forms of integer expressions: sums of atoms with constant coefficients.

``i * 16 + j - n + 3`` is the `Sum` ``{i: 16, j: 1, n: -1} + 3``. An *atom* is what a sum cannot
look through: a variable, a product of atoms, a digit of a number (`Split`: ``index // lower %
width``), a
quotient by something that is no constant, a minimum or maximum, or a `Leaf`, any other expression.
Atoms are interned in a `FormTable`, so that equality of atoms is identity and equality of sums
is equality of their numbers; the hundred rules about sums of products that a rewriting simplifier
would carry are one dictionary addition here.

Sums are written with the largest coefficient first: ``i * 16 + j + 3 - n``. Only sums of data keep
the order in which terms were met, so that no intermediate result arises that was not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from tilesmith.ir import Cast, FloorDiv, FloorMod, IntImm, Max, Min, Mul, PrimExpr, Var, const
from tilesmith.ir.expr import Add, Sub
from tilesmith.runtime.dtype import DataType

__all__ = [
    "Atom",
    "Extreme",
    "FormTable",
    "Leaf",
    "Product",
    "Quotient",
    "Remainder",
    "Split",
    "Sum",
]

INT32 = DataType("int32")
INT64 = DataType("int64")
_UNBOUNDED = -(1 << 64)  # before any width of a digit
_LIMITS = {
    dtype: (dtype.min_value // 4, dtype.max_value // 4, dtype.min_value, dtype.max_value)
    for dtype in (INT32, INT64)
}


class Atom:
    """Base of what stands in a sum; ``uid`` numbers the atoms of one table, in order of birth.

    ``is_data`` tells that more than variables is inside. Variables are indices, far from the limits
    of their dtype; data has any value, so that no sum of it may be formed that was not there.
    """

    __slots__ = ("dtype", "expr", "is_data", "uid")

    uid: int
    is_data: bool
    dtype: DataType
    expr: PrimExpr | None


class Leaf(Atom):
    """A variable or an expression that is opaque to integer arithmetic."""

    __slots__ = ()


class Product(Atom):
    """A product of two or more atoms, none a product itself, ordered by number."""

    __slots__ = ("factors",)

    factors: tuple[Atom, ...]


class Split(Atom):
    """``(index // lower) % (upper // lower)``, without the remainder where ``upper`` is 0.

    A digit of ``index``: both numbers are positive and ``lower`` divides ``upper``.
    """

    __slots__ = ("index", "lower", "upper")

    index: Sum
    lower: int
    upper: int


class Quotient(Atom):
    """``index // divisor`` (rounded down) where the divisor is no constant."""

    __slots__ = ("divisor", "index")

    index: Sum
    divisor: Sum


class Remainder(Atom):
    """``index % divisor`` (of the division that rounds down) where the divisor is no constant."""

    __slots__ = ("divisor", "index")

    index: Sum
    divisor: Sum


class Extreme(Atom):
    """The smallest (``kind`` is ``Min``) or largest of two or more sums."""

    __slots__ = ("args", "kind")

    kind: type
    args: tuple[Sum, ...]


class Sum:
    """``const`` plus the atoms times their coefficients (never zero). Do not change one."""

    __slots__ = ("const", "dtype", "expr", "number", "terms")

    def __init__(self, dtype: DataType, terms: dict[Atom, int], constant: int) -> None:
        self.dtype = dtype
        self.terms = terms
        self.const = constant
        self.expr: PrimExpr | None = None
        self.number = -1

    def single(self) -> Atom | None:
        """The atom, if this sum is one atom and nothing else."""
        if self.const == 0 and len(self.terms) == 1:
            for atom, coefficient in self.terms.items():
                if coefficient == 1:
                    return atom
        return None

    def __repr__(self) -> str:
        terms = " + ".join([f"{c}*a{a.uid}" for a, c in self.terms.items()])
        return f"Sum({terms} + {self.const})"


def plus(a: Sum, b: Sum, factor: int = 1) -> Sum:
    """``a + b * factor`` in the dtype of ``a``."""
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
    """``a * factor``."""
    if factor == 1:
        return a
    if factor == 0:
        return Sum(a.dtype, {}, 0)
    return Sum(a.dtype, {atom: c * factor for atom, c in a.terms.items()}, a.const * factor)


def shifted(a: Sum, constant: int) -> Sum:
    """``a + constant``."""
    return a if constant == 0 else Sum(a.dtype, a.terms, a.const + constant)


def retyped(a: Sum, dtype: DataType) -> Sum:
    """The same whole number in another dtype, in which it fits."""
    return a if a.dtype is dtype else Sum(dtype, a.terms, a.const)


def exact_quotient(a: Sum, divisor: int) -> Sum:
    """``a / divisor`` where the divisor divides every coefficient; the constant is rounded down."""
    if divisor == 1:
        return a
    terms = {atom: c // divisor for atom, c in a.terms.items()}
    return Sum(a.dtype, terms, a.const // divisor)


def holds_data(a: Sum) -> bool:
    """Whether more than variables occurs in a sum."""
    for atom in a.terms:
        if atom.is_data:
            return True
    return False


NORMAL, LARGE, TOO_LARGE = 0, 1, 2


def magnitude(a: Sum) -> int:
    """How large the numbers in a sum of int32 or int64 are: `NORMAL`, more than a quarter of what
    the dtype holds, or too large to be written in it."""
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
    """The greatest common divisor of the coefficients (not of the constant)."""
    result = 0
    for coefficient in a.terms.values():
        result = gcd(result, coefficient)
    return result


class FormTable:
    """Interns atoms and numbers sums; belongs to one analyzer and knows no facts."""

    def __init__(self) -> None:
        self._atoms: dict[object, Atom] = {}
        self._numbers: dict[object, int] = {}
        self._uid = 0
        self._constants: dict[tuple[DataType, int], PrimExpr] = {}

    def constant(self, value: int, dtype: DataType) -> PrimExpr:
        """A constant; one object for each value."""
        found = self._constants.get((dtype, value))
        if found is None:
            found = self._constants[dtype, value] = const(value, dtype)
        return found

    @property
    def size(self) -> int:
        """How many atoms there are."""
        return self._uid

    def number(self, form: Sum) -> int:
        """The same number for sums of one dtype that are equal, in whatever order."""
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

    def _intern(self, kind: type[Atom], key: object, dtype: DataType) -> tuple[Atom, bool]:
        found = self._atoms.get(key)
        if found is not None:
            return found, False
        atom = kind()
        atom.uid = self._uid
        self._uid += 1
        atom.dtype = dtype
        atom.expr = None
        atom.is_data = False
        self._atoms[key] = atom
        return atom, True

    def leaf(self, expr: PrimExpr, key: object) -> Leaf:
        """The leaf of an expression; ``key`` tells which expressions are the same."""
        atom, new = self._intern(Leaf, key, expr.dtype)
        if new:
            atom.expr = expr
            atom.is_data = not isinstance(expr, Var)
        return atom  # type: ignore[return-value]

    def known(self, key: object) -> bool:
        """Whether a leaf of that key has been made."""
        return key in self._atoms

    def split(self, index: Sum, lower: int, upper: int) -> Split:
        """``index // lower % (upper // lower)``; ``upper`` 0 for no remainder."""
        atom, new = self._intern(Split, (Split, self.number(index), lower, upper), index.dtype)
        if new:
            atom.index, atom.lower, atom.upper = index, lower, upper
            atom.is_data = holds_data(index)
        return atom  # type: ignore[return-value]

    def quotient(self, index: Sum, divisor: Sum) -> Quotient:
        """``index // divisor``."""
        key = (Quotient, self.number(index), self.number(divisor))
        atom, new = self._intern(Quotient, key, index.dtype)
        if new:
            atom.index, atom.divisor = index, divisor
            atom.is_data = holds_data(index) or holds_data(divisor)
        return atom  # type: ignore[return-value]

    def remainder(self, index: Sum, divisor: Sum) -> Remainder:
        """``index % divisor``."""
        key = (Remainder, self.number(index), self.number(divisor))
        atom, new = self._intern(Remainder, key, index.dtype)
        if new:
            atom.index, atom.divisor = index, divisor
            atom.is_data = holds_data(index) or holds_data(divisor)
        return atom  # type: ignore[return-value]

    def extreme(self, kind: type, args: list[Sum]) -> Extreme:
        """The minimum or maximum of sums."""
        numbers = [self.number(arg) for arg in args]
        numbers.sort()
        atom, new = self._intern(Extreme, (kind, *numbers), args[0].dtype)
        if new:
            atom.kind, atom.args = kind, tuple(args)
            atom.is_data = max([holds_data(arg) for arg in args])
        return atom  # type: ignore[return-value]

    def product(self, factors: Iterable[Atom], dtype: DataType) -> Atom:
        """The product of atoms; products among them are taken apart."""
        flat: list[Atom] = []
        for factor in factors:
            if factor.__class__ is Product:
                flat.extend(factor.factors)  # type: ignore[attr-defined]
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
            atom.is_data = max([factor.is_data for factor in flat])
        return atom  # type: ignore[return-value]

    def multiply(self, a: Sum, b: Sum) -> Sum:
        """``a * b`` multiplied out, in the dtype of ``a``."""
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

    # From forms back to expressions

    def to_expr(self, form: Sum) -> PrimExpr:
        """The expression of a sum; one object per sum object."""
        found = form.expr
        if found is None:
            found = form.expr = self._sum_expr(form)
        return found

    def _sum_expr(self, form: Sum) -> PrimExpr:
        dtype, terms, constant = form.dtype, form.terms, form.const
        if not terms:
            return self.constant(constant, dtype)
        if len(terms) == 1:
            for atom, coefficient in terms.items():
                if constant and coefficient == 1 and atom.__class__ is Extreme:
                    constant, pushed = self._push_constant(atom, constant)  # type: ignore[arg-type]
                    if constant == 0:
                        return pushed
        if constant and (dtype is INT32 or dtype is INT64):
            terms, constant = self._into_division(terms, constant)
        parts = list(terms.items())
        if len(parts) > 1:
            parts = _in_order(parts)
        result: PrimExpr | None = None
        if parts[0][1] < 0:
            if constant > 0:
                result, constant = self.constant(constant, dtype), 0
            elif constant < 0 or len(parts) > 1:
                result = self.constant(0, dtype)
        lowest = dtype.min_value if constant < -(1 << 30) or len(parts) > 1 else 0
        for atom, coefficient in parts:
            if result is None:
                result = self._scaled(atom, coefficient, dtype)
            elif coefficient > 0 or coefficient == lowest:
                result = Add(result, self._scaled(atom, coefficient, dtype))
            else:
                if constant > 0:  # what is added comes before what is taken away
                    result, constant = Add(result, self.constant(constant, dtype)), 0
                result = Sub(result, self._scaled(atom, -coefficient, dtype))
        assert result is not None
        if constant > 0 or (constant == lowest and constant):
            result = Add(result, self.constant(constant, dtype))
        elif constant < 0:
            result = Sub(result, self.constant(-constant, dtype))
        return result

    def _into_division(self, terms: dict[Atom, int], constant: int) -> tuple[dict[Atom, int], int]:
        """``(x + 6) // 8 - 1`` is shorter as ``(x - 2) // 8``."""
        for atom, coefficient in terms.items():
            if atom.__class__ is Split and not atom.upper and constant % coefficient == 0:  # type: ignore
                index: Sum = atom.index  # type: ignore[attr-defined]
                if index.const and not atom.is_data:
                    lower: int = atom.lower  # type: ignore[attr-defined]
                    moved = shifted(index, constant // coefficient * lower)
                    if magnitude(moved) != NORMAL:
                        continue
                    pushed = self.split(moved, lower, 0)
                    return {(pushed if a is atom else a): c for a, c in terms.items()}, 0
        return terms, constant

    def _scaled(self, atom: Atom, coefficient: int, dtype: DataType) -> PrimExpr:
        expr = self.atom_expr(atom)
        if atom.dtype is not dtype:
            expr = Cast(dtype, expr)
        return expr if coefficient == 1 else Mul(expr, self.constant(coefficient, dtype))

    def _push_constant(self, atom: Extreme, constant: int) -> tuple[int, PrimExpr]:
        """``min(x, y - 1) + 1`` is shorter as ``min(x + 1, y)``: (what is left to add,
        expression)."""
        before = sum([1 for arg in atom.args if arg.terms and arg.const])
        after = sum([1 for arg in atom.args if arg.terms and arg.const + constant])
        moved = [shifted(arg, constant) for arg in atom.args]
        sizes = [magnitude(arg) for arg in moved]
        if after >= before + 1 or atom.is_data or max(sizes) != NORMAL:
            return constant, self.atom_expr(atom)
        return 0, self._chain(atom.kind, moved)

    def _chain(self, kind: type, args: list[Sum]) -> PrimExpr:
        result = self.to_expr(args[0])
        for arg in args[1:]:
            result = kind(result, self.to_expr(arg))
        return result

    def atom_expr(self, atom: Atom) -> PrimExpr:
        """The expression of an atom."""
        found = atom.expr
        if found is None:
            found = atom.expr = self._atom_expr(atom)
        return found

    def _atom_expr(self, atom: Atom) -> PrimExpr:
        dtype = atom.dtype
        if isinstance(atom, Split):
            result = self.to_expr(atom.index)
            lower, upper = atom.lower, atom.upper
            outside = upper > dtype.max_value  # cannot be written: divide first
            if upper and not outside:
                result = FloorMod(result, self.constant(upper, dtype))
            if lower != 1:
                result = FloorDiv(result, self.constant(lower, dtype))
            return FloorMod(result, self.constant(upper // lower, dtype)) if outside else result
        if isinstance(atom, Product):
            result = self._scaled(atom.factors[0], 1, dtype)
            for factor in atom.factors[1:]:
                result = Mul(result, self._scaled(factor, 1, dtype))
            return result
        if isinstance(atom, Quotient):
            return FloorDiv(self.to_expr(atom.index), self.to_expr(atom.divisor))
        if isinstance(atom, Remainder):
            return FloorMod(self.to_expr(atom.index), self.to_expr(atom.divisor))
        assert isinstance(atom, Extreme)
        return self._chain(atom.kind, list(atom.args))


def _in_order(parts: list[tuple[Atom, int]]) -> list[tuple[Atom, int]]:
    """Terms by falling coefficients, higher digits before lower ones; of data as they were met,
    with one that is added first."""
    digits = False
    for atom, _ in parts:
        digits = digits or atom.__class__ is Split
        if atom.is_data:
            first = next((k for k, part in enumerate(parts) if part[1] > 0), 0)
            return [parts[first], *parts[:first], *parts[first + 1 :]]
    if digits:
        parts.sort(key=_rank)
    else:
        parts.sort(key=_coefficient, reverse=True)
    return parts


def _coefficient(part: tuple[Atom, int]) -> int:
    return part[1]


def _rank(part: tuple[Atom, int]) -> tuple[int, int, int]:
    atom, coefficient = part
    if atom.__class__ is Split:
        upper: int = atom.upper  # type: ignore[attr-defined]
        return -coefficient, -atom.lower, -upper if upper else _UNBOUNDED  # type: ignore
    return -coefficient, -1, _UNBOUNDED


def _first(pair: tuple[int, Atom]) -> int:
    return pair[0]


def _accumulate(terms: dict[Atom, int], atom: Atom, coefficient: int) -> None:
    coefficient += terms.get(atom, 0)
    if coefficient:
        terms[atom] = coefficient
    else:
        terms.pop(atom, None)


def same_expression(a: object, b: object) -> bool:
    """Whether two expressions look the same: variables by identity, constants by value."""
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
