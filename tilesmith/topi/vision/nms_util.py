"""Parts of which programs that choose boxes are made: users put them together themselves.

valid_count   how many scores of each (batch, class) count: `binary_search`
chosen boxes  of each (batch, class): `run_all_class_nms` with `nms_loop`
one list      of all chosen boxes: `collect_selected_indices`, or one for each image:
              `collect_selected_indices_and_scores`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.box_suppression import shared_part
from tilesmith.topi.procedure import flat_load, local, pointers
from tilesmith.topi.utils import Number, get_const_int, lowest

__all__ = [
    "binary_search", "calculate_overlap", "collect_selected_indices",
    "collect_selected_indices_and_scores", "nms_loop", "run_all_class_nms",
]  # fmt: skip


def calculate_overlap(
    out_tensor: BufferVar, box_a_idx: int | PrimExpr, box_b_idx: int | PrimExpr
) -> PrimExpr:
    """Return which part of their union two boxes share, whose four corners stand in a buffer from
    flat positions on.
    """
    boxes = [
        [flat_load(out_tensor, convert(first) + k) for k in range(4)]
        for first in (box_a_idx, box_b_idx)
    ]
    return shared_part(*boxes)


def binary_search(
    ib: IRBuilder,
    y: PrimExpr,
    num_boxes: int | PrimExpr,
    scores: BufferVar,
    score_threshold: Number,
    out: BufferVar,
) -> None:
    """Emit ``out[y]`` = how many scores of a row, which descend, are above a threshold."""
    least = op.cast(scores.dtype, convert(score_threshold))
    low = local(ib, out.dtype, "low", const(0, out.dtype))
    high = local(ib, out.dtype, "high", op.cast(out.dtype, convert(num_boxes)))
    with ib.while_loop(low[0] < high[0]):
        middle = ib.let("middle", low[0] + op.floordiv(high[0] - low[0], 2))
        is_above = ib.let("is_above", scores[[y, middle]] > least)
        low[0] = tir.Select(is_above, middle + 1, low[0])
        high[0] = tir.Select(is_above, high[0], middle)
    out[y] = low[0]


def nms_loop(
    ib: IRBuilder,
    batch_size: int | PrimExpr,
    top_k: int | PrimExpr,
    iou_threshold: PrimExpr,
    max_output_size: int | PrimExpr,
    valid_count: BufferVar,
    on_new_valid_box_func: Callable[..., Any],
    on_new_invalidated_box_func: Callable[..., Any],
    needs_bbox_check_func: Callable[..., Any],
    calc_overlap_func: Callable[..., PrimExpr],
    out_scores: BufferVar,
    num_valid_boxes: BufferVar,
) -> None:
    """Emit the choice of boxes, row by row of scores that descend.

    A box is chosen unless a chosen one overlaps with it by more than ``iou_threshold``; its score
    becomes the lowest number then. ``top_k`` and ``max_output_size`` limit how many boxes are
    looked at and chosen, unless they are not positive. The functions take the row and places in it:
    ``on_new_valid_box(ib, 0, how many were chosen, row, place)``,
    ``on_new_invalidated_box(row, place)``, ``needs_bbox_check(row, chosen, other)`` and
    ``calc_overlap(row, chosen, other)``.
    """
    zero, last = const(0, "int32"), lowest(out_scores.dtype)

    def limited(limit: int | PrimExpr, most: PrimExpr) -> PrimExpr:
        value = op.cast("int32", convert(limit))
        return tir.Select(value > 0, op.minimum(value, most), most)

    with ib.for_range(0, batch_size, "row") as i:
        used = ib.let("used", limited(top_k, op.cast("int32", valid_count[i])))
        most = ib.let("most", limited(max_output_size, used))
        count = local(ib, "int32", "count", zero)
        place = local(ib, "int32", "place", zero)
        with ib.while_loop(tir.And(place[0] < used, count[0] < most)):
            j = ib.let("j", place[0])
            with ib.if_scope(out_scores[[i, j]] > last):
                on_new_valid_box_func(ib, 0, count[0], i, j)
                count[0] = count[0] + 1
                with ib.for_range(j + 1, used, "k") as k:
                    checked = tir.And(out_scores[[i, k]] > last, needs_bbox_check_func(i, j, k))
                    with ib.if_scope(checked):
                        with ib.if_scope(calc_overlap_func(i, j, k) > iou_threshold):
                            out_scores[[i, k]] = last
                            on_new_invalidated_box_func(i, k)
            place[0] = j + 1
        num_valid_boxes[i] = count[0]


def run_all_class_nms(
    boxes: Tensor,
    sorted_scores: Tensor,
    sorted_indices: Tensor,
    valid_count: Tensor,
    max_output_size_per_class: Tensor | Number,
    iou_threshold: Tensor | Number,
    nms_loop: Callable[..., None],
    return_scores: bool = False,
) -> list[Tensor]:
    """Choose boxes of each class of each image; return their numbers and how many there are.

    ``boxes`` (batch, boxes, 4); the others have a row for each (batch, class): scores that descend,
    the numbers of their boxes, and how many of them count. The results are rows, too, and with
    ``return_scores`` the scores of the chosen boxes stand in between; what lies beyond is not
    defined. ``nms_loop`` emits the choice: `nms_util.nms_loop`, or one of the same parameters.
    """
    batch, _, _ = boxes.shape
    rows, size = sorted_scores.shape
    classes = op.floordiv(rows, batch)
    limits = [max_output_size_per_class, iou_threshold]
    inputs = [boxes, sorted_scores, sorted_indices, valid_count]
    inputs += [limit for limit in limits if isinstance(limit, Tensor)]

    def body(given: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        corners, scores, numbers, valid, *rest = pointers(builder, given)
        chosen, chosen_scores, count, left = pointers(builder, outputs)
        values = iter(rest)
        most, overlap = [
            _first(next(values)) if isinstance(limit, Tensor) else convert(limit)
            for limit in limits
        ]
        with builder.for_range(const(0, rows.dtype), rows, "r") as r:
            with builder.for_range(const(0, size.dtype), size, "k") as k:
                left[[r, k]] = scores[[r, k]]

        def box(i: PrimExpr, place: PrimExpr) -> list[PrimExpr]:
            owner = op.floordiv(i, op.cast(i.dtype, classes))
            return [corners[[owner, numbers[[i, place]], corner]] for corner in range(4)]

        def keep(ib: IRBuilder, thread: Any, number: PrimExpr, i: PrimExpr, j: PrimExpr) -> None:
            chosen[[i, number]] = op.cast("int32", numbers[[i, j]])
            chosen_scores[[i, number]] = scores[[i, j]]

        nms_loop(
            builder, rows, -1, op.cast(boxes.dtype, overlap), most, valid, keep,
            lambda i, k: None, lambda i, j, k: const(True, "bool"),
            lambda i, j, k: shared_part(box(i, j), box(i, k)), left, count,
        )  # fmt: skip
        return builder.get()

    made: list[Tensor] = te.extern(
        [(rows, size), (rows, size), (rows,), (rows, size)], inputs, body, "all_class_nms",
        ["int32", sorted_scores.dtype, "int32", sorted_scores.dtype],
    )  # fmt: skip
    return made[:3] if return_scores else [made[0], made[2]]


def _first(buffer: BufferVar) -> PrimExpr:
    """Return the only value of a buffer."""
    return buffer[[const(0, "int32")] * len(buffer.asobject().shape)]


def collect_selected_indices(
    num_class: int | PrimExpr,
    selected_indices: Tensor,
    num_detections: Tensor,
    row_offsets: Tensor,
    ir: Callable[..., Stmt],
) -> Tensor:
    """Return the chosen boxes of all classes as rows (batch, class, box) of int64.

    ``selected_indices`` has a row for each (batch, class), ``num_detections`` how many of it are
    filled, ``row_offsets`` where they begin in the result. ``ir(num_class, buffers of these three,
    buffer of the result)`` gives the statement.
    """
    rows, size = selected_indices.shape
    made: Tensor = te.extern(
        [(rows * size, 3)],
        [selected_indices, num_detections, row_offsets],
        lambda inputs, outputs: ir(num_class, *inputs, *outputs),
        "collect_indices",
        ["int64"],
    )
    return made


def collect_selected_indices_and_scores(
    selected_indices: Tensor,
    selected_scores: Tensor,
    num_detections: Tensor,
    row_offsets: Tensor,
    num_total_detections: Tensor,
    ir: Callable[..., Stmt],
) -> list[Tensor]:
    """Return the chosen boxes of each image: rows (class, box) of int64, and their scores.

    ``selected_indices`` and ``selected_scores`` have a row for each (batch, class);
    ``num_detections`` and ``row_offsets`` (batch, classes) say how many of it are filled and where
    they begin in the result; ``num_total_detections`` (batch,). ``ir(buffers of these five, buffers
    of the two results)`` gives the statement.
    """
    batch, classes = row_offsets.shape
    size = selected_indices.shape[1]
    room = get_const_int(classes) * size
    made: list[Tensor] = te.extern(
        [(batch, room, 2), (batch, room)],
        [selected_indices, selected_scores, num_detections, row_offsets, num_total_detections],
        lambda inputs, outputs: ir(*inputs, *outputs),
        "collect_indices_and_scores",
        ["int64", selected_scores.dtype],
    )
    return made
