"""Converts normal forms to expressions."""

from __future__ import annotations

from typing import Any

from tilesmith.arith.form_table import FormTable
from tilesmith.arith.forms import (
    INT32,
    INT64,
    NORMAL,
    Atom,
    Extreme,
    Leaf,
    Product,
    Quotient,
    Remainder,
    Split,
    Sum,
    Written,
    coefficient_gcd,
    factors_of,
    is_index,
    is_zero,
    magnitude,
    shifted,
    times,
)  # fmt: skip
from tilesmith.ir import (
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    const,
)  # fmt: skip
from tilesmith.ir.expr import Add, Sub
from tilesmith.runtime.dtype import DataType

_LARGE = {INT32: 1 << 29, INT64: 1 << 61}
"""Constants beyond these are not added to what may be as large."""
_LARGEST = {dtype: dtype.max_value for dtype in _LARGE}
_UNBOUNDED = -(1 << 64)  # before any width of a digit


class FormWriter:
    """Converts sums and atoms to expressions."""

    __slots__ = ("_constants", "table")

    def __init__(self, table: FormTable) -> None:
        self.table = table
        self._constants: dict[tuple[DataType, int], PrimExpr] = {}

    def constant(self, value: int, dtype: DataType) -> PrimExpr:
        """Returns a constant; the same object for the same value."""
        found = self._constants.get((dtype, value))
        if found is None:
            found = self._constants[dtype, value] = const(value, dtype)
        return found

    def to_expr(self, form: Sum) -> PrimExpr:
        """Returns the expression of a sum; the same object for the same sum."""
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
                if constant and atom.__class__ is Extreme and abs(coefficient) == 1:
                    if atom.dtype is not dtype:
                        break  # a cast extreme: the sum may not fit in its own dtype
                    pushed = self._push_constant(atom, coefficient, constant)
                    if pushed is not None:
                        return pushed
        largest = _LARGEST.get(dtype)
        lowest = dtype.min_value if largest is None else -largest - 1
        if largest is not None:
            if constant:
                terms, constant = self.into_division(terms, constant)
                if constant < -_LARGE[dtype] or constant > _LARGE[dtype]:
                    grouped = self._with_large_constant(Sum(dtype, terms, constant))
                    if grouped is not None:
                        return grouped
            numbers = terms.values()
            if max(numbers) > largest or min(numbers) < lowest or not lowest <= constant <= largest:
                return self._beyond_dtype(Sum(dtype, terms, constant))
        parts = list(terms.items())
        if len(parts) > 1:
            parts = _in_order(parts)
        result: PrimExpr | None = None
        if parts[0][1] < 0:
            if constant > 0:
                result, constant = self.constant(constant, dtype), 0
            elif constant < 0 or len(parts) > 1 or parts[0][1] == -1:
                result = self.constant(0, dtype)
        if (
            len(parts) > 1
            and result is None
            and (parts[0][0].__class__ is Product or parts[1][0].__class__ is Product)
        ):
            result = self._with_common_factor(parts[0], parts[1], dtype)
            if result is not None:
                parts = parts[2:]
        for atom, coefficient in parts:
            if result is None:
                result = self.scaled(atom, coefficient, dtype)
            elif coefficient > 0 or coefficient == lowest:
                result = Add(result, self.scaled(atom, coefficient, dtype))
            else:
                if constant > 0:  # what is added comes before what is taken away
                    result, constant = Add(result, self.constant(constant, dtype)), 0
                result = Sub(result, self.scaled(atom, -coefficient, dtype))
        assert result is not None
        if constant > 0 or (constant == lowest and constant):
            result = Add(result, self.constant(constant, dtype))
        elif constant < 0:
            result = Sub(result, self.constant(-constant, dtype))
        return result

    def _beyond_dtype(self, form: Sum) -> PrimExpr:
        """Writes a sum with numbers that its dtype cannot hold as ``low + high * largest``.

        A constant that wraps around keeps the values of the sum, but whoever reads it again takes
        it for another whole number, with other bounds.
        """
        largest = _LARGEST[form.dtype]
        high, low = Sum(form.dtype, {}, 0), Sum(form.dtype, {}, 0)
        for atom, coefficient in form.terms.items():
            turns = _turns(coefficient, largest)
            if turns:
                high.terms[atom] = turns
            if coefficient != turns * largest:
                low.terms[atom] = coefficient - turns * largest
        high.const = _turns(form.const, largest)
        low.const = form.const - high.const * largest
        join: type = Add
        if not is_zero(low) and max([high.const, *high.terms.values()]) <= 0:
            join, high = Sub, times(high, -1)
        whole: PrimExpr = self.constant(largest, form.dtype)
        if high.terms or high.const != 1:
            whole = Mul(self.to_expr(high), whole)
        return whole if is_zero(low) else join(self.to_expr(low), whole)

    def _with_large_constant(self, form: Sum) -> PrimExpr | None:
        """Writes ``x * c - 6 * c`` as ``(x - 6) * c``: by themselves, both products may overflow
        where their difference does not.
        """
        factor = coefficient_gcd(form)
        if factor == 1:
            factor = max([abs(coefficient) for coefficient in form.terms.values()])
        count = abs(form.const) // factor * (1 if form.const > 0 else -1)
        if factor == 1 or count == 0 or max(factor, abs(count)) > form.dtype.max_value:
            return None
        inside = {atom: c // factor for atom, c in form.terms.items() if c % factor == 0}
        outside = {atom: c for atom, c in form.terms.items() if c % factor}
        scale = self.constant(factor, form.dtype)
        product = Mul(self.to_expr(Sum(form.dtype, inside, count)), scale)
        rest = Sum(form.dtype, outside, form.const - count * factor)
        if not rest.terms and rest.const <= 0:
            rest = times(rest, -1)
            return Sub(product, self.to_expr(rest)) if rest.const else product
        return Add(product, self.to_expr(rest))

    def _with_common_factor(
        self, a: tuple[Atom, int], b: tuple[Atom, int], dtype: DataType
    ) -> PrimExpr | None:
        """Writes ``x * y + y`` as ``(x + 1) * y``, ``x * y * 2 + z * y * 2`` as
        ``(x + z) * y * 2``."""
        if a[0].is_data or b[0].is_data:
            return None
        others = factors_of(b[0])
        for factor in factors_of(a[0]):
            if factor in others:
                break
        else:
            return None
        common, rest_a, rest_b = _common_factors(factors_of(a[0]), others)
        scale = a[1]
        if scale < 0 or b[1] == dtype.min_value:
            return None
        if abs(b[1]) != scale:  # x * y + y * 2
            scale = 1
            if (rest_a and a[1] != 1) or (rest_b and abs(b[1]) != 1):
                return None
        sides = [(rest_a, a[1] // scale), (rest_b, b[1] // scale)]
        if (not rest_a or a[1] < 0) and b[1] > 0:
            sides.reverse()
        inner: PrimExpr | None = None
        for factors, coefficient in sides:
            size = self.constant(abs(coefficient), dtype)
            if factors:
                size = self.scaled(self.table.product(factors, dtype), 1, dtype)
            if inner is None:
                inner = size
            else:
                inner = Add(inner, size) if coefficient > 0 else Sub(inner, size)
        result: PrimExpr = inner  # type: ignore[assignment]
        for factor in common:
            result = Mul(result, self.scaled(factor, 1, dtype))
        return result if scale == 1 else Mul(result, self.constant(scale, dtype))

    def into_division(self, terms: dict[Atom, int], constant: int) -> tuple[dict[Atom, int], int]:
        """Rewrites ``(x + 6) // 8 - 1`` shorter as ``(x - 2) // 8``."""
        for atom, coefficient in terms.items():
            if atom.__class__ is Split and not atom.upper and constant % coefficient == 0:
                index: Sum = atom.index
                if index.const and not atom.is_data and is_index(index.dtype):
                    lower: int = atom.lower
                    moved = shifted(index, constant // coefficient * lower)
                    if magnitude(moved) != NORMAL:
                        continue
                    pushed = self.table.split(moved, lower, 0)
                    return {(pushed if a is atom else a): c for a, c in terms.items()}, 0
        return terms, constant

    def scaled(self, atom: Atom, coefficient: int, dtype: DataType) -> PrimExpr:
        """Returns ``atom * coefficient`` in a dtype."""
        expr = self.atom_expr(atom)
        if atom.dtype is not dtype:
            expr = Cast(dtype, expr)
        return expr if coefficient == 1 else Mul(expr, self.constant(coefficient, dtype))

    def _push_constant(self, atom: Extreme, factor: int, constant: int) -> PrimExpr | None:
        """Writes ``min(x, y - 1) + 1`` shorter as ``min(x + 1, y)``, ``max(x, 1) - 1`` as
        ``max(x - 1, 0)``."""
        kind = atom.kind
        moved = [shifted(times(arg, factor), constant) for arg in atom.args]
        if atom.is_data or max([magnitude(arg) for arg in moved]) != NORMAL:
            return None
        if len(moved) == 2 and (is_zero(moved[0]) or is_zero(moved[1])):
            if factor < 0:
                kind = Max if kind is Min else Min
            return self._chain(kind, moved)
        before = sum([1 for arg in atom.args if arg.terms and arg.const])
        after = sum([1 for arg in moved if arg.terms and arg.const])
        return self._chain(kind, moved) if factor == 1 and after <= before else None

    def _chain(self, kind: type, args: list[Sum]) -> PrimExpr:
        result = self.to_expr(args[0])
        for arg in args[1:]:
            result = kind(result, self.to_expr(arg))
        return result

    def atom_expr(self, atom: Atom) -> PrimExpr:
        """Returns the expression of an atom."""
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
            result = self.scaled(atom.factors[0], 1, dtype)
            for factor in atom.factors[1:]:
                result = Mul(result, self.scaled(factor, 1, dtype))
            return result
        if isinstance(atom, Quotient):
            return FloorDiv(self.to_expr(atom.index), self.to_expr(atom.divisor))
        if isinstance(atom, Remainder):
            return FloorMod(self.to_expr(atom.index), self.to_expr(atom.divisor))
        assert isinstance(atom, Extreme)
        return self._chain(atom.kind, list(atom.args))


def _turns(value: int, divisor: int) -> int:
    """Divides by a positive number and rounds toward zero."""
    return value // divisor if value >= 0 else -(-value // divisor)


def _common_factors(
    a: tuple[Atom, ...], b: tuple[Atom, ...]
) -> tuple[list[Atom], list[Atom], list[Atom]]:
    """Finds the factors that two products share, and the remaining factors of each."""
    rest_b = list(b)
    common: list[Atom] = []
    rest_a: list[Atom] = []
    for factor in a:
        place = next((k for k, other in enumerate(rest_b) if other is factor), None)
        if place is None:
            rest_a.append(factor)
        else:
            common.append(rest_b.pop(place))
    return common, rest_a, rest_b


def _in_order(parts: list[tuple[Atom, int]]) -> list[tuple[Atom, int]]:
    """Orders terms by falling coefficients, quotients before remainders; loaded data keep their
    order, with a positive term first.
    """
    digits = False
    for atom, _ in parts:
        digits = digits or atom.__class__ is not Leaf
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
    """Orders quotients by falling divisors, then minima, variables and remainders; subtracted
    minima come last.
    """
    atom, coefficient = part
    if isinstance(atom, Split):
        return -coefficient, -atom.lower, -atom.upper if atom.upper else _UNBOUNDED
    expr: Any = atom.expr
    kind: type = atom.__class__
    if kind is Written:
        kind = expr.__class__
        if kind is Div and expr.b.__class__ is IntImm:
            return -coefficient, -expr.b.value, _UNBOUNDED
        if kind is Mod and expr.b.__class__ is IntImm:
            return -coefficient, -1, -expr.b.value
    if kind is Extreme or kind is Min or kind is Max:
        return -coefficient, -1 if coefficient > 0 else 0, _UNBOUNDED - 1
    return -coefficient, -1, _UNBOUNDED
