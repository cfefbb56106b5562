"""Passes what is known about the axes of a stage along the relations between them.

domains down    ranges of the root axes            → ranges of all loops
values up       what each loop's variable is       → values of the axes
values down     values of the axes                 → which iteration of each loop
sets up         sets of iterations of the loops    → sets of values of the axes
marks           flags of loops ↔ flags of the axes that they come from
guards          the conditions under which an iteration is one of the axes' domains

    split(i, factor=4), i in 0..10:    i.outer: 3, i.inner: 4      i = i.outer * 4 + i.inner
                                       guard: i.outer * 4 + i.inner < 10
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, MutableMapping

from tilesmith.arith import Analyzer, IntervalSet, IntSet, eval_set
from tilesmith.ir import IntImm, PrimExpr, Range, Var, const
from tilesmith.ir.operators import cast, equal, floordiv, floormod, is_const
from tilesmith.te.schedule.refusals import refuse
from tilesmith.te.schedule.relations import Fuse, Rebase, Singleton, Split, Transform
from tilesmith.te.schedule.stage import Stage
from tilesmith.tir.expr import IterVar

__all__ = [
    "guards", "is_virtual_thread", "pass_down_domains", "pass_down_marks", "pass_down_values",
    "pass_up_marks", "pass_up_sets", "pass_up_values", "thread_of",
]  # fmt: skip

Domains = Mapping[IterVar, Range]
Values = MutableMapping[IterVar, PrimExpr]
Sets = MutableMapping[IterVar, IntervalSet]


def thread_of(stage: Stage, axis: IterVar) -> IterVar | None:
    """Return the thread axis that a loop runs on: the one it is bound to, or itself."""
    found = stage.iter_var_attrs.get(axis)
    if found is not None and found.bind_thread is not None:
        return found.bind_thread
    return axis if axis.iter_type == IterVar.ThreadIndex else None


def is_virtual_thread(thread: IterVar) -> bool:
    """Return whether a thread axis is one of virtual threads."""
    return thread.thread_tag.startswith(("vthread", "cthread"))


def ceiling(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return ``a / b``, rounded up."""
    return floordiv(a + b - 1, b)


# Domains down


def pass_down_domains(
    stage: Stage, domains: MutableMapping[IterVar, Range], analyzer: Analyzer
) -> None:
    """Add the ranges of the iterators that the primitives made, from those of the root axes."""
    fixed = _of_threads(stage)
    for relation in stage.relations:
        if isinstance(relation, Split):
            outer, inner = _split_extents(relation, domains[relation.parent].extent, fixed)
            domains[relation.outer] = _counted(relation.outer, outer, analyzer)
            domains[relation.inner] = _counted(relation.inner, inner, analyzer)
        elif isinstance(relation, Fuse):
            dtype = relation.fused.var.dtype
            parts = [cast(dtype, domains[axis].extent) for axis in relation.above]
            domains[relation.fused] = _counted(relation.fused, parts[0] * parts[1], analyzer)
        elif isinstance(relation, Rebase):
            extent = domains[relation.parent].extent
            domains[relation.rebased] = _counted(relation.rebased, extent, analyzer)
        elif isinstance(relation, Singleton):
            domains[relation.iter] = Range.from_min_extent(0, 1)
        elif isinstance(relation, Transform):
            _transformed_domains(relation, domains, analyzer)


def _counted(axis: IterVar, extent: PrimExpr, analyzer: Analyzer) -> Range:
    dtype = axis.var.dtype
    return Range.from_min_extent(const(0, dtype), analyzer.simplify(cast(dtype, extent)))


def _of_threads(stage: Stage) -> set[int]:
    """Return the iterators that threads come from: their extents are what the user asked for."""
    found = {id(axis) for axis in stage.leaf_iter_vars if thread_of(stage, axis) is not None}
    for relation in reversed(stage.relations):
        if any(id(axis) in found for axis in relation.below):
            found |= {id(axis) for axis in relation.above}
    return found


