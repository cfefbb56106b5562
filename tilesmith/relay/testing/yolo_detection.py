"""Boxes of objects from what YOLO networks compute.

Redmon, Farhadi: YOLOv3, an incremental improvement, 2018; YOLO9000, 2016.
"""

from __future__ import annotations

import functools
import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.support.errors import UnsupportedError

__all__ = [
    "Box", "do_nms_sort", "draw_detections", "fill_network_boxes", "get_detections",
    "nms_comparator", "show_detections",
]  # fmt: skip

Box = namedtuple("Box", ["x", "y", "w", "h"])
"""The centre of a box, its width and its height."""


def nms_comparator(a: dict[str, Any], b: dict[str, Any]) -> int:
    """Return 1, 0 or -1 for detections in ascending order of what ``sort_class`` of the second one
    says: of a class (its number) or of any object (-1).
    """
    chosen = b.get("sort_class", -1)
    if chosen >= 0 and "prob" in b:
        difference = a["prob"][chosen] - b["prob"][chosen]
    else:
        difference = a["objectness"] - b["objectness"]
    return int(numpy.sign(difference))


def _overlap(a: Any, b: Any) -> float:
    """Return the area that two boxes share, in relation to that of both together."""
    width = min(a.x + a.w / 2, b.x + b.w / 2) - max(a.x - a.w / 2, b.x - b.w / 2)
    height = min(a.y + a.h / 2, b.y + b.h / 2) - max(a.y - a.h / 2, b.y - b.h / 2)
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return float(shared / (a.w * a.h + b.w * b.h - shared))


def _fitted(box: Any, net: tuple[int, int], image: tuple[int, int], relative: bool) -> Any:
    """Return a box of the network's picture as one of the image: the image filled the picture in
    one direction, and stood in its middle.
    """
    net_width, net_height = net
    width, height = image
    if net_width / width < net_height / height:
        used_width, used_height = net_width, height * net_width // width
    else:
        used_width, used_height = width * net_height // height, net_height
    x = (box.x - (net_width - used_width) / 2 / net_width) / (used_width / net_width)
    y = (box.y - (net_height - used_height) / 2 / net_height) / (used_height / net_height)
    w = box.w * net_width / used_width
    h = box.h * net_height / used_height
    if not relative:
        x, w, y, h = x * width, w * width, y * height, h * height
    return Box(x, y, w, h)


def _cells(layer: dict[str, Any]) -> tuple[Any, list[int], int]:
    """Return what a layer computed as (anchor, value, row, column), the numbers of its anchors in
    its list of sizes, and its number of coordinates.
    """
    output = numpy.asarray(layer["output"])
    numbers = layer["mask"] if "mask" in layer else range(layer["n"])
    anchors = [int(one) for one in numpy.asarray(numbers).reshape(-1)]
    rows, columns = output.shape[-2:]
    return output.reshape(len(anchors), -1, rows, columns), anchors, int(layer.get("coords", 4))


def _size(layer: dict[str, Any], net: tuple[int, int], raw: Any, anchor: int) -> Any:
    biases = numpy.asarray(layer["biases"]).reshape(-1)
    scale = net if layer["type"] == "Yolo" else (raw.shape[3], raw.shape[2])
    return biases[2 * anchor] / scale[0], biases[2 * anchor + 1] / scale[1]


def _found(layer: dict[str, Any], net: tuple[int, int], thresh: float) -> list[dict[str, Any]]:
    raw, anchors, coordinates = _cells(layer)
    found = []
    for place, anchor in enumerate(anchors):
        width, height = _size(layer, net, raw, anchor)
        for row, column in zip(*numpy.nonzero(raw[place, coordinates] > thresh)):
            values = raw[place, :, row, column]
            objectness = float(values[coordinates])
            box = Box(
                (column + values[0]) / raw.shape[3],
                (row + values[1]) / raw.shape[2],
                math.exp(values[2]) * width,
                math.exp(values[3]) * height,
            )
            chances = objectness * values[coordinates + 1 : coordinates + 1 + layer["classes"]]
            found.append(
                {
                    "bbox": box,
                    "classes": layer["classes"],
                    "objectness": objectness,
                    "prob": [float(one) if one > thresh else 0.0 for one in chances],
                    "sort_class": -1,
                }
            )
    return found


