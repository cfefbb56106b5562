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
from tilesmith.arith.iter_sizes import NotAffine, Sizes, constant, value_of
from tilesmith.arith.iterators import Iterators
from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir import operators as op

__all__ = ["DigitChecker"]


class DigitChecker:
    """Checks how indices use the digits of iterators."""

    __slots__ = ("iterators", "padded", "sizes")

    def __init__(
        self,
        sizes: Sizes,
        iterators: Iterators,
        padded: list[tuple[IterMark, PrimExpr, PrimExpr]],
    ) -> None:
        self.sizes = sizes
        self.iterators = iterators
        self.padded = padded  # padded iterators, with where what is real begins and ends

    def check(self, indices: list[IterSumExpr], level: IterMapLevel) -> None:
        """Checks that the used digits are independent, and complete if ``level`` requires it."""
        used: dict[int, list[IterSplitExpr]] = {}
        marks: dict[int, IterMark] = {}
        queue = [arg for index in indices for arg in index.args]
        while queue:
            arg = queue.pop()
            mark = arg.source
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
                raise NotAffine("the indices use only parts of a sum that a predicate bounds")
        if level is IterMapLevel.Bijective:
            for mark in self.iterators.inputs:
                if id(mark) not in used and not op.is_const(mark.extent, 1):
                    raise NotAffine(f"the iterator {mark.source} is not used")

    def _touches(self, mark: IterMark, used: dict[int, list[IterSplitExpr]]) -> bool:
        source = mark.source
        if not isinstance(source, IterSumExpr):
            return id(mark) in used
        for arg in source.args:
            if id(arg.source) in used or self._touches(arg.source, used):
                return True
        return False

    def _check_digits(
        self, mark: IterMark, splits: list[IterSplitExpr], level: IterMapLevel
    ) -> None:
        left, ordered = list(splits), []
        expected: PrimExpr = constant(1, mark.extent.dtype)
        while left:
            found = self._digit_at(left, expected)
            if found is None and level is not IterMapLevel.Bijective:
                found = self._digit_above(left, expected)
            if found is None:
                raise NotAffine(f"digits of {expression_of(mark)} overlap or leave a gap")
            remove_object(left, found)
            ordered.append(found)
            expected = self.sizes.end(found)
        if level is IterMapLevel.Bijective and not self.sizes.equal(expected, mark.extent):
            raise NotAffine(f"a part of {expression_of(mark)} is not used")
        for padded, begin, end in self.padded:
            if padded is mark and not self._fill(ordered, begin, end):
                raise NotAffine(f"some digits of {expression_of(mark)} only occur in its padding")

    def _fill(self, digits: list[IterSplitExpr], begin: PrimExpr, end: PrimExpr) -> bool:
        """Tells whether digits of a padded iterator take all of their combinations outside of the
        padding, whatever the free variables in it are.
        """
        sizes = [size for digit in digits for size in (digit.lower_factor, digit.extent)]
        if isinstance(begin, IntImm):
            return _fill([value_of(size) for size in sizes], begin.value, value_of(end))
        analyzer = self.sizes.analyzer
        bound, residue = analyzer.const_int_bound(begin), analyzer.modular_set(begin)
        if bound.max_value - bound.min_value >= _MOST_STARTS:
            return False
        for start in range(bound.min_value, bound.max_value + 1):
            if residue.coeff and (start - residue.base) % residue.coeff:
                continue
            with analyzer.constraint_scope(op.equal(begin, constant(start, begin.dtype))):
                known = [self._only_value(size) for size in sizes]
                last = self._only_value(end)
            if not _fill(known, start, last):
                return False
        return True

    def _only_value(self, size: PrimExpr) -> int | None:
        """Returns the value of a size, or None if more than one is possible."""
        bound = self.sizes.analyzer.const_int_bound(self.sizes.analyzer.simplify(size))
        return bound.min_value if bound.min_value == bound.max_value else None

    def _digit_at(self, splits: list[IterSplitExpr], lower: PrimExpr) -> IterSplitExpr | None:
        for split in splits:
            if self.sizes.equal(split.lower_factor, lower):
                return split
        return None

    def _digit_above(self, splits: list[IterSplitExpr], lower: PrimExpr) -> IterSplitExpr | None:
        """Returns the digit with the smallest factor above ``lower``, which leaves a gap."""
        candidates = [split for split in splits if self.sizes.divides(lower, split.lower_factor)]
        for split in candidates:
            if all(self.sizes.divides(split.lower_factor, other.lower_factor) for other in splits):
                return split
        return None


_MOST_STARTS = 256
"""How many values the free part of a padding may have to be tried one by one."""


def _fill(sizes: list[int | None], begin: int, end: int | None) -> bool:
    """Tells whether the numbers in [begin, end) take all combinations of digits, which are given
    by their lower factors and extents in turn."""
    known = [size for size in sizes if size is not None]
    if end is None or len(known) < len(sizes):
        return False
    return _takes_all_values(list(zip(known[::2], known[1::2])), begin, end)


def _takes_all_values(digits: list[tuple[int, int]], begin: int, end: int) -> bool:
    """Returns True if the numbers in [begin, end) cover all combinations of values of some digits.

    ``digits`` are lower factors with extents, the lowest digit first; each divides the next. The
    numbers 12 to 15 do so for the digits of lowest factors 1 and 2, not for those of 2 and 4.
    """
    if not digits:
        return begin < end
    *lower, (factor, extent) = digits
    first, last = begin // factor, (end - 1) // factor  # values of the highest digit, not reduced
    if last > first:
        # only the blocks at both ends may be cut
        first += not _takes_all_values(lower, begin, (first + 1) * factor)
        last -= not _takes_all_values(lower, last * factor, end)
    elif not _takes_all_values(lower, begin, end):
        return False
    return last - first + 1 >= extent