def _split_extents(
    split: Split, extent: PrimExpr, fixed: Container[int]
) -> tuple[PrimExpr, PrimExpr]:
    """Return the extents of the outer and the inner loop. A loop is not longer than what it
    divides, where both are numbers.
    """
    given = split.factor if split.factor is not None else split.nparts
    assert given is not None
    asked = split.inner if split.factor is not None else split.outer
    size = cast(split.parent.var.dtype, given)
    extent = cast(split.parent.var.dtype, extent)
    if isinstance(size, IntImm) and isinstance(extent, IntImm) and id(asked) not in fixed:
        size = const(max(1, min(size.value, extent.value)), size.dtype)
    other = ceiling(extent, size)
    return (other, size) if split.factor is not None else (size, other)


def _transformed_domains(
    relation: Transform, domains: MutableMapping[IterVar, Range], analyzer: Analyzer
) -> None:
    extents = [domains[axis].extent for axis in relation.original_variables]
    shape = relation.forward_transformation.map_shape(extents)
    for axis, extent in zip(relation.transformed_variables, shape):
        domains[axis] = _counted(axis, extent, analyzer)


# Values up and down


def _based(value: PrimExpr, axis: IterVar, domains: Domains) -> PrimExpr:
    """Return an iteration of an axis as its value: counted from the first one."""
    first = domains[axis].min
    value = cast(axis.var.dtype, value)
    return value if is_const(first, 0) else value + cast(axis.var.dtype, first)


def pass_up_values(stage: Stage, domains: Domains, values: Values) -> None:
    """Add the values of the axes from those of the loops. Axes of which a loop has no value are
    left out.
    """
    for relation in reversed(stage.relations):
        if any(axis not in values for axis in relation.below):
            continue
        if isinstance(relation, Split):
            dtype = relation.parent.var.dtype
            inner = cast(dtype, domains[relation.inner].extent)
            value = cast(dtype, values[relation.outer]) * inner
            if not is_const(inner, 1):
                value = value + cast(dtype, values[relation.inner])
            values[relation.parent] = _based(value, relation.parent, domains)
        elif isinstance(relation, Fuse):
            fused = values[relation.fused]
            inner = cast(fused.dtype, domains[relation.inner].extent)
            values[relation.outer] = _based(floordiv(fused, inner), relation.outer, domains)
            values[relation.inner] = _based(floormod(fused, inner), relation.inner, domains)
        elif isinstance(relation, Rebase):
            value = values[relation.rebased]
            values[relation.parent] = _based(value, relation.parent, domains)
        elif isinstance(relation, Transform):
            known = [values[axis] for axis in relation.transformed_variables]
            found = relation.inverse_transformation.map_indices(known)
            for axis, value in zip(relation.original_variables, found):
                values[axis] = _based(value, axis, domains)


def pass_down_values(stage: Stage, domains: Domains, values: Values) -> None:
    """Add the iterations of the loops in which the axes have some values."""
    for relation in stage.relations:
        if any(axis not in values for axis in relation.above):
            continue
        if isinstance(relation, Split):
            count = _counter(relation.parent, domains, values)
            inner = cast(count.dtype, domains[relation.inner].extent)
            values[relation.outer] = floordiv(count, inner)
            values[relation.inner] = floormod(count, inner)
        elif isinstance(relation, Fuse):
            dtype = relation.fused.var.dtype
            outer, inner = [cast(dtype, _counter(axis, domains, values)) for axis in relation.above]
            values[relation.fused] = outer * cast(dtype, domains[relation.inner].extent) + inner
        elif isinstance(relation, Rebase):
            values[relation.rebased] = _counter(relation.parent, domains, values)
        elif isinstance(relation, Singleton):
            values[relation.iter] = const(0, relation.iter.var.dtype)
        elif isinstance(relation, Transform):
            known = [_counter(axis, domains, values) for axis in relation.original_variables]
            found = relation.forward_transformation.map_indices(known)
            values.update(zip(relation.transformed_variables, found))


def _counter(axis: IterVar, domains: Domains, values: Values) -> PrimExpr:
    first = domains[axis].min
    return values[axis] if is_const(first, 0) else values[axis] - first


# Sets up


