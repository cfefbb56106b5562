"""Convolutions and products of channels-last data with weights packed for vectors.

A packed weight has its output channels in tiles of ``T``: the last axis holds the channels of a
tile, the first one counts the tiles, so that the weights that a tile of results needs are one
stream of vectors. The last tile is filled up with zeros.
"""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import accumulator, rounded, widened
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.utils import windows_within
from tilesmith.topi.utils import get_const_int

__all__ = [
    "conv2d_nhwc_packed", "conv2d_nhwc_two_sums", "conv2d_of_pixels", "conv2d_planes_packed",
    "depthwise_conv2d_nhwc_packed", "grouped_conv2d_nhwc_lanes", "grouped_conv2d_nhwc_packed",
    "matmul_packed",
]  # fmt: skip


def _sizes(
    data: Tensor, kernel: tuple[int, int], strides: Any, padding: Any, dilation: Any
) -> tuple[Tensor, list[Any]]:
    """Return the padded data and the height and width of the result."""
    top, left, bottom, right = [int(value) for value in padding]
    padded = pad(data, [0, top, left, 0], [0, bottom, right, 0], name="pad_temp")
    sizes = []
    for axis in range(2):
        size, stride = padded.shape[1 + axis], int(strides[axis])
        sizes.append(windows_within(size, kernel[axis], stride, int(dilation[axis])))
    return padded, sizes


def conv2d_nhwc_packed(
    data: Tensor, weight: Tensor, channels: int, strides: Any, padding: Any, dilation: Any
) -> Tensor:
    """Convolve NHWC data; ``weight`` is (tiles, ky, kx, C, T), ``channels`` the outputs.

    ``padding`` is top, left, bottom, right.
    """
    ky, kx = get_const_int(weight.shape[1]), get_const_int(weight.shape[2])
    wide = rounded(data, accumulator(data.dtype))  # elements that are read for many outputs
    padded, sizes = _sizes(wide, (ky, kx), strides, padding, dilation)
    width = get_const_int(weight.shape[4])
    (sy, sx), (dy, dx) = strides, dilation
    ry = te.reduce_axis((0, ky), name="ry")
    rx = te.reduce_axis((0, kx), name="rx")
    rc = te.reduce_axis((0, data.shape[3]), name="rc")
    result = compute(
        (data.shape[0], *sizes, channels),
        lambda n, y, x, o: te.sum(
            widened(padded(n, y * sy + ry * dy, x * sx + rx * dx, rc))
            * widened(weight(op.floordiv(o, width), ry, rx, rc, op.floormod(o, width))),
            axis=[ry, rx, rc],
        ),
        name="conv2d_nhwc_packed",
        tag="conv2d_nhwc_packed",
    )
    return rounded(result, data.dtype)


def conv2d_nhwc_two_sums(
    data: Tensor, weight: Tensor, channels: int, strides: Any, padding: Any, dilation: Any
) -> Tensor:
    """Convolve NHWC data with two sums for each result, of the even and of the odd inputs;
    ``weight`` is (tiles, ky, kx, C / 2, 2 * T), the weights of a pair of inputs side by side.
    """
    ky, kx = get_const_int(weight.shape[1]), get_const_int(weight.shape[2])
    padded, sizes = _sizes(data, (ky, kx), strides, padding, dilation)
    width = get_const_int(weight.shape[4])
    (sy, sx), (dy, dx) = strides, dilation
    ry = te.reduce_axis((0, ky), name="ry")
    rx = te.reduce_axis((0, kx), name="rx")
    rc = te.reduce_axis((0, get_const_int(weight.shape[3])), name="rc")
    sums = compute(
        (data.shape[0], *sizes, 2 * channels),
        lambda n, y, x, q: te.sum(
            padded(n, y * sy + ry * dy, x * sx + rx * dx, rc * 2 + op.floormod(q, 2))
            * weight(op.floordiv(q, width), ry, rx, rc, op.floormod(q, width)),
            axis=[ry, rx, rc],
        ),
        name="conv2d_nhwc_two_sums",
        tag="conv2d_nhwc_two_sums",
    )
    return compute(
        (data.shape[0], *sizes, channels),
        lambda n, y, x, o: sums(n, y, x, o * 2) + sums(n, y, x, o * 2 + 1),
        name="sum_of_two",
        tag="injective",
    )


def conv2d_planes_packed(
    data: Tensor, weight: Tensor, channels: int, strides: Any, padding: Any, dilation: Any
) -> Tensor:
    """Convolve single pixels of NCHW data without padding; the result is NHWC. ``weight`` is that
    of `conv2d_nhwc_packed`.
    """
    width = get_const_int(weight.shape[4])
    sizes: list[Any] = [
        windows_within(data.shape[2 + axis], 1, int(strides[axis]), 1) for axis in range(2)
    ]
    wide = rounded(data, accumulator(data.dtype))
    sy, sx = strides
    rc = te.reduce_axis((0, data.shape[1]), name="rc")
    result = compute(
        (data.shape[0], *sizes, channels),
        lambda n, y, x, o: te.sum(
            widened(wide(n, rc, y * sy, x * sx))
            * widened(weight(op.floordiv(o, width), 0, 0, rc, op.floormod(o, width))),
            axis=rc,
        ),
        name="conv2d_planes_packed",
        tag="conv2d_planes_packed",
    )
    return rounded(result, data.dtype)


