"""Convolutions along two axes, named after their layouts."""

from __future__ import annotations

from tilesmith.te import Tensor
from tilesmith.topi.nn.convolution import conv
from tilesmith.topi.nn.utils import Numbers, Padding
from tilesmith.topi.utils import DType

__all__ = [
    "conv2d",
    "conv2d_hwcn",
    "conv2d_nchw",
    "conv2d_nhwc",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
]


def conv2d(
    input: Tensor,
    filter: Tensor,
    strides: Numbers,
    padding: Padding,
    dilation: Numbers,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution in any plain layout; the filter is OIHW for NCHW and HWIO for NHWC by
    default. See `conv`.
    """
    return conv(input, filter, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype)


def conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of NCHW data with an OIHW filter; see `conv`."""
    return conv(Input, Filter, stride, padding, dilation, 1, "NCHW", out_dtype=out_dtype)


def conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of NHWC data with a HWIO filter; see `conv`."""
    return conv(Input, Filter, stride, padding, dilation, 1, "NHWC", out_dtype=out_dtype)


def conv2d_hwcn(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of HWCN data with a HWIO filter; see `conv`."""
    return conv(Input, Filter, stride, padding, dilation, 1, "HWCN", out_dtype=out_dtype)


def group_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of NCHW data whose channels fall into groups; see `conv`."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NCHW", out_dtype=out_dtype)


def group_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of NHWC data whose channels fall into groups; see `conv`."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NHWC", out_dtype=out_dtype)