def _is_whole(found: IntervalSet, domain: Range, analyzer: Analyzer) -> bool:
    """Return whether a set is known to be all of a domain."""
    if not (found.has_lower_bound() and found.has_upper_bound()):
        return True
    last = domain.min + domain.extent - 1
    if isinstance(found.max_value, IntImm) and isinstance(last, IntImm):
        if found.max_value.value != last.value:
            return False
    return analyzer.can_prove_equal(found.min_value, domain.min) and analyzer.can_prove_equal(
        found.max_value, last
    )


def pass_up_sets(stage: Stage, domains: Domains, sets: Sets, analyzer: Analyzer) -> None:
    """Add the sets of values of the axes from those of the loops. An axis gets its whole domain
    where all iterations are meant, even if loops go beyond it.
    """
    for relation in reversed(stage.relations):
        if any(axis not in sets for axis in relation.below):
            continue
        whole = [
            _is_whole(sets[axis], domains[axis], analyzer) if axis in domains else False
            for axis in relation.below
        ]
        if isinstance(relation, Singleton):
            continue
        if all(whole):
            for axis in relation.above:
                sets[axis] = IntSet.from_range(domains[axis])
        elif isinstance(relation, Split):
            sets[relation.parent] = _split_set(relation, domains, sets)
        elif isinstance(relation, Fuse):
            _fused_sets(relation, domains, sets, analyzer)
        elif isinstance(relation, Rebase):
            found, first = sets[relation.rebased], domains[relation.parent].min
            sets[relation.parent] = _moved(found, first)
        elif isinstance(relation, Transform):
            # other variables than those of the loops: the sets may mention these
            known = {
                Var("axis", one.var.dtype): sets[one] for one in relation.transformed_variables
            }
            inverse = relation.inverse_transformation.map_indices(list(known))
            for axis, value in zip(relation.original_variables, inverse):
                reached = eval_set(value, known, analyzer)
                if not (reached.has_lower_bound() and reached.has_upper_bound()):
                    reached = IntSet.from_min_extent(const(0, axis.var.dtype), domains[axis].extent)
                sets[axis] = _moved(reached, domains[axis].min)


def _interval(low: PrimExpr, high: PrimExpr, is_point: bool) -> IntervalSet:
    return IntSet.single_point(low) if is_point else IntSet.interval(low, high)


def _moved(found: IntervalSet, distance: PrimExpr) -> IntervalSet:
    if is_const(distance, 0):
        return found
    return _interval(
        found.min_value + distance, found.max_value + distance, found.is_single_point()
    )


def _split_set(split: Split, domains: Domains, sets: Sets) -> IntervalSet:
    outer, inner = sets[split.outer], sets[split.inner]
    factor = domains[split.inner].extent
    is_point = outer.is_single_point() and inner.is_single_point()
    low = outer.min_value * factor + inner.min_value
    high = low if is_point else outer.max_value * factor + inner.max_value
    return _moved(_interval(low, high, is_point), domains[split.parent].min)


def _fused_sets(fuse: Fuse, domains: Domains, sets: Sets, analyzer: Analyzer) -> None:
    found, rows = sets[fuse.fused], domains[fuse.outer].extent
    low, high = found.min_value, found.max_value
    size = cast(low.dtype, domains[fuse.inner].extent)
    row, first = floordiv(low, size), floormod(low, size)
    length = analyzer.simplify(high - low + 1)
    if found.is_single_point():
        outer, inner = IntSet.single_point(row), IntSet.single_point(first)
    elif _divides(length, size, analyzer) and _divides(length, low, analyzer):
        # a part of a row, which does not reach into the next one
        outer, inner = IntSet.single_point(row), IntSet.interval(first, first + length - 1)
    else:
        outer = IntSet.interval(row, _last_row(row, high, length, size, rows, analyzer))
        inner = IntSet.interval(const(0, size.dtype), size - 1)
    sets[fuse.outer] = _moved(outer, domains[fuse.outer].min)
    sets[fuse.inner] = _moved(inner, domains[fuse.inner].min)


def _divides(divisor: PrimExpr, value: PrimExpr, analyzer: Analyzer) -> bool:
    return analyzer.can_prove(equal(floormod(value, divisor), 0))