def fill_network_boxes(
    net_shape: tuple[int, int],
    im_shape: tuple[int, int],
    thresh: float,
    relative: int,
    tvm_out: Sequence[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return the detections above a threshold. Shapes are (width, height), of the network's picture
    and of the image; each layer's dictionary has its ``type`` ("Yolo" or "Region"), ``output``,
    ``biases``, ``mask`` or ``n``, and ``classes``.
    """
    found = []
    for layer in tvm_out:
        for detection in _found(layer, net_shape, thresh):
            detection["bbox"] = _fitted(detection["bbox"], net_shape, im_shape, bool(relative))
            found.append(detection)
    return found


def do_nms_sort(dets: list[dict[str, Any]], classes: int, thresh: float) -> None:
    """Set the chance of a class to zero for each detection that overlaps a likelier one by more
    than ``thresh``; those without objectness go.
    """
    dets[:] = [one for one in dets if one["objectness"] != 0]
    for number in range(classes):
        for one in dets:
            one["sort_class"] = number
        dets.sort(key=functools.cmp_to_key(nms_comparator), reverse=True)
        for place, best in enumerate(dets):
            if best["prob"][number] == 0:
                continue
            for other in dets[place + 1 :]:
                if _overlap(best["bbox"], other["bbox"]) > thresh:
                    other["prob"][number] = 0.0


def get_detections(
    im: Any, det: dict[str, Any], thresh: float, names: Sequence[str], classes: int
) -> tuple[list[str], str | None, tuple[int, int, int, int], int, tuple[int, int, int, int]]:
    """Return of a detection: the names of its classes with their chances, its likeliest class, the
    colour for it, the width of lines, and the corners (left, right, top, bottom) in the image.
    """
    labels, best, number = [], None, -1
    for place in range(classes):
        chance = det["prob"][place]
        if chance > thresh:
            if number < 0 or chance > det["prob"][number]:
                best, number = names[place], place
            labels.append(f"{names[place]}: {chance:.2f}")
    rows, columns = im.shape[-2:] if im.shape[0] == 3 else im.shape[:2]
    box = det["bbox"]
    corners = (
        max(int((box.x - box.w / 2) * columns), 0),
        min(int((box.x + box.w / 2) * columns), columns - 1),
        max(int((box.y - box.h / 2) * rows), 0),
        min(int((box.y + box.h / 2) * rows), rows - 1),
    )
    hue = (number * 123457) % max(classes, 1) / max(classes, 1)
    shades = [
        int(255 * (0.5 + 0.5 * math.cos(2 * math.pi * (hue + part / 3)))) for part in (0, 1, 2)
    ]
    return labels, best, (shades[0], shades[1], shades[2], 255), max(rows // 160, 1), corners


def draw_detections(
    font_path: str,
    im: Any,
    dets: Sequence[dict[str, Any]],
    thresh: float,
    names: Sequence[str],
    classes: int,
) -> Any:
    """Return the image, an array of (row, column, colour) of bytes or (colour, row, column), with
    the boxes drawn, as an array of (row, column, colour) of bytes. Needs the package pillow.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise UnsupportedError(
            "drawing needs the package pillow", notes=("pip install pillow",)
        ) from error
    pixels = numpy.asarray(im)
    if pixels.shape[0] == 3 and pixels.shape[-1] != 3:
        pixels = pixels.transpose(1, 2, 0)
    if pixels.dtype.kind == "f":
        pixels = (pixels.clip(0, 1) * 255).astype("uint8")
    picture = Image.fromarray(pixels)
    pen = ImageDraw.Draw(picture)
    font = ImageFont.truetype(font_path, max(pixels.shape[0] // 40, 8))
    for one in dets:
        labels, best, colour, width, corners = get_detections(pixels, one, thresh, names, classes)
        if best is None:
            continue
        left, right, top, bottom = corners
        pen.rectangle((left, top, max(right, left), max(bottom, top)), outline=colour, width=width)
        pen.text((left + width, top + width), ", ".join(labels), fill=colour, font=font)
    return numpy.asarray(picture)


def show_detections(
    im: Any, dets: Sequence[dict[str, Any]], thresh: float, names: Sequence[str], classes: int
) -> None:
    """Print what was found, and where."""
    for one in dets:
        labels, best, _, _, corners = get_detections(im, one, thresh, names, classes)
        if best is not None:
            left, right, top, bottom = corners
            print(", ".join(labels) + f" at rows {top} to {bottom}, columns {left} to {right}")
