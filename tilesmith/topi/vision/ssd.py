"""Single-shot detectors: boxes at each place of an image, and what a network says about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import FloatImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.topi import tag
from tilesmith.topi.box_suppression import non_max_suppression
from tilesmith.topi.compute import compute
from tilesmith.topi.math import clip as limit
from tilesmith.topi.procedure import local, pointers
from tilesmith.topi.utils import same_size, simplify

__all__ = [
    "hybrid_multibox_prior", "hybrid_multibox_transform_loc", "multibox_detection",
    "multibox_prior", "multibox_transform_loc",
]  # fmt: skip

_VARIANCES = (0.1, 0.1, 0.2, 0.2)


def _floats(values: Any) -> list[float]:
    several = values if isinstance(values, Sequence) else [values]
    return [float(one.value if isinstance(one, FloatImm) else one) for one in several]


def hybrid_multibox_prior(
    data: Tensor, sizes: Any, ratios: Any, steps: Any, offsets: Any
) -> Tensor:
    """Return the boxes of `multibox_prior`, which may reach beyond the image."""
    if len(data.shape) != 4:
        raise ShapeError(f"multibox_prior takes NCHW images, got {len(data.shape)} dimensions")
    sizes, ratios = _floats(sizes), _floats(ratios)
    steps, offsets = _floats(steps), _floats(offsets)
    if not sizes or not ratios or len(steps) != 2 or len(offsets) != 2:
        raise OpAttributeInvalid("multibox_prior: sizes, ratios, two steps and two offsets")
    height, width = data.shape[2:]
    dtype = data.dtype
    # A size with the first ratio, which counts as 1; then the first size with the other ratios.
    shapes = [(size, 1.0) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    number = len(shapes)

    def chosen(k: PrimExpr, values: list[float]) -> PrimExpr:
        made: PrimExpr = const(values[-1], dtype)
        for place in range(number - 2, -1, -1):
            made = tir.Select(op.equal(k, place), const(values[place], dtype), made)
        return made

    def element(n: PrimExpr, box: PrimExpr, corner: PrimExpr) -> PrimExpr:
        k, place = op.floormod(box, number), op.floordiv(box, number)
        at = [op.floordiv(place, width), op.floormod(place, width)]
        middles = []
        for index, size, step, offset in zip(at, (height, width), steps, offsets):
            one = const(step, dtype) if step > 0 else const(1.0, dtype) / op.cast(dtype, size)
            middles.append((op.cast(dtype, index) + const(offset, dtype)) * one)
        aspect = op.cast(dtype, height) / op.cast(dtype, width)
        halves = [
            chosen(k, [size / math.sqrt(ratio) / 2 for size, ratio in shapes]),
            chosen(k, [size * math.sqrt(ratio) / 2 for size, ratio in shapes]) * aspect,
        ]
        is_x = op.equal(op.floormod(corner, 2), 0)
        middle = tir.Select(is_x, middles[1], middles[0])
        half = tir.Select(is_x, halves[1], halves[0])
        return tir.Select(corner < 2, middle - half, middle + half)

    shape = (1, simplify(height * width * number), 4)
    return compute(shape, element, name="multibox_prior", tag=tag.INJECTIVE)


def multibox_prior(
    data: Tensor,
    sizes: Sequence[float] = (1,),
    ratios: Sequence[float] = (1,),
    steps: Sequence[float] = (-1, -1),
    offsets: Sequence[float] = (0.5, 0.5),
    clip: bool = False,
) -> Tensor:
    """Return the boxes (left, top, right, bottom, in parts of the image) that stand at each pixel
    of NCHW ``data``: (1, pixels * boxes, 4).

    There is a box of each size, then one of the first size for each ratio (width by height) but the
    first. ``steps`` and ``offsets``, for y and x, say where the middles are: pixel + offset, times
    the step, which is that from pixel to pixel if not positive. ``clip`` cuts what lies outside.
    """
    boxes = hybrid_multibox_prior(data, sizes, ratios, steps, offsets)
    return limit(boxes, 0, 1) if clip else boxes


def _moved(
    moves: list[PrimExpr], box: list[PrimExpr], scales: list[float], clip: bool
) -> list[PrimExpr]:
    """Return the corners of a box that moves by parts of its size and grows by powers of e."""
    dtype = box[0].dtype
    half = const(0.5, dtype)
    ends: list[PrimExpr] = []
    for axis in (0, 1):
        extent = box[axis + 2] - box[axis]
        middle = (box[axis] + box[axis + 2]) * half
        middle = moves[axis] * const(scales[axis], dtype) * extent + middle
        reach = tir.exp(moves[axis + 2] * const(scales[axis + 2], dtype)) * extent * half
        ends += [middle - reach, middle + reach]
    ordered = [ends[0], ends[2], ends[1], ends[3]]
    return [limit(end, 0, 1) for end in ordered] if clip else ordered


def hybrid_multibox_transform_loc(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: Any,
    threshold: Any,
    variances: Any,
    keep_background: Any,
) -> list[Tensor]:
    """Do what `multibox_transform_loc` does."""
    batch, classes, size = cls_prob.shape
    if len(anchor.shape) != 3 or not same_size(anchor.shape[1], size):
        raise ShapeError(f"multibox_transform_loc: {size} boxes, anchors {list(anchor.shape)}")
    if len(loc_pred.shape) != 2 or not same_size(loc_pred.shape[1], size * 4):
        raise ShapeError(f"multibox_transform_loc: {size} boxes, moves {list(loc_pred.shape)}")
    (least,), scales = _floats(threshold), _floats(variances)
    if len(scales) != 4:
        raise OpAttributeInvalid("multibox_transform_loc: four variances, of x, y, width, height")
    dtype, first = cls_prob.dtype, 0 if bool(keep_background) else 1

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        chances, moves, anchors, out, counted = pointers(builder, [*inputs, *outputs])
        with builder.for_range(const(0, batch.dtype), batch, "n") as n:
            count = local(builder, "int32", "count", const(0, "int32"))
            with builder.for_range(const(0, size.dtype), size, "k") as k:
                best = local(builder, dtype, "best", const(-1, dtype))
                kind = local(builder, "int32", "kind", const(-1, "int32"))
                with builder.for_range(const(first, classes.dtype), classes, "c") as c:
                    chance = builder.let("chance", chances[[n, c, k]])
                    with builder.if_scope(chance > best[0]):
                        best[0] = chance
                        kind[0] = op.cast("int32", c) - first
                with builder.for_range(0, 6, "v") as v:
                    out[[n, k, v]] = const(-1, dtype)
                known = tir.And(kind[0] >= 0, best[0] >= const(least, dtype))
                with builder.if_scope(known):
                    own = [moves[[n, k * 4 + v]] for v in range(4)]
                    box = [anchors[[0, k, v]] for v in range(4)]
                    values = [
                        op.cast(dtype, kind[0]),
                        best[0],
                        *_moved(own, box, scales, bool(clip)),
                    ]
                    for v, value in enumerate(values):
                        out[[n, count[0], v]] = value
                    count[0] = count[0] + 1
            counted[n] = count[0]
        return builder.get()

    made: list[Tensor] = te.extern(
        [(batch, size, 6), (batch,)], [cls_prob, loc_pred, anchor], body, "multibox_transform_loc",
        [dtype, "int32"],
    )  # fmt: skip
    return made


def multibox_transform_loc(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Sequence[float] = _VARIANCES,
    keep_background: bool = False,
) -> list[Tensor]:
    """Return boxes (class, score, left, top, right, bottom) of each image and how many there are;
    rows of -1 follow them.

    ``cls_prob`` (batch, classes, boxes), ``loc_pred`` (batch, boxes * 4) how the boxes ``anchor``
    (1, boxes, 4) move and grow, in units of ``variances``. A box is of its most likely class, of
    which the first one is the background: it does not count, and the others have numbers from 0 on;
    with ``keep_background`` it counts as any other. Boxes whose score is below ``threshold`` are
    left out; ``clip`` cuts what lies outside of the image.
    """
    return hybrid_multibox_transform_loc(
        cls_prob, loc_pred, anchor, clip, threshold, variances, keep_background
    )


def multibox_detection(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: Sequence[float] = _VARIANCES,
    nms_topk: int = -1,
) -> Tensor:
    """Return the boxes of `multibox_transform_loc` in the order of their scores, with rows of -1
    for those that overlap with a better one: see `non_max_suppression`.
    """
    boxes, count = multibox_transform_loc(cls_prob, loc_pred, anchor, clip, threshold, variances)
    numbers = compute(boxes.shape[:2], lambda n, k: op.cast("int32", k), name="multibox_numbers")
    made: Tensor | list[Tensor] = non_max_suppression(
        boxes, count, numbers, -1, nms_threshold, force_suppress, nms_topk, return_indices=False
    )
    return made if isinstance(made, Tensor) else made[0]
