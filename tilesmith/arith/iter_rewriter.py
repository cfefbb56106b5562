"""From index expressions to sums of digits of iterators.

Divisions take digits of what a sum fuses to: of ``(i * 16 + j) // 4`` with ``j`` in [0, 16), the
number ``i * 16 + j`` without its two lowest bits. A division that does not come out even pads the
iterator.
"""

from __future__ import annotations

from math import lcm
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.iter_nodes import IterMark, IterSplitExpr, IterSumExpr
from tilesmith.arith.iter_sums import Cap, IterSums, NotAffine, PaddingChanged, constant, value_of
from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Call,
    Cast,
    CompareOp,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Or,
    PrimExpr,
    Range,
    Sub,
    Var,
    post_order_visit,
)  # fmt: skip
from tilesmith.ir import operators as op

__all__ = ["IterRewriter", "NotAffine", "PaddingChanged", "narrowed"]


class IterRewriter(IterSums):
    """Rewrites index expressions over some iterators."""

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
            whole = IterSumExpr((), constant(0, form.dtype))
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
        """Whether a divisor is positive; what divides the extent of an iterator, or the bound that
        a predicate sets, counts as a size."""
        if self.analyzer.const_int_bound(divisor).min_value > 0:
            return True
        if self.analyzer.can_prove(divisor > 0):
            return True
        if isinstance(divisor, IntImm):
            return False
        marks = [*self.inputs, *[cap.mark for cap in self.caps.values()]]
        return any(self.divides(divisor, mark.extent) for mark in marks)

    def _multiples(self, form: IterSumExpr, divisor: PrimExpr) -> tuple[IterSumExpr, IterSumExpr]:
        """``form == whole * divisor + rest``, by scales."""
        whole, rest = [], []
        for arg in form.args:
            if self.divides(divisor, arg.scale):
                scale = self.quotient(arg.scale, divisor)
                whole.append(IterSplitExpr(arg.source, arg.lower_factor, arg.extent, scale))
            else:
                rest.append(arg)
        return IterSumExpr(whole, constant(0, form.dtype)), IterSumExpr(rest, form.base)

    def _split_digit(self, form: IterSumExpr, divisor: PrimExpr) -> tuple[IterSumExpr, IterSumExpr]:
        """Quotient and remainder of one scaled digit plus a base."""
        digit, base = form.args[0], form.base
        zero = constant(0, form.dtype)
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
        extent = plain.extent
        if not (op.is_const(rest, 0) and self.divides(width, extent)):
            if self.paddings is None and op.is_const(rest, 0):
                extent = self.plus(extent, self.plus(width, constant(-1, width.dtype)))
            else:
                plain, rest = self._pad(plain, offset, width)
                turns = self.quotient(rest, width)
                extent = plain.extent
                if not self.divides(width, rest):
                    raise NotAffine(f"offset {offset} does not fit divisor {width}")
        lower = self.times(plain.lower_factor, width)
        high = IterSplitExpr(plain.source, lower, self.quotient(extent, width))
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
        """``digit + offset`` as a wider iterator that divides evenly, plus what is left of the
        offset."""
        if not self.allow_padding or self.paddings is None:
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
        source = IterSumExpr((digit,), constant(left, dtype))
        mark = self._mark(source, constant(total, dtype))
        end = constant(left + extent, dtype)
        if all(known is not mark for known, _, _ in self.padded):
            self.padded.append((mark, constant(left, dtype), end))
        return IterSplitExpr(mark), constant(start - left, dtype)

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
            a, b = a - b, constant(0, b.dtype)
        form = self.visit(a)
        limit = self.analyzer.simplify(b - form.base)
        form = IterSumExpr(form.args, constant(0, form.dtype))
        if kind is EQ:
            return form, limit, limit
        if kind in (LT, LE):
            return (
                form,
                None,
                (limit if kind is LE else self.plus(limit, constant(-1, limit.dtype))),
            )
        return form, (limit if kind is GE else self.plus(limit, constant(1, limit.dtype))), None

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
        smallest: PrimExpr = constant(0, digit.dtype)
        largest = self.plus(digit.extent, constant(-1, digit.dtype))
        if high is not None:
            bound = self.quotient(
                self.plus(high, self.times(base, constant(-1, base.dtype))), digit.scale
            )
            largest = self.analyzer.simplify(op.minimum(largest, bound))
        if low is not None:
            above = self.plus(low, self.times(base, constant(-1, base.dtype)))
            above = self.plus(above, self.plus(digit.scale, constant(-1, base.dtype)))
            smallest = self.analyzer.simplify(
                op.maximum(smallest, self.quotient(above, digit.scale))
            )
        size = self.analyzer.simplify(largest - smallest + 1)
        if isinstance(size, IntImm) and size.value <= 0:
            raise NotAffine("the predicate never holds")
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
            parts = [self.rescaled(digit, constant(1, digit.dtype))]
        parts, smallest, size = self._without_low_parts(parts, smallest, size)
        self.caps[self.sum_key(parts)] = self._made_cap(parts, smallest, size)

    def _without_low_parts(
        self, parts: list[IterSplitExpr], low: PrimExpr, size: PrimExpr
    ) -> tuple[list[IterSplitExpr], PrimExpr, PrimExpr]:
        """``i * 8 + j < 40`` says no more than ``i < 5``."""
        while len(parts) > 1:
            width = parts[-1].extent
            if self.overlaps and not self.equal(parts[-2].scale, width):
                break
            if not (self.divides(width, low) and self.divides(width, size)):
                break
            low, size = self.quotient(low, width), self.quotient(size, width)
            parts = [self.rescaled(part, self.quotient(part.scale, width)) for part in parts[:-1]]
        return parts, low, size

    def _made_cap(self, parts: list[IterSplitExpr], low: PrimExpr, size: PrimExpr) -> Cap:
        base = self.times(low, constant(-1, low.dtype))
        mark = IterMark(IterSumExpr(parts, base), size)
        self._named(mark, ("cap", self.sum_key(parts), self.number(low), self.number(size)))
        return Cap(parts, low, mark)

    def _is_whole(self, digit: IterSplitExpr) -> bool:
        return op.is_const(digit.lower_factor, 1) and self.equal(digit.extent, digit.source.extent)


