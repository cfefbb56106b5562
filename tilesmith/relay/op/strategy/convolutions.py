"""What strategies ask about convolutions: numbers of channels, by layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.support.errors import ShapeError

__all__ = ["get_conv2d_in_channels", "get_conv2d_out_channels", "is_depthwise_conv2d"]


def get_conv2d_in_channels(data_shape: Sequence[Any], data_layout: str) -> int:
    """Return the number of channels of the data: NCHW, NHWC, HWCN, or blocks of them (NCHW8c)."""
    return _size(data_shape, data_layout, "C")


def get_conv2d_out_channels(kernel_shape: Sequence[Any], kernel_layout: str) -> int:
    """Return the number of output channels of a kernel: OIHW, HWIO, HWOI, or blocks (OIHW4i4o)."""
    return _size(kernel_shape, kernel_layout, "O")


def _size(shape: Sequence[Any], layout: str, axis: str) -> int:
    """Return the size along an axis, whose blocks are written as small letters."""
    axes = [letter for letter in layout if letter.isalpha()]
    if len(axes) != len(shape) or axis not in axes:
        raise ShapeError(
            f"the layout '{layout}' does not fit a tensor of {len(shape)} axes with an axis {axis}",
            notes=("for example NCHW and OIHW, NHWC and HWIO, NCHW8c and OIHW8i8o",),
        )
    size = 1
    for letter, extent in zip(axes, shape):
        if letter.upper() == axis:
            size *= int(extent)
    return size


def is_depthwise_conv2d(
    data_shape: Sequence[Any],
    data_layout: str,
    kernel_shape: Sequence[Any],
    kernel_layout: str,
    groups: int,
) -> bool:
    """Return whether each channel is convolved on its own: as many groups as channels."""
    channels = get_conv2d_in_channels(data_shape, data_layout)
    if kernel_layout == "HWOI":
        outputs = int(kernel_shape[2]) * int(kernel_shape[3])
    else:
        outputs = get_conv2d_out_channels(kernel_shape, kernel_layout)
    return channels == outputs == int(groups)
