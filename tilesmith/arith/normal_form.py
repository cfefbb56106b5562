"""From expressions to sums, and what divisions, minima and maxima of sums become.

Division is where index expressions get simple: of ``(i0 * 16 + i1) // 16`` the multiple of 16 goes
out, and ``i1 // 16`` is 0 if ``i1`` is known to lie in [0, 16). `Normalizer.divide` does that for
quotient and
remainder at once, so that they fit together again: ``x // 4 * 4 + x % 4`` gives ``x`` (`tidy`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from tilesmith.arith.extremes import Extremes
from tilesmith.arith.forms import (
    Atom,
    Leaf,
    Product,
    Split,
    Sum,
    coefficient_gcd,
    exact_quotient,
    plus,
    retyped,
    shifted,
    times,
)  # fmt: skip
from tilesmith.arith.state import INFINITY, is_index
from tilesmith.ir import (
    Add,
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
    SizeVar,
    Sub,
    Var,
)  # fmt: skip
from tilesmith.ir.operators import wrap

_MOST_TERMS = 12  # a product with more terms than that is not multiplied out


class Normalizer(Extremes):
    """The part of an analyzer that brings integer expressions into normal form."""

    rewrite_leaf: Callable[[PrimExpr], PrimExpr]

    def normal(self, expr: PrimExpr) -> Sum:
        """The normal form of a scalar integer expression."""
        found = self.memo.get(id(expr))
        if found is not None:
            return found[1]
        impure = self.impure
        rule = _NORMAL.get(expr.__class__)
        form = self._opaque(expr) if rule is None else rule(self, expr)
        if impure == self.impure:
            self.memo[id(expr)] = (expr, form)
        return form

    # Sums

    def _sum(self, expr: PrimExpr) -> Sum:
        terms: dict[Atom, int] = {}
        packed: list[Sum] = []
        constant = self._collect(expr, 1, terms, packed, False)
        form = Sum(expr.dtype, terms, constant)
        form = self.tidy(form) if is_index(expr.dtype) else self.wrapped_sum(form)
        if packed:
            self._prefer_packed(expr, form)
        return form

    def _prefer_packed(self, expr: PrimExpr, form: Sum) -> None:
        """Write ``c + (a - 5) * (b - 3)`` so, unless multiplied out it got shorter by what
        cancels."""
        terms: dict[Atom, int] = {}
        constant = self._collect(expr, 1, terms, [], True)
        packed = Sum(expr.dtype, terms, constant)
        packed = self.tidy(packed) if is_index(expr.dtype) else self.wrapped_sum(packed)
        written = self.table.to_expr(packed)
        if _operations(written) <= _operations(self.table.to_expr(form)):
            form.expr = written

    def _collect(
        self, expr: Any, factor: int, terms: dict[Atom, int], packed: list[Sum], keep: bool
    ) -> int:
        """Add ``expr * factor`` to ``terms``; gives what belongs to the constant.

        Products and casts of sums are noted in ``packed``; with ``keep`` they are taken as atoms.
        """
        kind = expr.__class__
        if kind is Add:
            return self._collect(expr.a, factor, terms, packed, keep) + self._collect(
                expr.b, factor, terms, packed, keep
            )
        if kind is Sub:
            return self._collect(expr.a, factor, terms, packed, keep) + self._collect(
                expr.b, -factor, terms, packed, keep
            )
        if kind is IntImm:
            return factor * expr.value
        if kind is Mul:
            if expr.b.__class__ is IntImm:
                factor *= expr.b.value
                return self._collect(expr.a, factor, terms, packed, keep) if factor else 0
            if expr.a.__class__ is IntImm:
                factor *= expr.a.value
                return self._collect(expr.b, factor, terms, packed, keep) if factor else 0
        form = self.normal(expr)
        if form.expr.__class__ in _PACKED and len(form.terms) + bool(form.const) > 1:
            packed.append(form)
            if keep:
                form = self.of_atom(self.leaf(form.expr))  # type: ignore[arg-type]
        for atom, coefficient in form.terms.items():
            coefficient = terms.get(atom, 0) + coefficient * factor
            if coefficient:
                terms[atom] = coefficient
            else:
                del terms[atom]
        return form.const * factor

    def wrapped_sum(self, form: Sum) -> Sum:
        """A sum of a dtype that wraps around, with coefficients nearest to zero."""
        half, turn = 1 << (form.dtype.bits - 1), 1 << form.dtype.bits
        terms = {atom: (c + half) % turn - half for atom, c in form.terms.items()}
        terms = {atom: c for atom, c in terms.items() if c}
        if not terms:
            return Sum(form.dtype, terms, wrap(form.const, form.dtype))
        return Sum(form.dtype, terms, (form.const + half) % turn - half)

    def _variable(self, expr: Var) -> Sum:
        value = self.values.get(expr)
        if value is not None:
            return value
        return Sum(expr.dtype, {self.table.leaf(expr, expr): 1}, 0)

    def _constant(self, expr: IntImm) -> Sum:
        return Sum(expr.dtype, {}, expr.value)

    def _product(self, expr: Mul) -> Sum:
        if expr.a.__class__ is IntImm or expr.b.__class__ is IntImm:
            return self._sum(expr)
        a, b = self.normal(expr.a), self.normal(expr.b)
        return self.multiply(a, b)

    def multiply(self, a: Sum, b: Sum) -> Sum:
        """``a * b``."""
        many = len(a.terms) * len(b.terms) > _MOST_TERMS
        if many:
            return self.of_atom(self.leaf(Mul(self.table.to_expr(a), self.table.to_expr(b))))
        form = self.table.multiply(a, b)
        if not is_index(form.dtype):
            form = self.wrapped_sum(form)
            if len(form.terms) > 1:
                form.expr = Mul(self.table.to_expr(a), self.table.to_expr(b))
            return form
        if len(a.terms) + bool(a.const) > 1 or len(b.terms) + bool(b.const) > 1:
            if a.terms and b.terms:
                tidied = self.tidy(form)
                if tidied is form:  # alone, it looks better as it was written
                    form.expr = Mul(self.table.to_expr(a), self.table.to_expr(b))
                return tidied
        return self.tidy(form)

    def _opaque(self, expr: PrimExpr) -> Sum:
        simple = self.rewrite_leaf(expr)
        if simple.__class__ is not expr.__class__:
            return self.normal(simple)
        return self.of_atom(self.leaf(simple))

    def _cast(self, expr: Cast) -> Sum:
        source = expr.value.dtype
        if not source.is_integer:
            return self._opaque(expr)
        form = self.normal(expr.value)
        target = expr.dtype
        if not form.terms:
            return Sum(target, {}, wrap(form.const, target))
        if self._fits(form, target):
            # sums are taken over the whole numbers, so only the dtype of the result changes
            result = Sum(target, form.terms, form.const)
            if len(form.terms) + bool(form.const) > 1 or not form.single():
                result.expr = self._cast_expr(expr, form)
            return result
        return self._opaque(expr)

    def _fits(self, form: Sum, target: Any) -> bool:
        """Whether every value survives the change of dtype."""
        if not self.is_exact(form):
            return False
        if is_index(form.dtype) and target.is_int and target.bits >= form.dtype.bits:
            return True
        low, high = self.bounds(form)
        if target.is_int and target.bits == 64 and form.dtype.bits < 64:
            return True
        limits = target.min_value, target.max_value
        if not (-INFINITY < low and limits[0] <= low and high <= limits[1] and high < INFINITY):
            return False
        if not is_index(target):
            return True
        # the parts are computed in the narrower dtype: they must not overflow either
        parts = [self.atom_bounds(atom) for atom in form.terms]
        return all(limits[0] <= low and high <= limits[1] for low, high in parts)

    def _cast_expr(self, expr: Cast, form: Sum) -> PrimExpr:
        value = self.table.to_expr(form)
        return expr if value is expr.value else Cast(expr.dtype, value)

    # Division

    def _floordiv(self, expr: FloorDiv) -> Sum:
        return self._division(expr, 0)

    def _floormod(self, expr: FloorMod) -> Sum:
        return self._division(expr, 1)

    def _division(self, expr: Any, which: int) -> Sum:
        a, b = self.normal(expr.a), self.normal(expr.b)
        if not is_index(expr.dtype):
            found = self._wrapping_division(a, b)
            return self._opaque(expr) if found is None else found[which]
        return self.floordiv(a, b) if which == 0 else self.floormod(a, b)

    def _wrapping_division(self, a: Sum, b: Sum) -> tuple[Sum, Sum] | None:
        """Division of a dtype that wraps around: parts of a sum might wrap, so it is not taken
        apart."""
        if not self.is_exact(a) or b.terms or b.const <= 0:
            return None
        turn = self._turn(a, b.const)
        if turn is not None:
            return Sum(a.dtype, {}, turn), shifted(a, -turn * b.const)
        if all(coefficient % b.const == 0 for coefficient in a.terms.values()):
            return exact_quotient(a, b.const), Sum(a.dtype, {}, a.const % b.const)
        atom = a.single()
        if atom.__class__ is Split:
            found = self._divide_digit(atom, b.const)  # type: ignore[arg-type]
            if found is not None:
                return retyped(found[0], a.dtype), retyped(found[1], a.dtype)
        quotient = self.of_atom(self.table.split(a, b.const, 0))
        return quotient, self.of_atom(self.table.split(a, 1, b.const))

    def floordiv(self, a: Sum, b: Sum) -> Sum:
        """``a // b``; of a zero divisor nothing is claimed."""
        if b.terms:
            return self.symbolic_divide(a, b)[0]
        if b.const == 0:
            return self.of_atom(self.table.quotient(a, b))
        if b.const < 0:
            opposite, divisor = times(a, -1), times(b, -1)
            if not (self.flows(opposite) and self.flows(divisor)):
                return self.of_atom(self.table.quotient(a, b))
            return self.divide(opposite, divisor.const)[0]
        return self.divide(a, b.const)[0]

    def floormod(self, a: Sum, b: Sum) -> Sum:
        """``a % b`` of the division that rounds down."""
        if b.terms:
            return self.symbolic_divide(a, b)[1]
        if b.const == 0:
            return self.of_atom(self.table.remainder(a, b))
        if b.const < 0:
            opposite, divisor = times(a, -1), times(b, -1)
            if not (self.flows(opposite) and self.flows(divisor)):
                return self.of_atom(self.table.remainder(a, b))
            return times(self.divide(opposite, divisor.const)[1], -1)
        return self.divide(a, b.const)[1]

    def divide(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        """Quotient and remainder by a positive constant."""
        if divisor == 1:
            return form, Sum(form.dtype, {}, 0)
        key = (self.table.number(form), divisor)
        found = self.divisions.get(key)
        if found is None:
            found = self.divisions[key] = self._divide(form, divisor)
        return found

    def _divide(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        dtype = form.dtype
        whole: dict[Atom, int] = {}
        rest: dict[Atom, int] = {}
        common = divisor
        for atom, coefficient in form.terms.items():
            if coefficient % divisor:
                rest[atom] = coefficient
                common = gcd(common, coefficient)
            else:
                whole[atom] = coefficient // divisor
        constant, left = divmod(form.const, divisor)
        quotient, remainder = Sum(dtype, whole, constant), Sum(dtype, rest, left)
        if not whole and constant == 0:
            remainder = form  # keeps the way it is written
        if not rest:
            return quotient, remainder
        if remainder is not form and not self.flows(remainder):
            return self._undivided(form, divisor)
        turn = self._turn(remainder, divisor)
        if turn is not None:
            return shifted(quotient, turn), shifted(remainder, -turn * divisor)
        if common > 1:
            inner, digit = self.divide(exact_quotient(remainder, common), divisor // common)
            last = Sum(dtype, {}, left % common)
            return self.tidy(plus(quotient, inner)), self.tidy(plus(times(digit, common), last))
        known = self._known_residues(remainder, divisor)
        if known is not None:
            inner, digit = self.divide(known[1], divisor)
            return self.tidy(plus(plus(quotient, known[0]), inner)), digit
        inner, digit = self._divide_rest(remainder, divisor)
        return self.tidy(plus(quotient, inner)), digit

    def _undivided(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        """Quotient and remainder as they are written."""
        quotient = self.of_atom(self.table.split(form, divisor, 0))
        return quotient, self.of_atom(self.table.split(form, 1, divisor))

    def _turn(self, form: Sum, divisor: int) -> int | None:
        """The quotient, if it is the same for all values of the form."""
        low, high = self.bounds(form)
        if -INFINITY < low and high < INFINITY and low // divisor == high // divisor:
            return int(low // divisor)
        return None

    def _known_residues(self, form: Sum, divisor: int) -> tuple[Sum, Sum] | None:
        """Terms whose remainder is known though their coefficient does not tell: (quotient,
        rest)."""
        if not self.has_residues:
            return None
        rest = dict(form.terms)
        constant = form.const
        whole: dict[Atom, int] = {}
        for atom, coefficient in form.terms.items():
            coeff, base = self.atom_modular(atom)
            if coeff and coeff * coefficient % divisor == 0:
                del rest[atom]
                whole[atom] = coefficient
                constant += base * coefficient
        if not whole:
            return None
        remainder = Sum(form.dtype, rest, constant)
        exact = plus(form, remainder, -1)  # a multiple of the divisor
        common = gcd(coefficient_gcd(exact), exact.const, divisor)
        exact, unit = exact_quotient(exact, common), divisor // common
        return (exact if unit == 1 else self.of_atom(self.table.split(exact, unit, 0))), remainder

    def _divide_rest(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        """Division of what has no part that divides evenly."""
        dtype = form.dtype
        if not form.terms:
            constant, left = divmod(form.const, divisor)
            return Sum(dtype, {}, constant), Sum(dtype, {}, left)
        turn = self._turn(form, divisor)
        if turn is not None:
            return Sum(dtype, {}, turn), shifted(form, -turn * divisor)
        if len(form.terms) > 1 or form.const:
            parted = self._split_tail(form, divisor)
            if parted is not None:
                head, tail, unit = parted
                quotient, digit = self.divide(head, divisor // unit)
                return quotient, self.tidy(plus(times(digit, unit), tail))
        atom = form.single()
        if atom is not None and atom.__class__ is Split:
            found = self._divide_digit(atom, divisor)  # type: ignore[arg-type]
            if found is not None:
                return retyped(found[0], dtype), retyped(found[1], dtype)
        return self._undivided(form, divisor)

    def _split_tail(self, form: Sum, divisor: int) -> tuple[Sum, Sum, int] | None:
        """``form == head * unit + tail`` with the tail in [0, unit) and the unit a part of the
        divisor."""
        units = {gcd(coefficient, divisor) for coefficient in form.terms.values()}
        units.discard(1)
        for unit in sorted(units, reverse=True):
            head: dict[Atom, int] = {}
            tail: dict[Atom, int] = {}
            for atom, coefficient in form.terms.items():
                if coefficient % unit:
                    tail[atom] = coefficient
                else:
                    head[atom] = coefficient // unit
            rest = Sum(form.dtype, tail, form.const)
            turn = self._turn(rest, unit)
            if turn is not None:
                return Sum(form.dtype, head, turn), shifted(rest, -turn * unit), unit
        return None

    def _divide_digit(self, atom: Split, divisor: int) -> tuple[Sum, Sum] | None:
        """Digits of a digit are digits of the number: ``x // 4 // 2`` is ``x // 8``."""
        index, lower, upper = atom.index, atom.lower, atom.upper
        if upper and upper // lower % divisor:
            return None
        middle = lower * divisor
        if middle > index.dtype.max_value:
            return None
        if not is_index(index.dtype):  # is not to be taken apart
            digits = self.table.split(index, middle, upper), self.table.split(index, lower, middle)
            return self.of_atom(digits[0]), self.of_atom(digits[1])
        quotient = self.digit(index, middle, upper) if upper else self.divide(index, middle)[0]
        rest = self.divide(index, middle)[1]
        plain = self.table.split(index, 1, middle)
        if rest.single() is plain:
            return quotient, self.of_atom(self.table.split(index, lower, middle))
        return quotient, self.divide(rest, lower)[0]

    def digit(self, index: Sum, lower: int, upper: int) -> Sum:
        """``index // lower % (upper // lower)``, simplified where the bounds allow it."""
        if lower == 1 and upper == 0:
            return index
        if upper == lower:
            return Sum(index.dtype, {}, 0)
        form = self.of_atom(self.table.split(index, lower, upper)) if upper else None
        if lower == 1:
            return form if self._turn(index, upper) is None else self.divide(index, upper)[1]
        low, high = self.bounds(index)
        if -INFINITY < low and high < INFINITY:
            if low // lower == high // lower:
                value = int(low // lower)
                return Sum(index.dtype, {}, value % (upper // lower) if upper else value)
            if upper and low // upper == high // upper:
                whole = self.of_atom(self.table.split(index, lower, 0))
                return shifted(whole, -int(low // upper) * (upper // lower))
        return form or self.of_atom(self.table.split(index, lower, 0))

    def symbolic_divide(self, a: Sum, b: Sum) -> tuple[Sum, Sum]:
        """Quotient and remainder by something that is no constant."""
        key = (self.table.number(a), -1 - self.table.number(b))
        found = self.divisions.get(key)
        if found is None:
            found = self.divisions[key] = self._symbolic_divide(a, b)
        return found

    def _symbolic_divide(self, a: Sum, b: Sum) -> tuple[Sum, Sum]:
        low, high = self.bounds(b)
        if low == high and low > 0:
            return self.divide(a, int(low))
        quotient, rest = self._polynomial_divide(a, b)
        if rest is not a and not self.flows(rest):
            quotient, rest = Sum(a.dtype, {}, 0), a
        if not rest.terms and rest.const == 0:
            return quotient, rest
        # b > 0 follows from 0 <= rest < b
        if self.prove(rest, 2) and self.prove(shifted(plus(b, rest, -1), -1), 3):
            return quotient, rest
        if len(rest.terms) == len(a.terms):  # nothing went out: leave it as it was
            quotient, rest = Sum(a.dtype, {}, 0), a
        common = gcd(coefficient_gcd(rest), rest.const, coefficient_gcd(b), b.const)
        unit = exact_quotient(b, common)
        reduced = exact_quotient(rest, common)
        inner = self.of_atom(self.table.quotient(reduced, unit))
        digit = times(self.of_atom(self.table.remainder(reduced, unit)), common)
        return plus(quotient, inner), digit

    def _polynomial_divide(self, a: Sum, b: Sum) -> tuple[Sum, Sum]:
        """``a == quotient * b + rest``, with as few terms in the rest as long division gives."""
        lead, scale = next(iter(b.terms.items()))
        quotient, rest = Sum(a.dtype, {}, 0), a
        for _ in range(8):
            step = self._lead_quotient(rest, lead, scale)
            if step is None:
                break
            smaller = plus(rest, self.table.multiply(step, b), -1)
            if len(smaller.terms) >= len(rest.terms):
                break
            quotient, rest = plus(quotient, step), smaller
        return quotient, rest

    def _lead_quotient(self, form: Sum, lead: Atom, scale: int) -> Sum | None:
        factors = lead.factors if isinstance(lead, Product) else (lead,)
        for atom, coefficient in form.terms.items():
            if coefficient % scale:
                continue
            left = list(atom.factors) if isinstance(atom, Product) else [atom]
            if not all(_removed(left, factor) for factor in factors):
                continue
            if not left:
                return Sum(form.dtype, {}, coefficient // scale)
            return Sum(form.dtype, {self.table.product(left, atom.dtype): coefficient // scale}, 0)
        return None

    def _trunc_division(self, expr: Any) -> Sum:
        """Rounding toward zero is rounding down where nothing is negative; kept unless it
        resolves."""
        a, b = self.normal(expr.a), self.normal(expr.b)
        if b.terms or b.const <= 0 or not is_index(expr.dtype):
            return self._opaque(expr)
        low, high = self.bounds(a)
        sign = 1 if low >= 0 else -1 if high <= 0 else 0
        if not a.terms and sign:
            sign = 1 if a.const >= 0 else -1
        if sign:
            results = self.divide(times(a, sign), b.const)
            form = times(results[0 if expr.__class__ is Div else 1], sign)
            if all(atom.__class__ is not Split or atom in a.terms for atom in form.terms):
                return form
        elif expr.__class__ is Mod and all(c % b.const == 0 for c in (*a.terms.values(), a.const)):
            return Sum(expr.dtype, {}, 0)
        elif all(c % b.const == 0 for c in (*a.terms.values(), a.const)):
            return exact_quotient(a, b.const)
        return self._opaque(expr)

    # Minimum and maximum

    def _min_max(self, expr: Any) -> Sum:
        a, b = self.normal(expr.a), self.normal(expr.b)
        found = self.extreme(expr.__class__, [a, b])
        atom = found.single()
        if atom.__class__ is Leaf and isinstance(atom.expr, (Min, Max)):
            return self._opaque(expr)  # nothing was decided: the node may stay as it is
        return found


_PACKED = frozenset((Mul, Cast))
_ARITHMETIC = frozenset((Add, Sub, Mul, Cast))


def _operations(expr: Any) -> int:
    """How many additions, multiplications and casts are written at the top of an expression."""
    count, stack = 0, [expr]
    while stack:
        node = stack.pop()
        if node.__class__ in _ARITHMETIC:
            count += 1
            stack.extend((node.value,) if node.__class__ is Cast else (node.a, node.b))
    return count


def _removed(items: list[Atom], item: Atom) -> bool:
    for position, present in enumerate(items):
        if present is item:
            del items[position]
            return True
    return False


_NORMAL: dict[type, Callable[[Any, Any], Sum]] = {
    Var: Normalizer._variable,
    SizeVar: Normalizer._variable,
    IntImm: Normalizer._constant,
    Add: Normalizer._sum,
    Sub: Normalizer._sum,
    Mul: Normalizer._product,
    FloorDiv: Normalizer._floordiv,
    FloorMod: Normalizer._floormod,
    Div: Normalizer._trunc_division,
    Mod: Normalizer._trunc_division,
    Min: Normalizer._min_max,
    Max: Normalizer._min_max,
    Cast: Normalizer._cast,
}
