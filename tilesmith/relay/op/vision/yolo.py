"""``relay.op.vision.yolo``."""

from tilesmith.relax.attrs import Schema, integer
from tilesmith.relay.op.view import computed

yolo_reorg = computed(
    "vision.yolo_reorg",
    "data",
    "topi.vision.reorg",
    level=5,
    schema=Schema(stride=integer(1)),
    description="Move blocks of the spatial axes into channels, as YOLO does.",
)
