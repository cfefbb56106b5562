"""Choosing boxes class by class, then the best of all classes: the rule of TFLite's detectors."""

from __future__ import annotations

from dataclasses import dataclass

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.tir.ir_builder import BufferVar, IRBuilder
from tilesmith.topi.box_suppression import shared_part
from tilesmith.topi.compute import compute
from tilesmith.topi.procedure import local, pointers
from tilesmith.topi.sort import argsort
from tilesmith.topi.utils import get_const_int

__all__ = ["hybrid_regular_nms", "regular_non_max_suppression"]


@dataclass(frozen=True)
class _Rule:
    """What decides which boxes are chosen."""

    classes: int
    most: int
    each: int
    overlap: float
    least: float

    def fill(self, inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        """Return the program: it looks at the pairs of a class and a box by their scores."""
        builder = ir_builder.create()
        corners, values, places = pointers(builder, inputs)
        results = pointers(builder, outputs)
        number = results[3]
        batch, size, _ = inputs[0].shape
        room = op.cast("int32", size) * self.classes
        with builder.for_range(const(0, batch.dtype), batch, "n") as n:
            self._clear(builder, n, results)
            count = local(builder, "int32", "count", const(0, "int32"))
            at = local(builder, "int32", "at", const(0, "int32"))
            with builder.while_loop(tir.And(at[0] < room, count[0] < self.most)):
                place = builder.let("place", places[[n, at[0]]])
                score = builder.let("score", values[[n, place]])
                is_good = builder.let("is_good", score >= const(self.least, score.dtype))
                with builder.if_scope(is_good):
                    self._try(builder, n, place, score, count, corners, results)
                # Those that follow have lower scores, but for NaN, which comes first.
                is_over = tir.Not(tir.Or(is_good, tir.isnan(score)))
                at[0] = tir.Select(is_over, room, at[0] + 1)
            number[n] = op.cast(number.dtype, count[0])
        return builder.get()

    def _clear(self, builder: IRBuilder, n: PrimExpr, results: list[BufferVar]) -> None:
        found, labels, found_scores, _, per_class, _ = results
        with builder.for_range(0, self.most, "k") as k:
            for flat in (labels, found_scores):
                flat[[n, k]] = const(0, flat.dtype)
            with builder.for_range(0, 4, "v") as v:
                found[[n, k, v]] = const(0, found.dtype)
        with builder.for_range(0, self.classes, "c") as c:
            per_class[[n, c]] = const(0, "int32")

    def _try(
        self, builder: IRBuilder, n: PrimExpr, place: PrimExpr, score: PrimExpr, count: BufferVar,
        corners: BufferVar, results: list[BufferVar],
    ) -> None:  # fmt: skip
        """Choose a box for a class unless the class is full or has one that overlaps."""
        found, labels, found_scores, _, per_class, owners = results
        size = op.cast("int32", corners.asobject().shape[1])
        label = builder.let("label", op.floordiv(place, size))
        box = builder.let("box", op.floormod(place, size))
        has_room = op.cast("int32", per_class[[n, label]] < self.each)
        fits = local(builder, "int32", "fits", has_room)
        own = [corners[[n, box, v]] for v in range(4)]
        with builder.for_range(0, count[0], "j") as j:
            other = [found[[n, j, v]] for v in range(4)]
            hit = shared_part(own, other) > const(self.overlap, found.dtype)
            hit = tir.And(op.equal(owners[[n, j]], label), hit)
            fits[0] = tir.Select(hit, const(0, "int32"), fits[0])
        with builder.if_scope(op.equal(fits[0], 1)):
            for v in range(4):
                found[[n, count[0], v]] = own[v]
            labels[[n, count[0]]] = op.cast(labels.dtype, label)
            found_scores[[n, count[0]]] = op.cast(found_scores.dtype, score)
            owners[[n, count[0]]] = label
            per_class[[n, label]] = per_class[[n, label]] + 1
            count[0] = count[0] + 1


def regular_non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
) -> list[Tensor]:
    """Choose boxes (batch, boxes, corners) by scores (batch, boxes, classes) and return
    ``max_detections`` of each image, the best first: their corners, classes, scores, and how many
    there are; zeros follow them. All are of the dtype of ``boxes``.

    A box is chosen for a class if its score there is at least ``score_threshold`` and no better one
    chosen for this class shares more than ``iou_threshold`` of their union, up to
    ``max_detections_per_class``. Scores before the last ``num_classes`` are those of backgrounds.
    """
    batch, size, _ = boxes.shape
    given = get_const_int(scores.shape[2])
    classes, most, each = [
        get_const_int(value) for value in (num_classes, max_detections, max_detections_per_class)
    ]
    if not 0 < classes <= given:
        raise ShapeError(f"regular_non_max_suppression: {classes} classes of {given} scores")
    if most < 1 or each < 1:
        raise OpAttributeInvalid("regular_non_max_suppression: at least one detection is asked for")
    kind = boxes.dtype
    rule = _Rule(classes, most, each, iou_threshold, score_threshold)

    def flat(n: PrimExpr, k: PrimExpr) -> PrimExpr:
        return scores(n, op.floormod(k, size), op.floordiv(k, size) + (given - classes))

    room = const(classes, size.dtype) * size
    points = compute((batch, room), flat, name="regular_nms_scores")
    order = argsort(points, axis=1, is_ascend=False, dtype="int32")

    made: list[Tensor] = te.extern(
        [(batch, most, 4), (batch, most), (batch, most), (batch,), (batch, classes), (batch, most)],
        [boxes, points, order], rule.fill, "regular_non_max_suppression",
        [kind, kind, kind, kind, "int32", "int32"],
    )  # fmt: skip
    return made[:4]


def hybrid_regular_nms(
    boxes: Tensor,
    scores: Tensor,
    max_detections_per_class: int,
    max_detections: int,
    batch_size: object,
    num_boxes: object,
    num_classes: int,
    num_classes_with_background: object,
    iou_threshold: float,
    score_threshold: float,
) -> list[Tensor]:
    """Choose boxes as `regular_non_max_suppression` does; the other sizes are those of the tensors,
    whatever these parameters are.
    """
    thresholds = [
        value.value if isinstance(value, tir.FloatImm) else float(value)
        for value in (iou_threshold, score_threshold)
    ]
    return regular_non_max_suppression(
        boxes, scores, max_detections_per_class, max_detections, num_classes, *thresholds
    )
