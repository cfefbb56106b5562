"""Finds the union of a region over the iterations of loops.

estimate_region_lower_bound([Range.from_min_extent(i * 8 + j * 4, 4)], {i: Range(0, 4), j:
Range(0, 2)}, True) # [IntervalSet[0, 31]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.arith.analyzer import Analyzer
from tilesmith.arith.int_set import IntervalSet, eval_set, intersect
from tilesmith.arith.iter_affine_map import IterMapLevel, detect_iter_map
from tilesmith.arith.iter_nodes import IterSumExpr
from tilesmith.ir import Add, FloorDiv, IntImm, Mul, PrimExpr, Range, Var, const, convert
from tilesmith.ir.operators import is_const, moved
from tilesmith.ir.queries import mentions
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
]


@deep_recursion
def estimate_region_strict_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntervalSet] | None:
    """Returns the box that the region covers exactly while the variables run; None if it is not
    proven to be a full box (for example, because an extent changes with the variables).
    """
    extents = [eval_set(range_.extent, var_dom) for range_ in region]
    if not all(extent.is_single_point() for extent in extents):
        return None
    found = detect_iter_map(
        [range_.min for range_ in region], var_dom, predicate, IterMapLevel.Surjective
    )
    if (not found.indices and region) or not is_const(found.padding_predicate, 0):
        return None
    analyzer = Analyzer()
    result: list[IntervalSet] = []
    for form, range_ in zip(found.indices, region):
        covered = _covered(analyzer, form, range_.extent)
        if covered is None:
            return None
        result.append(covered)
    ends = [end for covered in result for end in (covered.min_value, covered.max_value)]
    if mentions(ends, var_dom.keys()):
        return None  # loops whose ranges depend on each other, as those of a triangle
    return result


def _covered(analyzer: Analyzer, form: IterSumExpr, extent: PrimExpr) -> IntervalSet | None:
    """Returns the interval covered by segments of one extent whose starts are the values of a
    sum.
    """
    low: PrimExpr = form.base
    last: PrimExpr = low
    if form.args:
        digit = form.args[0]
        if not analyzer.can_prove(digit.scale <= extent):
            return None  # holes between the blocks
        last = low + digit.scale * moved(digit.extent, -1)
    return IntervalSet(analyzer.simplify(low), analyzer.simplify(moved(last + extent, -1)))


def estimate_region_lower_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntervalSet] | None:
    """Returns a box that is certainly covered, or None.

    Besides maps of iterators this knows iterators that overlap, as in ``(i + j) // 8``.
    """
    exact = estimate_region_strict_bound(region, var_dom, predicate)
    if exact is not None or not is_const(convert(predicate), 1):
        return exact
    taken: set[Var] = set()
    result: list[IntervalSet] = []
    for range_ in region:
        used = {var for var in var_dom if mentions(range_.min, {var})}
        steps = _steps(range_.min, var_dom)
        extent = range_.extent
        if steps is None or used & taken or not isinstance(extent, IntImm):
            return None
        low, high, step = steps
        if step > extent.value:
            return None  # holes between the blocks
        taken |= used
        dtype = range_.min.dtype
        result.append(IntervalSet(const(low, dtype), const(high + extent.value - 1, dtype)))
    return result


def _steps(expr: PrimExpr, var_dom: Mapping[Var, Range]) -> tuple[int, int, int] | None:
    """Returns ``(low, high, step)`` of an expression that takes values from ``low`` to ``high``, of
    which neighbours are at most ``step`` apart; None if that is not known.
    """
    if isinstance(expr, IntImm):
        return expr.value, expr.value, 1
    if isinstance(expr, Var):
        domain = var_dom.get(expr)
        if domain is None or not isinstance(domain.min, IntImm):
            return None
        if not isinstance(domain.extent, IntImm) or domain.extent.value <= 0:
            return None
        return domain.min.value, domain.min.value + domain.extent.value - 1, 1
    if not isinstance(expr, (Add, Mul, FloorDiv)):
        return None
    a, b = _steps(expr.a, var_dom), _steps(expr.b, var_dom)
    if a is None or b is None:
        return None
    if isinstance(expr, Add):
        if any(mentions(expr.a, {var}) and mentions(expr.b, {var}) for var in var_dom):
            return None
        fine, coarse = (a, b) if a[2] <= b[2] else (b, a)
        # the finer sum, repeated at each value of the other: the hole up to the next repetition
        step = max(fine[2], coarse[2] - (fine[1] - fine[0]) if coarse[1] > coarse[0] else 1)
        return a[0] + b[0], a[1] + b[1], step
    if isinstance(expr, Mul) and isinstance(expr.a, IntImm):
        a, b = b, a
    factor = b[0]
    if b[1] != factor or factor <= 0:
        return None
    if isinstance(expr, Mul):
        return a[0] * factor, a[1] * factor, a[2] * factor
    return a[0] // factor, a[1] // factor, max(1, -(-a[2] // factor))


@deep_recursion
def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntervalSet]:
    """Returns a box that contains all that is covered."""
    exact = estimate_region_strict_bound(region, var_dom, predicate)
    if exact is not None:
        return exact
    return [_around(range_, var_dom, convert(predicate)) for range_ in region]


def _around(range_: Range, var_dom: Mapping[Var, Range], predicate: PrimExpr) -> IntervalSet:
    loose = eval_set(range_, var_dom)
    analyzer = Analyzer()
    for var, domain in var_dom.items():
        analyzer.bind(var, domain)
    with analyzer.constraint_scope(predicate):
        low = analyzer.const_int_bound(range_.min)
        high = analyzer.const_int_bound(moved(range_.min + range_.extent, -1))
    dtype = range_.min.dtype
    tight = IntervalSet(
        convert(low.min_value, dtype) if low.min_value >= dtype.min_value else loose.min_value,
        convert(high.max_value, dtype) if high.max_value <= dtype.max_value else loose.max_value,
    )
    return intersect([loose, tight])
