"""Constant bounds of integer expressions: the smallest and largest value that one can have."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from tilesmith.arith.forms import (
    NORMAL,
    TOO_LARGE,
    Atom,
    Extreme,
    Leaf,
    Product,
    Quotient,
    Remainder,
    Split,
    Sum,
    holds_data,
    magnitude,
)
from tilesmith.arith.state import INFINITY, Interval, State, is_index
from tilesmith.ir import Call, Cast, Div, IntImm, Min, Mod, PrimExpr, Select, SizeVar, Var
from tilesmith.runtime.dtype import DataType

__all__ = ["Bounds", "ConstIntBound"]


class ConstIntBound:
    """The closed interval ``[min_value, max_value]``; ``POS_INF`` and ``NEG_INF`` stand for no
    bound."""

    POS_INF = (1 << 63) - 1
    NEG_INF = -POS_INF

    __slots__ = ("max_value", "min_value")

    def __init__(self, min_value: int, max_value: int) -> None:
        self.min_value = int(min_value)
        self.max_value = int(max_value)

    @staticmethod
    def from_interval(interval: Interval) -> ConstIntBound:
        """From the analyzer's own intervals, where infinities are floats."""
        low = max(interval[0], ConstIntBound.NEG_INF)
        high = min(interval[1], ConstIntBound.POS_INF)
        return ConstIntBound(int(low), int(high))

    def interval(self) -> Interval:
        """As the analyzer keeps it."""
        low = -INFINITY if self.min_value <= self.NEG_INF else self.min_value
        high = INFINITY if self.max_value >= self.POS_INF else self.max_value
        return low, high

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConstIntBound):
            return NotImplemented
        return (self.min_value, self.max_value) == (other.min_value, other.max_value)

    def __hash__(self) -> int:
        return hash((self.min_value, self.max_value))

    def __repr__(self) -> str:
        return f"ConstIntBound[{self.min_value}, {self.max_value}]"


def dtype_interval(dtype: DataType) -> Interval:
    """What a value of that dtype can be; int64 counts as unbounded."""
    found = _INTERVALS.get(dtype)
    if found is None:
        found = -INFINITY, INFINITY
        if dtype.is_bool:
            found = 0, 1
        elif dtype.is_integer and not (dtype.is_int and dtype.bits >= 64):
            found = dtype.element.min_value, dtype.element.max_value
        _INTERVALS[dtype] = found
    return found


_INTERVALS: dict[DataType, Interval] = {}


def floor_quotient(value: float, divisor: float) -> float:
    """``value // divisor`` for a positive divisor, infinities included."""
    if value in (INFINITY, -INFINITY):
        return value
    if divisor == INFINITY:
        return 0 if value >= 0 else -1
    return value // divisor


def _trunc_quotient(value: float, divisor: float) -> float:
    quotient = floor_quotient(abs(value), divisor)
    return quotient if value >= 0 else -quotient


