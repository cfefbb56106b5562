"""Upsampling: resizing by factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import FloatImm, IntImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.image.resize import resize2d, resize3d
from tilesmith.topi.utils import Number, Shape, simplify

__all__ = ["upsampling", "upsampling3d", "upsampling3d_to", "upsampling_to"]

_METHODS = {
    "nearest_neighbor": "nearest_neighbor",
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
}


def _sizes(data: Tensor, letters: str, layout: str, scales: Sequence[Number]) -> list[PrimExpr]:
    if any(letter not in layout for letter in letters) or len(layout) != len(data.shape):
        raise UnsupportedError(f"upsampling: layout '{layout}' does not have the axes {letters}")
    sizes = []
    for letter, scale in zip(letters, scales):
        size = data.shape[layout.index(letter)]
        factor = scale.value if isinstance(scale, (IntImm, FloatImm)) else scale
        if isinstance(factor, int) or (isinstance(factor, float) and factor.is_integer()):
            sizes.append(simplify(size * int(factor)))
        elif isinstance(size, IntImm) and isinstance(factor, float):
            sizes.append(const(round(size.value * factor), size.dtype))
        else:
            scaled = op.cast("float32", size) * op.cast("float32", const(factor, "float32"))
            sizes.append(op.cast(size.dtype, scaled + const(0.5, "float32")))
    return sizes


def _method(method: str) -> str:
    if method not in _METHODS:
        raise UnsupportedError(f"upsampling: method '{method}' is not one of {', '.join(_METHODS)}")
    return _METHODS[method]


def upsampling(
    data: Tensor,
    scale_h: Number,
    scale_w: Number,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Shape | None = None,
) -> Tensor:
    """Resize images by a factor for each axis; ``method``: "nearest_neighbor", "bilinear" or
    "bicubic". Pixel k stands for position k / factor, with ``align_corners`` the corners stay.
    """
    sizes = _sizes(data, "HW", layout, (scale_h, scale_w))
    return upsampling_to(data, sizes, layout, method, align_corners, output_shape)


def upsampling_to(
    data: Tensor,
    size: Sequence[Any],
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Shape | None = None,
) -> Tensor:
    """Do what `upsampling` does, to a size instead of by factors."""
    mode = "align_corners" if align_corners else "asymmetric"
    rounding = "" if align_corners else "floor"
    return resize2d(
        data, None, size, layout, _method(method), mode, rounding, output_shape=output_shape
    )


def upsampling3d(
    data: Tensor,
    scale_d: Number,
    scale_h: Number,
    scale_w: Number,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Shape | None = None,
) -> Tensor:
    """Resize volumes by a factor for each axis; ``method``: "nearest_neighbor" or "trilinear", with
    the coordinates of `resize3d`.
    """
    sizes = _sizes(data, "DHW", layout, (scale_d, scale_h, scale_w))
    mode = coordinate_transformation_mode
    return upsampling3d_to(data, sizes, layout, method, mode, output_shape)


def upsampling3d_to(
    data: Tensor,
    size: Sequence[Any],
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Shape | None = None,
) -> Tensor:
    """Do what `upsampling3d` does, to a size instead of by factors."""
    return resize3d(
        data, None, size, layout, _method(method), coordinate_transformation_mode,
        output_shape=output_shape,
    )  # fmt: skip
