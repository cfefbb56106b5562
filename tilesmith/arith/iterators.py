"""Holds the iterators of a map, the caps that predicates put on them, and the names of their
digits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.arith.iter_nodes import IterMark, IterSplitExpr, IterSumExpr
from tilesmith.arith.iter_sizes import Sizes
from tilesmith.ir import PrimExpr, Range, Sub, Var
from tilesmith.ir import operators as op
from tilesmith.ir.queries import mentions
from tilesmith.runtime.dtype import DataType

__all__ = ["Cap", "Iterators"]


class Cap(NamedTuple):
    """A bound on a sum of digits from a predicate: it lies in [low, low + extent of the mark)."""

    parts: list[IterSplitExpr]
    low: PrimExpr
    mark: IterMark


class Iterators:
    """Holds the input iterators, and the iterators that stand for sums of digits."""

    __slots__ = ("_marks", "_names", "caps", "inputs", "sizes", "values")

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.values: dict[Var, IterSumExpr] = {}
        self.inputs: list[IterMark] = []
        self.caps: dict[Any, Cap] = {}
        self._marks: dict[Any, IterMark] = {}
        # names stay the same from one attempt to the next
        self._names: dict[int, tuple[IterMark, Any]] = {}

    def named(self, mark: IterMark, name: Any) -> IterMark:
        """Registers the name of a new iterator and returns the iterator."""
        self._names[id(mark)] = (mark, name)
        return mark

    def add_iterator(self, var: Var, domain: Range, simplify_trivial: bool) -> None:
        """Declares an input iterator."""
        low = op.cast(var.dtype, self.sizes.analyzer.simplify(domain.min))
        extent = op.cast(var.dtype, self.sizes.analyzer.simplify(domain.extent))
        if simplify_trivial and op.is_const(extent, 1):
            self.values[var] = IterSumExpr((), low)
            return
        self.sizes.analyzer.bind(var, domain)  # tells which narrow sums wrap around
        source = var if op.is_const(low, 0) else Sub(var, low)
        # not the variable itself: names are compared, and `==` of variables is an expression
        mark = self.named(IterMark(source, extent), ("iterator", id(var)))
        self.inputs.append(mark)
        self.values[var] = IterSumExpr((IterSplitExpr(mark),), low)

    def uses(self, expr: Any) -> bool:
        """Returns True if an iterator occurs in an expression."""
        return mentions(expr, self.values)

    def split_key(self, arg: IterSplitExpr) -> Any:
        """Returns a key that is equal for the same digit of the same iterator, in any dtype."""
        name, number = self._names[id(arg.source)][1], self.sizes.number
        return name, number(arg.lower_factor), number(arg.wide_extent())

    def sum_key(self, args: list[IterSplitExpr]) -> Any:
        """Returns a key that is equal for sums of the same digits with the same scales."""
        return frozenset([(self.split_key(arg), self.sizes.number(arg.scale)) for arg in args])

    def mark(self, source: IterSumExpr, extent: PrimExpr) -> IterMark:
        """Returns the iterator that stands for a sum. Sums of equal digits are one iterator, in
        whichever dtype they were met first.
        """
        key = (
            "sum",
            self.sum_key(list(source.args)),
            self.sizes.number(source.base),
            self.sizes.number(extent),
        )
        mark = self._marks.get(key)
        if mark is None:
            mark = self._marks[key] = self.named(IterMark(source, extent), key)
        return mark

    def cast_digit(self, arg: IterSplitExpr, dtype: DataType) -> IterSplitExpr:
        """Returns a digit in another dtype; it is still taken in that of its iterator. Raises
        NotAffine if the dtype cannot hold its sizes.
        """
        extent, scale = self.sizes.cast(arg.extent, dtype), self.sizes.cast(arg.scale, dtype)
        return IterSplitExpr(arg.source, arg.lower_factor, extent, scale)
