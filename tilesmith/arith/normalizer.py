"""Converts expressions to normal form, including divisions, minima and maxima of sums.

Shifts and masks by constants, and divisions that round toward zero where nothing is negative, are
divisions that round down.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from tilesmith.arith.bounds import Bounds
from tilesmith.arith.division import Divider
from tilesmith.arith.extremes import Extremes
from tilesmith.arith.facts import Facts
from tilesmith.arith.form_table import FormTable
from tilesmith.arith.form_writer import FormWriter
from tilesmith.arith.forms import (
    Atom,
    Leaf,
    Quotient,
    Remainder,
    Split,
    Sum,
    coefficient_gcd,
    exact_quotient,
    is_index,
    of_atom,
    plus,
    shifted,
    times,
    wrapped_sum,
)  # fmt: skip
from tilesmith.arith.interfaces import ExpressionRewriter
from tilesmith.arith.intervals import INFINITY
from tilesmith.arith.like_terms import LikeTerms
from tilesmith.arith.numbering import Numbering
from tilesmith.arith.prover import Prover
from tilesmith.ir import (
    Add,
    Call,
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
from tilesmith.ir.queries import called_name

__all__ = ["Normalizer"]


class Normalizer:
    """Converts integer expressions to normal form."""

    __slots__ = (
        "__weakref__", "bounds", "caches", "divider", "extremes", "facts", "numbering", "prover",
        "rewriter", "table", "terms", "visited", "writer",
    )  # fmt: skip

    rewriter: ExpressionRewriter
    """Simplifies what is inside opaque expressions; set by the engine."""

    def __init__(
        self,
        facts: Facts,
        numbering: Numbering,
        table: FormTable,
        writer: FormWriter,
        bounds: Bounds,
        terms: LikeTerms,
        prover: Prover,
        divider: Divider,
        extremes: Extremes,
    ) -> None:
        self.facts = facts
        self.numbering = numbering
        self.table = table
        self.writer = writer
        self.bounds = bounds
        self.terms = terms
        self.prover = prover
        self.divider = divider
        self.extremes = extremes
        self.visited = 0  # expressions brought into normal form
        self.caches = facts.caches

    def normal(self, expr: PrimExpr) -> Sum:
        """Returns the normal form of a scalar integer expression."""
        found = self.caches.forms.get(id(expr))
        if found is not None:
            return found[1]
        impure = self.numbering.impure
        self.visited += 1
        rule = _NORMAL.get(expr.__class__)
        form = self._opaque(expr) if rule is None else rule(self, expr)
        if impure == self.numbering.impure:
            self.caches.forms[id(expr)] = (expr, form)
        return form

    # Sums

    def _sum(self, expr: PrimExpr) -> Sum:
        terms: dict[Atom, int] = {}
        packed: list[Sum] = []
        constant = self._collect(expr, 1, terms, packed, False)
        form = Sum(expr.dtype, terms, constant)
        form = self.terms.combine(form) if is_index(expr.dtype) else wrapped_sum(form)
        if packed:
            self._prefer_packed(expr, form)
        return form

    def _prefer_packed(self, expr: PrimExpr, form: Sum) -> None:
        """Keeps the text ``c + (a - 5) * (b - 3)`` unless the product, multiplied out, gets shorter
        because terms cancel.
        """
        terms: dict[Atom, int] = {}
        constant = self._collect(expr, 1, terms, [], True)
        packed = Sum(expr.dtype, terms, constant)
        packed = self.terms.combine(packed) if is_index(expr.dtype) else wrapped_sum(packed)
        written = self.writer.to_expr(packed)
        if _operations(written) <= _operations(self.writer.to_expr(form)):
            form.expr = written

    def _collect(
        self, expr: Any, factor: int, terms: dict[Atom, int], packed: list[Sum], keep: bool
    ) -> int:
        """Adds ``expr * factor`` to ``terms``; returns its share of the constant.

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
            value: int = expr.value
            return factor * value
        if kind is Mul:
            if expr.b.__class__ is IntImm:
                factor *= expr.b.value
                return self._collect(expr.a, factor, terms, packed, keep) if factor else 0
            if expr.a.__class__ is IntImm:
                factor *= expr.a.value
                return self._collect(expr.b, factor, terms, packed, keep) if factor else 0
        found = self.caches.forms.get(id(expr))
        form = self.normal(expr) if found is None else found[1]
        written = form.expr.__class__
        if written in _WRITTEN and _is_packed(form, written):
            packed.append(form)
            if keep:
                form = self.table.packed(form.expr, (form,))  # type: ignore[arg-type]
        for atom, coefficient in form.terms.items():
            coefficient = terms.get(atom, 0) + coefficient * factor
            if coefficient:
                terms[atom] = coefficient
            else:
                del terms[atom]
        return form.const * factor

    def _variable(self, expr: Var) -> Sum:
        value = self.facts.values.get(expr)
        if value is not None:
            return value
        return Sum(expr.dtype, {self.table.variable(expr): 1}, 0)

    def _constant(self, expr: IntImm) -> Sum:
        return Sum(expr.dtype, {}, expr.value)

    def _product(self, expr: Mul) -> Sum:
        if expr.a.__class__ is IntImm or expr.b.__class__ is IntImm:
            form = self._sum(expr)
            factor: Any = expr.b if expr.b.__class__ is IntImm else expr.a
            if factor.value < 0 and form.expr is None and len(form.terms) == 1 and form.const == 0:
                for atom, coefficient in form.terms.items():
                    if coefficient == -1:  # as it is, where sums say 0 - x
                        minus_one = self.writer.constant(-1, expr.dtype)
                        form.expr = Mul(self.writer.scaled(atom, 1, expr.dtype), minus_one)
            return form
        a, b = self.normal(expr.a), self.normal(expr.b)
        return self.terms.multiply(a, b)

    def _opaque(self, expr: PrimExpr) -> Sum:
        simple = self.rewriter.rewrite_leaf(expr)
        if simple.__class__ is not expr.__class__:
            return self.normal(simple)
        return of_atom(self.table.leaf(simple))

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
        """Returns True if every value is preserved by the change of dtype."""
        if not self.bounds.is_exact(form):
            return False
        if is_index(form.dtype) and target.is_int and target.bits >= form.dtype.bits:
            return True
        low, high = self.bounds.of(form)
        if target.is_int and target.bits == 64 and form.dtype.bits < 64:
            return True
        limits = target.min_value, target.max_value
        if not (-INFINITY < low and limits[0] <= low and high <= limits[1] and high < INFINITY):
            return False
        if not is_index(target):
            return True
        # the parts are computed in the narrower dtype: they must not overflow either
        parts = [self.bounds.of_atom(atom) for atom in form.terms]
        return all(limits[0] <= low and high <= limits[1] for low, high in parts)

    def _cast_expr(self, expr: Cast, form: Sum) -> PrimExpr:
        value = self.writer.to_expr(form)
        return expr if value is expr.value else Cast(expr.dtype, value)

    # Division

    def _floordiv(self, expr: FloorDiv) -> Sum:
        return self._division(expr, 0)

    def _floormod(self, expr: FloorMod) -> Sum:
        return self._division(expr, 1)

    def _division(self, expr: Any, which: int) -> Sum:
        a, b = self.normal(expr.a), self.normal(expr.b)
        if not is_index(expr.dtype):
            found = self.divider.wrapping_division(a, b)
            return self._opaque(expr) if found is None else found[which]
        return self.divider.floordiv(a, b) if which == 0 else self.divider.floormod(a, b)

    def _trunc_division(self, expr: Any) -> Sum:
        """Converts truncating division to flooring division where nothing is negative."""
        whole = expr.__class__ is Div
        if expr.dtype.is_uint:
            return self.normal((FloorDiv if whole else FloorMod)(expr.a, expr.b))
        a, b = self.normal(expr.a), self.normal(expr.b)
        if not is_index(expr.dtype):
            return self._opaque(expr)
        low, high = self.bounds.of(a)
        if b.terms:
            if low >= 0 and self.prover.prove(shifted(plus(b, a, -1), -1)):
                return Sum(expr.dtype, {}, 0) if whole else a
            if low < 0 or not self.prover.prove(b):
                return self._exact_division(expr, a, b, whole)
            return self._truncated(self.divider.symbolic_divide(a, b)[0 if whole else 1], a)
        if b.const < 0 and b.const > b.dtype.min_value:  # x % -4 is x % 4, x / -4 is -(x / 4)
            part = self.normal(expr.__class__(expr.a, self.writer.constant(-b.const, b.dtype)))
            return times(part, -1) if whole else part
        if not a.terms and b.const:
            size = abs(a.const) // abs(b.const)
            quotient = size if (a.const < 0) == (b.const < 0) else -size
            return Sum(expr.dtype, {}, quotient if whole else a.const - quotient * b.const)
        if b.const <= 0:
            return self._opaque(expr)
        nested = self._nested_division(expr.__class__, a, b.const)
        if nested is not None:
            return self.normal(nested)
        if low >= 0:
            return self._truncated(self.divider.divide(a, b.const)[0 if whole else 1], a)
        if -b.const < low and high < b.const:
            return Sum(expr.dtype, {}, 0) if whole else a
        if not whole and len(a.terms) == 1 and a.const == 0:  # x * 12 rem 8 is x * 4 rem 8
            ((atom, scale),) = a.terms.items()
            less = abs(scale) % b.const
            if less and less != abs(scale):
                fewer = Sum(a.dtype, {atom: less if scale > 0 else -less}, 0)
                return self.normal(Mod(self.writer.to_expr(fewer), expr.b))
        common = gcd(coefficient_gcd(a), a.const, b.const)
        if common > 1 and a.terms and abs(next(iter(a.terms.values()))) == common:  # x * 4 / 8
            part_of, divisor = self.writer.to_expr(exact_quotient(a, common)), b.const // common
            if divisor != 1:
                part = self.normal(
                    (Div if whole else Mod)(part_of, self.writer.constant(divisor, b.dtype))
                )
                return part if whole else self.terms.combine(times(part, common))
        if coefficient_gcd(a) % b.const == 0 == a.const % b.const:
            return exact_quotient(a, b.const) if whole else Sum(expr.dtype, {}, 0)
        if high <= 0:  # symmetric; worth it where it resolves
            form = times(self.divider.divide(times(a, -1), b.const)[0 if whole else 1], -1)
            for atom in form.terms:
                if atom.__class__ is Split and atom not in a.terms:
                    return self._opaque(expr)
            return form
        return self._opaque(expr)

    def _exact_division(self, expr: Any, a: Sum, b: Sum, whole: bool) -> Sum:
        """Divides by a sum where nothing is left (``x * y / y`` is ``x``), or with a factor that
        both have.
        """
        quotient, rest = self.divider.polynomial_divide(a, b)
        if not rest.terms and rest.const == 0:
            return quotient if whole else rest
        factor = self.divider.shared_factor(a, b)
        if factor is None:
            return self._opaque(expr)
        sides = [self.writer.to_expr(self.divider.without(side, factor)) for side in (a, b)]
        part = self.normal(expr.__class__(*sides))
        return part if whole else self.terms.multiply(part, Sum(a.dtype, {factor: 1}, 0))

    def _nested_division(self, kind: type[Any], a: Sum, divisor: int) -> PrimExpr | None:
        """Returns ``x / 12`` for ``a``, which is ``x / 3``, divided by 4, and ``x rem 4`` for the
        remainder of ``x rem 8``; else None.
        """
        inner: Any = getattr(a.single(), "expr", None)
        if inner.__class__ is not kind or inner.dtype is not a.dtype:
            return None
        if inner.b.__class__ is not IntImm or inner.b.value <= 0:
            return None
        if kind is Mod:
            less = self.writer.constant(divisor, a.dtype)
            return Mod(inner.a, less) if inner.b.value % divisor == 0 else None
        product = inner.b.value * divisor
        if product > a.dtype.max_value:
            return None
        return Div(inner.a, self.writer.constant(product, a.dtype))

    def _truncated(self, form: Sum, dividend: Sum) -> Sum:
        """Builds a quotient or remainder of truncating division, as the user wrote it."""
        result = Sum(form.dtype, form.terms, form.const)
        written: Any = form.expr
        rounded = _TRUNCATED.get(written.__class__)
        if rounded is not None and self.bounds.of(self.normal(written.a))[0] >= 0:
            result.expr = rounded(written.a, written.b)
            return result
        terms, constant = self.writer.into_division(form.terms, form.const)
        total, changed = Sum(form.dtype, {}, constant), False
        for atom, coefficient in terms.items():
            part = of_atom(atom)
            if atom.__class__ in _DIVISIONS and atom not in dividend.terms:
                written = self.writer.atom_expr(atom)
                rounded = _TRUNCATED.get(written.__class__)
                if rounded is not None and self.bounds.of(self.normal(written.a))[0] >= 0:
                    part = self.table.packed(rounded(written.a, written.b), (part,))
                    changed = True
            total = plus(total, part, coefficient)
        if not changed:
            return form
        result.expr = self.writer.to_expr(total)
        return result

    # Bits

    def _call(self, expr: Call) -> Sum:
        """Converts shifts and masks by constants to divisions and products."""
        rule = _BITS.get(called_name(expr))
        if rule is not None and expr.dtype.lanes == 1 and isinstance(expr.args[1], IntImm):
            found = rule(self, self.normal(expr.args[0]), expr.args[1].value)
            if found is not None:
                return found
        return self._opaque(expr)

    def _shift_right(self, a: Sum, by: int) -> Sum | None:
        return self._power_of_two(a, by, 0) if 0 <= by < a.dtype.bits - 1 else None

    def _shift_left(self, a: Sum, by: int) -> Sum | None:
        if not 0 <= by < a.dtype.bits - 1:
            return None
        form = times(a, 1 << by)
        return self.terms.combine(form) if is_index(a.dtype) else wrapped_sum(form)

    def _mask(self, a: Sum, mask: int) -> Sum | None:
        if mask <= 0 or mask & (mask + 1) or mask >= a.dtype.max_value:
            return None
        return self._power_of_two(a, mask.bit_length(), 1)

    def _power_of_two(self, a: Sum, power: int, which: int) -> Sum | None:
        if is_index(a.dtype):
            return self.divider.divide(a, 1 << power)[which]
        found = self.divider.wrapping_division(a, Sum(a.dtype, {}, 1 << power))
        return None if found is None else found[which]

    # Minima and maxima

    def _min_max(self, expr: Any) -> Sum:
        self.table.has_cases = True
        a, b = self.normal(expr.a), self.normal(expr.b)
        if is_index(expr.dtype):
            return self.extremes.extreme_of_two(expr.__class__, a, b)
        found = self.extremes.extreme(expr.__class__, [a, b])
        atom = found.single()
        if atom.__class__ is Leaf and isinstance(atom.expr, (Min, Max)):
            return self._opaque(expr)  # nothing was decided: the node may stay as it is
        return found


