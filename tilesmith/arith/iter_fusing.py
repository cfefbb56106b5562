"""Fuses a sum of digits into one iterator.

The sum ``i * 16 + j`` over ``j`` in [0, 16) is one iterator again, for each scale is the scale of
the digit below it times that digit's extent. Predicates cap the extent of the sum that they talk
about (`Cap`).
"""

from __future__ import annotations

from typing import Any

from tilesmith.arith.iter_nodes import IterSplitExpr, IterSumExpr
from tilesmith.arith.iter_sizes import NotAffine, Sizes, constant, value_of
from tilesmith.arith.iter_sums import IterSums
from tilesmith.arith.iterators import Cap, Iterators
from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir import operators as op

__all__ = ["Fuser", "remove_object"]


class Fuser:
    """Fuses sums; ``overlaps`` permits digits that overlap, as in ``i + j``."""

    __slots__ = ("iterators", "overlaps", "sizes", "sums")

    def __init__(self, sizes: Sizes, iterators: Iterators, sums: IterSums, overlaps: bool) -> None:
        self.sizes = sizes
        self.iterators = iterators
        self.sums = sums
        self.overlaps = overlaps

    def fuse(self, form: IterSumExpr) -> IterSumExpr:
        """Returns the sum as one digit (or none) plus a base; raises NotAffine where scales leave
        gaps or overlap.
        """
        base = form.base
        args: list[IterSplitExpr] = []
        for arg in self.sums.joined(list(form.args)):
            upward, shift = self.sums.forward(arg)
            args.append(upward)
            base = self.sizes.plus(base, shift)
        args, base = self.with_caps(args, base)
        left = [arg for arg in args if not op.is_const(arg.extent, 1)]
        units = [arg for arg in args if op.is_const(arg.source.extent, 1)]
        if not left:
            if not units:
                return IterSumExpr((), base)
            left, units = units[-1:], units[:-1]
        start = self._smallest(left)
        remove_object(left, start)
        taken, unit = [start], start.scale
        expected = self.sizes.times(unit, start.extent)
        overlapped = False
        while left:
            following = self._with_scale(left, expected)
            if following is not None:
                expected = self.sizes.times(expected, following.extent)
            else:
                if self.overlaps and op.is_const(unit, 1):
                    following = self._within_reach(left, expected)
                if following is None:
                    raise NotAffine(self._gap(left, expected))
                overlapped = True
                more = self.sizes.plus(following.extent, constant(-1, expected.dtype))
                expected = self.sizes.plus(expected, self.sizes.times(following.scale, more))
            remove_object(left, following)
            taken.insert(0, following)
        for arg in units:
            self._insert_unit(taken, arg)
        return IterSumExpr((self.spelled(taken, unit, expected if overlapped else None),), base)

    def _within_reach(self, args: list[IterSplitExpr], reach: PrimExpr) -> IterSplitExpr | None:
        """Returns the digit with the largest scale that is at most ``reach``, so that no gap
        remains.
        """
        found = None
        for arg in args:
            if isinstance(arg.scale, IntImm) and self.sizes.analyzer.can_prove(arg.scale <= reach):
                if found is None or arg.scale.value >= _scale_value(found):
                    found = arg
        return found

    def _insert_unit(self, taken: list[IterSplitExpr], arg: IterSplitExpr) -> None:
        """Inserts an iterator of extent 1 at the position of its scale, so that its variable is
        kept.
        """
        unit = taken[-1].scale
        if self.sizes.divides(unit, arg.scale):
            scale = value_of(arg.scale)
            smaller = [
                position
                for position, other in enumerate(taken)
                if scale is not None and (value_of(other.scale) or scale) < scale
            ]
            taken.insert(smaller[0] if smaller else len(taken), arg)

    def _gap(self, left: list[IterSplitExpr], expected: PrimExpr) -> str:
        scales = ", ".join([str(arg.scale) for arg in left])
        return f"scales {scales} do not continue where {expected} was expected"

    def _smallest(self, args: list[IterSplitExpr]) -> IterSplitExpr:
        constant = [arg for arg in args if isinstance(arg.scale, IntImm)]
        if constant:
            least = min([_scale_value(arg) for arg in constant])
            equal = [arg for arg in constant if _scale_value(arg) == least]
            return equal[-1 if self.overlaps else 0]
        for arg in args:  # symbolic: the one whose scale divides all others
            if all(self.sizes.divides(arg.scale, other.scale) for other in args):
                return arg
        return args[-1]

    def _with_scale(self, args: list[IterSplitExpr], expected: PrimExpr) -> IterSplitExpr | None:
        for arg in args:
            if self.sizes.equal(arg.scale, expected):
                return arg
        return None

    def spelled(
        self, taken: list[IterSplitExpr], unit: PrimExpr, reach: PrimExpr | None
    ) -> IterSplitExpr:
        """Returns the iterator that consists of the given digits, the highest first, as one digit;
        ``reach`` is its extent if they overlap.
        """
        if len(taken) == 1:
            return taken[0]
        parts = [self.sums.rescaled(arg, self.sizes.quotient(arg.scale, unit)) for arg in taken]
        extent = parts[0].extent
        for part in parts[1:]:
            extent = self.sizes.times(extent, part.extent)
        if reach is not None:
            extent = reach
        mark = self.iterators.mark(IterSumExpr(parts, constant(0, unit.dtype)), extent)
        return IterSplitExpr(mark, 1, extent, unit)

    def with_caps(
        self, args: list[IterSplitExpr], base: PrimExpr
    ) -> tuple[list[IterSplitExpr], PrimExpr]:
        """Replaces digits that a predicate bounds together by one iterator with the bounded
        extent.
        """
        changed = bool(self.iterators.caps)
        while changed:
            changed = False
            for cap in self.iterators.caps.values():
                found = self._match_cap(cap, args)
                if found is not None:
                    members, scale = found
                    args = [arg for arg in args if all(arg is not member for member in members)]
                    mark = cap.mark
                    extent, low = [
                        self.sizes.cast(size, scale.dtype) for size in (mark.extent, cap.low)
                    ]
                    args.append(IterSplitExpr(mark, 1, extent, scale))
                    base = self.sizes.plus(base, self.sizes.times(low, scale))
                    changed = True
                    break
        return args, base

    def _match_cap(
        self, cap: Cap, args: list[IterSplitExpr]
    ) -> tuple[list[IterSplitExpr], PrimExpr] | None:
        """Returns the digits that a cap bounds, and their common scale; None if they do not
        match.
        """
        members: list[IterSplitExpr] = []
        scale: PrimExpr | None = None
        for part in cap.parts:
            key = self.iterators.split_key(part)
            for arg in args:
                if self.iterators.split_key(arg) == key:
                    break
            else:
                return None
            if not self.sizes.divides(part.scale, arg.scale):
                return None
            factor = self.sizes.cast(self.sizes.quotient(arg.scale, part.scale), arg.dtype)
            if scale is not None and not self.sizes.equal(scale, factor):
                return None
            scale = factor
            members.append(arg)
        return None if scale is None else (members, scale)


def remove_object(items: list[Any], item: Any) -> None:
    """Takes one occurrence of an object out of a list, in place: a digit may be in use twice, and
    the second use has to stay."""
    for position, present in enumerate(items):
        if present is item:
            del items[position]
            return


def _scale_value(arg: IterSplitExpr) -> int:
    scale: Any = arg.scale
    value: int = scale.value
    return value
