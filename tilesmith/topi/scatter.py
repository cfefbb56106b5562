"""Updates of single elements: a copy of the data, into which the updates are merged in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from tilesmith import te, tir
from tilesmith.ir import PrimExpr
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.procedure import loops, pointers
from tilesmith.topi.utils import get_const_int, index_from_end, normalize_axes

__all__ = ["scatter", "scatter_add", "scatter_elements", "scatter_nd"]

_REDUCTIONS: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "update": lambda old, new: new,
    "none": lambda old, new: new,
    "add": tir.Add,
    "mul": tir.Mul,
    "min": tir.Min,
    "max": tir.Max,
}


def _merge(reduction: str, name: str) -> Callable[[PrimExpr, PrimExpr], PrimExpr]:
    if reduction not in _REDUCTIONS:
        raise UnsupportedError(
            f"{name}: reduction '{reduction}' is not one of {', '.join(_REDUCTIONS)}"
        )
    return _REDUCTIONS[reduction]


def _copy(builder: IRBuilder, out: BufferVar, data: BufferVar, shape: Sequence[PrimExpr]) -> None:
    with ExitStack() as stack:
        place = loops(builder, stack, shape, "i")
        out[place] = data[place]


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """Return ``data`` with ``updates`` at the places that ``indices`` give along an axis.

    ``indices`` and ``updates`` have one shape, no larger than that of ``data`` in the other axes;
    negative indices count from the end, those out of range are an error when the program runs.
    ``reduction``: "update", "add", "mul", "min" or "max" of the old and the new element, in order
    of the updates.
    """
    (axis,) = normalize_axes(axis, len(data.shape))
    if not len(data.shape) == len(indices.shape) == len(updates.shape):
        raise ShapeError("scatter_elements: data, indices and updates have as many dimensions")
    size, merge = data.shape[axis], _merge(reduction, "scatter_elements")

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        old, where, new, out = pointers(builder, [*inputs, *outputs])
        _copy(builder, out, old, data.shape)
        with ExitStack() as stack:
            update = loops(builder, stack, indices.shape, "u")
            given = builder.let("given", where[update])
            index = builder.let("index", index_from_end(given, size, "scatter_elements"))
            place = [*update[:axis], index, *update[axis + 1 :]]
            out[place] = merge(out[place], new[update])
        return builder.get()

    made: Tensor = te.extern(
        [data.shape], [data, indices, updates], body, "scatter_elements", [data.dtype]
    )
    return made


def scatter(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Tensor:
    """Return ``data`` with some elements replaced: the older name of `scatter_elements`."""
    return scatter_elements(data, indices, updates, axis)


def scatter_add(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Tensor:
    """Return ``data`` with ``updates`` added to some elements; see `scatter_elements`."""
    return scatter_elements(data, indices, updates, axis, "add")


def scatter_nd(
    data: Tensor, indices: Tensor, updates: Tensor, mode: str, tuples_last: bool = False
) -> Tensor:
    """Return ``data`` with ``updates`` at index tuples, which stand along the first axis of
    ``indices`` (the last one with ``tuples_last``).

    indices (M, Y...), updates (Y..., the axes of data from M on). ``mode``: as the ``reduction`` of
    `scatter_elements`, and so are indices that are negative or out of range.
    """
    depth = get_const_int(indices.shape[-1 if tuples_last else 0])
    outer = list(indices.shape[:-1] if tuples_last else indices.shape[1:])
    if depth > len(data.shape):
        raise ShapeError(f"scatter_nd: {depth} indices for {len(data.shape)} dimensions")
    merge = _merge(mode, "scatter_nd")

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        old, where, new, out = pointers(builder, [*inputs, *outputs])
        _copy(builder, out, old, data.shape)
        with ExitStack() as stack:
            update = loops(builder, stack, outer, "u")
            places = []
            for number, size in enumerate(data.shape[:depth]):
                at = [*update, number] if tuples_last else [number, *update]
                given = builder.let(f"given{number}", where[at])
                index = index_from_end(given, size, "scatter_nd")
                places.append(builder.let(f"index{number}", index))
            rest = loops(builder, stack, data.shape[depth:], "i")
            target = [*places, *rest]
            out[target] = merge(out[target], new[[*update, *rest]])
        return builder.get()

    made: Tensor = te.extern(
        [data.shape], [data, indices, updates], body, "scatter_nd", [data.dtype]
    )
    return made
