"""From index expressions to sums of digits of iterators, and the check that nothing is hit twice.

The heart is `IterRewriter.fuse`: the sum ``i * 16 + j`` over ``j`` in [0, 16) is one iterator again, for each
scale is the scale of the digit below it times that digit's extent. Divisions then take digits of
the fused iterator. Predicates (``i * 4 + j < 10``) cap the extent of the sum that they talk about.
"""

from __future__ import annotations

from math import lcm
from typing import Any, NamedTuple

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.iter_nodes import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    expression_of,
)
from tilesmith.ir import (
    EQ, GE, GT, LE, LT, Add, And, Call, Cast, CompareOp, FloorDiv, FloorMod, IntImm, Mul, Or, PrimExpr, Range, Sub, Var,
    const, post_order_visit,
)  # fmt: skip
from tilesmith.ir import operators as op


class NotAffine(Exception):
    """The expression is no sum of digits of iterators; says why."""


class PaddingChanged(Exception):
    """Another divisor turned up for a padded iterator: start again with what is known now."""


def value_of(expr: PrimExpr) -> int | None:
    """The value of an integer constant."""
    return expr.value if isinstance(expr, IntImm) else None


class Cap(NamedTuple):
    """What a predicate says of a sum of digits: it lies in [low, low + extent of the mark)."""

    parts: list[IterSplitExpr]
    low: PrimExpr
    mark: IterMark


