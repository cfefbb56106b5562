"""Writes index expressions as sums of digits of iterators."""

from __future__ import annotations

from tilesmith.arith.forms import is_index
from tilesmith.arith.iter_division import IterDivider
from tilesmith.arith.iter_nodes import IterSumExpr
from tilesmith.arith.iter_sizes import NotAffine, Sizes
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
        """Casts a sum: existing digits keep their dtype, sizes of the result get the new one."""
        if value.dtype is expr.dtype:
            return value
        if expr.dtype.bits < value.dtype.bits and not self._fits(expr):
            raise NotAffine(f"{expr} may cut bits off")
        cast = [self.iterators.cast_digit(arg, expr.dtype) for arg in value.args]
        return IterSumExpr(cast, op.cast(expr.dtype, value.base))

    def _fits(self, expr: Cast) -> bool:
        bound = self.sizes.analyzer.const_int_bound(expr.value)
        return expr.dtype.min_value <= bound.min_value and bound.max_value <= expr.dtype.max_value