def _product(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def product_interval(a: Interval, b: Interval) -> Interval:
    """All products of members of two intervals."""
    ends = (_product(a[0], b[0]), _product(a[0], b[1]), _product(a[1], b[0]), _product(a[1], b[1]))
    return min(ends), max(ends)


def intersect(a: Interval, b: Interval) -> Interval:
    """What is in both; an empty result keeps the first (the code is unreachable then)."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a


def union(a: Interval, b: Interval) -> Interval:
    """The smallest interval around both."""
    return min(a[0], b[0]), max(a[1], b[1])


def quotient_interval(index: Interval, divisor: Interval) -> Interval:
    """All ``index // divisor``; a divisor that may be zero or of either sign gives no bound."""
    low, high = max(divisor[0], 1), divisor[1]
    if divisor[0] < 0 or high < low:  # of either sign, and not zero
        largest = max(abs(index[0]), abs(index[1]))
        return -largest, largest
    smallest = floor_quotient(index[0], high if index[0] >= 0 else low)
    largest = floor_quotient(index[1], low if index[1] >= 0 else high)
    return smallest, largest


class Bounds(State):
    """The part of an analyzer that answers for bounds."""

    normal: Callable[[PrimExpr], Sum]

    def bounds(self, form: Sum) -> Interval:
        """Smallest and largest value of a sum."""
        interval = self.exact_bounds(form)
        return interval if is_index(form.dtype) else wrapped(form.dtype, *interval)

    def exact_bounds(self, form: Sum) -> Interval:
        """The bounds that the sum would have if its dtype never wrapped around."""
        low: float = form.const
        high: float = form.const
        cache = self.bounds_cache
        for atom, coefficient in form.terms.items():
            found = cache.get(atom)
            if found is None:
                found = self.atom_bounds(atom)
            if coefficient > 0:
                low += coefficient * found[0]
                high += coefficient * found[1]
            else:
                low += coefficient * found[1]
                high += coefficient * found[0]
        if self.sum_facts and len(form.terms) > 1:
            return self._refined(form, low, high)
        return low, high

    def is_exact(self, form: Sum) -> bool:
        """Whether the value is that of the sum over the whole numbers: it does not wrap around."""
        if is_index(form.dtype):
            return True
        low, high = self.exact_bounds(form)
        limits = dtype_interval(form.dtype)
        return limits[0] <= low and high <= limits[1] and high < INFINITY

    def flows(self, form: Sum) -> bool:
        """Whether a sum of int32 or int64 that nobody has written yet may be computed: it does not
        overflow. Sums of variables do not; of data, bounds have to tell."""
        size = magnitude(form)
        if size == NORMAL and not holds_data(form):
            return True
        if size == TOO_LARGE:
            return False
        if not form.terms or form.single() is not None:
            return True
        low, high = self.exact_bounds(form)
        return form.dtype.min_value <= low and high <= form.dtype.max_value

    def all_flow(self, forms: list[Sum]) -> bool:
        """Whether each of some sums may be computed."""
        for form in forms:
            if not self.flows(form):
                return False
        return True

    def _refined(self, form: Sum, low: float, high: float) -> Interval:
        key, scale = direction(form)
        fact = self.sum_facts.get(key)
        if fact is None:
            return low, high
        known = (
            (fact[0] * scale, fact[1] * scale) if scale > 0 else (fact[1] * scale, fact[0] * scale)
        )
        return intersect((low, high), (known[0] + form.const, known[1] + form.const))

    def atom_bounds(self, atom: Atom) -> Interval:
        """Smallest and largest value of an atom."""
        found = self.bounds_cache.get(atom)
        if found is None:
            found = _ATOM_BOUNDS[atom.__class__](self, atom)
            fact = self.atom_facts.get(atom)
            if fact is not None:
                found = intersect(found, fact)
            self.bounds_cache[atom] = found
        return found

    def _leaf_bounds(self, atom: Leaf) -> Interval:
        expr = atom.expr
        if isinstance(expr, Var):
            found = self.var_bounds.get(expr)
            if found is None:
                found = dtype_interval(expr.dtype)
                if isinstance(expr, SizeVar):
                    found = (0, found[1])
            return found
        rule = _LEAF_BOUNDS.get(expr.__class__)
        limits = dtype_interval(expr.dtype)  # type: ignore[union-attr]
        return limits if rule is None else intersect(limits, rule(self, expr))

    def _split_bounds(self, atom: Split) -> Interval:
        low, high = self.bounds(atom.index)
        low, high = floor_quotient(low, atom.lower), floor_quotient(high, atom.lower)
        if not atom.upper:
            return low, high
        width = atom.upper // atom.lower
        if -INFINITY < low and high < INFINITY and low // width == high // width:
            return low % width, high % width
        return 0, (min(high, width - 1) if low >= 0 else width - 1)

    def _product_bounds(self, atom: Product) -> Interval:
        result: Interval = (1, 1)
        powers: dict[Atom, int] = {}
        for factor in atom.factors:
            powers[factor] = powers.get(factor, 0) + 1
        for factor, power in powers.items():
            interval = self.atom_bounds(factor)
            if power % 2 == 0:
                largest = max(abs(interval[0]), abs(interval[1]))
                crosses = interval[0] <= 0 <= interval[1]
                smallest = 0 if crosses else min(abs(interval[0]), abs(interval[1]))
                result = product_interval(result, (smallest**power, largest**power))
            else:
                for _ in range(power):
                    result = product_interval(result, interval)
        return result if is_index(atom.dtype) else wrapped(atom.dtype, *result)

    def _quotient_bounds(self, atom: Quotient) -> Interval:
        return quotient_interval(self.bounds(atom.index), self.bounds(atom.divisor))

    def _remainder_bounds(self, atom: Remainder) -> Interval:
        divisor = self.bounds(atom.divisor)
        if divisor[0] < 0:
            return min(divisor[0] + 1, 0), max(divisor[1] - 1, 0)
        index = self.bounds(atom.index)
        largest = max(divisor[1] - 1, 0)
        return 0, (min(largest, index[1]) if index[0] >= 0 else largest)

    def _extreme_bounds(self, atom: Extreme) -> Interval:
        choose = min if atom.kind is Min else max
        low, high = self.bounds(atom.args[0])
        for arg in atom.args[1:]:
            other = self.bounds(arg)
            low, high = choose(low, other[0]), choose(high, other[1])
        return low, high

    # Expressions that arithmetic does not look through

    def expr_bounds(self, expr: PrimExpr) -> Interval:
        """Bounds of an integer or boolean expression."""
        dtype = expr.dtype
        if isinstance(expr, IntImm):
            return expr.value, expr.value
        if dtype.is_integer and dtype.lanes == 1:
            return self.bounds(self.normal(expr))
        return dtype_interval(dtype)

    def _select_bounds(self, expr: Select) -> Interval:
        return union(self.expr_bounds(expr.true_value), self.expr_bounds(expr.false_value))

    def _cast_bounds(self, expr: Cast) -> Interval:
        value = expr.value
        if value.dtype.is_float and isinstance(value, Cast):  # to a float and back
            value, digits = value.value, _WHOLE.get(value.dtype, 0)
            if value.dtype.is_integer:
                inner = self.expr_bounds(value)
                if max(abs(inner[0]), abs(inner[1])) <= 1 << digits:
                    return inner
        if not (expr.value.dtype.is_integer or expr.value.dtype.is_bool):
            return -INFINITY, INFINITY
        inner, limits = self.expr_bounds(expr.value), dtype_interval(expr.dtype)
        if not (expr.dtype.is_int or expr.dtype.is_uint):
            return limits
        kept = expr.value.dtype.is_int and expr.dtype.is_int
        if not (kept and expr.value.dtype.bits <= expr.dtype.bits):
            low, high = expr.dtype.min_value, expr.dtype.max_value
            if inner[0] < low or high < inner[1]:
                return limits
        return inner

    def _trunc_div_bounds(self, expr: Div) -> Interval:
        low, high = self.expr_bounds(expr.b)
        if low < 1:
            return -INFINITY, INFINITY
        index = self.expr_bounds(expr.a)
        ends = [_trunc_quotient(end, by) for end in index for by in (low, high)]
        return min(ends), max(ends)

    def _trunc_mod_bounds(self, expr: Mod) -> Interval:
        low, high = self.expr_bounds(expr.b)
        largest = max(abs(low), abs(high)) - 1
        if largest < 0:
            return -INFINITY, INFINITY
        index = self.expr_bounds(expr.a)
        smallest = 0 if index[0] >= 0 else max(-largest, index[0])
        return smallest, 0 if index[1] <= 0 else min(largest, index[1])

    def _call_bounds(self, expr: Call) -> Interval:
        rule = _CALL_BOUNDS.get(getattr(expr.op, "name", ""))
        return (-INFINITY, INFINITY) if rule is None else rule(self, expr.args)

    def _choice_bounds(self, args: tuple[PrimExpr, ...]) -> Interval:
        return union(self.expr_bounds(args[1]), self.expr_bounds(args[2]))

    def _annotation_bounds(self, args: tuple[PrimExpr, ...]) -> Interval:
        return self.expr_bounds(args[0])

    def _bitwise_and_bounds(self, args: tuple[PrimExpr, ...]) -> Interval:
        a, b = self.expr_bounds(args[0]), self.expr_bounds(args[1])
        if a[0] >= 0 and b[0] >= 0:
            return 0, min(a[1], b[1])
        if b[0] >= 0:
            return 0, b[1]
        return (0, a[1]) if a[0] >= 0 else (-INFINITY, INFINITY)

    def _bitwise_or_bounds(self, args: tuple[PrimExpr, ...]) -> Interval:
        """Of ``a | b`` and ``a ^ b``: no bit above those of both, if neither is negative."""
        a, b = self.expr_bounds(args[0]), self.expr_bounds(args[1])
        if a[0] < 0 or b[0] < 0 or a[1] == INFINITY or b[1] == INFINITY:
            return -INFINITY, INFINITY
        return 0, (1 << int(max(a[1], b[1])).bit_length()) - 1

    def _bitwise_not_bounds(self, args: tuple[PrimExpr, ...]) -> Interval:
        if not args[0].dtype.is_int:
            return -INFINITY, INFINITY
        low, high = self.expr_bounds(args[0])
        return -1 - high, -1 - low

    def _count_bounds(self, args: tuple[PrimExpr, ...]) -> Interval:
        return 0, args[0].dtype.bits

    def _shift_right_bounds(self, args: tuple[PrimExpr, ...]) -> Interval:
        by = self.expr_bounds(args[1])
        if by[0] < 0 or by[1] > 63:
            return -INFINITY, INFINITY
        return quotient_interval(self.expr_bounds(args[0]), (1 << int(by[0]), 1 << int(by[1])))

    def _shift_left_bounds(self, args: tuple[PrimExpr, ...]) -> Interval:
        by = self.expr_bounds(args[1])
        if by[0] < 0 or by[1] > 63 or not is_index(args[0].dtype):
            return -INFINITY, INFINITY
        return product_interval(self.expr_bounds(args[0]), (1 << int(by[0]), 1 << int(by[1])))


def direction(form: Sum) -> tuple[object, int]:
    """A sum without its constant, as a key up to a factor, and that factor."""
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


def wrapped(dtype: DataType, low: float, high: float) -> Interval:
    """The bounds of a sum that wraps around modulo two to the bits."""
    limits = dtype_interval(dtype)
    if limits[0] <= low and high <= limits[1]:
        return low, high
    if dtype.bits < 64 and -INFINITY < low and high < INFINITY:
        turn = 1 << dtype.bits
        turns = (low - limits[0]) // turn
        if turns == (high - limits[0]) // turn:
            return low - turns * turn, high - turns * turn
    return limits


_WHOLE = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""Whole numbers of up to so many bits are exact in a float."""

_ATOM_BOUNDS: dict[type, Callable[[Any, Any], Interval]] = {
    Leaf: Bounds._leaf_bounds,
    Split: Bounds._split_bounds,
    Product: Bounds._product_bounds,
    Quotient: Bounds._quotient_bounds,
    Remainder: Bounds._remainder_bounds,
    Extreme: Bounds._extreme_bounds,
}
_LEAF_BOUNDS: dict[type, Callable[[Any, Any], Interval]] = {
    Select: Bounds._select_bounds,
    Cast: Bounds._cast_bounds,
    Div: Bounds._trunc_div_bounds,
    Mod: Bounds._trunc_mod_bounds,
    Call: Bounds._call_bounds,
}
_CALL_BOUNDS: dict[str, Callable[[Any, Any], Interval]] = {
    "tir.if_then_else": Bounds._choice_bounds,
    "tir.likely": Bounds._annotation_bounds,
    "tir.bitwise_and": Bounds._bitwise_and_bounds,
    "tir.bitwise_or": Bounds._bitwise_or_bounds,
    "tir.bitwise_xor": Bounds._bitwise_or_bounds,
    "tir.bitwise_not": Bounds._bitwise_not_bounds,
    "tir.popcount": Bounds._count_bounds,
    "tir.clz": Bounds._count_bounds,
    "tir.shift_right": Bounds._shift_right_bounds,
    "tir.shift_left": Bounds._shift_left_bounds,
}
