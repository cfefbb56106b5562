"""Computes with the sizes of iterators: extents, scales and offsets, constant or symbolic."""

from __future__ import annotations

from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.iter_nodes import IterSplitExpr
from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType

__all__ = ["NotAffine", "PaddingChanged", "Sizes", "constant", "value_of"]


class NotAffine(Exception):
    """Gives the reason why an expression is not a sum of digits of iterators."""


class PaddingChanged(Exception):
    """Raised when a padded iterator is divided by a further divisor: detection restarts with all
    divisors found so far.
    """


_MOST_CONSTANTS = 4096


_CONSTANTS: dict[tuple[int, DataType], IntImm] = {}


def constant(value: int, dtype: DataType) -> IntImm:
    """Returns a constant, usually the same object for the same value; raises NotAffine if the
    dtype does not hold it: then sums of digits wrap around.
    """
    found = _CONSTANTS.get((value, dtype))
    if found is None:
        if not dtype.min_value <= value <= dtype.max_value:
            raise NotAffine(f"{dtype} does not hold {value}")
        if len(_CONSTANTS) > _MOST_CONSTANTS:
            _CONSTANTS.clear()
        made = const(value, dtype)
        assert isinstance(made, IntImm)
        found = _CONSTANTS[value, dtype] = made
    return found


def value_of(expr: PrimExpr) -> int | None:
    """Returns the value of an integer constant."""
    return expr.value if isinstance(expr, IntImm) else None


class Sizes:
    """Computes with sizes, simplified by an analyzer."""

    __slots__ = ("analyzer",)

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def number(self, expr: PrimExpr) -> Any:
        """Returns a key of a size: equal for equal sizes."""
        if isinstance(expr, IntImm):
            return expr.value
        return ("expr", self.analyzer.engine.numbering.number(self.analyzer.simplify(expr)))

    def times(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Returns ``a * b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return constant(a.value * b.value, a.dtype)
        return self.analyzer.simplify(a * b)

    def plus(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Returns ``a + b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return constant(a.value + b.value, a.dtype)
        return self.analyzer.simplify(a + b)

    def quotient(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Returns ``a // b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return constant(a.value // b.value, a.dtype)
        return self.analyzer.simplify(op.floordiv(a, b))

    def remainder(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Returns ``a % b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return constant(a.value % b.value, a.dtype)
        return self.analyzer.simplify(op.floormod(a, b))

    def cast(self, size: PrimExpr, dtype: DataType) -> PrimExpr:
        """Returns a size in another dtype; raises NotAffine if that may not hold it."""
        if size.dtype is dtype:
            return size
        if dtype.bits < size.dtype.bits:
            bound = self.analyzer.const_int_bound(size)
            if bound.min_value < dtype.min_value or dtype.max_value < bound.max_value:
                raise NotAffine(f"{dtype} does not hold {size} for sure")
        return self.analyzer.simplify(op.cast(dtype, size))

    def end(self, digit: IterSplitExpr) -> PrimExpr:
        """Returns where the next digit of the same iterator begins, simplified."""
        return self.times(digit.lower_factor, digit.wide_extent())

    def divides(self, divisor: PrimExpr, value: PrimExpr) -> bool:
        """Returns True if ``value`` is proven to be a multiple of ``divisor``."""
        a, b = value_of(value), value_of(divisor)
        if a is not None and b is not None:
            return b != 0 and a % b == 0
        return op.is_const(self.remainder(value, divisor), 0)

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Returns True if two sizes are proven to be equal."""
        x, y = value_of(a), value_of(b)
        if x is not None and y is not None:
            return x == y
        return self.analyzer.can_prove_equal(a, b)