_PACKED = frozenset((Mul, Cast, Min, Max))


_WRITTEN = _PACKED | {FloorMod, Div, Mod}


_TRUNCATED: dict[type, type] = {FloorDiv: Div, FloorMod: Mod}


_DIVISIONS = frozenset((Split, Quotient, Remainder))


def _is_packed(form: Sum, written: type) -> bool:
    """Returns True if the user's text of one operation differs from the text that the form would
    get.
    """
    if written in _PACKED:
        return len(form.terms) + bool(form.const) > 1
    if written is FloorMod:
        return form.single() is None
    return len(form.terms) == 1 and next(iter(form.terms)).__class__ in _DIVISIONS


_ARITHMETIC = frozenset((Add, Sub, Mul, Cast))


def _operations(expr: Any) -> int:
    """Counts the additions, multiplications and casts at the top of an expression."""
    count, stack = 0, [expr]
    while stack:
        node = stack.pop()
        kind = node.__class__
        if kind in _ARITHMETIC:
            count += 1
            stack.extend((node.value,) if kind is Cast else (node.a, node.b))
    return count


_BITS: dict[str, Callable[[Any, Sum, int], Sum | None]] = {
    "tir.shift_left": Normalizer._shift_left,
    "tir.shift_right": Normalizer._shift_right,
    "tir.bitwise_and": Normalizer._mask,
}


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
    Call: Normalizer._call,
}
