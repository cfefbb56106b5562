"""Divides bindings of iterators into a part over outer loops and one over inner loops.

    subspace_divide([i * 8 + j], {i: Range(4), j: Range(8)}, [j])     # [[i, j], predicates]

Digits of a fused iterator that mixes both are cut where the inner part ends: with ``j`` in [0, 6),
``(i * 6 + j) // 3`` is ``i * 2 + j // 3``, and ``(i * 6 + j) % 3`` is ``j % 3``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.iter_affine_map import (
    IterMapLevel,
    analyzer_of,
    domains_of,
    find_iter_map,
    is_whole,
)
from tilesmith.arith.iter_nodes import IterMark, IterSplitExpr, IterSumExpr, expression_of
from tilesmith.ir import PrimExpr, Range, Sub, Var, const, convert
from tilesmith.ir import operators as op
from tilesmith.ir.queries import conjuncts, variables
from tilesmith.support.recursion import deep_recursion

__all__ = ["subspace_divide"]


@deep_recursion
def subspace_divide(
    bindings: Sequence[Any],
    input_iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: Any = True,
    check_level: Any = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[list[IterMark]]:
    """Divides each binding into an outer part and a part over ``sub_iters``: ``binding = outer *
    extent + inner``.

    Gives a pair of iterators (outer, inner) for each binding; the last pair holds the predicates
    of the outer and of the inner space as extents. An empty list if the bindings cannot be divided.
    """
    domains = domains_of(input_iters)
    condition = convert(predicate)
    found = find_iter_map(bindings, domains, condition, check_level, simplify_trivial_iterators)
    if not found.indices:
        return []
    divider = _Divider(set(sub_iters))
    pairs: list[list[IterMark]] = []
    for form in found.indices:
        pair = divider.divide(form)
        if pair is None:
            return []
        pairs.append(pair)
    if not divider.note_predicate(condition, domains):
        return []
    true = const(True, "bool")
    outer = op.all_of(*divider.outer_conditions) if divider.outer_conditions else true
    inner = op.all_of(*divider.inner_conditions) if divider.inner_conditions else true
    nothing = IterSumExpr((), const(0, "int32"))
    return [*pairs, [IterMark(nothing, outer), IterMark(nothing, inner)]]


def _unwrapped(form: IterSumExpr, arg: IterSplitExpr) -> Any:
    """Reduces a sum of one digit to that digit, or to the sum that the digit spans entirely."""
    if not op.is_const(form.base, 0):
        return form
    source = arg.source.source
    if isinstance(source, IterSumExpr) and op.is_const(arg.scale, 1) and is_whole(arg):
        return source
    return arg


class _Parts(NamedTuple):
    """The outer digits of a mixed sum, divided by the extent of its inner part."""

    outer: list[IterSplitExpr]
    size: PrimExpr  # the extent of the outer part
    span: PrimExpr  # and of the inner one


class _Divider:
    """Divides digits into outer and inner ones."""

    def __init__(self, inner: set[Var]) -> None:
        self.inner = inner
        self.outer_conditions: list[PrimExpr] = []
        self.inner_conditions: list[PrimExpr] = []
        self.analyzer = Analyzer()
        # by the ids of iterators, which the bindings, and the halves here, keep alive
        self.halves: dict[int, tuple[IterMark, IterMark, PrimExpr] | None] = {}
        self.bounded: list[IterMark] = []  # iterators whose conditions are noted

    def side(self, arg: IterSplitExpr) -> str:
        """Returns "inner", "outer", or "both" for a digit that mixes them."""
        source: Any = arg.source.source
        if isinstance(source, IterSumExpr):
            sides = {self.side(part) for part in source.args}
            return sides.pop() if len(sides) == 1 else "both"
        if isinstance(source, Sub):
            source = source.a
        return "inner" if source in self.inner else "outer"

    def divide(self, form: IterSumExpr) -> list[IterMark] | None:
        """Returns (outer, inner) of one binding."""
        one, zero = const(1, form.dtype), const(0, form.dtype)
        empty = IterMark(IterSumExpr((), zero), one)
        if not form.args:
            return [IterMark(form, one), empty]
        arg = form.args[0]
        side = self.side(arg)
        if side == "both":
            return self._mixed(form, arg, empty)
        mark = IterMark(_unwrapped(form, arg), self._span(arg))
        self._note_extents(arg, side)
        return [empty, mark] if side == "inner" else [mark, empty]

    def _span(self, arg: IterSplitExpr) -> PrimExpr:
        """Returns the number of values from the least one to where the digit would begin again."""
        if op.is_const(arg.scale, 1):
            return arg.extent
        return self.analyzer.simplify(arg.extent * arg.scale)

    def _note_extents(self, arg: IterSplitExpr, side: str) -> None:
        """Adds the predicates of sums with capped extents, of the iterator of a digit and of those
        that it consists of, to the conditions of its side.
        """
        mark = arg.source
        source = mark.source
        if not isinstance(source, IterSumExpr) or any(mark is known for known in self.bounded):
            return
        self.bounded.append(mark)
        if source.args:
            size = source.args[0].extent
            for part in source.args[1:]:
                size = self.analyzer.simplify(size * part.extent)
            if not self.analyzer.can_prove_equal(size, mark.extent):
                into = self.inner_conditions if side == "inner" else self.outer_conditions
                value = expression_of(source, self.analyzer)
                into.append(value < mark.extent)
                if not op.is_const(source.base, 0):
                    into.append(value >= 0)
        for part in source.args:
            self._note_extents(part, side)

    def note_predicate(self, predicate: PrimExpr, domains: dict[Var, Range]) -> bool:
        """Adds what a predicate says of iterators of one side alone and the extents do not tell:
        those that it narrows have no sum of their own. Returns whether nothing is left that only
        both sides together can say.
        """
        analyzer = analyzer_of(domains)
        mixed: list[PrimExpr] = []
        for part in conjuncts(predicate, through_likely=True):
            used = {var for var in variables(part) if var in domains}
            if not used:
                continue
            if used & self.inner and used - self.inner:
                mixed.append(part)
                continue
            into = self.inner_conditions if used <= self.inner else self.outer_conditions
            if not self._implied(analyzer, into, part):
                into.append(part)
        known = [*self.outer_conditions, *self.inner_conditions]
        return all(self._implied(analyzer, known, part) for part in mixed)

    @staticmethod
    def _implied(analyzer: Analyzer, known: Sequence[PrimExpr], part: PrimExpr) -> bool:
        with analyzer.constraint_scope(op.all_of(*known) if known else const(True, "bool")):
            return analyzer.can_prove(part)

    def _mixed(
        self, form: IterSumExpr, arg: IterSplitExpr, empty: IterMark
    ) -> list[IterMark] | None:
        source = arg.source.source
        if not op.is_const(arg.scale, 1) or not isinstance(source, IterSumExpr):
            return None
        pieces = self._pieces(source.args) if is_whole(arg) else self._pieces([arg])
        if pieces is None:
            return None
        outer, inner = pieces
        for side, parts in (("outer", outer), ("inner", inner)):
            for part in parts:
                self._note_extents(part, side)
        if not outer or not inner:
            mark = IterMark(IterSumExpr((*outer, *inner), form.base), self._span(arg))
            return [mark, empty] if outer else [empty, mark]
        divided = self._apart(outer, inner, arg.extent)
        if divided is None or not self._divides(divided.span, form.base):
            return None
        base = self.analyzer.simplify(op.floordiv(form.base, divided.span))
        high = IterMark(IterSumExpr(divided.outer, base), divided.size)
        return [high, IterMark(IterSumExpr(inner, const(0, form.dtype)), divided.span)]

    def _divides(self, divisor: PrimExpr, value: PrimExpr) -> bool:
        return self.analyzer.can_prove_equal(op.floormod(value, divisor), 0)

    def _apart(
        self, outer: Sequence[IterSplitExpr], inner: Sequence[IterSplitExpr], extent: PrimExpr
    ) -> _Parts | None:
        """Returns a sum of outer digits above inner ones, of an extent, as ``outer * span + inner``
        with ``inner`` in [0, span); None if it is not one, or if a predicate across the two caps
        its extent: neither side can say that alone.
        """
        simplify = self.analyzer.simplify
        span = simplify(inner[0].extent * inner[0].scale)
        if not all(self._divides(span, part.scale) for part in outer):
            return None
        scaled = [
            IterSplitExpr(
                part.source, part.lower_factor, part.extent, simplify(op.floordiv(part.scale, span))
            )
            for part in outer
        ]
        size = simplify(scaled[0].extent * scaled[0].scale)
        if not self.analyzer.can_prove_equal(size * span, extent):
            return None
        return _Parts(scaled, size, span)

    def _pieces(
        self, args: Sequence[IterSplitExpr]
    ) -> tuple[list[IterSplitExpr], list[IterSplitExpr]] | None:
        """Returns digits as outer ones above inner ones; None if they are in another order."""
        outer: list[IterSplitExpr] = []
        inner: list[IterSplitExpr] = []
        for arg in args:
            side = self.side(arg)
            if side != "both":
                found = ([arg], []) if side == "outer" else ([], [arg])
            else:
                cut = self._cut(arg)
                if cut is None:
                    return None
                found = cut
            if found[0] and inner:
                return None
            outer += found[0]
            inner += found[1]
        return outer, inner

    def _cut(self, arg: IterSplitExpr) -> tuple[list[IterSplitExpr], list[IterSplitExpr]] | None:
        """Cuts a digit of a mixed iterator in two: with ``x`` in [0, 6), ``(o * 6 + x) // 3`` is
        ``o * 2 + x // 3``, and ``(o * 6 + x) % 3`` is ``x % 3``.
        """
        halves = self._halves(arg.source)
        if halves is None:
            return None
        outer, inner, span = halves
        simplify = self.analyzer.simplify
        lower, extent, scale = arg.lower_factor, arg.extent, arg.scale
        top = simplify(arg.end())
        if self._divides(span, lower):
            lower = simplify(op.floordiv(lower, span))
            return [IterSplitExpr(outer, lower, extent, scale)], []
        if self._divides(top, span):
            return [], [IterSplitExpr(inner, lower, extent, scale)]
        if not (self._divides(lower, span) and self._divides(span, top)):
            return None
        width = simplify(op.cast(arg.dtype, op.floordiv(span, lower)))
        turns = simplify(op.cast(arg.dtype, op.floordiv(top, span)))
        high = IterSplitExpr(outer, 1, turns, simplify(scale * width))
        return [high], [IterSplitExpr(inner, lower, width, scale)]

    def _halves(self, mark: IterMark) -> tuple[IterMark, IterMark, PrimExpr] | None:
        """Returns the outer and the inner iterator that a mixed one consists of, and the extent of
        the inner one; None if a predicate caps it, or their digits are interleaved.
        """
        if id(mark) not in self.halves:
            self.halves[id(mark)] = self._new_halves(mark)
        return self.halves[id(mark)]

    def _new_halves(self, mark: IterMark) -> tuple[IterMark, IterMark, PrimExpr] | None:
        source = mark.source
        if not isinstance(source, IterSumExpr) or not op.is_const(source.base, 0):
            return None
        pieces = self._pieces(source.args)
        if pieces is None or not pieces[0] or not pieces[1]:
            return None
        outer, inner = pieces
        parts = self._apart(outer, inner, mark.extent)
        if parts is None:
            return None
        zero = const(0, source.dtype)
        high = IterMark(IterSumExpr(parts.outer, zero), parts.size)
        return high, IterMark(IterSumExpr(inner, zero), parts.span), parts.span
