"""Depthwise convolutions."""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.utils import Numbers, Padding, get_pad_tuple, per_axis, windows_within
from tilesmith.topi.utils import DType, get_const_int, simplify

__all__ = ["depthwise_conv2d_nchw"]


def depthwise_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None = None,
) -> Tensor:
    """Convolve each channel of NCHW data on its own: ``Filter`` is (channels, multiplier, ky, kx),
    the result has channels * multiplier channels. ``padding`` as in `get_pad_tuple`.
    """
    out_dtype = out_dtype or Input.dtype
    dtype = accumulator(out_dtype)
    (sy, sx), (dy, dx) = per_axis(stride, 2, "stride"), per_axis(dilation, 2, "dilation")
    batch, channels, height, width = Input.shape
    multiplier = get_const_int(Filter.shape[1])
    ky, kx = get_const_int(Filter.shape[2]), get_const_int(Filter.shape[3])
    top, left, bottom, right = get_pad_tuple(padding, ((ky - 1) * dy + 1, (kx - 1) * dx + 1))
    shape = (
        batch,
        simplify(channels * multiplier),
        windows_within(height + top + bottom, ky, sy, dy),
        windows_within(width + left + right, kx, sx, dx),
    )
    data = pad(Input, [0, 0, top, left], [0, 0, bottom, right], name="PaddedInput")
    di = te.reduce_axis((0, ky), name="di")
    dj = te.reduce_axis((0, kx), name="dj")

    def element(b: Any, c: Any, i: Any, j: Any) -> Any:
        channel, which = (
            (c, 0) if multiplier == 1 else (op.floordiv(c, multiplier), op.floormod(c, multiplier))
        )
        value = data(b, channel, i * sy + di * dy, j * sx + dj * dx)
        weight = Filter(channel, which, di, dj)
        return te.sum(op.cast(dtype, value) * op.cast(dtype, weight), axis=[di, dj])

    result = compute(shape, element, name="DepthwiseConv2d", tag="depthwise_conv2d_nchw")
    return rounded(result, out_dtype)
