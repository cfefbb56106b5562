"""``relay.op.vision``, known as ``relay.vision``: operators of object detection."""

from tilesmith.relay.op.view import functions
from tilesmith.relay.op.vision import multibox, nms, rcnn, yolo

globals().update(functions("vision."))

__all__ = sorted([*functions("vision."), "multibox", "nms", "rcnn", "yolo"])
