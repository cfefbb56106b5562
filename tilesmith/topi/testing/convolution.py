"""Convolutions in numpy: a sum over the places of the window."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilesmith.support.errors import ShapeError
from tilesmith.topi.nn.utils import get_pad_tuple_generic, per_axis

__all__ = [
    "conv1d_ncw_python", "conv1d_transpose_ncw_python", "conv2d_backward_weight_nchw_python",
    "conv2d_backward_weight_python", "conv2d_hwcn_python", "conv2d_nchw_python",
    "conv2d_nhwc_python", "conv2d_transpose_nchw_python", "conv2d_transpose_nhwc_python",
    "conv3d_ncdhw_python", "conv3d_ndhwc_python", "conv3d_transpose_ncdhw_python",
    "depthwise_conv2d_python_nchw", "depthwise_conv2d_python_nchwc",
    "depthwise_conv2d_python_nhwc", "dilate_np", "dilate_python", "group_conv1d_ncw_python",
    "group_conv1d_transpose_ncw_python",
]  # fmt: skip

Numbers = int | Sequence[int]


def dilate_python(
    input_np: np.ndarray,
    strides: Sequence[int],
    dilation_value: float = 0.0,
    out_dtype: Any = None,
) -> np.ndarray:
    """Put ``strides - 1`` values between neighbours along each axis."""
    if len(strides) != input_np.ndim:
        raise ShapeError(f"dilate needs {input_np.ndim} strides, got {len(strides)}")
    shape = [(size - 1) * stride + 1 for size, stride in zip(input_np.shape, strides)]
    result = np.full(shape, dilation_value, out_dtype or input_np.dtype)
    result[tuple([slice(None, None, stride) for stride in strides])] = input_np
    return result


def dilate_np(x: np.ndarray, dilation: int) -> np.ndarray:
    """Put ``dilation - 1`` zeros between neighbours along the last axis."""
    return dilate_python(x, [*[1] * (x.ndim - 1), dilation])


def _padding(padding: Any, kernel: Sequence[int]) -> list[tuple[int, int]]:
    before, after = get_pad_tuple_generic(padding, list(kernel))
    return list(zip(before, after))


def convolve(
    data: np.ndarray,
    weight: np.ndarray,
    stride: Numbers,
    padding: Any,
    dilation: Numbers = 1,
    groups: int = 1,
) -> np.ndarray:
    """Convolve data (batch, channels, sizes) with a filter (channels, channels of a group, sizes),
    in the common dtype of both.
    """
    rank = data.ndim - 2
    steps = per_axis(stride, rank, "stride")
    apart = per_axis(dilation, rank, "dilation")
    kernel = weight.shape[2:]
    spans = [(size - 1) * d + 1 for size, d in zip(kernel, apart)]
    padded = np.pad(data, [(0, 0), (0, 0), *_padding(padding, spans)])
    batch, channels = data.shape[:2]
    if channels != weight.shape[1] * groups or weight.shape[0] % groups:
        raise ShapeError(f"{channels} channels, a filter {weight.shape} in {groups} groups")
    counts = [(n - span) // s + 1 for n, span, s in zip(padded.shape[2:], spans, steps)]
    exact = np.result_type(data, weight, "float64" if data.dtype.kind == "f" else "int64")
    grouped = padded.reshape(batch, groups, channels // groups, *padded.shape[2:])
    filters = weight.reshape(groups, -1, *weight.shape[1:]).astype(exact)
    total = np.zeros((batch, groups, filters.shape[1], *counts), exact)
    for place in itertools.product(*[range(size) for size in kernel]):
        window = tuple(
            [
                slice(at * d, at * d + (count - 1) * s + 1, s)
                for at, d, count, s in zip(place, apart, counts, steps)
            ]
        )
        values = grouped[(slice(None), slice(None), slice(None), *window)].astype(exact)
        total += np.einsum("ngi...,goi->ngo...", values, filters[(..., *place)])
    result = total.reshape(batch, weight.shape[0], *counts)
    return result.astype(np.result_type(data, weight))


def convolve_transposed(
    data: np.ndarray,
    weight: np.ndarray,
    stride: Numbers,
    padding: Any,
    output_padding: Numbers = 0,
    groups: int = 1,
) -> np.ndarray:
    """Convolve with zeros between the elements: the gradient of a convolution by its input.

    ``weight``: (channels of the data, channels of the result in a group, sizes).
    """
    rank = data.ndim - 2
    steps = per_axis(stride, rank, "stride")
    extra = per_axis(output_padding, rank, "output_padding", 0)
    kernel = weight.shape[2:]
    spread = dilate_python(data, [1, 1, *steps])
    full = np.pad(
        spread,
        [(0, 0), (0, 0), *[(size - 1, size - 1 + more) for size, more in zip(kernel, extra)]],
    )
    inner, outer = weight.shape[:2]
    filters = weight.reshape(groups, inner // groups, outer, *kernel).swapaxes(1, 2)
    filters = np.flip(filters, range(3, 3 + rank)).reshape(groups * outer, inner // groups, *kernel)
    whole = convolve(full, filters, 1, 0, 1, groups)
    cut = tuple(
        [
            slice(low, size - high)
            for size, (low, high) in zip(whole.shape[2:], _padding(padding, kernel))
        ]
    )
    return whole[(slice(None), slice(None), *cut)]


def conv1d_ncw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Numbers, padding: Any, dilation: Numbers
) -> np.ndarray:
    """Convolve NCW data with an OIW filter."""
    return convolve(a_np, w_np, stride, padding, dilation)


def group_conv1d_ncw_python(
    a_np: np.ndarray,
    w_np: np.ndarray,
    stride: Numbers,
    padding: Any,
    dilation: Numbers,
    groups: int,
) -> np.ndarray:
    """Convolve NCW data with an OIW filter in groups of channels."""
    return convolve(a_np, w_np, stride, padding, dilation, groups)


def conv2d_nchw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Numbers, padding: Any, groups: int = 1
) -> np.ndarray:
    """Convolve NCHW data with an OIHW filter."""
    return convolve(a_np, w_np, stride, padding, 1, groups)


def conv2d_nhwc_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Numbers, padding: Any, groups: int = 1
) -> np.ndarray:
    """Convolve NHWC data with an HWIO filter."""
    data, weight = a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1)
    return convolve(data, weight, stride, padding, 1, groups).transpose(0, 2, 3, 1)


def conv2d_hwcn_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Numbers, padding: Any
) -> np.ndarray:
    """Convolve HWCN data with an HWIO filter."""
    data, weight = a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1)
    return convolve(data, weight, stride, padding).transpose(2, 3, 1, 0)


def conv3d_ncdhw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Numbers, padding: Any, groups: int = 1
) -> np.ndarray:
    """Convolve NCDHW data with an OIDHW filter."""
    return convolve(a_np, w_np, stride, padding, 1, groups)


def conv3d_ndhwc_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Numbers, padding: Any, groups: int = 1
) -> np.ndarray:
    """Convolve NDHWC data with a DHWIO filter."""
    data, weight = a_np.transpose(0, 4, 1, 2, 3), w_np.transpose(4, 3, 0, 1, 2)
    return convolve(data, weight, stride, padding, 1, groups).transpose(0, 2, 3, 4, 1)


def conv1d_transpose_ncw_python(
    a_np: np.ndarray, w_np: np.ndarray, stride: Numbers, padding: Any, output_padding: Numbers
) -> np.ndarray:
    """Convolve NCW data, transposed, with an IOW filter."""
    return convolve_transposed(a_np, w_np, stride, padding, output_padding)


def group_conv1d_transpose_ncw_python(
    a_np: np.ndarray,
    w_np: np.ndarray,
    stride: Numbers,
    padding: Any,
    output_padding: Numbers,
    groups: int = 1,
) -> np.ndarray:
    """Convolve NCW data, transposed, with an IOW filter in groups of channels."""
    return convolve_transposed(a_np, w_np, stride, padding, output_padding, groups)


def conv2d_transpose_nchw_python(
    a_np: np.ndarray,
    w_np: np.ndarray,
    stride: Numbers,
    padding: Any,
    output_padding: Numbers,
    groups: int = 1,
) -> np.ndarray:
    """Convolve NCHW data, transposed, with an IOHW filter."""
    return convolve_transposed(a_np, w_np, stride, padding, output_padding, groups)


def conv2d_transpose_nhwc_python(
    a_nhwc: np.ndarray,
    weight: np.ndarray,
    weight_format: str,
    stride: Numbers,
    padding: Any,
    output_padding: Numbers = (0, 0),
) -> np.ndarray:
    """Convolve NHWC data, transposed, with a filter whose axes ``weight_format`` names; I are the
    channels of the data.
    """
    filters = weight.transpose([weight_format.index(letter) for letter in "IOHW"])
    data = a_nhwc.transpose(0, 3, 1, 2)
    made = convolve_transposed(data, filters, stride, padding, output_padding)
    return made.transpose(0, 2, 3, 1)


def conv3d_transpose_ncdhw_python(
    a_np: np.ndarray,
    w_np: np.ndarray,
    stride: Numbers,
    padding: Any,
    output_padding: Numbers,
    groups: int = 1,
) -> np.ndarray:
    """Convolve NCDHW data, transposed, with an IODHW filter."""
    return convolve_transposed(a_np, w_np, stride, padding, output_padding, groups)


def depthwise_conv2d_python_nchw(
    input_np: np.ndarray, filter_np: np.ndarray, stride: Numbers, padding: Any
) -> np.ndarray:
    """Convolve each channel of NCHW data by itself, with a filter (channels, multiplier, sizes)."""
    channels, multiplier, *kernel = filter_np.shape
    weight = filter_np.reshape(channels * multiplier, 1, *kernel)
    return convolve(input_np, weight, stride, padding, 1, channels)


def depthwise_conv2d_python_nhwc(
    input_np: np.ndarray, filter_np: np.ndarray, stride: Numbers, padding: Any
) -> np.ndarray:
    """Convolve each channel of NHWC data by itself, with a filter (sizes, channels, multiplier)."""
    data, weight = input_np.transpose(0, 3, 1, 2), filter_np.transpose(2, 3, 0, 1)
    return depthwise_conv2d_python_nchw(data, weight, stride, padding).transpose(0, 2, 3, 1)


def depthwise_conv2d_python_nchwc(
    input_np: np.ndarray, filter_np: np.ndarray, stride: Numbers, padding: Any
) -> np.ndarray:
    """Convolve each channel of data (batch, blocks, height, width, block) by itself, with a filter
    (blocks, 1, sizes, 1, block) of the result's channels.
    """
    batch, blocks, height, width, block = input_np.shape
    data = input_np.transpose(0, 1, 4, 2, 3).reshape(batch, blocks * block, height, width)
    outer, _, ky, kx, _, out_block = filter_np.shape
    weight = filter_np.transpose(0, 5, 1, 4, 2, 3).reshape(blocks * block, -1, ky, kx)
    made = depthwise_conv2d_python_nchw(data, weight, stride, padding)
    split = made.reshape(batch, outer, out_block, *made.shape[2:])
    return split.transpose(0, 1, 3, 4, 2)


def conv2d_backward_weight_nchw_python(
    dy_np: np.ndarray,
    x_np: np.ndarray,
    kernel_size: Sequence[int],
    stride: Numbers,
    padding: Any,
    groups: int = 1,
    channels: int | None = None,
) -> np.ndarray:
    """Return the gradient of a convolution by its OIHW filter, from that of its NCHW result."""
    outer = dy_np.shape[1] if channels is None else channels
    sy, sx = per_axis(stride, 2, "stride")
    padded = np.pad(x_np, [(0, 0), (0, 0), *_padding(padding, kernel_size)])
    batch, inner = x_np.shape[:2]
    rows, columns = dy_np.shape[2:]
    gradient = dy_np.reshape(batch, groups, outer // groups, rows, columns)
    result = np.zeros((outer, inner // groups, *kernel_size), x_np.dtype)
    for u, v in np.ndindex(*kernel_size):
        part = padded[:, :, u : u + (rows - 1) * sy + 1 : sy, v : v + (columns - 1) * sx + 1 : sx]
        part = part.reshape(batch, groups, inner // groups, rows, columns)
        total = np.einsum("ngoyx,ngiyx->goi", gradient, part, dtype="float64")
        result[:, :, u, v] = total.reshape(outer, inner // groups)
    return result


def conv2d_backward_weight_python(
    dy_np: np.ndarray,
    x_np: np.ndarray,
    kernel_size: Sequence[int],
    stride: Numbers,
    padding: Any,
    layout: str = "NCHW",
    groups: int = 1,
    channels: int | None = None,
) -> np.ndarray:
    """Return the gradient of a convolution by its filter: OIHW for NCHW data, OHWI for NHWC."""
    if layout == "NHWC":
        dy_np, x_np = dy_np.transpose(0, 3, 1, 2), x_np.transpose(0, 3, 1, 2)
    made = conv2d_backward_weight_nchw_python(
        dy_np, x_np, kernel_size, stride, padding, groups, channels
    )
    return made.transpose(0, 2, 3, 1) if layout == "NHWC" else made
