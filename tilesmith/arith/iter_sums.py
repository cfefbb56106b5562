"""Sums of digits of iterators: adding, scaling, fusing them, and checking that nothing is hit
twice.

The heart is `IterSums.fuse`: the sum ``i * 16 + j`` over ``j`` in [0, 16) is one iterator again,
for
each scale is the scale of the digit below it times that digit's extent. Predicates cap the extent
of the sum that they talk about (`Cap`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.iter_nodes import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    expression_of,
)  # fmt: skip
from tilesmith.ir import IntImm, PrimExpr, Range, Sub, Var, const, post_order_visit
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType


class NotAffine(Exception):
    """The expression is no sum of digits of iterators; says why."""


class PaddingChanged(Exception):
    """Another divisor turned up for a padded iterator: start again with what is known now."""


_MOST_CONSTANTS = 4096
_CONSTANTS: dict[tuple[int, DataType], IntImm] = {}


def constant(value: int, dtype: DataType) -> IntImm:
    """A constant; mostly the same object for the same value."""
    found = _CONSTANTS.get((value, dtype))
    if found is None:
        if len(_CONSTANTS) > _MOST_CONSTANTS:
            _CONSTANTS.clear()
        found = _CONSTANTS[value, dtype] = const(value, dtype)
    return found


def value_of(expr: PrimExpr) -> int | None:
    """The value of an integer constant."""
    return expr.value if isinstance(expr, IntImm) else None


def remove_object(items: list[Any], item: Any) -> None:
    """Take one occurrence of an object out of a list, in place: a digit may be in use twice, and
    the second use has to stay."""
    for position, present in enumerate(items):
        if present is item:
            del items[position]
            return


class Cap(NamedTuple):
    """What a predicate says of a sum of digits: it lies in [low, low + extent of the mark)."""

    parts: list[IterSplitExpr]
    low: PrimExpr
    mark: IterMark


class IterSums:
    """Sizes, sums of digits, and what they fuse to, over some iterators."""

    def __init__(
        self, analyzer: Analyzer, allow_padding: bool, paddings: dict[Any, int] | None
    ) -> None:
        self.analyzer = analyzer
        self.allow_padding = allow_padding
        # (digit, offset) -> what the padded extent is a multiple of; None: the last digit is cut
        self.paddings = paddings
        self.padded: list[
            tuple[IterMark, PrimExpr, PrimExpr]
        ] = []  # mark, left, end of what is real
        self.overlaps = False  # whether digits may overlap, as in i + j
        self.values: dict[Var, IterSumExpr] = {}
        self.inputs: list[IterMark] = []
        self.caps: dict[Any, Cap] = {}
        self._marks: dict[Any, IterMark] = {}
        self._names: dict[
            int, tuple[IterMark, Any]
        ] = {}  # stay the same from one attempt to the next

    def _named(self, mark: IterMark, name: Any) -> IterMark:
        self._names[id(mark)] = (mark, name)
        return mark

    # Arithmetic of sizes

    def number(self, expr: PrimExpr) -> Any:
        """A key of a size: equal for equal sizes."""
        if isinstance(expr, IntImm):
            return expr.value
        return ("expr", self.analyzer.engine.numbering.number(self.analyzer.simplify(expr)))

    def times(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """``a * b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return constant(a.value * b.value, a.dtype)
        return self.analyzer.simplify(a * b)

    def plus(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """``a + b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return constant(a.value + b.value, a.dtype)
        return self.analyzer.simplify(a + b)

    def quotient(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """``a // b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return constant(a.value // b.value, a.dtype)
        return self.analyzer.simplify(op.floordiv(a, b))

    def remainder(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """``a % b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return constant(a.value % b.value, a.dtype)
        return self.analyzer.simplify(op.floormod(a, b))

    def divides(self, divisor: PrimExpr, value: PrimExpr) -> bool:
        """Whether ``value`` is certainly a multiple of ``divisor``."""
        a, b = value_of(value), value_of(divisor)
        if a is not None and b is not None:
            return b != 0 and a % b == 0
        return op.is_const(self.remainder(value, divisor), 0)

    def equal(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two sizes are certainly equal."""
        x, y = value_of(a), value_of(b)
        if x is not None and y is not None:
            return x == y
        return self.analyzer.can_prove_equal(a, b)

    # Iterators

    def add_iterator(self, var: Var, domain: Range, simplify_trivial: bool) -> None:
        """Declare an input iterator."""
        low = op.cast(var.dtype, self.analyzer.simplify(domain.min))
        extent = op.cast(var.dtype, self.analyzer.simplify(domain.extent))
        if simplify_trivial and op.is_const(extent, 1):
            self.values[var] = IterSumExpr((), low)
            return
        source = var if op.is_const(low, 0) else Sub(var, low)
        # not the variable itself: names are compared, and `==` of variables is an expression
        mark = self._named(IterMark(source, extent), ("iterator", id(var)))
        self.inputs.append(mark)
        self.values[var] = IterSumExpr((IterSplitExpr(mark),), low)

    def uses(self, expr: Any) -> bool:
        """Whether an iterator occurs in an expression."""
        found: list[Any] = []

        def note(node: Any) -> None:
            if isinstance(node, Var) and node in self.values:
                found.append(node)

        post_order_visit(expr, note)
        return bool(found)

    def origin(self, mark: IterMark) -> IterMark:
        """The iterator of which a mark is the copy in another dtype."""
        return self._marks.get((id(mark), "origin"), mark)

    def split_key(self, arg: IterSplitExpr) -> Any:
        """Equal for the same digit of the same iterator."""
        name = self._names[id(self.origin(arg.source))][1]
        return name, self.number(arg.lower_factor), self.number(arg.extent)

    def sum_key(self, args: list[IterSplitExpr]) -> Any:
        """Equal for sums of the same digits with the same scales."""
        return frozenset([(self.split_key(arg), self.number(arg.scale)) for arg in args])

    def add(self, a: IterSumExpr, b: IterSumExpr, sign: int) -> IterSumExpr:
        """``a + b * sign``, equal digits joined."""
        terms: dict[Any, IterSplitExpr] = {self.split_key(arg): arg for arg in a.args}
        for arg in b.args:
            key = self.split_key(arg)
            scale = arg.scale if sign == 1 else self.times(arg.scale, constant(-1, arg.scale.dtype))
            known = terms.get(key)
            if known is not None:
                scale = self.plus(known.scale, scale)
                if op.is_const(scale, 0):
                    del terms[key]
                    continue
            terms[key] = IterSplitExpr(arg.source, arg.lower_factor, arg.extent, scale)
        base = self.analyzer.simplify(a.base + b.base if sign == 1 else a.base - b.base)
        return IterSumExpr(terms.values(), base)

    def multiply(self, a: IterSumExpr, b: IterSumExpr, expr: PrimExpr) -> IterSumExpr:
        """``a * b`` where one of them has no iterator."""
        if a.args and b.args:
            raise NotAffine(f"{expr} multiplies iterators")
        if b.args:
            a, b = b, a
        return self.scaled(a, b.base)

    def scaled(self, a: IterSumExpr, factor: PrimExpr) -> IterSumExpr:
        """A sum times something without iterators."""
        if op.is_const(factor, 0):
            return IterSumExpr((), constant(0, a.dtype))
        args = [
            IterSplitExpr(arg.source, arg.lower_factor, arg.extent, self.times(arg.scale, factor))
            for arg in a.args
        ]
        return IterSumExpr(args, self.times(a.base, factor))

    # Fusing

    def fuse(self, form: IterSumExpr) -> IterSumExpr:
        """The sum as one digit (or none) plus a base; raises NotAffine where scales leave gaps or
        overlap."""
        base = form.base
        args: list[IterSplitExpr] = []
        for arg in self.joined(list(form.args)):
            upward, shift = self.forward(arg)
            args.append(upward)
            base = self.plus(base, shift)
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
        expected = self.times(unit, start.extent)
        overlapped = False
        while left:
            following = self._with_scale(left, expected)
            if following is not None:
                expected = self.times(expected, following.extent)
            else:
                if self.overlaps and op.is_const(unit, 1):
                    following = self._within_reach(left, expected)
                if following is None:
                    raise NotAffine(self._gap(left, expected))
                overlapped = True
                more = self.plus(following.extent, constant(-1, expected.dtype))
                expected = self.plus(expected, self.times(following.scale, more))
            remove_object(left, following)
            taken.insert(0, following)
        for arg in units:
            self._insert_unit(taken, arg)
        return IterSumExpr((self.spelled(taken, unit, expected if overlapped else None),), base)

    def _within_reach(self, args: list[IterSplitExpr], reach: PrimExpr) -> IterSplitExpr | None:
        """The digit with the largest scale that leaves no gap above [0, reach)."""
        found = None
        for arg in args:
            if isinstance(arg.scale, IntImm) and self.analyzer.can_prove(arg.scale <= reach):
                if found is None or arg.scale.value >= _scale_value(found):
                    found = arg
        return found

    def _insert_unit(self, taken: list[IterSplitExpr], arg: IterSplitExpr) -> None:
        """Put an iterator of one value where its scale belongs, so that its variable is kept."""
        unit = taken[-1].scale
        if self.divides(unit, arg.scale):
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
            if all(self.divides(arg.scale, other.scale) for other in args):
                return arg
        return args[-1]

    def _with_scale(self, args: list[IterSplitExpr], expected: PrimExpr) -> IterSplitExpr | None:
        for arg in args:
            if self.equal(arg.scale, expected):
                return arg
        return None

    def forward(self, arg: IterSplitExpr) -> tuple[IterSplitExpr, PrimExpr]:
        """A digit that counts down, as one that counts up, and what that adds to the base."""
        zero = constant(0, arg.dtype)
        if isinstance(arg.scale, IntImm):
            if arg.scale.value > 0:
                return arg, zero
        elif not self.analyzer.can_prove(arg.scale < 0):
            return arg, zero
        one = constant(1, arg.dtype)
        last = self.plus(arg.extent, constant(-1, arg.dtype))
        down = IterSplitExpr(arg.source, arg.lower_factor, arg.extent, constant(-1, arg.dtype))
        mark = self._mark(IterSumExpr((down,), last), arg.extent)
        scale = self.times(arg.scale, constant(-1, arg.dtype))
        return IterSplitExpr(mark, one, arg.extent, scale), self.times(last, arg.scale)

    def joined(self, args: list[IterSplitExpr]) -> list[IterSplitExpr]:
        """Neighbouring digits of one iterator as one: ``x // 4 * 4 + x % 4  ->  x``."""
        changed = True
        while changed:
            changed = False
            for low in args:
                high = self._next_digit(args, low)
                if high is not None:
                    extent = self.times(low.extent, high.extent)
                    wide = IterSplitExpr(low.source, low.lower_factor, extent, low.scale)
                    args = [arg for arg in args if arg is not low and arg is not high]
                    args.append(wide)
                    changed = True
                    break
        return args

    def _next_digit(self, args: list[IterSplitExpr], low: IterSplitExpr) -> IterSplitExpr | None:
        for high in args:
            if high is low or self.origin(high.source) is not self.origin(low.source):
                continue
            if self.equal(high.lower_factor, self.times(low.lower_factor, low.extent)):
                if self.equal(high.scale, self.times(low.scale, low.extent)):
                    return high
        return None

    def spelled(
        self, taken: list[IterSplitExpr], unit: PrimExpr, reach: PrimExpr | None
    ) -> IterSplitExpr:
        """The iterator that some digits spell, the highest first, as one digit; ``reach``: its
        extent, if they overlap."""
        if len(taken) == 1:
            return taken[0]
        parts = [self.rescaled(arg, self.quotient(arg.scale, unit)) for arg in taken]
        extent = parts[0].extent
        for part in parts[1:]:
            extent = self.times(extent, part.extent)
        if reach is not None:
            extent = reach
        mark = self._mark(IterSumExpr(parts, constant(0, unit.dtype)), extent)
        return IterSplitExpr(mark, constant(1, unit.dtype), extent, unit)

    def rescaled(self, arg: IterSplitExpr, scale: PrimExpr) -> IterSplitExpr:
        """The same digit with another scale."""
        return IterSplitExpr(arg.source, arg.lower_factor, arg.extent, scale)

    def with_caps(
        self, args: list[IterSplitExpr], base: PrimExpr
    ) -> tuple[list[IterSplitExpr], PrimExpr]:
        """What predicates bound, in the place of the digits that it consists of."""
        changed = bool(self.caps)
        while changed:
            changed = False
            for cap in self.caps.values():
                found = self._match_cap(cap, args)
                if found is not None:
                    members, scale = found
                    args = [arg for arg in args if all(arg is not member for member in members)]
                    mark = cap.mark
                    args.append(IterSplitExpr(mark, constant(1, scale.dtype), mark.extent, scale))
                    base = self.plus(base, self.times(cap.low, scale))
                    changed = True
                    break
        return args, base

    def _match_cap(
        self, cap: Cap, args: list[IterSplitExpr]
    ) -> tuple[list[IterSplitExpr], PrimExpr] | None:
        """The digits that a cap is about, and their common scale."""
        members: list[IterSplitExpr] = []
        scale: PrimExpr | None = None
        for part in cap.parts:
            key = self.split_key(part)
            for arg in args:
                if self.split_key(arg) == key:
                    break
            else:
                return None
            if not self.divides(part.scale, arg.scale):
                return None
            factor = self.quotient(arg.scale, part.scale)
            if scale is not None and not self.equal(scale, factor):
                return None
            scale = factor
            members.append(arg)
        return None if scale is None else (members, scale)

    def _mark(self, source: IterSumExpr, extent: PrimExpr) -> IterMark:
        key = (
            "sum",
            self.sum_key(list(source.args)),
            self.number(source.base),
            self.number(extent),
        )
        mark = self._marks.get(key)
        if mark is None:
            mark = self._marks[key] = self._named(IterMark(source, extent), key)
        return mark

    # The check

    def check(self, indices: list[IterSumExpr], level: IterMapLevel) -> None:
        """Whether the digits in use are independent, and complete if ``level`` asks for it."""
        used: dict[int, list[IterSplitExpr]] = {}
        marks: dict[int, IterMark] = {}
        queue = [arg for index in indices for arg in index.args]
        while queue:
            arg = queue.pop()
            mark = self.origin(arg.source)
            if id(mark) not in used:
                used[id(mark)], marks[id(mark)] = [], mark
                if isinstance(mark.source, IterSumExpr):
                    queue.extend(mark.source.args)
            used[id(mark)].append(arg)
        for key, splits in used.items():
            self._check_digits(marks[key], splits, level)
        for cap in self.caps.values():
            mark = cap.mark
            if id(mark) not in used and (
                level is IterMapLevel.Bijective or self._touches(mark, used)
            ):
                raise NotAffine("a predicate bounds a sum of which the indices use parts only")
        if level is IterMapLevel.Bijective:
            for mark in self.inputs:
                if id(mark) not in used:
                    raise NotAffine(f"the iterator {mark.source} is not used")

    def _touches(self, mark: IterMark, used: dict[int, list[IterSplitExpr]]) -> bool:
        source = mark.source
        if not isinstance(source, IterSumExpr):
            return id(mark) in used
        for arg in source.args:
            inner = self.origin(arg.source)
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
            expected = self.times(
                op.cast(expected.dtype, found.lower_factor), op.cast(expected.dtype, found.extent)
            )
        if level is IterMapLevel.Bijective and not self.equal(expected, mark.extent):
            raise NotAffine(f"a part of {expression_of(mark)} is not used")

    def _digit_at(self, splits: list[IterSplitExpr], lower: PrimExpr) -> IterSplitExpr | None:
        for split in splits:
            if self.equal(op.cast(lower.dtype, split.lower_factor), lower):
                return split
        return None

    def _digit_above(self, splits: list[IterSplitExpr], lower: PrimExpr) -> IterSplitExpr | None:
        """The lowest digit that starts above ``lower``, with a gap between."""
        candidates = [
            split
            for split in splits
            if self.divides(lower, op.cast(lower.dtype, split.lower_factor))
        ]
        for split in candidates:
            if all(self.divides(split.lower_factor, other.lower_factor) for other in splits):
                return split
        return None


def _scale_value(arg: IterSplitExpr) -> int:
    return arg.scale.value  # type: ignore[attr-defined]
