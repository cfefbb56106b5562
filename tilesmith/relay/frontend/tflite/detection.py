"""Choosing boxes that do not overlap."""

from __future__ import annotations

from typing import Any, NoReturn

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.common import get_relay_op
from tilesmith.relay.frontend.tflite.registry import operator
from tilesmith.relay.op.view import sizes
from tilesmith.support.errors import OpAttributeUnImplemented, OpNotImplemented

__all__ = ["REFUSED"]


@operator("NON_MAX_SUPPRESSION_V4", method="convert_nms_v4")
def _nms_v4(converter: Any, one: Any) -> Any:
    places, _, count = _chosen(converter, one)
    return [places, count]


@operator("NON_MAX_SUPPRESSION_V5", method="convert_nms_v5")
def _nms_v5(converter: Any, one: Any) -> Any:
    sigma = converter.value(converter.get_input_tensors(one)[5], "the sigma of soft suppression")
    if float(sigma.reshape(-1)[0]):
        raise OpAttributeUnImplemented(
            "NON_MAX_SUPPRESSION_V5 that lowers scores (soft_nms_sigma) is not imported"
        )
    return list(_chosen(converter, one))


def _chosen(converter: Any, one: Any) -> tuple[Any, Any, Any]:
    """Return the places of the chosen boxes and their scores, 0 after the last one, and how many
    they are.
    """
    inputs = converter.get_input_tensors(one)
    boxes, scores = (converter.number(wrapper) for wrapper in inputs[:2])
    most, overlap, least = (
        converter.value(wrapper, "a limit of the suppression").reshape(-1)[0].item()
        for wrapper in inputs[2:5]
    )
    found = get_relay_op("all_class_non_max_suppression")(
        op.expand_dims(boxes, 0), op.expand_dims(scores, 0, 2), most, float(overlap), float(least)
    )
    total = int(sizes(boxes)[0])
    places = op.cast(op.take(found[0], const(2), 1), "int32")
    if most <= total:
        places = op.strided_slice(places, [0], [most], axes=[0])
    else:
        places = op.nn.pad(places, [(0, most - total)], 0)
    count = op.minimum(op.cast(op.reshape(found[1], ()), "int32"), const(most))
    inside = op.less(op.arange(const(0), const(most), const(1), "int32"), count)
    places = op.where(inside, places, op.zeros_like(places))
    kept = op.take(scores, places, 0)
    return places, op.where(inside, kept, op.zeros_like(kept)), count


def _refused(name: str, advice: str) -> Any:
    def convert(converter: Any, one: Any) -> NoReturn:
        raise OpNotImplemented(f"{name} is not imported", notes=(advice,))

    return convert


REFUSED = {
    "convert_densify": _refused(
        "DENSIFY", "convert the model again without the sparse storage of pruned weights"
    ),
    "convert_detection_postprocess": _refused(
        "TFLite_Detection_PostProcess",
        "end the model before it, and choose boxes by vision.regular_non_max_suppression",
    ),
    "convert_tan": _refused("TAN", "TensorFlow Lite itself has no such operator"),
}
"""Methods of `OperatorConverter` that users know, for operators without a converter."""