def narrowed(domains: dict[Var, Range], predicate: PrimExpr) -> tuple[dict[Var, Range], PrimExpr]:
    """The domains of iterators that a predicate compares with something else, and what else it
    says."""
    if op.is_const(predicate, 1):
        return domains, predicate
    try:
        parts = _conjuncts(predicate)
    except NotAffine:
        return domains, predicate
    result, left = dict(domains), []
    for part in parts:
        domain = _narrowed_domain(result, part)
        if domain is None:
            left.append(part)
        else:
            result[domain[0]] = domain[1]
    if len(left) == len(parts):
        return domains, predicate
    rest: PrimExpr = constant(True, "bool")
    for part in left:
        rest = op.logical_and(rest, part)
    return result, rest


def _narrowed_domain(domains: dict[Var, Range], part: PrimExpr) -> tuple[Var, Range] | None:
    """Of ``i < n`` the iterator and the values that are left of it."""
    if not isinstance(part, (LT, LE, GT, GE)):
        return None
    kind, a, b = type(part), part.a, part.b
    if b.__class__ is not a.__class__ and isinstance(b, Var) and b in domains:
        kind, a, b = _MIRRORED[kind], b, a
    if not isinstance(a, Var) or a not in domains or any(var in domains for var in _variables(b)):
        return None
    low, extent = domains[a].min, domains[a].extent
    analyzer = Analyzer()
    if kind in (LT, LE):
        most = b - low if kind is LT else b - low + 1
        left, gone = op.minimum(extent, most), constant(0, extent.dtype)
    else:
        gone = op.maximum(constant(0, extent.dtype), b - low if kind is GE else b - low + 1)
        left = extent - gone
    left, low = analyzer.simplify(left), analyzer.simplify(low + gone)
    if op.is_const(left, 1) or analyzer.can_prove(left <= 0):
        return None  # of one value the iterator would be gone
    return a, Range.from_min_extent(low, left)


def _variables(expr: PrimExpr) -> list[Var]:
    found: list[Var] = []

    def note(node: Any) -> None:
        if isinstance(node, Var):
            found.append(node)

    post_order_visit(expr, note)
    return found


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
