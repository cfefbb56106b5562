"""Checks that the digits that indices use are independent and complete."""

from __future__ import annotations

from tilesmith.arith.iter_fusing import remove_object
from tilesmith.arith.iter_nodes import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    expression_of,
)
from tilesmith.arith.iter_sizes import NotAffine, Sizes, constant
from tilesmith.arith.iterators import Iterators
from tilesmith.ir import PrimExpr
from tilesmith.ir import operators as op

__all__ = ["DigitChecker"]


class DigitChecker:
    """Checks how indices use the digits of iterators."""

    __slots__ = ("iterators", "sizes")

    def __init__(self, sizes: Sizes, iterators: Iterators) -> None:
        self.sizes = sizes
        self.iterators = iterators

    def check(self, indices: list[IterSumExpr], level: IterMapLevel) -> None:
        """Checks that the used digits are independent, and complete if ``level`` requires it."""
        used: dict[int, list[IterSplitExpr]] = {}
        marks: dict[int, IterMark] = {}
        queue = [arg for index in indices for arg in index.args]
        while queue:
            arg = queue.pop()
            mark = self.iterators.origin(arg.source)
            if id(mark) not in used:
                used[id(mark)], marks[id(mark)] = [], mark
                if isinstance(mark.source, IterSumExpr):
                    queue.extend(mark.source.args)
            used[id(mark)].append(arg)
        for key, splits in used.items():
            self._check_digits(marks[key], splits, level)
        for cap in self.iterators.caps.values():
            mark = cap.mark
            if id(mark) not in used and (
                level is IterMapLevel.Bijective or self._touches(mark, used)
            ):
                raise NotAffine("a predicate bounds a sum of which the indices use parts only")
        if level is IterMapLevel.Bijective:
            for mark in self.iterators.inputs:
                if id(mark) not in used:
                    raise NotAffine(f"the iterator {mark.source} is not used")

    def _touches(self, mark: IterMark, used: dict[int, list[IterSplitExpr]]) -> bool:
        source = mark.source
        if not isinstance(source, IterSumExpr):
            return id(mark) in used
        for arg in source.args:
            inner = self.iterators.origin(arg.source)
            if id(inner) in used or self._touches(inner, used):
                return True
        return False

    def _check_digits(
        self, mark: IterMark, splits: list[IterSplitExpr], level: IterMapLevel
    ) -> None:
        left = list(splits)
        expected: PrimExpr = constant(1, mark.extent.dtype)
        while left:
            found = self._digit_at(left, expected)
            if found is None and level is not IterMapLevel.Bijective:
                found = self._digit_above(left, expected)
            if found is None:
                raise NotAffine(f"digits of {expression_of(mark)} overlap or leave a gap")
            remove_object(left, found)
            expected = self.sizes.times(
                op.cast(expected.dtype, found.lower_factor), op.cast(expected.dtype, found.extent)
            )
        if level is IterMapLevel.Bijective and not self.sizes.equal(expected, mark.extent):
            raise NotAffine(f"a part of {expression_of(mark)} is not used")

    def _digit_at(self, splits: list[IterSplitExpr], lower: PrimExpr) -> IterSplitExpr | None:
        for split in splits:
            if self.sizes.equal(op.cast(lower.dtype, split.lower_factor), lower):
                return split
        return None

    def _digit_above(self, splits: list[IterSplitExpr], lower: PrimExpr) -> IterSplitExpr | None:
        """Returns the digit with the smallest factor above ``lower``, which leaves a gap."""
        candidates = [
            split
            for split in splits
            if self.sizes.divides(lower, op.cast(lower.dtype, split.lower_factor))
        ]
        for split in candidates:
            if all(self.sizes.divides(split.lower_factor, other.lower_factor) for other in splits):
                return split
        return None
