"""Transposed convolutions, named after their layouts."""

from __future__ import annotations

from tilesmith.te import Tensor
from tilesmith.topi.nn.convolution import conv_transpose
from tilesmith.topi.nn.utils import Numbers, Padding
from tilesmith.topi.utils import DType

__all__ = [
    "conv1d_transpose_ncw", "conv2d_transpose_nchw", "conv3d_transpose_ncdhw",
    "group_conv1d_transpose_ncw", "group_conv2d_transpose_nchw", "group_conv3d_transpose_ncdhw",
]  # fmt: skip


def conv1d_transpose_ncw(
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    out_dtype: DType | None = None,
    output_padding: Numbers = 0,
) -> Tensor:
    """Return a transposed convolution of NCW data with an IOW filter; see `conv_transpose`."""
    return conv_transpose(
        data, kernel, stride, padding, output_padding, 1, 1, "NCW", "IOW", out_dtype
    )


def group_conv1d_transpose_ncw(
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    out_dtype: DType | None = None,
    output_padding: Numbers = 0,
    groups: int = 1,
) -> Tensor:
    """Return a transposed convolution of NCW data with an IOW filter, the channels in groups; see
    `conv_transpose`.
    """
    return conv_transpose(
        data, kernel, stride, padding, output_padding, 1, groups, "NCW", "IOW", out_dtype
    )


def conv2d_transpose_nchw(
    Input: Tensor,
    Filter: Tensor,
    strides: Numbers,
    padding: Padding,
    out_dtype: DType | None = None,
    output_padding: Numbers = 0,
) -> Tensor:
    """Return a transposed convolution of NCHW data with an IOHW filter; see `conv_transpose`."""
    return conv_transpose(
        Input, Filter, strides, padding, output_padding, 1, 1, "NCHW", "IOHW", out_dtype
    )


def group_conv2d_transpose_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    out_dtype: DType | None = None,
    output_padding: Numbers = 0,
    groups: int = 1,
) -> Tensor:
    """Return a transposed convolution of NCHW data with an IOHW filter, the channels in groups; see
    `conv_transpose`.
    """
    return conv_transpose(
        data, kernel, stride, padding, output_padding, 1, groups, "NCHW", "IOHW", out_dtype
    )


def conv3d_transpose_ncdhw(
    Input: Tensor,
    Filter: Tensor,
    strides: Numbers,
    padding: Padding,
    out_dtype: DType | None = None,
    output_padding: Numbers = 0,
) -> Tensor:
    """Return a transposed convolution of NCDHW data with an IODHW filter; see `conv_transpose`."""
    return conv_transpose(
        Input, Filter, strides, padding, output_padding, 1, 1, "NCDHW", "IODHW", out_dtype
    )


def group_conv3d_transpose_ncdhw(
    data: Tensor,
    kernel: Tensor,
    strides: Numbers,
    padding: Padding,
    out_dtype: DType | None = None,
    output_padding: Numbers = 0,
    groups: int = 1,
) -> Tensor:
    """Return a transposed convolution of NCDHW data with an IODHW filter, the channels in groups;
    see `conv_transpose`.
    """
    return conv_transpose(
        data, kernel, strides, padding, output_padding, 1, groups, "NCDHW", "IODHW", out_dtype
    )
