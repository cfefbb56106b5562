"""Updates of single elements.

Each element of the result looks through the updates in order, so that no two writers meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.utils import get_const_int, normalize_axes, product, unravel_index

__all__ = ["scatter_elements", "scatter_nd"]

_REDUCTIONS: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "update": lambda old, new: new,
    "none": lambda old, new: new,
    "add": tir.Add,
    "mul": tir.Mul,
    "min": tir.Min,
    "max": tir.Max,
}


def _scan_updates(
    data: Tensor,
    count: PrimExpr,
    hit: Callable[[PrimExpr, Sequence[PrimExpr]], PrimExpr],
    value: Callable[[PrimExpr, Sequence[PrimExpr]], PrimExpr],
    reduction: str,
    name: str,
) -> Tensor:
    """Merge those of ``count`` updates that ``hit`` an element into ``data``, in order."""
    if reduction not in _REDUCTIONS:
        raise UnsupportedError(
            f"{name}: reduction '{reduction}' is not one of {', '.join(_REDUCTIONS)}"
        )
    merge = _REDUCTIONS[reduction]
    step = te.reduce_axis((0, count), name="k")

    def combine(left: Any, right: Any) -> Any:
        old, was_set = left
        new, sets = right
        both = merge(old, new)
        merged = tir.Select(tir.And(was_set, sets), both, tir.Select(sets, new, old))
        return merged, tir.Or(was_set, sets)

    def identity(first: Any, second: Any) -> Any:
        return const(0, first), const(False, second)

    reducer = tir.comm_reducer(combine, identity, name="scatter")

    def element(*i: Any) -> Any:
        place = hit(step.var, i)
        return reducer((value(step.var, i), place), axis=step)

    found, was_set = te.compute(data.shape, element, name=name)

    def result(*i: Any) -> PrimExpr:
        return tir.Select(was_set(*i), merge(data(*i), found(*i)), data(*i))

    return te.compute(data.shape, result, name="T_" + name, tag=tag.INJECTIVE)


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """Return ``data`` with ``updates`` at the places that ``indices`` give along an axis.

    ``indices`` and ``updates`` have one shape, no larger than that of ``data`` in the other axes;
    negative indices count from the end, those out of range change nothing. ``reduction``: "update",
    "add", "mul", "min" or "max" of the old and the new element, in order of the updates.
    """
    (axis,) = normalize_axes(axis, len(data.shape))
    if not len(data.shape) == len(indices.shape) == len(updates.shape):
        raise ShapeError("scatter_elements: data, indices and updates have as many dimensions")
    size = data.shape[axis]

    def at(k: PrimExpr, i: Sequence[PrimExpr]) -> list[PrimExpr]:
        return [*i[:axis], k, *i[axis + 1 :]]

    def inside(i: Sequence[PrimExpr]) -> PrimExpr:
        conditions = [
            index < extent
            for number, (index, extent) in enumerate(zip(i, indices.shape))
            if number != axis
        ]
        return tir.all(const(True, "bool"), *conditions)

    def hit(k: PrimExpr, i: Sequence[PrimExpr]) -> PrimExpr:
        nowhere = const(-1, indices.dtype) - op.cast(indices.dtype, size)
        index = tir.if_then_else(inside(i), indices(*at(k, i)), nowhere)
        index = tir.Select(index < 0, index + op.cast(index.dtype, size), index)
        return op.equal(op.cast("int64", index), op.cast("int64", i[axis]))

    def value(k: PrimExpr, i: Sequence[PrimExpr]) -> PrimExpr:
        return tir.if_then_else(inside(i), updates(*at(k, i)), const(0, data.dtype))

    return _scan_updates(data, indices.shape[axis], hit, value, reduction, "scatter_elements")


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str) -> Tensor:
    """Return ``data`` with ``updates`` at index tuples, which stand along the first axis of
    ``indices``.

    indices (M, Y...), updates (Y..., the axes of data from M on). ``mode``: as the ``reduction`` of
    `scatter_elements`.
    """
    depth = get_const_int(indices.shape[0])
    outer = list(indices.shape[1:])
    if depth > len(data.shape):
        raise ShapeError(f"scatter_nd: {depth} indices for {len(data.shape)} dimensions")

    def hit(k: PrimExpr, i: Sequence[PrimExpr]) -> PrimExpr:
        place = unravel_index(k, outer)
        conditions = [
            op.equal(op.cast("int64", indices(n, *place)), op.cast("int64", i[n]))
            for n in range(depth)
        ]
        return tir.all(const(True, "bool"), *conditions)

    def value(k: PrimExpr, i: Sequence[PrimExpr]) -> PrimExpr:
        return updates(*unravel_index(k, outer), *i[depth:])

    return _scan_updates(data, product(outer), hit, value, mode, "scatter_nd")
