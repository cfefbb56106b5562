"""``relay.op.vision.nms``: suppression of boxes that overlap."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.attrs import Schema, boolean, integer, number, text
from tilesmith.relax.expr import RelaxExpr
from tilesmith.relax.spec import topi
from tilesmith.relay.expr import TupleWrapper, const
from tilesmith.relay.op.view import computed, function, make_call

computed(
    "vision.get_valid_counts",
    "data score_threshold:number",
    lambda attrs, data, threshold: topi.vision.get_valid_counts(
        data, threshold, attrs.id_index, attrs.score_index
    ),
    level=5,
    schema=Schema(id_index=integer(0), score_index=integer(1)),
    description="How many boxes have a score above a threshold; these boxes first; their places.",
)


@function("vision.get_valid_counts")
def get_valid_counts(
    data: Any, score_threshold: Any, id_index: int = 0, score_index: int = 1
) -> TupleWrapper:
    """Return how many boxes have a score above a threshold, those boxes first, their places."""
    if not isinstance(score_threshold, RelaxExpr):
        score_threshold = const(score_threshold, "float32")
    attributes = {"id_index": id_index, "score_index": score_index}
    call = make_call("vision.get_valid_counts", [data, score_threshold], attributes)
    return TupleWrapper(call, 3)


computed(
    "vision.regular_non_max_suppression",
    "boxes scores",
    "topi.vision.regular_non_max_suppression",
    level=5,
    schema=Schema(
        max_detections_per_class=integer(),
        max_detections=integer(),
        num_classes=integer(),
        iou_threshold=number(),
        score_threshold=number(),
    ),
    description="The best boxes of each class that do not overlap: boxes, classes, scores, counts.",
)


@function("vision.regular_non_max_suppression")
def regular_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
) -> TupleWrapper:
    """Return the best boxes of each class that do not overlap: boxes, classes, scores, counts."""
    attributes = {
        "max_detections_per_class": max_detections_per_class,
        "max_detections": max_detections,
        "num_classes": num_classes,
        "iou_threshold": iou_threshold,
        "score_threshold": score_threshold,
    }
    call = make_call("vision.regular_non_max_suppression", [boxes, scores], attributes)
    return TupleWrapper(call, 4)


def _suppress(attrs: Any, data: Any, counts: Any, places: Any, most: Any, overlap: Any) -> Any:
    return topi.vision.non_max_suppression(
        data,
        counts,
        places,
        int(most),
        float(overlap),
        attrs.force_suppress,
        attrs.top_k,
        attrs.coord_start,
        attrs.score_index,
        attrs.id_index,
        attrs.return_indices,
        attrs.invalid_to_bottom,
    )


computed(
    "vision.non_max_suppression",
    "data valid_count indices max_output_size:number iou_threshold:number",
    _suppress,
    level=5,
    schema=Schema(
        force_suppress=boolean(False),
        top_k=integer(-1),
        coord_start=integer(2),
        score_index=integer(1),
        id_index=integer(0),
        return_indices=boolean(True),
        invalid_to_bottom=boolean(False),
    ),
    description="The boxes that do not overlap with a better one.",
)


@function("vision.non_max_suppression")
def non_max_suppression(
    data: Any,
    valid_count: Any,
    indices: Any,
    max_output_size: Any = -1,
    iou_threshold: Any = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Any:
    """Return the boxes that do not overlap with a better one: their places and how many they are
    (``return_indices``), or the boxes with the others marked by -1.
    """
    most = max_output_size if isinstance(max_output_size, RelaxExpr) else const(max_output_size)
    overlap = iou_threshold if isinstance(iou_threshold, RelaxExpr) else const(iou_threshold)
    attributes = {
        "force_suppress": force_suppress,
        "top_k": top_k,
        "coord_start": coord_start,
        "score_index": score_index,
        "id_index": id_index,
        "return_indices": return_indices,
        "invalid_to_bottom": invalid_to_bottom,
    }
    operands = [data, valid_count, indices, most, overlap]
    call = make_call("vision.non_max_suppression", operands, attributes)
    return TupleWrapper(call, 2) if return_indices else call


def _all_classes(attrs: Any, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any) -> Any:
    return topi.vision.all_class_non_max_suppression(
        boxes, scores, most, overlap, least, attrs.output_format
    )


computed(
    "vision.all_class_non_max_suppression",
    "boxes scores max_output_boxes_per_class:number iou_threshold:number score_threshold:number",
    _all_classes,
    level=5,
    schema=Schema(output_format=text("onnx")),
    description="The best boxes of each class that do not overlap, and how many there are.",
)


@function("vision.all_class_non_max_suppression")
def all_class_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_boxes_per_class: Any = -1,
    iou_threshold: Any = -1.0,
    score_threshold: Any = -1.0,
    output_format: str = "onnx",
) -> TupleWrapper:
    """Return the best boxes of each class that do not overlap, and how many there are (with
    ``output_format="tensorflow"`` also their scores).
    """
    limits = [
        limit if isinstance(limit, RelaxExpr) else const(limit, dtype)
        for limit, dtype in (
            (max_output_boxes_per_class, "int32"),
            (iou_threshold, "float32"),
            (score_threshold, "float32"),
        )
    ]
    attributes = {"output_format": output_format}
    call = make_call("vision.all_class_non_max_suppression", [boxes, scores, *limits], attributes)
    return TupleWrapper(call, 2 if output_format == "onnx" else 3)
