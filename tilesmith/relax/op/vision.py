"""Detection of objects: choosing boxes."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, text
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import check_ndim, result, sizes_of, tensor
from tilesmith.relax.op.declaration import define, find_function
from tilesmith.relax.spec import topi
from tilesmith.relax.struct_info import TupleStructInfo


def _infer_suppression(call: Call) -> Any:
    boxes, scores = tensor(call, 0), tensor(call, 1)
    check_ndim(call, 0, boxes, 3)
    check_ndim(call, 1, scores, 3)
    sizes = sizes_of(scores)
    rows = None if sizes is None else [sizes[0] * sizes[1] * sizes[2], 3]
    return TupleStructInfo((result(rows, "int64", 2), result([1], "int64")))


def _overlap(one: Any, other: Any) -> float:
    """Return the common part of two boxes, of their union."""
    low, high = numpy.minimum(one[:2], one[2:]), numpy.maximum(one[:2], one[2:])
    start, end = numpy.minimum(other[:2], other[2:]), numpy.maximum(other[:2], other[2:])
    common = numpy.prod(numpy.maximum(numpy.minimum(high, end) - numpy.maximum(low, start), 0))
    areas = numpy.prod(high - low), numpy.prod(end - start)
    union = sum(areas) - common
    return float(common / union) if min(*areas, union) > 0 else 0.0


def _suppression(attrs: Any, boxes: Any, scores: Any, most: Any, overlap: Any, least: Any) -> Any:
    rows = []
    for batch, number in numpy.ndindex(*scores.shape[:2]):
        chosen: list[Any] = []
        for place in numpy.argsort(-scores[batch, number], kind="stable"):
            if scores[batch, number, place] <= least[0] or len(chosen) >= most[0]:
                break
            pairs = [_overlap(boxes[batch, place], boxes[batch, other]) for other in chosen]
            if all(pair <= overlap[0] for pair in pairs):
                chosen.append(place)
        rows += [(batch, number, place) for place in chosen]
    found = numpy.zeros((scores.size, 3), "int64")
    found[: len(rows)] = numpy.array(rows, "int64").reshape(-1, 3)
    return found, numpy.array([len(rows)])


all_class_non_max_suppression = define(
    "vision.all_class_non_max_suppression",
    "boxes scores max_output_boxes_per_class iou_threshold score_threshold",
    _infer_suppression,
    description="The best boxes of each class that do not overlap, and how many there are.",
    schema=Schema(output_format=text("onnx")),
    compute=lambda attrs, *inputs: topi.vision.all_class_non_max_suppression(
        *inputs, output_format=attrs.output_format
    ),
    evaluate=_suppression,
)


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("vision." + name)
