"""Writes index expressions as sums of digits of iterators."""

from __future__ import annotations

from tilesmith.arith.forms import is_index
from tilesmith.arith.iter_division import IterDivider
from tilesmith.arith.iter_nodes import IterSumExpr
from tilesmith.arith.iter_sizes import NotAffine, Sizes, value_of
from tilesmith.arith.iter_sums import IterSums
from tilesmith.arith.iterators import Iterators
from tilesmith.ir import Add, Cast, FloorDiv, FloorMod, Mul, PrimExpr, Sub, Var
from tilesmith.ir import operators as op
from tilesmith.ir.queries import is_call

__all__ = ["IterRewriter"]


class IterRewriter:
    """Writes index expressions as sums of digits."""

    __slots__ = ("divider", "iterators", "sizes", "sums")

    def __init__(
        self, sizes: Sizes, iterators: Iterators, sums: IterSums, divider: IterDivider
    ) -> None:
        self.sizes = sizes
        self.iterators = iterators
        self.sums = sums
        self.divider = divider

    def visit(self, expr: PrimExpr) -> IterSumExpr:
        """Returns an expression as a sum of digits; raises NotAffine if it is not one."""
        if isinstance(expr, IterSumExpr):
            return expr
        if isinstance(expr, Var):
            found = self.iterators.values.get(expr)
            return IterSumExpr((), expr) if found is None else found
        engine = self.sizes.analyzer.engine
        if not is_index(expr.dtype) and not engine.bounds.is_exact(engine.normalizer.normal(expr)):
            raise NotAffine(f"{expr} may wrap around")
        if isinstance(expr, Add):
            return self.sums.add(self.visit(expr.a), self.visit(expr.b), 1)
        if isinstance(expr, Sub):
            return self.sums.add(self.visit(expr.a), self.visit(expr.b), -1)
        if isinstance(expr, Mul):
            return self.sums.multiply(self.visit(expr.a), self.visit(expr.b), expr)
        if isinstance(expr, (FloorDiv, FloorMod)):
            a, b = self.visit(expr.a), self.visit(expr.b)
            if b.args:
                raise NotAffine(f"{expr} divides by an iterator")
            if isinstance(expr, FloorDiv):
                return self.divider.floordiv(a, b.base)
            return self.divider.floormod(a, b.base)
        if not self.iterators.uses(expr):
            return IterSumExpr((), expr)
        if isinstance(expr, Cast) and expr.dtype.is_int:
            return self.cast(self.visit(expr.value), expr)
        if is_call(expr, "tir.likely"):
            return self.visit(expr.args[0])
        raise NotAffine(f"{expr} is not a sum of iterators")

    def cast(self, value: IterSumExpr, expr: Cast) -> IterSumExpr:
        """Casts a sum: its digits are taken in the dtypes of their iterators, and then cast."""
        if value.dtype is expr.dtype:
            return value
        if expr.dtype.bits < value.dtype.bits and not self._fits(value, expr):
            raise NotAffine(f"{expr} may cut bits off")
        cast = [self.iterators.cast_digit(arg, expr.dtype) for arg in value.args]
        return IterSumExpr(cast, op.cast(expr.dtype, value.base))

    def _fits(self, value: IterSumExpr, expr: Cast) -> bool:
        """Returns True if a cast keeps each value of a sum: by the bounds of what it casts, or by
        those of its digits, which know what predicates bound.
        """
        bound_of = self.sizes.analyzer.const_int_bound
        least, most = expr.dtype.min_value, expr.dtype.max_value
        bound = bound_of(expr.value)
        if least <= bound.min_value and bound.max_value <= most:
            return True
        base = bound_of(value.base)
        low, high = base.min_value, base.max_value
        for arg in value.args:
            scale, last = value_of(arg.scale), bound_of(arg.extent).max_value - 1
            if scale is None:
                return False
            low, high = low + min(scale * last, 0), high + max(scale * last, 0)
        return least <= low and high <= most
