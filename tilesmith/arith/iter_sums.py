"""Adds and scales sums of digits of iterators."""

from __future__ import annotations

from typing import Any

from tilesmith.arith.iter_nodes import IterSplitExpr, IterSumExpr
from tilesmith.arith.iter_sizes import NotAffine, Sizes, constant
from tilesmith.arith.iterators import Iterators
from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir import operators as op

__all__ = ["IterSums"]


class IterSums:
    """Adds and scales sums of digits."""

    __slots__ = ("iterators", "sizes")

    def __init__(self, sizes: Sizes, iterators: Iterators) -> None:
        self.sizes = sizes
        self.iterators = iterators

    def add(self, a: IterSumExpr, b: IterSumExpr, sign: int) -> IterSumExpr:
        """Returns ``a + b * sign`` with equal digits joined."""
        terms: dict[Any, IterSplitExpr] = {self.iterators.split_key(arg): arg for arg in a.args}
        for arg in b.args:
            key = self.iterators.split_key(arg)
            scale = (
                arg.scale
                if sign == 1
                else self.sizes.times(arg.scale, constant(-1, arg.scale.dtype))
            )
            known = terms.get(key)
            if known is not None:
                scale = self.sizes.plus(known.scale, scale)
                if op.is_const(scale, 0):
                    del terms[key]
                    continue
            terms[key] = IterSplitExpr(arg.source, arg.lower_factor, arg.extent, scale)
        base = self.sizes.analyzer.simplify(a.base + b.base if sign == 1 else a.base - b.base)
        return IterSumExpr(terms.values(), base)

    def multiply(self, a: IterSumExpr, b: IterSumExpr, expr: PrimExpr) -> IterSumExpr:
        """Returns ``a * b``, of which at least one must be free of iterators."""
        if a.args and b.args:
            raise NotAffine(f"{expr} multiplies iterators")
        if b.args:
            a, b = b, a
        return self.scaled(a, b.base)

    def scaled(self, a: IterSumExpr, factor: PrimExpr) -> IterSumExpr:
        """Returns a sum times a factor without iterators."""
        if op.is_const(factor, 0):
            return IterSumExpr((), constant(0, a.dtype))
        args = [
            IterSplitExpr(
                arg.source, arg.lower_factor, arg.extent, self.sizes.times(arg.scale, factor)
            )
            for arg in a.args
        ]
        return IterSumExpr(args, self.sizes.times(a.base, factor))

    def forward(self, arg: IterSplitExpr) -> tuple[IterSplitExpr, PrimExpr]:
        """Replaces a digit with a negative scale by one that counts up; returns it with the offset
        for the base.
        """
        zero = constant(0, arg.dtype)
        if isinstance(arg.scale, IntImm):
            if arg.scale.value > 0:
                return arg, zero
        elif not self.sizes.analyzer.can_prove(arg.scale < 0):
            return arg, zero
        last = self.sizes.plus(arg.extent, constant(-1, arg.dtype))
        down = IterSplitExpr(arg.source, arg.lower_factor, arg.extent, constant(-1, arg.dtype))
        mark = self.iterators.mark(IterSumExpr((down,), last), arg.extent)
        scale = self.sizes.times(arg.scale, constant(-1, arg.dtype))
        return IterSplitExpr(mark, 1, arg.extent, scale), self.sizes.times(last, arg.scale)

    def joined(self, args: list[IterSplitExpr]) -> list[IterSplitExpr]:
        """Joins neighbouring digits of one iterator: ``x // 4 * 4 + x % 4 -> x``."""
        while (found := self._neighbours(args)) is not None:
            low, high, both = found
            args = [*[arg for arg in args if arg is not low and arg is not high], both]
        return args

    def rescaled(self, arg: IterSplitExpr, scale: PrimExpr) -> IterSplitExpr:
        """Returns the same digit with another scale."""
        return IterSplitExpr(arg.source, arg.lower_factor, arg.extent, scale)

    def _neighbours(
        self, args: list[IterSplitExpr]
    ) -> tuple[IterSplitExpr, IterSplitExpr, IterSplitExpr] | None:
        """Returns two neighbouring digits, the low one first, and the digit that they are."""
        for low in args:
            for high in args:
                both = None if high is low else self._as_one(low, high)
                if both is not None:
                    return low, high, both
        return None

    def _as_one(self, low: IterSplitExpr, high: IterSplitExpr) -> IterSplitExpr | None:
        """Returns two digits as one if the second follows the first, and if their dtype holds the
        extent of both; else None.
        """
        if high.source is not low.source:
            return None
        if not self.sizes.equal(high.lower_factor, self.sizes.end(low)):
            return None
        try:
            if not self.sizes.equal(high.scale, self.sizes.times(low.scale, low.extent)):
                return None
            extent = self.sizes.times(low.extent, high.extent)
        except NotAffine:
            return None
        return IterSplitExpr(low.source, low.lower_factor, extent, low.scale)