def _last_row(
    row: PrimExpr,
    last: PrimExpr,
    length: PrimExpr,
    size: PrimExpr,
    rows: PrimExpr,
    analyzer: Analyzer,
) -> PrimExpr:
    """Return the last row that is reached; where the number of rows is a constant at most, as if
    that many were, so that memory for them has a constant size.
    """
    if not (isinstance(length, IntImm) and isinstance(size, IntImm)):
        return floordiv(last, size)
    if length.value % size.value == 0 and _divides(size, last + 1, analyzer):
        count = length.value // size.value
    else:
        count = (length.value + size.value - 2) // size.value + 1
    if isinstance(rows, IntImm) and count >= rows.value:
        return floordiv(last, size)
    return row + (count - 1)


# Marks


def pass_down_marks(stage: Stage, marks: dict[IterVar, int]) -> None:
    """Give each iterator the bits of those that it is made of."""
    for relation in stage.relations:
        bits = 0
        for axis in relation.above:
            bits |= marks.get(axis, 0)
        for axis in relation.below:
            marks[axis] = marks.get(axis, 0) | bits


def pass_up_marks(stage: Stage, marks: dict[IterVar, int]) -> None:
    """Give each iterator the bits of those that are made of it."""
    for relation in reversed(stage.relations):
        bits = 0
        for axis in relation.below:
            bits |= marks.get(axis, 0)
        for axis in relation.above:
            marks[axis] = marks.get(axis, 0) | bits


# Guards


def guards(
    stage: Stage,
    domains: Domains,
    values: Mapping[IterVar, PrimExpr],
    analyzer: Analyzer,
    left_out: Container[IterVar] = (),
) -> list[PrimExpr]:
    """Return the conditions that have to be checked for an iteration to count: those that are not
    proven of the loops' ranges (which the analyzer knows).

    Root axes are kept inside of the shape too, where a consumer asks for more than there is. Axes
    of ``left_out``, and those without a value, are not considered.
    """
    found: list[PrimExpr] = []
    scopes = []
    for condition in _conditions(stage, domains, values, analyzer, left_out):
        simple = analyzer.simplify(condition)
        if is_const(simple, 1):
            continue
        found.append(simple)
        scope = analyzer.constraint_scope(simple)  # what holds makes others unnecessary
        scope.__enter__()
        scopes.append(scope)
    for scope in reversed(scopes):
        scope.__exit__(None, None, None)
    return found


def _conditions(
    stage: Stage,
    domains: Domains,
    values: Mapping[IterVar, PrimExpr],
    analyzer: Analyzer,
    left_out: Container[IterVar],
) -> Iterator[PrimExpr]:
    if stage.op is not None:
        for axis in stage.op.root_iter_vars:
            if axis in left_out or axis not in values or axis.iter_type == IterVar.Opaque:
                continue
            if axis.dom is not None and not _is_same(axis.dom, domains[axis], analyzer):
                yield values[axis] >= axis.dom.min
                yield values[axis] < axis.dom.min + axis.dom.extent
    for relation in stage.relations:
        if isinstance(relation, Split):
            parent = relation.parent
            if parent in left_out or parent not in values:
                continue
            domain = domains[parent]
            product = domains[relation.outer].extent * domains[relation.inner].extent
            if analyzer.can_prove_equal(product, domain.extent):
                continue
            if relation.disable_predication:
                _check_promise(stage, relation, product, domain.extent)
                continue
            yield values[parent] < domain.min + domain.extent
        elif isinstance(relation, Transform):
            for axis in relation.original_variables:
                if axis in values and axis not in left_out:
                    yield values[axis] >= domains[axis].min
                    yield values[axis] < domains[axis].min + domains[axis].extent


def _check_promise(stage: Stage, split: Split, product: PrimExpr, extent: PrimExpr) -> None:
    """Refuse a split without guard that is known to need one."""
    if isinstance(product, IntImm) and isinstance(extent, IntImm):
        raise refuse(
            "split", stage,
            f"{product.value} iterations of '{split.parent.var.name}' without a guard, there are "
            f"{extent.value}",
            split.parent,
            "a split with disable_predication=True has to divide the loop",
            split.place,
        )  # fmt: skip


def _is_same(a: Range, b: Range, analyzer: Analyzer) -> bool:
    return analyzer.can_prove_equal(a.min, b.min) and analyzer.can_prove_equal(a.extent, b.extent)
