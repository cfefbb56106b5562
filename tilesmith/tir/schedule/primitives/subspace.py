"""Divides the iterators of a block into parts for the loops outside and inside a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilesmith.arith import (
    Analyzer,
    find_iter_map,
    inverse_affine_iter_map,
    normalize_iter_map_to_expr,
    subspace_divide,
)
from tilesmith.arith.iter_nodes import IterMark, IterSumExpr
from tilesmith.ir import (
    LT,
    FloorDiv,
    FloorMod,
    IntImm,
    PrimExpr,
    Range,
    Var,
    const,
    structural_equal,
)  # fmt: skip
from tilesmith.ir.intrinsics import ceildiv
from tilesmith.ir.operators import all_of, is_const
from tilesmith.ir.queries import conjuncts, variables
from tilesmith.tir.expr import IterVar
from tilesmith.tir.functor import substitute
from tilesmith.tir.schedule.nests import loop_range
from tilesmith.tir.stmt import BlockRealize, For

__all__ = ["Division", "Part", "divide", "loops_in_terms_of"]


class Part:
    """One iterator: ``value = outer * scale + inner``; a missing part is None. If both are missing,
    the iterator has no other value than ``value``.
    """

    def __init__(self, iterator: IterVar, value: PrimExpr) -> None:
        self.iterator = iterator
        self.value = value
        self.outer: PrimExpr | None = None
        self.outer_domain: Range | None = None
        self.outer_var: Var | None = None
        self.inner: PrimExpr | None = None
        self.inner_domain: Range | None = None
        self.scale: PrimExpr = const(1, value.dtype)
        self._inner_iterator: IterVar | None = None

    def inner_iterator(self) -> IterVar:
        """Return the iterator of the inner part."""
        if self._inner_iterator is None:
            variable = Var(f"{self.iterator.var.name}_i", self.iterator.var.dtype)
            kind = self.iterator.iter_type
            self._inner_iterator = IterVar(self.inner_domain, variable, kind)
        return self._inner_iterator

    def replacement(self) -> PrimExpr:
        """Return the iterator in terms of the new ones."""
        if self.outer_var is None:
            return self.value if self.inner is None else self.inner_iterator().var
        if self.inner is None:
            return self.outer_var
        domain = self.outer_domain
        if domain is not None and is_const(domain.extent, 1) and is_const(domain.min, 0):
            return self.inner_iterator().var
        return self.outer_var * self.scale + self.inner_iterator().var

    def same_outer(self, iterator: IterVar, value: PrimExpr) -> bool:
        """Return whether an iterator with that value can be the outer part."""
        return (
            not is_const(value)
            and structural_equal(value, self.outer)
            and structural_equal(iterator.dom, self.outer_domain)
        )


class Division:
    """The iterators of one block, divided."""

    def __init__(self, realize: BlockRealize, parts: list[Part]) -> None:
        self.realize = realize
        self.parts = parts

    def mapping(self) -> dict[Var, PrimExpr]:
        """Return the old iterators in terms of the new ones."""
        return {part.iterator.var: part.replacement() for part in self.parts}

    def clause(self, clause: PrimExpr, outside: Mapping[Var, PrimExpr]) -> PrimExpr:
        """Rewrite a condition over loops of both sides in terms of the new iterators and the inner
        loops.

        ``outside`` gives loops outside in terms of the new block's iterators. Where that does not
        help, a bound of an iterator's value is one of ``outer * scale + inner``.
        """
        analyzer = Analyzer()
        if isinstance(clause, LT):
            for part in self.parts:
                if part.outer_var is None:
                    continue
                rest = analyzer.simplify(clause.a - part.value)
                if is_const(rest):
                    value: PrimExpr = part.outer_var * part.scale
                    if part.inner is not None:
                        value = value + part.inner
                    return LT(analyzer.simplify(value + rest), clause.b)
        return analyzer.simplify(substitute(clause, outside))


def divide(
    realize: BlockRealize,
    outside: list[For],
    inside: list[For],
    preserve_unit_iters: bool,
    drop_unit_iters: bool = False,
) -> Division | str:
    """Divide the iterators of a block, or return the reason why that is not possible.

    ``preserve_unit_iters`` leaves an outer iterator of extent 1 where all of an iterator is inside;
    ``drop_unit_iters`` removes those that have only one value.
    """
    ranges = {loop.loop_var: loop_range(loop) for loop in (*outside, *inside)}
    inner_vars = [loop.loop_var for loop in inside]
    outer_vars = {loop.loop_var for loop in outside}
    analyzer = Analyzer()
    for variable, domain in ranges.items():
        analyzer.bind(variable, domain)
    units: dict[Var, PrimExpr] = {}
    if not preserve_unit_iters:
        units = {v: domain.min for v, domain in ranges.items() if is_const(domain.extent, 1)}
    parts: list[Part] = []
    mixed: list[int] = []
    for number, (iterator, value) in enumerate(zip(realize.block.iter_vars, realize.iter_values)):
        if units:
            value = analyzer.simplify(substitute(value, units))
        if isinstance(value, (FloorDiv, FloorMod)):
            # a digit of several loops may be one of the loops outside alone
            value = analyzer.simplify(value)
        part = Part(iterator, value)
        parts.append(part)
        used = set(variables(value))
        has_outer = bool(outer_vars.intersection(used))
        has_inner = bool(set(inner_vars).intersection(used))
        if has_outer and has_inner:
            mixed.append(number)
        elif has_inner and preserve_unit_iters and _is_single(iterator):
            part.outer, part.outer_domain = iterator.domain.min, iterator.domain
        elif has_inner:
            part.inner, part.inner_domain = value, iterator.domain
            if preserve_unit_iters and is_const(iterator.domain.min, 0):
                dtype = iterator.var.dtype
                part.outer = const(0, dtype)
                part.outer_domain = Range.from_min_extent(const(0, dtype), const(1, dtype))
                part.scale = iterator.domain.extent
        else:
            part.outer, part.outer_domain = value, iterator.domain
    if mixed:
        reason = _divide_mixed(realize, parts, mixed, ranges, inner_vars, analyzer)
        if reason:
            return reason
    if drop_unit_iters:
        _drop_units(parts)
    return Division(realize, parts)


def _drop_units(parts: list[Part]) -> None:
    """Remove the outer parts that have only one value, but the last iterator of a reduction: the
    init of its block depends on there being one.
    """
    reductions = [part for part in parts if part.iterator.iter_type == IterVar.CommReduce]
    left = len(reductions)
    for part in parts:
        domain = part.outer_domain
        if domain is None or not is_const(domain.extent, 1):
            continue
        if not isinstance(part.outer, IntImm) or not structural_equal(part.outer, domain.min):
            continue
        if part.inner is None:
            if part in reductions and left == 1:
                continue
            left -= part in reductions
            part.value = const(part.outer.value, part.iterator.var.dtype)
        elif not is_const(part.outer, 0):
            continue
        part.outer = part.outer_domain = None


def _is_single(iterator: IterVar) -> bool:
    """Return whether an iterator has only one value, so that it needs no inner iterator."""
    return is_const(iterator.domain.extent, 1) and is_const(iterator.domain.min)


def _divide_mixed(
    realize: BlockRealize,
    parts: list[Part],
    mixed: list[int],
    ranges: dict[Var, Range],
    inner_vars: list[Var],
    analyzer: Analyzer,
) -> str:
    """Divide the iterators that depend on loops of both sides; return the reason of a failure, or
    "".
    """
    inner = set(inner_vars)
    one_sided = [
        clause
        for clause in conjuncts(realize.predicate)
        if not (inner.intersection(variables(clause)) and set(variables(clause)) - inner)
    ]
    values = [part.value for part in parts]
    attempts = [all_of(*one_sided)] if one_sided else []
    for predicate in [*attempts, const(True, "bool")]:
        pairs = subspace_divide(
            values, ranges, inner_vars, predicate, simplify_trivial_iterators=False
        )
        if pairs and not _take(parts, mixed, pairs, analyzer):
            return ""
    found = find_iter_map(values, ranges, const(True, "bool"))
    if found.errors:
        return "; ".join(found.errors)
    part = parts[mixed[0]]
    for number in mixed:
        alone = subspace_divide(
            [values[number]], ranges, inner_vars, simplify_trivial_iterators=False
        )
        if not alone:
            part = parts[number]
            break
    return f"{part.iterator.var.name} = {part.value} is not of the form outer * extent + inner"


def _take(
    parts: list[Part],
    mixed: list[int],
    pairs: Sequence[Sequence[IterMark]],
    analyzer: Analyzer,
) -> str:
    """Record the result of ``subspace_divide``; return the reason why it does not fit, or ""."""
    for number in mixed:
        part = parts[number]
        outer, inner = pairs[number]
        dtype = part.value.dtype
        outer_value = normalize_iter_map_to_expr(outer.source).astype(dtype)
        inner_value = normalize_iter_map_to_expr(inner.source).astype(dtype)
        scale = inner.extent.astype(dtype)
        if not analyzer.can_prove_equal(part.value, outer_value * scale + inner_value):
            return f"{part.value} is not {outer_value} * {scale} + {inner_value}"
        domain = part.iterator.domain
        low = const(0, dtype)
        extent = analyzer.simplify(ceildiv(domain.min + domain.extent, scale))
        known = analyzer.simplify(outer.extent.astype(dtype))
        source = outer.source
        if isinstance(source, IterSumExpr) and not is_const(source.base, 0):
            low = source.base.astype(dtype)
            extent = known
        elif not is_const(domain.min, 0):
            low = analyzer.simplify(domain.min // scale)
            extent = analyzer.simplify(extent - low)
        elif not is_const(domain.extent):
            extent = known if is_const(known) else extent
        part.outer, part.outer_domain = outer_value, Range.from_min_extent(low, extent)
        part.scale = scale
        if not is_const(scale, 1):  # one value needs no iterator
            part.inner = inner_value
            part.inner_domain = Range.from_min_extent(const(0, dtype), scale)
    return ""


def loops_in_terms_of(
    iterators: list[IterVar],
    values: list[PrimExpr],
    ranges: dict[Var, Range],
    predicates: list[PrimExpr],
) -> dict[Var, PrimExpr]:
    """Return those loops outside that are functions of the new block's iterators, as such
    functions.
    """
    known: dict[Var, PrimExpr] = {}
    for iterator, value in zip(iterators, values):
        if isinstance(value, Var) and value in ranges:
            known[value] = iterator.var
    for variable, domain in ranges.items():
        if is_const(domain.extent, 1):
            known.setdefault(variable, domain.min)
    if len(known) == len(ranges):
        return known
    bound = [k for k, value in enumerate(values) if not is_const(value)]
    found = find_iter_map(
        [values[k] for k in bound], ranges, all_of(*predicates) if predicates else True, "bijective"
    )
    if found.indices:
        outputs = [iterators[k].var for k in bound]
        for variable, value in inverse_affine_iter_map(found.indices, outputs).items():
            known.setdefault(variable, value)
    return known
