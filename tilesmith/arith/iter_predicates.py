"""Applies predicates over iterators: they cap the extents of the sums that they bound."""

from __future__ import annotations

from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.iter_fusing import Fuser
from tilesmith.arith.iter_nodes import IterMark, IterSplitExpr, IterSumExpr
from tilesmith.arith.iter_rewriter import IterRewriter
from tilesmith.arith.iter_sizes import NotAffine, Sizes, constant
from tilesmith.arith.iter_sums import IterSums
from tilesmith.arith.iterators import Cap, Iterators
from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    CompareOp,
    IntImm,
    Or,
    PrimExpr,
    Range,
    Var,
)  # fmt: skip
from tilesmith.ir import operators as op
from tilesmith.ir.queries import conjuncts, variables

__all__ = ["Predicates", "narrowed"]


class Predicates:
    """Caps the extents of iterators by predicates."""

    __slots__ = ("fuser", "iterators", "rewriter", "sizes", "sums")

    def __init__(
        self,
        sizes: Sizes,
        iterators: Iterators,
        sums: IterSums,
        fuser: Fuser,
        rewriter: IterRewriter,
    ) -> None:
        self.sizes = sizes
        self.iterators = iterators
        self.sums = sums
        self.fuser = fuser
        self.rewriter = rewriter

    def add(self, predicate: PrimExpr) -> None:
        """Caps the extents of the sums that a condition bounds."""
        bounds = [self._bound(part) for part in _comparisons(predicate)]
        # what is about fewer iterators first: a sum that holds it then takes its capped form
        for form, low, high in sorted(bounds, key=_number_of_args):
            self._cap(form, low, high)

    def _bound(self, part: PrimExpr) -> tuple[IterSumExpr, PrimExpr | None, PrimExpr | None]:
        """Reads a comparison as (sum, smallest, largest value)."""
        if not isinstance(part, CompareOp) or not isinstance(part, (LT, LE, GT, GE, EQ)):
            raise NotAffine(f"the predicate {part} is not a bound of a sum")
        if not part.a.dtype.is_integer:
            raise NotAffine(f"the predicate {part} compares values of {part.a.dtype}")
        kind, a, b = type(part), part.a, part.b
        if self.iterators.uses(b) and not self.iterators.uses(a):
            kind, a, b = _MIRRORED.get(kind, kind), b, a
        elif self.iterators.uses(b):
            a, b = a - b, constant(0, b.dtype)
        form = self.rewriter.visit(a)
        limit = self.sizes.analyzer.simplify(b - form.base)
        form = IterSumExpr(form.args, constant(0, form.dtype))
        if kind is EQ:
            return form, limit, limit
        if kind in (LT, LE):
            return (
                form,
                None,
                (limit if kind is LE else self.sizes.plus(limit, constant(-1, limit.dtype))),
            )
        return (
            form,
            (limit if kind is GE else self.sizes.plus(limit, constant(1, limit.dtype))),
            None,
        )

    def _cap(self, form: IterSumExpr, low: PrimExpr | None, high: PrimExpr | None) -> None:
        if not form.args:
            return  # it says something of free variables: where it is false, nothing is reached
        fused = self.fuser.fuse(form)
        if not fused.args:  # one point is left of it
            inside = [low is None or self.sizes.analyzer.can_prove(low <= fused.base)]
            inside.append(high is None or self.sizes.analyzer.can_prove(fused.base <= high))
            if not all(inside):
                raise NotAffine("the predicate never holds")
            return
        digit, base = fused.args[0], fused.base
        smallest: PrimExpr = constant(0, digit.dtype)
        largest = self.sizes.plus(digit.extent, constant(-1, digit.dtype))
        if high is not None:
            bound = self.sizes.quotient(
                self.sizes.plus(high, self.sizes.times(base, constant(-1, base.dtype))), digit.scale
            )
            largest = self.sizes.analyzer.simplify(op.minimum(largest, bound))
        if low is not None:
            above = self.sizes.plus(low, self.sizes.times(base, constant(-1, base.dtype)))
            above = self.sizes.plus(above, self.sizes.plus(digit.scale, constant(-1, base.dtype)))
            smallest = self.sizes.analyzer.simplify(
                op.maximum(smallest, self.sizes.quotient(above, digit.scale))
            )
        size = self.sizes.analyzer.simplify(op.moved(largest - smallest, 1))
        if isinstance(size, IntImm) and size.value <= 0:
            raise NotAffine("the predicate never holds")
        if self.sizes.equal(size, digit.extent) and op.is_const(smallest, 0):
            return
        for key, known in list(self.iterators.caps.items()):
            if known.mark is digit.source:  # a second bound of what is capped already
                dtype = known.low.dtype
                smallest, size = self.sizes.cast(smallest, dtype), self.sizes.cast(size, dtype)
                self.iterators.caps[key] = self._made_cap(
                    known.parts, self.sizes.plus(known.low, smallest), size
                )
                return
        source = digit.source.source
        if self._is_whole(digit) and isinstance(source, IterSumExpr) and len(source.args) > 1:
            parts = list(source.args)
        else:
            parts = [self.sums.rescaled(digit, constant(1, digit.dtype))]
        parts, smallest, size = self._without_low_parts(parts, smallest, size)
        self.iterators.caps[self.iterators.sum_key(parts)] = self._made_cap(parts, smallest, size)

    def _without_low_parts(
        self, parts: list[IterSplitExpr], low: PrimExpr, size: PrimExpr
    ) -> tuple[list[IterSplitExpr], PrimExpr, PrimExpr]:
        """Drops low digits that do not matter: ``i * 8 + j < 40`` becomes ``i < 5``."""
        while len(parts) > 1:
            width = parts[-1].extent
            if self.fuser.overlaps and not self.sizes.equal(parts[-2].scale, width):
                break
            if not (self.sizes.divides(width, low) and self.sizes.divides(width, size)):
                break
            low, size = self.sizes.quotient(low, width), self.sizes.quotient(size, width)
            parts = [
                self.sums.rescaled(part, self.sizes.quotient(part.scale, width))
                for part in parts[:-1]
            ]
        return parts, low, size

    def _made_cap(self, parts: list[IterSplitExpr], low: PrimExpr, size: PrimExpr) -> Cap:
        base = self.sizes.times(low, constant(-1, low.dtype))
        mark = IterMark(IterSumExpr(parts, base), size)
        self.iterators.named(
            mark,
            ("cap", self.iterators.sum_key(parts), self.sizes.number(low), self.sizes.number(size)),
        )
        return Cap(parts, low, mark)

    def _is_whole(self, digit: IterSplitExpr) -> bool:
        """Returns True if a digit is all of its iterator, in the same dtype."""
        if digit.dtype is not digit.source.extent.dtype:
            return False
        return op.is_const(digit.lower_factor, 1) and self.sizes.equal(
            digit.extent, digit.source.extent
        )


