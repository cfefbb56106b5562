"""Boxes of images, resized to one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import DType, checked_index, get_const_int

__all__ = ["crop_and_resize"]


def _place(low: PrimExpr, high: PrimExpr, index: PrimExpr, size: PrimExpr, count: int) -> PrimExpr:
    """Return the position in the image of a pixel of a box between two coordinates from 0 to 1."""
    extent = op.cast("float32", size) - const(1.0, "float32")
    if count == 1:
        return (low + high) * const(0.5, "float32") * extent
    step = (high - low) * extent * const(1.0 / (count - 1), "float32")
    return low * extent + op.cast("float32", index) * step


def crop_and_resize(
    data: Tensor,
    boxes: Tensor,
    box_indices: Tensor,
    crop_size: Sequence[int],
    layout: str = "NCHW",
    method: str = "bilinear",
    extrapolation_value: float | None = None,
    out_dtype: DType | None = None,
) -> Tensor:
    """Cut boxes (y1, x1, y2, x2, each from 0 to 1) out of images and resize them to (height,
    width).

    ``box_indices`` has the image of each box; one outside is an error when the program runs.
    ``method``: "bilinear" or "nearest_neighbor". What lies outside of the image is
    ``extrapolation_value``, 0 by default.
    """
    if layout not in ("NCHW", "NHWC"):
        raise UnsupportedError(f"crop_and_resize: layout '{layout}' is neither NCHW nor NHWC")
    if method not in ("bilinear", "nearest_neighbor"):
        raise UnsupportedError(
            f"crop_and_resize: method '{method}' is neither bilinear nor nearest_neighbor"
        )
    axes = [layout.index(letter) for letter in "HW"]
    counts = [get_const_int(size) for size in crop_size]
    shape = [boxes.shape[0], *data.shape[1:]]
    for axis, count in zip(axes, counts):
        shape[axis] = const(count, data.shape[axis].dtype)
    dtype = out_dtype or data.dtype
    outside = const(extrapolation_value or 0.0, "float32")

    def element(*i: Any) -> PrimExpr:
        box, given = i[0], box_indices(i[0])
        image = checked_index(given, data.shape[0], "crop_and_resize", given)
        inside, taps = [], []
        for number, (axis, count) in enumerate(zip(axes, counts)):
            size = data.shape[axis]
            ends = [op.cast("float32", boxes(box, number + k)) for k in (0, 2)]
            place = _place(*ends, i[axis], size, count)
            last = op.cast("float32", size) - const(1.0, "float32")
            inside += [place >= const(0.0, "float32"), place <= last]
            if method == "nearest_neighbor":
                taps.append([(op.cast(size.dtype, tir.round(place)), None)])
                continue
            base = tir.floor(place)
            first = op.cast(size.dtype, base)
            fraction = place - base
            taps.append(
                [
                    (first, const(1.0, "float32") - fraction),
                    (op.minimum(first + 1, size - 1), fraction),
                ]
            )
        total: Any = None
        for y, weight_y in taps[0]:
            for x, weight_x in taps[1]:
                at = [image, *i[1:]]
                at[axes[0]], at[axes[1]] = y, x
                value = op.cast("float32", data(*at))
                if weight_y is not None:
                    value = value * weight_y * weight_x
                total = value if total is None else total + value
        return op.cast(dtype, tir.if_then_else(tir.all(*inside), total, outside))

    return compute(shape, element, name="crop_and_resize", tag=tag.INJECTIVE)
