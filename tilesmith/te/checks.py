"""Refuses tensor expressions that cannot mean what their author wants, where they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilesmith.ir import PrimExpr, StringImm, Var, convert
from tilesmith.ir.queries import any_node
from tilesmith.support.errors import OutOfBoundsError, TypeMismatchError
from tilesmith.tir.analysis.out_of_bounds import find_reads_outside
from tilesmith.tir.analysis.variables import undefined_vars
from tilesmith.tir.expr import IterVar, Reduce

__all__ = ["check_reads", "check_variables", "element_values"]


def element_values(name: str, given: Any) -> tuple[PrimExpr, ...]:
    """Return what ``fcompute`` of a computation gave as expressions: one, or those of one
    reduction.
    """
    several = given if isinstance(given, (list, tuple)) else [given]
    if any(value is None for value in several):
        raise TypeMismatchError(
            f"fcompute of '{name}' returned None, the value of an element is needed",
            notes=("return it: lambda i: A[i] + 1.0",),
        )
    values = tuple([_element(name, value) for value in several])
    first = values[0]
    if isinstance(first, Reduce):
        if not all(isinstance(v, Reduce) and v.combiner is first.combiner for v in values):
            raise TypeMismatchError(
                f"the values of compute '{name}' are not those of one reduction",
                notes=("a computation of its own for each reduction is what te.compute takes",),
            )
        inside = (*first.source, first.condition, *first.init)
    else:
        inside = values
    if any_node(inside, lambda node: isinstance(node, Reduce)):
        raise TypeMismatchError(
            f"compute '{name}' has a reduction inside of a larger expression",
            notes=(
                "make the reduction a computation of its own: "
                "S = te.compute(..., lambda i: te.sum(A[i, k], axis=k)), then use S[i]",
            ),
        )
    return values


def _element(name: str, value: Any) -> PrimExpr:
    converted = convert(value)
    if not isinstance(converted, PrimExpr) or isinstance(converted, StringImm):
        raise TypeMismatchError(
            f"fcompute of '{name}' gave {value!r}, an expression is needed",
            notes=("return the value of an element: lambda i: A[i] + 1.0",),
        )
    return converted


def check_reads(name: str, values: Sequence[PrimExpr], axes: Sequence[IterVar]) -> None:
    """Refuse a computation that is known to read a tensor beyond its shape."""
    reached = [one for one in find_reads_outside(values, axes) if one.is_reached]
    if reached:
        raise OutOfBoundsError(
            f"in compute '{name}' {reached[0].text}",
            notes=(
                *[access.text for access in reached[1:3]],
                "guard the read: te.if_then_else(condition, value, 0.0)",
            ),
        )


def check_variables(
    name: str,
    place: Any,
    values: Iterable[PrimExpr],
    iterators: Mapping[Var, Any],
    known: set[Var],
) -> None:
    """Refuse a computation that uses a variable which nothing defines."""
    for variable in undefined_vars(tuple(values), iterators):
        if variable not in known:
            raise TypeMismatchError(
                f"compute '{name}' uses '{variable.name}', which is neither one of its iterators "
                "nor a size or an argument of the function",
                place,
                (
                    "a reduction axis stands for its numbers only inside of its reduction: "
                    f"te.sum(A[i, {variable.name}], axis={variable.name})",
                    "a scalar that is passed in is an argument: te.create_prim_func([A, n, B])",
                ),
            )
