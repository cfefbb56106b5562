"""Updates of single elements: a copy of the data, into which the updates are merged in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.procedure import loops, pointers
from tilesmith.topi.utils import get_const_int, normalize_axes

__all__ = ["scatter_elements", "scatter_nd"]

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


def _place(
    builder: IRBuilder, index: PrimExpr, size: PrimExpr, name: str
) -> tuple[PrimExpr, PrimExpr]:
    """Return an index as one from the front (negative ones count from the end), and whether it is
    within an axis.
    """
    given = builder.let(name, op.cast("int64", index))
    wide = op.cast("int64", size)
    found = builder.let(name, tir.Select(given < 0, given + wide, given))
    return op.cast(size.dtype, found), tir.And(const(0, "int64") <= found, found < wide)


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
    size, merge = data.shape[axis], _merge(reduction, "scatter_elements")

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        old, where, new, out = pointers(builder, [*inputs, *outputs])
        _copy(builder, out, old, data.shape)
        with ExitStack() as stack:
            update = loops(builder, stack, indices.shape, "u")
            index, is_within = _place(builder, where[update], size, "index")
            place = [*update[:axis], index, *update[axis + 1 :]]
            stack.enter_context(builder.if_scope(is_within))
            out[place] = merge(out[place], new[update])
        return builder.get()

    made: Tensor = te.extern(
        [data.shape], [data, indices, updates], body, "scatter_elements", [data.dtype]
    )
    return made


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
                given = where[[*update, number] if tuples_last else [number, *update]]
                places.append(_place(builder, given, size, f"index{number}"))
            is_within = tir.all(const(True, "bool"), *[inside for _, inside in places])
            stack.enter_context(builder.if_scope(is_within))
            rest = loops(builder, stack, data.shape[depth:], "i")
            target = [*[place for place, _ in places], *rest]
            out[target] = merge(out[target], new[[*update, *rest]])
        return builder.get()

    made: Tensor = te.extern(
        [data.shape], [data, indices, updates], body, "scatter_nd", [data.dtype]
    )
    return made
