"""Divides sums of digits of iterators.

Divisions take digits of what a sum fuses to: of ``(i * 16 + j) // 4`` with ``j`` in [0, 16), the
number ``i * 16 + j`` without its two lowest bits. A division that does not come out even pads the
iterator.
"""

from __future__ import annotations

from math import gcd, lcm
from typing import Any

from tilesmith.arith.forms import coefficient_gcd
from tilesmith.arith.iter_fusing import Fuser
from tilesmith.arith.iter_nodes import IterMark, IterSplitExpr, IterSumExpr
from tilesmith.arith.iter_sizes import NotAffine, PaddingChanged, Sizes, constant, value_of
from tilesmith.arith.iter_sums import IterSums
from tilesmith.arith.iterators import Iterators
from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir import operators as op
from tilesmith.ir.queries import variables

__all__ = ["IterDivider"]


class IterDivider:
    """Divides sums of digits."""

    __slots__ = (
        "allow_padding", "fuser", "iterators", "padded", "paddings", "sizes", "sums",
    )  # fmt: skip

    def __init__(
        self,
        sizes: Sizes,
        iterators: Iterators,
        sums: IterSums,
        fuser: Fuser,
        allow_padding: bool,
        paddings: dict[Any, list[tuple[int, int]]] | None,
    ) -> None:
        self.sizes = sizes
        self.iterators = iterators
        self.sums = sums
        self.fuser = fuser
        self.allow_padding = allow_padding
        # digit -> what padded extents are multiples of, and what is before; None: the last digit is
        # cut
        self.paddings = paddings
        # padded iterators, with where what is real begins and ends
        self.padded: list[tuple[IterMark, PrimExpr, PrimExpr]] = []

    def floordiv(self, form: IterSumExpr, divisor: PrimExpr) -> IterSumExpr:
        """Returns ``form // divisor``."""
        found = self._divided(form, divisor)
        return found[0]

    def floormod(self, form: IterSumExpr, divisor: PrimExpr) -> IterSumExpr:
        """Returns ``form % divisor``."""
        return self._divided(form, divisor)[1]

    def _divided(self, form: IterSumExpr, divisor: PrimExpr) -> tuple[IterSumExpr, IterSumExpr]:
        if not self._is_size(divisor):
            raise NotAffine(f"divisor {divisor} may be negative or zero")
        whole, rest = self._multiples(form, divisor)
        if not rest.args:
            quotient = IterSumExpr(
                whole.args, self.sizes.plus(whole.base, self.sizes.quotient(rest.base, divisor))
            )
            return quotient, IterSumExpr((), self.sizes.remainder(rest.base, divisor))
        try:
            fused = self.fuser.fuse(form)
            whole = IterSumExpr((), constant(0, form.dtype))
        except NotAffine:
            fused = self.fuser.fuse(rest)
        if not fused.args:
            high = IterSumExpr((), self.sizes.quotient(fused.base, divisor))
            low = IterSumExpr((), self.sizes.remainder(fused.base, divisor))
            return self.sums.add(whole, high, 1), low
        quotient_sum, digit_sum = self._split_digit(fused, divisor)
        return self.sums.add(whole, quotient_sum, 1), digit_sum

    def _is_size(self, divisor: PrimExpr) -> bool:
        """Returns True if a divisor is positive: proven, or because it divides extents of
        iterators or the bound of a predicate, none of which is empty where the map has points.
        """
        if self.sizes.analyzer.const_int_bound(divisor).min_value > 0:
            return True
        if self.sizes.analyzer.can_prove(divisor > 0):
            return True
        if isinstance(divisor, IntImm):
            return False
        marks = [*self.iterators.inputs, *[cap.mark for cap in self.iterators.caps.values()]]
        extents = [mark.extent for mark in marks if not isinstance(mark.extent, IntImm)]
        return self._is_size_of_points(divisor, extents)

    def _is_size_of_points(self, divisor: PrimExpr, extents: list[PrimExpr]) -> bool:
        """Returns True if a divisor is positive because the extents are: ``n * 1280`` where a loop
        has ``n * 10`` iterations, ``n * m`` where loops have ``n`` and ``m``.
        """
        analyzer = self.sizes.analyzer
        plain = self._without_factor(divisor)
        with analyzer.constraint_scope(op.all_of(*[extent > 0 for extent in extents])):
            if analyzer.can_prove(plain > 0):
                return True
        form = analyzer.engine.normalizer.normal(plain)
        if form.terms and max(form.terms.values()) < 0:
            return False  # a multiple of -n may divide an extent as well
        if any(self.sizes.divides(plain, extent) for extent in extents):
            return True
        if len(extents) < 2:
            return False
        points = extents[0]
        for extent in extents[1:]:
            points = self.sizes.times(points, op.cast(points.dtype, extent))
        return self.sizes.divides(op.cast(points.dtype, plain), points)

    def _without_factor(self, size: PrimExpr) -> PrimExpr:
        """Returns a size without its largest constant factor, which does not change its sign."""
        form = self.sizes.analyzer.engine.normalizer.normal(size)
        factor = gcd(coefficient_gcd(form), form.const)
        if factor < 2:
            return size
        return self.sizes.quotient(size, constant(factor, size.dtype))

    def _multiples(self, form: IterSumExpr, divisor: PrimExpr) -> tuple[IterSumExpr, IterSumExpr]:
        """Splits a form by its scales: ``form == whole * divisor + rest``."""
        whole, rest = [], []
        for arg in form.args:
            if self.sizes.divides(divisor, arg.scale):
                scale = self.sizes.quotient(arg.scale, divisor)
                whole.append(IterSplitExpr(arg.source, arg.lower_factor, arg.extent, scale))
            else:
                rest.append(arg)
        return IterSumExpr(whole, constant(0, form.dtype)), IterSumExpr(rest, form.base)

    def _split_digit(self, form: IterSumExpr, divisor: PrimExpr) -> tuple[IterSumExpr, IterSumExpr]:
        """Returns the quotient and the remainder of one scaled digit plus a base."""
        digit, base = form.args[0], form.base
        zero = constant(0, form.dtype)
        if self.sizes.divides(divisor, digit.scale):
            scale = self.sizes.quotient(digit.scale, divisor)
            quotient = IterSplitExpr(digit.source, digit.lower_factor, digit.extent, scale)
            return (
                IterSumExpr((quotient,), self.sizes.quotient(base, divisor)),
                IterSumExpr((), self.sizes.remainder(base, divisor)),
            )
        if not self.sizes.divides(digit.scale, divisor):
            raise NotAffine(f"scale {digit.scale} and divisor {divisor} have no common measure")
        width = self.sizes.quotient(divisor, digit.scale)
        offset, residue = (
            self.sizes.quotient(base, digit.scale),
            self.sizes.remainder(base, digit.scale),
        )
        plain = IterSplitExpr(digit.source, digit.lower_factor, digit.extent)
        if self._within(plain, offset, width):
            remainder = IterSumExpr((plain,), offset)
            return IterSumExpr((), zero), self._restored(remainder, digit.scale, residue)
        turns, rest = self.sizes.quotient(offset, width), self.sizes.remainder(offset, width)
        extent = plain.extent
        is_even = op.is_const(rest, 0) and self.sizes.divides(width, extent)
        if not is_even or (isinstance(offset, IntImm) and self._is_padded(plain)):
            if self.paddings is None and op.is_const(rest, 0):
                extent = self.sizes.plus(extent, self.sizes.plus(width, constant(-1, width.dtype)))
            else:
                plain, rest = self._pad(plain, offset, width)
                turns = self.sizes.quotient(rest, width)
                extent = plain.extent
                if not self.sizes.divides(width, rest):
                    raise NotAffine(f"offset {offset} does not fit divisor {width}")
        lower = self.sizes.times(plain.lower_factor, op.cast(plain.lower_factor.dtype, width))
        high = IterSplitExpr(plain.source, lower, self.sizes.quotient(extent, width))
        low = IterSplitExpr(plain.source, plain.lower_factor, width)
        quotient_sum = IterSumExpr((high,), turns)
        return quotient_sum, self._restored(IterSumExpr((low,), zero), digit.scale, residue)

    def _restored(self, form: IterSumExpr, scale: PrimExpr, residue: PrimExpr) -> IterSumExpr:
        scaled = self.sums.scaled(form, scale)
        return IterSumExpr(scaled.args, self.sizes.plus(scaled.base, residue))

    def _within(self, digit: IterSplitExpr, offset: PrimExpr, width: PrimExpr) -> bool:
        """Returns True if ``digit + offset`` is proven to stay in [0, width)."""
        if (
            isinstance(width, IntImm)
            and isinstance(digit.extent, IntImm)
            and isinstance(offset, IntImm)
        ):
            return 0 <= offset.value and digit.extent.value + offset.value <= width.value
        fits = self.sizes.analyzer.can_prove(digit.extent + offset <= width)
        return fits and self.sizes.analyzer.can_prove(offset >= 0)

    def _pad(
        self, digit: IterSplitExpr, offset: PrimExpr, width: PrimExpr
    ) -> tuple[IterSplitExpr, PrimExpr]:
        """Returns ``digit + offset`` as a wider iterator whose extent the divisor divides, plus the
        remaining offset.
        """
        if not self.allow_padding or self.paddings is None:
            raise NotAffine(f"{width} does not divide the extent {digit.extent}")
        extent, unit, start = value_of(digit.extent), value_of(width), value_of(offset)
        if extent is None or unit is None:
            raise NotAffine(f"{width} is not known to divide the extent {digit.extent}")
        dtype = digit.dtype
        key = self._padding_key(digit, offset)
        common, residue = self._padding(key, unit, start)
        size = constant(common, dtype)
        left = constant(residue, dtype) if start is not None else self.sizes.remainder(offset, size)
        end = self.sizes.plus(left, constant(extent, dtype))
        blocks = self.sizes.quotient(self.sizes.plus(end, constant(common - 1, dtype)), size)
        mark = self.iterators.mark(IterSumExpr((digit,), left), self.sizes.times(blocks, size))
        if all(known is not mark for known, _, _ in self.padded):
            self.padded.append((mark, left, end))
        rest = self.sizes.analyzer.simplify(op.cast(dtype, offset) - left)
        return IterSplitExpr(mark, scale=constant(1, dtype)), rest

    def _padding_key(self, digit: IterSplitExpr, offset: PrimExpr) -> Any:
        """Returns the key of the paddings of a digit: those by constants go together; others are
        told apart by the offset, in terms that outlast this attempt.
        """
        key = self.iterators.split_key(digit)
        if isinstance(offset, IntImm):
            return key
        return key, str(offset), tuple([id(variable) for variable in variables(offset)])

    def _padding(self, key: Any, unit: int, start: int | None) -> tuple[int, int]:
        """Returns what the extent of a padded digit is a multiple of, and how much is before it.

        Paddings for several divisors and offsets are one if there is a number that is ``start`` by
        each ``unit``: for ``(i + 9) % 8`` and ``(i + 5) % 4`` it is 1 by 8.
        """
        assert self.paddings is not None  # `_pad` refuses without
        groups = self.paddings.setdefault(key, [])
        first = 0 if start is None else start % unit
        for number, (common, left) in enumerate(groups):
            if (left - first) % gcd(common, unit) == 0:
                both = lcm(common, unit)
                if both != common:
                    left = next(n for n in range(left, both, common) if n % unit == first)
                    groups[number] = both, left
                    raise PaddingChanged
                return common, left
        groups.append((unit, first))
        raise PaddingChanged

    def _is_padded(self, digit: IterSplitExpr) -> bool:
        """Returns True if a digit is padded by constants for another division."""
        return bool(self.paddings and self.paddings.get(self.iterators.split_key(digit)))
