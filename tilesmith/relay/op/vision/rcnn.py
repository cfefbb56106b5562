"""``relay.op.vision.rcnn``: regions of interest."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.attrs import Schema, anything, boolean, integer, number, repeated, text
from tilesmith.relax.spec import topi
from tilesmith.relay.op.view import computed
from tilesmith.support.errors import OpAttributeInvalid


def _roi_align(attrs: Any, data: Any, rois: Any) -> Any:
    name = {"NCHW": "roi_align_nchw", "NHWC": "roi_align_nhwc"}.get(attrs.layout)
    if name is None:
        raise OpAttributeInvalid(f"roi_align has the layouts NCHW and NHWC, not {attrs.layout}")
    return getattr(topi.vision, name)(
        data, rois, attrs.pooled_size, attrs.spatial_scale, attrs.mode, attrs.sample_ratio
    )


roi_align = computed(
    "vision.roi_align",
    "data rois",
    _roi_align,
    level=5,
    schema=Schema(
        pooled_size=repeated(2),
        spatial_scale=number(),
        sample_ratio=integer(-1),
        layout=text("NCHW"),
        mode=text("avg"),
    ),
    description="Pool regions to one size, with interpolation between elements.",
)


def _roi_pool(attrs: Any, data: Any, rois: Any) -> Any:
    if attrs.layout != "NCHW":
        raise OpAttributeInvalid(f"roi_pool has the layout NCHW, not {attrs.layout}")
    return topi.vision.roi_pool_nchw(data, rois, attrs.pooled_size, attrs.spatial_scale)


roi_pool = computed(
    "vision.roi_pool",
    "data rois",
    _roi_pool,
    level=5,
    schema=Schema(pooled_size=repeated(2), spatial_scale=number(), layout=text("NCHW")),
    description="The greatest elements of the parts of regions.",
)
proposal = computed(
    "vision.proposal",
    "cls_prob bbox_pred im_info",
    "topi.vision.proposal",
    level=5,
    schema=Schema(
        scales=anything(),
        ratios=anything(),
        feature_stride=integer(),
        threshold=number(),
        rpn_pre_nms_top_n=integer(),
        rpn_post_nms_top_n=integer(),
        rpn_min_size=integer(),
        iou_loss=boolean(),
    ),
    description="Regions that may hold an object, from scores and box corrections.",
)
