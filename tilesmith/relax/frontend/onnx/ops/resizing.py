"""Resizing along one axis, in numpy: source positions of the new elements, and their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.support.errors import OpAttributeInvalid, ShapeError

__all__ = ["AxisResize", "nearest_places", "resize_matrix"]

_LARGEST_MATRIX = 1 << 27
"""More weights or positions than this are not computed at import."""
_ROWS_AT_ONCE = 4096
"""So many rows of a matrix of weights are computed together: as fast as all, in less memory."""


class AxisResize:
    """One axis: ``before`` and ``after`` elements, the factor between, the region that is kept."""

    def __init__(
        self,
        before: int,
        after: int,
        scale: float,
        region: tuple[float, float],
        settings: dict[str, Any],
    ) -> None:
        if not numpy.isfinite([scale, *region]).all():
            shown = ", ".join([str(float(number)) for number in region])
            raise ShapeError(f"an axis is resized by {scale}, region {shown}: not finite numbers")
        if after > _LARGEST_MATRIX:
            raise ShapeError(f"resizing an axis from {before} to {after} is not supported")
        self.before = before
        self.after = after
        self.scale = scale
        self.region = region
        self.settings = settings

    def positions(self) -> Any:
        """Return the position of each new element on the old axis."""
        name = self.settings["coordinates"]
        if name not in _POSITIONS:
            raise OpAttributeInvalid(
                f"its attribute 'coordinate_transformation_mode' is '{name}'",
                notes=("known: " + ", ".join(_POSITIONS),),
            )
        places = _POSITIONS[name](self, numpy.arange(self.after, dtype="float64"))
        # Farther away than all old elements, one position is as good as another one.
        return numpy.clip(places, -1e6 - self.before, 1e6 + 2 * self.before)

    def outside(self) -> Any:
        """Return which new elements lie outside the old axis."""
        places = self.positions()
        return (places < 0) | (places > self.before - 1)


def _align_corners(task: AxisResize, x: Any) -> Any:
    length = task.scale * task.before
    return x * 0 if length == 1 else x * (task.before - 1) / (length - 1)


def _half_pixel(task: AxisResize, x: Any) -> Any:
    return (x + 0.5) / task.scale - 0.5


def _half_pixel_symmetric(task: AxisResize, x: Any) -> Any:
    # Rounding the size cut elements off; they are missing equally on both sides.
    adjustment = task.after / (task.scale * task.before)
    return task.before / 2 * (1 - adjustment) + _half_pixel(task, x)


def _pytorch_half_pixel(task: AxisResize, x: Any) -> Any:
    return x * 0 - 0.5 if task.after == 1 else _half_pixel(task, x)


def _crop(task: AxisResize, x: Any) -> Any:
    start, end = task.region
    last = task.before - 1
    if task.after == 1:
        return x * 0 + (start + end) / 2 * last
    return start * last + x * (end - start) * last / (task.after - 1)


_POSITIONS: dict[str, Callable[[AxisResize, Any], Any]] = {
    "align_corners": _align_corners,
    "asymmetric": lambda task, x: x / task.scale,
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_crop_and_resize": _crop,
    "tf_half_pixel_for_nn": lambda task, x: (x + 0.5) / task.scale,
}
_ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "ceil": numpy.ceil,
    "floor": numpy.floor,
    "round_prefer_ceil": lambda x: numpy.floor(x + 0.5),
    "round_prefer_floor": lambda x: numpy.ceil(x - 0.5),
}


def nearest_places(task: AxisResize) -> list[int]:
    """Return the index of the old element that each new one copies."""
    name = task.settings["rounding"]
    if name not in _ROUNDINGS:
        raise OpAttributeInvalid(f"its attribute 'nearest_mode' is '{name}'")
    # Positions carry rounding errors of the factor: 1.9999999 should be 2.
    places = numpy.round(task.positions(), 9)
    return [int(i) for i in numpy.clip(_ROUNDINGS[name](places), 0, task.before - 1)]


def _triangle(distance: Any, alpha: float) -> Any:
    return numpy.maximum(0, 1 - numpy.abs(distance))


def _cubic(distance: Any, alpha: float) -> Any:
    x = numpy.abs(distance)
    near = ((alpha + 2) * x - (alpha + 3)) * x * x + 1
    far = ((alpha * x - 5 * alpha) * x + 8 * alpha) * x - 4 * alpha
    return numpy.where(x <= 1, near, numpy.where(x < 2, far, 0))


def resize_matrix(task: AxisResize) -> Any:
    """Return the matrix of weights of the old elements (columns) in each new one (rows)."""
    settings = task.settings
    if task.after * task.before > _LARGEST_MATRIX:
        raise ShapeError(f"resizing an axis from {task.before} to {task.after} is not supported")
    kernel, reach = (_triangle, 1) if settings["mode"] == "linear" else (_cubic, 2)
    # Against aliasing, the kernel covers all old elements that map to one new one.
    width = min(task.scale, 1.0) if settings["antialias"] else 1.0
    radius = int(numpy.ceil(reach / width)) + 1
    matrix = numpy.zeros((task.after, task.before))
    places = numpy.asarray(task.positions())
    for first in range(0, task.after, _ROWS_AT_ONCE):
        part = places[first : first + _ROWS_AT_ONCE, None]
        taps = numpy.floor(part).astype(int) + numpy.arange(-radius, radius + 1)
        weights = kernel((taps - part) * width, settings["alpha"])
        if settings["exclude_outside"]:
            weights = numpy.where((taps >= 0) & (taps < task.before), weights, 0)
        if settings["exclude_outside"] or settings["antialias"]:
            weights = weights / weights.sum(1, keepdims=True)
        rows = numpy.arange(first, first + len(part))[:, None]
        numpy.add.at(matrix, (rows, numpy.clip(taps, 0, task.before - 1)), weights)
    return matrix
