"""Derivatives of the reductions of tensor expressions by the elements that they read.

sum        each element counts as it is
prod       each element counts times the product of the others, which is computed beside it
max, min   the first element that is the largest (smallest) counts, found by a search of its place
others     dual numbers: the reduction is repeated together with its derivative, for each element
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

from tilesmith.ir import Add, Max, Min, Mul, PrimExpr, Rewriter, Var, const
from tilesmith.ir.operators import all_of, any_of, equal, not_equal
from tilesmith.support.errors import UnsupportedError
from tilesmith.te.derivatives import Partial, partials
from tilesmith.te.operation import compute, placeholder, reduce_axis
from tilesmith.te.tensor import ComputeOp, Tensor
from tilesmith.tir.expr import CommReducer, IterVar, ProducerLoad, Reduce
from tilesmith.tir.functor import substitute
from tilesmith.tir.op import comm_reducer, if_then_else

__all__ = ["Part", "general_derivatives", "parts_of_reduction"]


class Part(NamedTuple):
    """A derivative by an element that is read over some iterators: ``axes`` of the result, ``more``
    of a reduction.
    """

    partial: Partial
    axes: tuple[IterVar, ...]
    more: tuple[IterVar, ...]


_KINDS = {Add: "sum", Mul: "prod", Max: "max", Min: "min"}


def _kind(combiner: CommReducer) -> str | None:
    """Return which of the usual reductions a combiner is."""
    if len(combiner.result) != 1:
        return None
    result, sides = combiner.result[0], {combiner.lhs[0], combiner.rhs[0]}
    if isinstance(result, (Add, Mul, Max, Min)) and {result.a, result.b} == sides:
        return _KINDS[type(result)]
    return None


def parts_of_reduction(op: ComputeOp, wanted: Container[Tensor]) -> list[Part] | None:
    """Return the derivatives of a reduction; None if it is of a kind that needs
    ``general_derivatives``.
    """
    reduce: Any = op.body[0]
    kind = _kind(reduce.combiner)
    if kind is None or (kind != "sum" and reduce.init):
        return None
    found = partials(reduce.source[0], wanted)
    conditions: tuple[PrimExpr, ...] = (reduce.condition,)
    factor: PrimExpr | None = None
    if kind == "prod" and found:
        factor = _product_of_others(op, reduce)
    elif kind != "sum" and found:
        place = _place_of_extreme(op, reduce, kind)
        here = place(*[axis.var for axis in op.axis])
        conditions = (*conditions, equal(_number(reduce.axis, here.dtype), here))
    parts = []
    for load, own, value in found:
        value = value if factor is None else factor * value
        parts.append(Part(Partial(load, (*conditions, *own), value), op.axis, reduce.axis))
    if reduce.init:
        parts += [Part(one, op.axis, ()) for one in partials(reduce.init[0], wanted)]
    return parts


def _number(axes: Sequence[IterVar], dtype: Any) -> PrimExpr:
    """Return the number of an iteration, counted from 0 in the order of nested loops."""
    number: PrimExpr = const(0, dtype)
    for axis in axes:
        domain = axis.domain
        number = number * domain.extent.astype(dtype) + (axis.var - domain.min).astype(dtype)
    return number


def _renewed(reduce: Reduce) -> tuple[list[IterVar], dict[Var, PrimExpr]]:
    """Return iterators of their own for a second computation of a reduction."""
    axes = [reduce_axis(axis.domain, axis.var.name) for axis in reduce.axis]
    return axes, {axis.var: new.var for axis, new in zip(reduce.axis, axes)}


def _place_of_extreme(op: ComputeOp, reduce: Reduce, kind: str) -> Tensor:
    """Return for each element the number of the iteration that gives the largest or smallest
    value, -1 for none.
    """
    sign = -1 if kind == "max" else 1

    def better(a: Any, b: Any) -> Any:
        closer = a[1] > b[1] if kind == "max" else a[1] < b[1]
        is_first = any_of(closer, all_of(equal(a[1], b[1]), a[0] <= b[0]))
        return tuple([if_then_else(is_first, one, other) for one, other in zip(a, b)])

    def none(index_dtype: Any, dtype: Any) -> Any:
        return const(-1, index_dtype), const(sign * math.inf, dtype)

    find = comm_reducer(better, none, name=f"place_of_{kind}")

    def element(*indices: Var) -> Any:
        axes, renamed = _renewed(reduce)
        mapping = {**renamed, **dict(zip([axis.var for axis in op.axis], indices))}
        source = substitute(reduce.source[0], mapping)
        where = substitute(reduce.condition, mapping)
        return find((_number(axes, "int32"), source), axis=axes, where=where)

    found, _ = compute(op.output(0).shape, element, f"{op.name}_place")
    return found  # type: ignore[no-any-return]


def _product_of_others(op: ComputeOp, reduce: Reduce) -> PrimExpr:
    """Return the product of all factors but the one of the iteration that it is asked for in."""
    count = len(op.axis)

    def element(*indices: Var) -> Any:
        axes, renamed = _renewed(reduce)
        mapping = {**renamed, **dict(zip([axis.var for axis in op.axis], indices))}
        same = [
            not_equal(axis.var - axis.domain.min, index)
            for axis, index in zip(axes, indices[count:])
        ]
        where = all_of(substitute(reduce.condition, mapping), any_of(*same))
        source = substitute(reduce.source[0], mapping)
        return Reduce(reduce.combiner, [source], axes, where, 0)

    extents = [axis.domain.extent for axis in reduce.axis]
    others = compute([*op.output(0).shape, *extents], element, f"{op.name}_others")
    own = [axis.var - axis.domain.min for axis in reduce.axis]
    return others(*[axis.var for axis in op.axis], *own)  # type: ignore[no-any-return]


def general_derivatives(
    op: ComputeOp, tensor: Tensor, reached: Sequence[Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """Return for some results of a reduction their derivatives by each element of a tensor, of
    the result's shape followed by the tensor's.
    """
    reduce: Any = op.body[0]
    if any(partials(value, {tensor}) for value in reduce.init):
        raise UnsupportedError(
            f"te.gradient: the reduction '{op.name}' begins with elements of '{tensor.name}'",
            notes=("combine them with the result in a computation of their own",),
        )
    floats = [k for k, value in enumerate(reduce.source) if value.dtype.is_float]
    dual = _dual_reducer(reduce.combiner, floats)
    count = len(op.axis)

    def element(*indices: Var) -> Any:
        axes, renamed = _renewed(reduce)
        mapping = {**renamed, **dict(zip([axis.var for axis in op.axis], indices))}
        sources = [substitute(value, mapping) for value in reduce.source]
        changes = [_change(sources[k], tensor, indices[count:]) for k in floats]
        where = substitute(reduce.condition, mapping)
        begin = [substitute(value, mapping) for value in reduce.init]
        if begin:
            begin += [const(0.0, sources[k].dtype) for k in floats]
        return dual((*sources, *changes), axis=axes, where=where, init=tuple(begin) or None)

    shape = [*op.output(0).shape, *tensor.shape]
    results = compute(shape, element, f"{op.name}_derivative")
    first = len(reduce.source)
    return [
        (one, results[first + floats.index(one.value_index)])
        for one in reached
        if one.value_index in floats
    ]


def _change(source: PrimExpr, tensor: Tensor, indices: Sequence[Var]) -> PrimExpr:
    """Return the derivative of a value by the element of a tensor at some indices."""
    zero = const(0.0, source.dtype)
    total: PrimExpr = zero
    for load, conditions, value in partials(source, {tensor}):
        same = [equal(index, wanted) for index, wanted in zip(load.indices, indices)]
        where = all_of(*conditions, *same) if conditions or same else const(True, "bool")
        total = total + if_then_else(where, value.astype(source.dtype), zero)
    return total


def _dual_reducer(combiner: CommReducer, floats: Sequence[int]) -> Callable[..., Any]:
    """Return a reduction of the values of another one together with the derivatives of some."""
    count = len(combiner.result)

    def combine(a: Any, b: Any) -> Any:
        sides = [*combiner.lhs, *combiner.rhs]
        values = dict(zip(sides, [*a[:count], *b[:count]]))
        changes = {combiner.lhs[k]: a[count + n] for n, k in enumerate(floats)}
        changes |= {combiner.rhs[k]: b[count + n] for n, k in enumerate(floats)}
        stands_for = {var: placeholder((), var.dtype, var.name) for var in changes}
        loads = {var: tensor() for var, tensor in stands_for.items()}
        back = {tensor: var for var, tensor in stands_for.items()}
        restored = _Back(back)
        results = [substitute(value, values) for value in combiner.result]
        for k in floats:
            zero = const(0.0, combiner.result[k].dtype)
            total: PrimExpr = zero
            derived = partials(substitute(combiner.result[k], loads), set(back))
            for load, conditions, value in derived:
                change = changes[back[load.producer]]  # type: ignore[index]
                added = restored.visit(value) * change
                if conditions:
                    where = all_of(*[restored.visit(one) for one in conditions])
                    added = if_then_else(where, added, zero)
                total = total + added
            results.append(substitute(total, values))
        return tuple(results)

    def identity(*dtypes: Any) -> Any:
        zeros = [const(0.0, dtype) for dtype in dtypes[count:]]
        return (*combiner.identity_element, *zeros)

    return comm_reducer(combine, identity, name="derivative")


class _Back(Rewriter):
    """Puts variables where tensors stood for them."""

    def __init__(self, variables: dict[Any, Var]) -> None:
        self.variables = variables

    def visit_ProducerLoad(self, load: ProducerLoad) -> PrimExpr:
        return self.variables.get(load.producer, load)
