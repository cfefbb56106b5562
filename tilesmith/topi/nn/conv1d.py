"""Convolutions along one axis, named after their layouts."""

from __future__ import annotations

from tilesmith.te import Tensor
from tilesmith.topi.nn.convolution import conv
from tilesmith.topi.nn.utils import Numbers, Padding
from tilesmith.topi.utils import DType

__all__ = ["conv1d", "conv1d_ncw", "conv1d_nwc", "group_conv1d_ncw", "group_conv1d_nwc"]


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: Numbers = 1,
    padding: Padding = "VALID",
    dilation: Numbers = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution in any plain layout; the filter is OIW for NCW and WIO for NWC by
    default. See `conv`.
    """
    return conv(
        data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype
    )


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Numbers = 1,
    padding: Padding = "VALID",
    dilation: Numbers = 1,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of NCW data with an OIW filter; see `conv`."""
    return conv(data, kernel, strides, padding, dilation, 1, "NCW", out_dtype=out_dtype)


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Numbers = 1,
    padding: Padding = "VALID",
    dilation: Numbers = 1,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of NWC data with a WIO filter; see `conv`."""
    return conv(data, kernel, strides, padding, dilation, 1, "NWC", out_dtype=out_dtype)


def group_conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Numbers = 1,
    padding: Padding = "VALID",
    dilation: Numbers = 1,
    groups: int = 1,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of NCW data with an OIW filter, the channels in groups; see `conv`."""
    return conv(data, kernel, strides, padding, dilation, groups, "NCW", out_dtype=out_dtype)


def group_conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Numbers = 1,
    padding: Padding = "VALID",
    dilation: Numbers = 1,
    groups: int = 1,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of NWC data with a WIO filter, the channels in groups; see `conv`."""
    return conv(data, kernel, strides, padding, dilation, groups, "NWC", out_dtype=out_dtype)
