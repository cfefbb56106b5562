"""Moves what counts to the front of each row."""

from __future__ import annotations

from collections.abc import Callable

from tilesmith import te
from tilesmith.ir import PrimExpr, const
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import IRBuilder
from tilesmith.topi.procedure import local, pointers

__all__ = ["hybrid_rearrange_box_out", "hybrid_rearrange_indices_out"]


def _forward(
    builder: IRBuilder,
    batch: PrimExpr,
    size: PrimExpr,
    counts: Callable[[PrimExpr, PrimExpr], PrimExpr],
    clear: Callable[[PrimExpr, PrimExpr], None],
    move: Callable[[PrimExpr, PrimExpr, PrimExpr], None],
    finish: Callable[[PrimExpr, PrimExpr], None],
) -> None:
    """Emit for each row: clear all places, move those that count to the next place in front."""
    with builder.for_range(const(0, batch.dtype), batch, "n") as n:
        count = local(builder, "int32", "count", const(0, "int32"))
        with builder.for_range(const(0, size.dtype), size, "k") as k:
            clear(n, k)
            with builder.if_scope(counts(n, k)):
                move(n, count[0], k)
                count[0] = count[0] + 1
        finish(n, count[0])


def _check(name: str, data: Tensor, rank: int) -> None:
    if len(data.shape) != rank:
        raise ShapeError(f"{name} takes {rank} dimensions, got {len(data.shape)}")


def hybrid_rearrange_box_out(
    data: Tensor, one: object, batch_size: object, num_anchors: object
) -> Tensor:
    """Move the boxes (batch, boxes, values) whose first value is not negative to the front; rows of
    -1 follow. The sizes are those of ``data``, whatever the last parameters are.
    """
    _check("hybrid_rearrange_box_out", data, 3)
    batch, size, width = data.shape

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, out = pointers(builder, [*inputs, *outputs])

        def clear(n: PrimExpr, k: PrimExpr) -> None:
            with builder.for_range(const(0, width.dtype), width, "v") as v:
                out[[n, k, v]] = const(-1, data.dtype)

        def move(n: PrimExpr, target: PrimExpr, k: PrimExpr) -> None:
            with builder.for_range(const(0, width.dtype), width, "v") as v:
                out[[n, target, v]] = source[[n, k, v]]

        _forward(
            builder, batch, size, lambda n, k: source[[n, k, 0]] >= const(0, data.dtype), clear,
            move, lambda n, count: None,
        )  # fmt: skip
        return builder.get()

    made: Tensor = te.extern([data.shape], [data], body, "rearrange_boxes", [data.dtype])
    return made


def hybrid_rearrange_indices_out(
    data: Tensor, one: object, batch_size: object, num_anchors: object
) -> list[Tensor]:
    """Move the numbers (batch, boxes) that are not negative to the front, -1 follows; return them
    and how many there are. The sizes are those of ``data``, whatever the last parameters are.
    """
    _check("hybrid_rearrange_indices_out", data, 2)
    batch, size = data.shape

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, out, counted = pointers(builder, [*inputs, *outputs])

        def clear(n: PrimExpr, k: PrimExpr) -> None:
            out[[n, k]] = const(-1, data.dtype)

        def move(n: PrimExpr, target: PrimExpr, k: PrimExpr) -> None:
            out[[n, target]] = source[[n, k]]

        def finish(n: PrimExpr, count: PrimExpr) -> None:
            counted[[n, 0]] = count

        _forward(
            builder, batch, size, lambda n, k: source[[n, k]] >= const(0, data.dtype), clear,
            move, finish,
        )  # fmt: skip
        return builder.get()

    made: list[Tensor] = te.extern(
        [data.shape, (batch, 1)], [data], body, "rearrange_numbers", [data.dtype, "int32"]
    )
    return made