def conv2d_of_pixels(data: Tensor, weight: Tensor) -> Tensor:
    """Convolve single pixels of NCHW data; ``weight`` is (O, I)."""
    wide = rounded(data, accumulator(data.dtype))
    rc = te.reduce_axis((0, data.shape[1]), name="rc")
    result = compute(
        (data.shape[0], weight.shape[0], *data.shape[2:]),
        lambda n, o, y, x: te.sum(widened(weight(o, rc)) * wide(n, rc, y, x), axis=rc),
        name="conv2d_of_pixels",
        tag="conv2d_of_pixels",
    )
    return rounded(result, data.dtype)


def grouped_conv2d_nhwc_packed(
    data: Tensor, weight: Tensor, channels: int, strides: Any, padding: Any, dilation: Any
) -> Tensor:
    """Convolve each group of channels of NHWC data with weights of its own; ``weight`` is (groups,
    tiles, ky, kx, C, T) for C channels of a group, all tiles full; ``channels`` counts the outputs
    of all groups.
    """
    ky, kx = get_const_int(weight.shape[2]), get_const_int(weight.shape[3])
    padded, sizes = _sizes(data, (ky, kx), strides, padding, dilation)
    inputs, width = get_const_int(weight.shape[4]), get_const_int(weight.shape[5])
    outputs = channels // get_const_int(weight.shape[0])
    (sy, sx), (dy, dx) = strides, dilation
    ry = te.reduce_axis((0, ky), name="ry")
    rx = te.reduce_axis((0, kx), name="rx")
    rc = te.reduce_axis((0, inputs), name="rc")

    def total(n: Any, y: Any, x: Any, o: Any) -> Any:
        group, own = op.floordiv(o, outputs), op.floormod(o, outputs)
        tile, lane = op.floordiv(own, width), op.floormod(own, width)
        element = padded(n, y * sy + ry * dy, x * sx + rx * dx, group * inputs + rc)
        product = widened(element) * widened(weight(group, tile, ry, rx, rc, lane))
        return te.sum(product, axis=[ry, rx, rc])

    result = compute(
        (data.shape[0], *sizes, channels),
        total,
        name="grouped_conv2d_nhwc_packed",
        tag="grouped_conv2d_nhwc_packed",
    )
    return rounded(result, data.dtype)


def grouped_conv2d_nhwc_lanes(
    data: Tensor, weight: Tensor, strides: Any, padding: Any, dilation: Any
) -> Tensor:
    """Convolve each group of channels of NHWC data with weights of its own; ``weight`` is (ky, C,
    kx, O) for C channels of a group, which has as many outputs.
    """
    ky, group, kx, channels = [get_const_int(size) for size in weight.shape]
    padded, sizes = _sizes(data, (ky, kx), strides, padding, dilation)
    (sy, sx), (dy, dx) = strides, dilation
    ry = te.reduce_axis((0, ky), name="ry")
    rc = te.reduce_axis((0, group), name="rc")
    rx = te.reduce_axis((0, kx), name="rx")
    return compute(
        (data.shape[0], *sizes, channels),
        lambda n, y, x, o: te.sum(
            padded(n, y * sy + ry * dy, x * sx + rx * dx, op.floordiv(o, group) * group + rc)
            * weight(ry, rc, rx, o),
            axis=[ry, rc, rx],
        ),
        name="grouped_conv2d_nhwc_lanes",
        tag="grouped_conv2d_nhwc_lanes",
    )


def depthwise_conv2d_nhwc_packed(
    data: Tensor, weight: Tensor, strides: Any, padding: Any, dilation: Any
) -> Tensor:
    """Convolve each channel of NHWC data on its own; ``weight`` is (ky, kx, C)."""
    ky, kx = get_const_int(weight.shape[0]), get_const_int(weight.shape[1])
    padded, sizes = _sizes(data, (ky, kx), strides, padding, dilation)
    (sy, sx), (dy, dx) = strides, dilation
    ry = te.reduce_axis((0, ky), name="ry")
    rx = te.reduce_axis((0, kx), name="rx")
    result = compute(
        (data.shape[0], *sizes, data.shape[3]),
        lambda n, y, x, c: te.sum(
            widened(padded(n, y * sy + ry * dy, x * sx + rx * dx, c)) * widened(weight(ry, rx, c)),
            axis=[ry, rx],
        ),
        name="depthwise_conv2d_nhwc",
        tag="depthwise_conv2d_nhwc",
    )
    return rounded(result, data.dtype)


def matmul_packed(data: Tensor, weight: Tensor, columns: int) -> Tensor:
    """Return ``data @ B`` over the last axis of data, for a packed B: (tiles, K, T)."""
    width = get_const_int(weight.shape[2])
    wide = rounded(data, accumulator(data.dtype))
    k = te.reduce_axis((0, data.shape[-1]), name="k")
    result = compute(
        (*data.shape[:-1], columns),
        lambda *i: te.sum(
            wide(*i[:-1], k)
            * widened(weight(op.floordiv(i[-1], width), k, op.floormod(i[-1], width))),
            axis=k,
        ),
        name="matmul_packed",
        tag="matmul_packed",
    )
    return rounded(result, data.dtype)
