"""Detectors in two stages: regions that may hold objects, and the parts of images that they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TypeAlias

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.topi.compute import compute
from tilesmith.topi.digit_sort import DigitSort, sortable, sortable_dtype
from tilesmith.topi.procedure import Row, local, loops, pointers
from tilesmith.topi.regions import roi_align_nchw, roi_align_nhwc, roi_pool_nchw
from tilesmith.topi.utils import get_const_int

__all__ = [
    "argsort_ir", "generate_anchor", "nms_ir", "predict_bbox_ir", "prepare_output_ir", "proposal",
    "reg_bbox", "reg_iou", "roi_align_nchw", "roi_align_nhwc", "roi_pool_nchw",
]  # fmt: skip


def generate_anchor(
    ratio: float, scale: float, base_size: int
) -> tuple[float, float, float, float]:
    """Return the box (left, top, right, bottom, in whole pixels) of a ratio (height by width) and a
    scale around the middle of a square of ``base_size`` pixels.
    """
    middle = 0.5 * (base_size - 1)
    area = math.floor(base_size * base_size / ratio)
    side = math.floor(math.sqrt(area) + 0.5)
    width, height = side * scale, math.floor(side * ratio + 0.5) * scale
    return (
        middle - 0.5 * (width - 1), middle - 0.5 * (height - 1),
        middle + 0.5 * (width - 1), middle + 0.5 * (height - 1),
    )  # fmt: skip


Box: TypeAlias = tuple[PrimExpr, PrimExpr, PrimExpr, PrimExpr]


def reg_bbox(
    x1: PrimExpr, y1: PrimExpr, x2: PrimExpr, y2: PrimExpr,
    dx: PrimExpr, dy: PrimExpr, dw: PrimExpr, dh: PrimExpr,
) -> Box:  # fmt: skip
    """Return a box moved by parts of its size and grown by powers of e; its ends are pixels that
    belong to it.
    """
    one, half = const(1.0, x1.dtype), const(0.5, x1.dtype)
    ends = []
    for low, high, move, growth in ((x1, x2, dx, dw), (y1, y2, dy, dh)):
        size = high - low + one
        middle = move * size + low + half * (size - one)
        reach = half * (tir.exp(growth) * size - one)
        ends.append((middle - reach, middle + reach))
    return ends[0][0], ends[1][0], ends[0][1], ends[1][1]


def reg_iou(
    x1: PrimExpr, y1: PrimExpr, x2: PrimExpr, y2: PrimExpr,
    dx1: PrimExpr, dy1: PrimExpr, dx2: PrimExpr, dy2: PrimExpr,
) -> Box:  # fmt: skip
    """Return a box each of whose ends has been moved."""
    return x1 + dx1, y1 + dy1, x2 + dx2, y2 + dy2


def predict_bbox_ir(
    cls_prob_buf: Buffer,
    bbox_pred_buf: Buffer,
    im_info_buf: Buffer,
    out_buf: Buffer,
    scales: Sequence[float],
    ratios: Sequence[float],
    feature_stride: int,
    rpn_min_size: int,
    iou_loss: bool,
) -> Stmt:
    """Return the statement that stores the boxes of all places with their scores.

    ``cls_prob_buf`` (batch, 2 * boxes, height, width): first the background, then the object, for
    each box of a place; ``bbox_pred_buf`` (batch, 4 * boxes, height, width); ``im_info_buf`` rows
    of height, width and scale of an image; ``out_buf`` (batch, height * width * boxes, 5). Boxes
    are cut at the ends of the image. Those that are smaller than ``rpn_min_size`` (before the image
    was scaled), or that stand behind the end of the image, have score -1.
    """
    builder = ir_builder.create()
    chances, moves, images, out = pointers(
        builder, [cls_prob_buf, bbox_pred_buf, im_info_buf, out_buf]
    )
    batch, _, height, width = cls_prob_buf.shape
    anchors = [
        generate_anchor(ratio, scale, feature_stride) for ratio in ratios for scale in scales
    ]
    dtype = out.dtype
    zero, one, stride = const(0.0, dtype), const(1.0, dtype), const(float(feature_stride), dtype)
    with ExitStack() as stack:
        n, y, x = loops(builder, stack, [batch, height, width], "i")
        ends = [builder.let(f"size{axis}", images[[n, axis]]) for axis in (1, 0)]
        least = builder.let("least", const(float(rpn_min_size), dtype) * images[[n, 2]])
        at = [op.cast(dtype, x) * stride, op.cast(dtype, y) * stride]
        are_outside = [
            place >= op.cast("int32", tir.floor(end / stride))
            for place, end in ((x, ends[0]), (y, ends[1]))
        ]
        for k, anchor in enumerate(anchors):
            corners = [at[v % 2] + const(anchor[v], dtype) for v in range(4)]
            own = [moves[[n, 4 * k + v, y, x]] for v in range(4)]
            box = (reg_iou if iou_loss else reg_bbox)(*corners, *own)
            inside = [
                builder.let(f"end{v}", op.maximum(op.minimum(end, ends[v % 2] - one), zero))
                for v, end in enumerate(box)
            ]
            sides = [inside[v + 2] - inside[v] + one < least for v in (0, 1)]
            is_small = builder.let("is_small", tir.Or(*sides))
            grow = tir.Select(is_small, least * const(0.5, dtype), zero)
            row = (y * width + x) * len(anchors) + k
            for v, end in enumerate(inside):
                out[[n, row, v]] = end - grow if v < 2 else end + grow
            is_bad = tir.Or(is_small, tir.Or(*are_outside))
            score = chances[[n, len(anchors) + k, y, x]]
            out[[n, row, 4]] = tir.Select(is_bad, const(-1.0, dtype), score)
    return builder.get()


def argsort_ir(data_buf: Buffer, out_index_buf: Buffer) -> Stmt:
    """Return the statement that stores the places of the elements of each row, the largest first
    and equal ones in their order.
    """
    builder = ir_builder.create()
    data, out = pointers(builder, [data_buf, out_index_buf])
    rows, size = data_buf.shape
    with builder.for_range(const(0, rows.dtype), rows, "n") as n:
        keys = builder.allocate(sortable_dtype(data.dtype), [2, size], "keys", scope="global")
        places = builder.allocate("int32", [2, size], "places", scope="global")
        sorting = DigitSort(builder, keys, places, Row([], 0), False)
        plane = sorting.sort(lambda k: sortable(data[[n, k]]), lambda k: k, size)
        with builder.for_range(const(0, size.dtype), size, "k") as k:
            out[[n, k]] = op.cast(out.dtype, sorting.place(plane[0], k))
    return builder.get()


def nms_ir(sorted_bbox_buf: Buffer, out_buf: Buffer, nms_threshold: float) -> Stmt:
    """Return the statement that stores whether each of the boxes, the best first, has to go because
    it shares more than ``nms_threshold`` of the union with a better one that stays.

    ``sorted_bbox_buf`` (batch, boxes, corners and score); the ends are pixels of the box.
    """
    builder = ir_builder.create()
    boxes, out = pointers(builder, [sorted_bbox_buf, out_buf])
    batch, size, _ = sorted_bbox_buf.shape
    dtype, none = boxes.dtype, const(0, out.dtype)
    zero, one = const(0.0, dtype), const(1.0, dtype)

    def shared(a: list[PrimExpr], b: list[PrimExpr]) -> PrimExpr:
        common, areas = one, [one, one]
        for v in (0, 1):
            overlap = op.minimum(a[v + 2], b[v + 2]) - op.maximum(a[v], b[v]) + one
            common = common * op.maximum(overlap, zero)
            areas = [area * (box[v + 2] - box[v] + one) for area, box in zip(areas, (a, b))]
        return common / (areas[0] + areas[1] - common)

    with builder.for_range(const(0, batch.dtype), batch, "n") as n:
        with builder.for_range(const(0, size.dtype), size, "k") as k:
            out[[n, k]] = none
        with builder.for_range(const(0, size.dtype), size, "k") as k:
            with builder.if_scope(op.equal(out[[n, k]], none)):
                with builder.for_range(k + 1, size, "j") as j:
                    both = [[boxes[[n, place, v]] for v in range(4)] for place in (k, j)]
                    with builder.if_scope(shared(*both) > const(nms_threshold, dtype)):
                        out[[n, j]] = const(1, out.dtype)
    return builder.get()


def prepare_output_ir(sorted_bbox_buf: Buffer, remove_mask_buf: Buffer, out_buf: Buffer) -> Stmt:
    """Return the statement that stores, for each image, the first boxes that stay as rows (image,
    corners); if there are too few they begin again.
    """
    builder = ir_builder.create()
    boxes, removed, out = pointers(builder, [sorted_bbox_buf, remove_mask_buf, out_buf])
    batch, size, _ = sorted_bbox_buf.shape
    room = op.floordiv(out_buf.shape[0], batch)
    with builder.for_range(const(0, batch.dtype), batch, "n") as n:
        count = local(builder, "int32", "count", const(0, "int32"))
        k = local(builder, size.dtype, "k", const(0, size.dtype))
        with builder.while_loop(count[0] < op.cast("int32", room)):
            with builder.if_scope(op.equal(removed[[n, k[0]]], const(0, removed.dtype))):
                row = n * room + op.cast(n.dtype, count[0])
                out[[row, 0]] = op.cast(out.dtype, n)
                for v in range(4):
                    out[[row, 1 + v]] = boxes[[n, k[0], v]]
                count[0] = count[0] + 1
            # The best box always stays, so that this comes to an end.
            k[0] = op.floormod(k[0] + 1, size)
    return builder.get()


def proposal(
    cls_prob: Tensor,
    bbox_pred: Tensor,
    im_info: Tensor,
    scales: Sequence[float],
    ratios: Sequence[float],
    feature_stride: int,
    threshold: float,
    rpn_pre_nms_top_n: int,
    rpn_post_nms_top_n: int,
    rpn_min_size: int,
    iou_loss: bool,
) -> Tensor:
    """Return ``rpn_post_nms_top_n`` regions (image, left, top, right, bottom) of each image: the
    best boxes of all places (see `predict_bbox_ir`) that share no more than ``threshold`` of their
    union with a better one. Only the best ``rpn_pre_nms_top_n`` are looked at, unless it is not
    positive. If there are too few regions they begin again.
    """
    batch, channels, height, width = [get_const_int(size) for size in cls_prob.shape]
    each = len(scales) * len(ratios)
    if channels != 2 * each or get_const_int(bbox_pred.shape[1]) != 4 * each:
        raise ShapeError(
            f"proposal: {each} boxes at a place need {2 * each} scores and {4 * each} moves, got "
            f"{channels} and {bbox_pred.shape[1]}"
        )
    if rpn_post_nms_top_n < 1:
        raise OpAttributeInvalid("proposal: at least one region is asked for")
    total = height * width * each
    size = min(rpn_pre_nms_top_n, total) if rpn_pre_nms_top_n > 0 else total
    dtype = cls_prob.dtype
    boxes = te.extern(
        [(batch, total, 5)], [cls_prob, bbox_pred, im_info],
        lambda i, o: predict_bbox_ir(
            i[0], i[1], i[2], o[0], scales, ratios, feature_stride, rpn_min_size, iou_loss
        ),
        "predict_bbox", [dtype],
    )  # fmt: skip
    scores = compute((batch, total), lambda n, k: boxes(n, k, 4), name="proposal_scores")
    order = te.extern(
        [(batch, total)], [scores], lambda i, o: argsort_ir(i[0], o[0]), "argsort", ["int32"]
    )
    best = compute((batch, size, 5), lambda n, k, v: boxes(n, order(n, k), v), "sorted_bbox")
    removed = te.extern(
        [(batch, size)], [best], lambda i, o: nms_ir(i[0], o[0], threshold), "nms", ["bool"]
    )
    made: Tensor = te.extern(
        [(batch * rpn_post_nms_top_n, 5)], [best, removed],
        lambda i, o: prepare_output_ir(i[0], i[1], o[0]), "proposal", [dtype],
    )  # fmt: skip
    return made
