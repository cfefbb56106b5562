"""Simplifies reductions of tensor expressions, for the analyzer of `arith`, which lies below them.

sum(k // 10 + A[k], axis=k in [0, 10), where=k < 10)   ->   sum(A[k], axis=k)
sum(A[3], axis=[])                                     ->   A[3]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.arith.rewriter import Rewriter, simplifies
from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir.operators import cast, is_const
from tilesmith.ir.queries import variables
from tilesmith.tir.expr import CommReducer, Reduce
from tilesmith.tir.functor import substitute
from tilesmith.tir.op import if_then_else
from tilesmith.tir.queries import has_side_effect

__all__ = ["simplified_reduction"]


@simplifies(Reduce)
def simplified_reduction(rewriter: Rewriter, reduce: Reduce) -> PrimExpr:
    """Simplify a reduction: drop the components that its value does not need, simplify the rest
    where it is evaluated, and replace a reduction over nothing by its value.
    """
    new = _needed_components(reduce)
    combiner = rewriter.rewrite_children(new.combiner)
    axis = tuple([rewriter.rewrite_children(iterator) for iterator in new.axis])
    ranges = {iterator.var: iterator.dom for iterator in axis if iterator.dom is not None}
    condition, source = rewriter.rewrite_in_ranges(ranges, new.condition, new.source)
    init = tuple([rewriter.rewrite(value) for value in new.init])
    before = (new.combiner, *new.axis, new.condition, *new.source, *new.init)
    after = (combiner, *axis, condition, *source, *init)
    if any(one is not other for one, other in zip(before, after, strict=True)):
        new = Reduce(combiner, source, axis, condition, new.value_index, init, reduce.span)
    if new.axis:
        return new
    value = _value_over_nothing(new)
    return new if value is None else rewriter.rewrite(value)


def _needed_components(reduce: Reduce) -> Reduce:
    """Drop the components of a tuple reduction on which the chosen one does not depend, unless
    evaluating them has a side effect.
    """
    combiner = reduce.combiner
    count = len(reduce.source)
    if count == 1:
        return reduce
    position = {v: k for side in (combiner.lhs, combiner.rhs) for k, v in enumerate(side)}
    kept: set[int] = set()
    pending = [reduce.value_index, *[k for k in range(count) if has_side_effect(reduce.source[k])]]
    while pending:
        component = pending.pop()
        if component not in kept:
            kept.add(component)
            used = variables(combiner.result[component])
            pending.extend([position[v] for v in used if v in position])
    if len(kept) == count:
        return reduce
    smaller = CommReducer(
        _only(kept, combiner.lhs),
        _only(kept, combiner.rhs),
        _only(kept, combiner.result),
        _only(kept, combiner.identity_element),
        combiner.span,
    )
    return Reduce(
        smaller,
        _only(kept, reduce.source),
        reduce.axis,
        reduce.condition,
        sorted(kept).index(reduce.value_index),
        _only(kept, reduce.init),
        reduce.span,
    )


def _only(kept: set[int], values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple([value for number, value in enumerate(values) if number in kept])


def _value_over_nothing(reduce: Reduce) -> PrimExpr | None:
    """Return the value of a reduction without axes: its source, combined with ``init`` if there is
    one, where the condition holds. None if the effects of the source would happen another number of
    times.
    """
    number, combiner = reduce.value_index, reduce.combiner
    start = (reduce.init or combiner.identity_element)[number]
    if is_const(reduce.condition, 0):
        return start
    value = reduce.source[number]
    if has_side_effect(reduce.source) and (reduce.init or len(reduce.source) > 1):
        return None
    if reduce.init:
        own = dict(zip(combiner.lhs, reduce.init)) | dict(zip(combiner.rhs, reduce.source))
        mapping = {variable: cast(variable.dtype, expr) for variable, expr in own.items()}
        value = substitute(combiner.result[number], mapping)
    if isinstance(reduce.condition, IntImm):
        return value
    return if_then_else(reduce.condition, value, start)
