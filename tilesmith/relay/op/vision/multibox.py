"""``relay.op.vision.multibox``: prior boxes of detectors and how they are moved."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.attrs import Schema, anything, boolean, number
from tilesmith.relay.expr import TupleWrapper
from tilesmith.relay.op.view import computed, function, make_call

multibox_prior = computed(
    "vision.multibox_prior",
    "data",
    "topi.vision.multibox_prior",
    level=5,
    schema=Schema(
        sizes=anything((1.0,)),
        ratios=anything((1.0,)),
        steps=anything((-1.0, -1.0)),
        offsets=anything((0.5, 0.5)),
        clip=boolean(False),
    ),
    description="Prior boxes around each element of a feature map.",
)
computed(
    "vision.multibox_transform_loc",
    "cls_prob loc_pred anchor",
    "topi.vision.multibox_transform_loc",
    level=5,
    schema=Schema(
        clip=boolean(True),
        threshold=number(0.01),
        variances=anything((0.1, 0.1, 0.2, 0.2)),
        keep_background=boolean(False),
    ),
    description="Boxes from prior boxes and predictions, and how many are valid.",
)


@function("vision.multibox_transform_loc")
def multibox_transform_loc(
    cls_prob: Any,
    loc_pred: Any,
    anchor: Any,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Any = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> TupleWrapper:
    """Return boxes made of prior boxes and predictions, and how many of them are valid."""
    attributes = {
        "clip": clip,
        "threshold": threshold,
        "variances": tuple(variances),
        "keep_background": keep_background,
    }
    operands = [cls_prob, loc_pred, anchor]
    return TupleWrapper(make_call("vision.multibox_transform_loc", operands, attributes), 2)
