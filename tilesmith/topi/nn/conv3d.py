"""Convolutions along three axes, named after their layouts."""

from __future__ import annotations

from tilesmith.te import Tensor
from tilesmith.topi.nn.convolution import conv
from tilesmith.topi.nn.utils import Numbers, Padding
from tilesmith.topi.utils import DType

__all__ = ["conv3d_ncdhw", "conv3d_ndhwc"]


def conv3d_ncdhw(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of NCDHW data with an OIDHW filter; see `conv`."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NCDHW", out_dtype=out_dtype)


def conv3d_ndhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return a convolution of NDHWC data with a DHWIO filter; see `conv`."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NDHWC", out_dtype=out_dtype)