def narrowed(domains: dict[Var, Range], predicate: PrimExpr) -> tuple[dict[Var, Range], PrimExpr]:
    """Narrows the domains of iterators by the comparisons in a predicate; returns them with the
    remaining predicate.
    """
    if op.is_const(predicate, 1):
        return domains, predicate
    try:
        parts = _comparisons(predicate)
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
    rest: PrimExpr = op.const(True, "bool")
    for part in left:
        rest = op.logical_and(rest, part)
    return result, rest


def _narrowed_domain(domains: dict[Var, Range], part: PrimExpr) -> tuple[Var, Range] | None:
    """Returns the iterator that ``i < n`` bounds, with its narrowed domain; None for other
    conditions.
    """
    if not isinstance(part, (LT, LE, GT, GE)):
        return None
    kind, a, b = type(part), part.a, part.b
    if b.__class__ is not a.__class__ and isinstance(b, Var) and b in domains:
        kind, a, b = _MIRRORED[kind], b, a
    if not isinstance(a, Var) or a not in domains or any(var in domains for var in variables(b)):
        return None
    low, extent = domains[a].min, domains[a].extent
    analyzer = Analyzer()
    gone: PrimExpr = constant(0, extent.dtype)
    if kind in (LT, LE):
        left = op.minimum(extent, op.moved(b - low, 0 if kind is LT else 1))
    else:
        gone = op.maximum(gone, op.moved(b - low, 0 if kind is GE else 1))
        left = extent - gone
    left, low = analyzer.simplify(left), analyzer.simplify(low + gone)
    if op.is_const(left, 1) or analyzer.can_prove(left <= 0):
        return None  # of one value the iterator would be gone
    return a, Range.from_min_extent(low, left)


def _number_of_args(item: tuple[IterSumExpr, Any, Any]) -> int:
    return len(item[0].args)


def _comparisons(predicate: PrimExpr) -> list[PrimExpr]:
    parts = conjuncts(predicate, through_likely=True)
    if any(isinstance(part, Or) for part in parts):
        raise NotAffine(f"the predicate {predicate} is a disjunction")
    return parts


_MIRRORED: dict[type, type] = {LT: GT, GT: LT, LE: GE, GE: LE}