class IterRewriter:
    """Rewrites index expressions over some iterators."""

    def __init__(self, analyzer: Analyzer, allow_padding: bool, paddings: dict[Any, int]) -> None:
        self.analyzer = analyzer
        self.allow_padding = allow_padding
        self.paddings = paddings  # (digit, offset) -> what the padded extent is a multiple of
        self.padded: list[
            tuple[IterMark, PrimExpr, PrimExpr]
        ] = []  # mark, left, end of what is real
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
        return ("expr", self.analyzer._engine.number(self.analyzer.simplify(expr)))

    def times(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """``a * b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return const(a.value * b.value, a.dtype)
        return self.analyzer.simplify(a * b)

    def plus(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """``a + b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return const(a.value + b.value, a.dtype)
        return self.analyzer.simplify(a + b)

    def quotient(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """``a // b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return const(a.value // b.value, a.dtype)
        return self.analyzer.simplify(op.floordiv(a, b))

    def remainder(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """``a % b`` simplified."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return const(a.value % b.value, a.dtype)
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
        mark = self._named(IterMark(source, extent), var)
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

    # From expressions to sums

    def visit(self, expr: PrimExpr) -> IterSumExpr:
        """The sum of digits that an expression is; raises NotAffine."""
        kind = expr.__class__
        if isinstance(expr, IterSumExpr):
            return expr
        if isinstance(expr, Var):
            found = self.values.get(expr)
            return IterSumExpr((), expr) if found is None else found
        if kind is Add:
            return self.add(self.visit(expr.a), self.visit(expr.b), 1)
        if kind is Sub:
            return self.add(self.visit(expr.a), self.visit(expr.b), -1)
        if kind is Mul:
            return self.multiply(self.visit(expr.a), self.visit(expr.b), expr)
        if kind is FloorDiv or kind is FloorMod:
            a, b = self.visit(expr.a), self.visit(expr.b)
            if b.args:
                raise NotAffine(f"{expr} divides by an iterator")
            return self.floordiv(a, b.base) if kind is FloorDiv else self.floormod(a, b.base)
        if not self.uses(expr):
            return IterSumExpr((), expr)
        if kind is Cast and expr.dtype.is_int:
            return self.cast(self.visit(expr.value), expr)
        if kind is Call and getattr(expr.op, "name", "") == "tir.likely":
            return self.visit(expr.args[0])
        raise NotAffine(f"{expr} is no sum of iterators")

    def cast(self, value: IterSumExpr, expr: Cast) -> IterSumExpr:
        """Digits keep their dtype of old; sizes of the result have the new one."""
        if value.dtype is expr.dtype:
            return value
        if expr.dtype.bits < value.dtype.bits and not self._fits(expr):
            raise NotAffine(f"{expr} may cut bits off")
        cast = [self._cast_split(arg, expr.dtype) for arg in value.args]
        return IterSumExpr(cast, op.cast(expr.dtype, value.base))

    def _fits(self, expr: Cast) -> bool:
        bound = self.analyzer.const_int_bound(expr.value)
        return expr.dtype.min_value <= bound.min_value and bound.max_value <= expr.dtype.max_value

    def _cast_split(self, arg: IterSplitExpr, dtype: Any) -> IterSplitExpr:
        key = ("cast", dtype, id(arg.source))  # the copy keeps its origin alive
        mark = self._marks.get(key)
        if mark is None:
            source = arg.source.source
            if isinstance(source, IterSumExpr):
                parts = [self._cast_split(part, dtype) for part in source.args]
                source = IterSumExpr(parts, op.cast(dtype, source.base))
            else:
                source = Cast(dtype, source)
            mark = IterMark(source, op.cast(dtype, arg.source.extent))
            self._marks[key] = mark
            self._marks[id(mark), "origin"] = arg.source
        sizes = [op.cast(dtype, size) for size in (arg.lower_factor, arg.extent, arg.scale)]
        return IterSplitExpr(mark, *sizes)

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
            scale = arg.scale if sign == 1 else self.times(arg.scale, const(-1, arg.scale.dtype))
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
            return IterSumExpr((), const(0, a.dtype))
        args = [
            IterSplitExpr(arg.source, arg.lower_factor, arg.extent, self.times(arg.scale, factor))
            for arg in a.args
        ]
        return IterSumExpr(args, self.times(a.base, factor))

    # Fusing

    def fuse(self, form: IterSumExpr) -> IterSumExpr:
        """The sum as one digit (or none) plus a base; raises NotAffine where scales leave gaps or overlap."""
        base = form.base
        args: list[IterSplitExpr] = []
        for arg in self.joined(list(form.args)):
            upward, shift = self.forward(arg)
            args.append(upward)
            base = self.plus(base, shift)
        args, base = self.with_caps(args, base)
        left = [arg for arg in args if not op.is_const(arg.extent, 1)]
        if not left:
            return IterSumExpr((), base)
        start = self._smallest(left)
        left.remove(start)
        taken, unit = [start], start.scale
        expected = self.times(unit, start.extent)
        while left:
            following = self._with_scale(left, expected)
            if following is None:
                raise NotAffine(self._gap(left, expected))
            left.remove(following)
            taken.insert(0, following)
            expected = self.times(expected, following.extent)
        return IterSumExpr((self.spelled(taken, unit),), base)

    def _gap(self, left: list[IterSplitExpr], expected: PrimExpr) -> str:
        scales = ", ".join([str(arg.scale) for arg in left])
        return f"scales {scales} do not continue where {expected} was expected"

    def _smallest(self, args: list[IterSplitExpr]) -> IterSplitExpr:
        constant = [arg for arg in args if isinstance(arg.scale, IntImm)]
        if constant:
            return min(constant, key=_scale_value)
        for arg in args:  # symbolic: the one whose scale divides all others
            if all([self.divides(arg.scale, other.scale) for other in args]):
                return arg
        return args[-1]

    def _with_scale(self, args: list[IterSplitExpr], expected: PrimExpr) -> IterSplitExpr | None:
        for arg in args:
            if self.equal(arg.scale, expected):
                return arg
        return None

    def forward(self, arg: IterSplitExpr) -> tuple[IterSplitExpr, PrimExpr]:
        """A digit that counts down, as one that counts up, and what that adds to the base."""
        zero = const(0, arg.dtype)
        if isinstance(arg.scale, IntImm):
            if arg.scale.value > 0:
                return arg, zero
        elif not self.analyzer.can_prove(arg.scale < 0):
            return arg, zero
        one = const(1, arg.dtype)
        last = self.plus(arg.extent, const(-1, arg.dtype))
        down = IterSplitExpr(arg.source, arg.lower_factor, arg.extent, const(-1, arg.dtype))
        mark = self._mark(IterSumExpr((down,), last), arg.extent)
        scale = self.times(arg.scale, const(-1, arg.dtype))
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

    def spelled(self, taken: list[IterSplitExpr], unit: PrimExpr) -> IterSplitExpr:
        """The iterator that some digits spell, the highest first, as one digit."""
        if len(taken) == 1:
            return taken[0]
        parts = [self.rescaled(arg, self.quotient(arg.scale, unit)) for arg in taken]
        extent = parts[0].extent
        for part in parts[1:]:
            extent = self.times(extent, part.extent)
        mark = self._mark(IterSumExpr(parts, const(0, unit.dtype)), extent)
        return IterSplitExpr(mark, const(1, unit.dtype), extent, unit)

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
                    args = [arg for arg in args if all([arg is not member for member in members])]
                    mark = cap.mark
                    args.append(IterSplitExpr(mark, const(1, scale.dtype), mark.extent, scale))
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

    # Division

    def floordiv(self, form: IterSumExpr, divisor: PrimExpr) -> IterSumExpr:
        """``form // divisor``."""
        found = self._divided(form, divisor)
        return found[0]

    def floormod(self, form: IterSumExpr, divisor: PrimExpr) -> IterSumExpr:
        """``form % divisor``."""
        return self._divided(form, divisor)[1]

    def _divided(self, form: IterSumExpr, divisor: PrimExpr) -> tuple[IterSumExpr, IterSumExpr]:
        if not self._is_size(divisor):
            raise NotAffine(f"divisor {divisor} may be negative or zero")
        whole, rest = self._multiples(form, divisor)
        if not rest.args:
            quotient = IterSumExpr(
                whole.args, self.plus(whole.base, self.quotient(rest.base, divisor))
            )
            return quotient, IterSumExpr((), self.remainder(rest.base, divisor))
        try:
            fused = self.fuse(form)
            whole = IterSumExpr((), const(0, form.dtype))
        except NotAffine:
            fused = self.fuse(rest)
        if not fused.args:
            quotient, digit = (
                self.quotient(fused.base, divisor),
                self.remainder(fused.base, divisor),
            )
            return self.add(whole, IterSumExpr((), quotient), 1), IterSumExpr((), digit)
        quotient_sum, digit_sum = self._split_digit(fused, divisor)
        return self.add(whole, quotient_sum, 1), digit_sum

    def _is_size(self, divisor: PrimExpr) -> bool:
        """Whether a divisor is positive; what divides the extent of an iterator counts as a size."""
        if self.analyzer.const_int_bound(divisor).min_value > 0:
            return True
        if self.analyzer.can_prove(divisor > 0):
            return True
        if isinstance(divisor, IntImm):
            return False
        return any([self.divides(divisor, mark.extent) for mark in self.inputs])

    def _multiples(self, form: IterSumExpr, divisor: PrimExpr) -> tuple[IterSumExpr, IterSumExpr]:
        """``form == whole * divisor + rest``, by scales."""
        whole, rest = [], []
        for arg in form.args:
            if self.divides(divisor, arg.scale):
                scale = self.quotient(arg.scale, divisor)
                whole.append(IterSplitExpr(arg.source, arg.lower_factor, arg.extent, scale))
            else:
                rest.append(arg)
        return IterSumExpr(whole, const(0, form.dtype)), IterSumExpr(rest, form.base)

    def _split_digit(self, form: IterSumExpr, divisor: PrimExpr) -> tuple[IterSumExpr, IterSumExpr]:
        """Quotient and remainder of one scaled digit plus a base."""
        digit, base = form.args[0], form.base
        zero = const(0, form.dtype)
        if self.divides(divisor, digit.scale):
            scale = self.quotient(digit.scale, divisor)
            quotient = IterSplitExpr(digit.source, digit.lower_factor, digit.extent, scale)
            return (
                IterSumExpr((quotient,), self.quotient(base, divisor)),
                IterSumExpr((), self.remainder(base, divisor)),
            )
        if not self.divides(digit.scale, divisor):
            raise NotAffine(f"scale {digit.scale} and divisor {divisor} have no common measure")
        width = self.quotient(divisor, digit.scale)
        offset, residue = self.quotient(base, digit.scale), self.remainder(base, digit.scale)
        plain = IterSplitExpr(digit.source, digit.lower_factor, digit.extent)
        if self._within(plain, offset, width):
            remainder = IterSumExpr((plain,), offset)
            return IterSumExpr((), zero), self._restored(remainder, digit.scale, residue)
        turns, rest = self.quotient(offset, width), self.remainder(offset, width)
        if not (op.is_const(rest, 0) and self.divides(width, plain.extent)):
            plain, rest = self._pad(plain, offset, width)
            turns = self.quotient(rest, width)
            if not self.divides(width, rest):
                raise NotAffine(f"offset {offset} does not fit divisor {width}")
        lower = self.times(plain.lower_factor, width)
        high = IterSplitExpr(plain.source, lower, self.quotient(plain.extent, width))
        low = IterSplitExpr(plain.source, plain.lower_factor, width)
        quotient_sum = IterSumExpr((high,), turns)
        return quotient_sum, self._restored(IterSumExpr((low,), zero), digit.scale, residue)

    def _restored(self, form: IterSumExpr, scale: PrimExpr, residue: PrimExpr) -> IterSumExpr:
        scaled = self.scaled(form, scale)
        return IterSumExpr(scaled.args, self.plus(scaled.base, residue))

    def _within(self, digit: IterSplitExpr, offset: PrimExpr, width: PrimExpr) -> bool:
        """Whether ``digit + offset`` stays in [0, width)."""
        if (
            isinstance(width, IntImm)
            and isinstance(digit.extent, IntImm)
            and isinstance(offset, IntImm)
        ):
            return 0 <= offset.value and digit.extent.value + offset.value <= width.value
        fits = self.analyzer.can_prove(digit.extent + offset <= width)
        return fits and self.analyzer.can_prove(offset >= 0)

    def _pad(
        self, digit: IterSplitExpr, offset: PrimExpr, width: PrimExpr
    ) -> tuple[IterSplitExpr, PrimExpr]:
        """``digit + offset`` as a wider iterator that divides evenly, plus what is left of the offset."""
        if not self.allow_padding:
            raise NotAffine(f"{width} does not divide the extent {digit.extent}")
        extent, start, unit = value_of(digit.extent), value_of(offset), value_of(width)
        if extent is None or start is None or unit is None:
            raise NotAffine(f"{width} is not known to divide the extent {digit.extent}")
        key = (self.split_key(digit), start)
        common = lcm(unit, self.paddings.get(key, 1))
        if self.paddings.get(key) != common:
            self.paddings[key] = common
            raise PaddingChanged
        left = start % common
        total = -(-(extent + left) // common) * common
        dtype = digit.dtype
        source = IterSumExpr((digit,), const(left, dtype))
        mark = self._mark(source, const(total, dtype))
        end = const(left + extent, dtype)
        if all([known is not mark for known, _, _ in self.padded]):
            self.padded.append((mark, const(left, dtype), end))
        return IterSplitExpr(mark), const(start - left, dtype)

    # Predicates

    def add_predicate(self, predicate: PrimExpr) -> None:
        """Let a condition over the iterators cap the extents of what it talks about."""
        bounds = [self._bound(part) for part in _conjuncts(predicate)]
        # what is about fewer iterators first: a sum that holds it then takes its capped form
        for form, low, high in sorted(bounds, key=_number_of_args):
            self._cap(form, low, high)

    def _bound(self, part: PrimExpr) -> tuple[IterSumExpr, PrimExpr | None, PrimExpr | None]:
        """A comparison as (sum, smallest, largest value)."""
        if not isinstance(part, CompareOp) or not isinstance(part, (LT, LE, GT, GE, EQ)):
            raise NotAffine(f"the predicate {part} is no bound of a sum")
        kind, a, b = type(part), part.a, part.b
        if self.uses(b) and not self.uses(a):
            kind, a, b = _MIRRORED.get(kind, kind), b, a
        elif self.uses(b):
            a, b = a - b, const(0, b.dtype)
        form = self.visit(a)
        limit = self.analyzer.simplify(b - form.base)
        form = IterSumExpr(form.args, const(0, form.dtype))
        if kind is EQ:
            return form, limit, limit
        if kind in (LT, LE):
            return form, None, (limit if kind is LE else self.plus(limit, const(-1, limit.dtype)))
        return form, (limit if kind is GE else self.plus(limit, const(1, limit.dtype))), None

    def _cap(self, form: IterSumExpr, low: PrimExpr | None, high: PrimExpr | None) -> None:
        if not form.args:
            raise NotAffine("a predicate without iterators")
        fused = self.fuse(form)
        if not fused.args:  # one point is left of it
            inside = [low is None or self.analyzer.can_prove(low <= fused.base)]
            inside.append(high is None or self.analyzer.can_prove(fused.base <= high))
            if not all(inside):
                raise NotAffine("the predicate never holds")
            return
        digit, base = fused.args[0], fused.base
        smallest: PrimExpr = const(0, digit.dtype)
        largest = self.plus(digit.extent, const(-1, digit.dtype))
        if high is not None:
            bound = self.quotient(
                self.plus(high, self.times(base, const(-1, base.dtype))), digit.scale
            )
            largest = self.analyzer.simplify(op.minimum(largest, bound))
        if low is not None:
            above = self.plus(low, self.times(base, const(-1, base.dtype)))
            above = self.plus(above, self.plus(digit.scale, const(-1, base.dtype)))
            smallest = self.analyzer.simplify(
                op.maximum(smallest, self.quotient(above, digit.scale))
            )
        size = self.analyzer.simplify(largest - smallest + 1)
        if self.equal(size, digit.extent) and op.is_const(smallest, 0):
            return
        for key, known in list(self.caps.items()):
            if known.mark is digit.source:  # a second bound of what is capped already
                self.caps[key] = self._made_cap(known.parts, self.plus(known.low, smallest), size)
                return
        source = digit.source.source
        if self._is_whole(digit) and isinstance(source, IterSumExpr) and len(source.args) > 1:
            parts = list(source.args)
        else:
            parts = [self.rescaled(digit, const(1, digit.dtype))]
        parts, smallest, size = self._without_low_parts(parts, smallest, size)
        self.caps[self.sum_key(parts)] = self._made_cap(parts, smallest, size)

    def _without_low_parts(
        self, parts: list[IterSplitExpr], low: PrimExpr, size: PrimExpr
    ) -> tuple[list[IterSplitExpr], PrimExpr, PrimExpr]:
        """``i * 8 + j < 40`` says no more than ``i < 5``."""
        while len(parts) > 1:
            width = parts[-1].extent
            if not (self.divides(width, low) and self.divides(width, size)):
                break
            low, size = self.quotient(low, width), self.quotient(size, width)
            parts = [self.rescaled(part, self.quotient(part.scale, width)) for part in parts[:-1]]
        return parts, low, size

    def _made_cap(self, parts: list[IterSplitExpr], low: PrimExpr, size: PrimExpr) -> Cap:
        base = self.times(low, const(-1, low.dtype))
        mark = IterMark(IterSumExpr(parts, base), size)
        self._named(mark, ("cap", self.sum_key(parts), self.number(low), self.number(size)))
        return Cap(parts, low, mark)

    def _is_whole(self, digit: IterSplitExpr) -> bool:
        return op.is_const(digit.lower_factor, 1) and self.equal(digit.extent, digit.source.extent)

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
        expected: PrimExpr = const(1, mark.extent.dtype)
        while left:
            found = self._digit_at(left, expected)
            if found is None and level is not IterMapLevel.Bijective:
                found = self._digit_above(left, expected)
            if found is None:
                raise NotAffine(f"digits of {expression_of(mark)} overlap or leave a gap")
            left.remove(found)
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
            if all([self.divides(split.lower_factor, other.lower_factor) for other in splits]):
                return split
        return None


def _scale_value(arg: IterSplitExpr) -> int:
    return arg.scale.value  # type: ignore[attr-defined]


def _number_of_args(item: tuple[IterSumExpr, Any, Any]) -> int:
    return len(item[0].args)


def _conjuncts(predicate: PrimExpr) -> list[PrimExpr]:
    if isinstance(predicate, And):
        return [*_conjuncts(predicate.a), *_conjuncts(predicate.b)]
    if isinstance(predicate, Call) and getattr(predicate.op, "name", "") == "tir.likely":
        return _conjuncts(predicate.args[0])
    if op.is_const(predicate, 1):
        return []
    if isinstance(predicate, Or):
        raise NotAffine(f"the predicate {predicate} is a disjunction")
    return [predicate]


_MIRRORED: dict[type, type] = {LT: GT, GT: LT, LE: GE, GE: LE}
