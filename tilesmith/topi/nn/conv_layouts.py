"""Convolutions under the names of their layouts, and those of one rank in any plain layout.

The signatures are the ones that users know; they differ in names and defaults.
"""

from __future__ import annotations

from typing import Any

from tilesmith.te import Tensor
from tilesmith.topi.nn.convolution import conv, conv_transpose
from tilesmith.topi.nn.utils import Numbers, Padding
from tilesmith.topi.utils import DType
from tilesmith.topi.variants import variant

__all__ = [
    "conv1d", "conv1d_ncw", "conv1d_nwc", "conv1d_transpose_ncw", "conv2d", "conv2d_hwcn",
    "conv2d_nchw", "conv2d_nhwc", "conv2d_transpose_nchw", "conv3d_ncdhw", "conv3d_ndhwc",
    "conv3d_transpose_ncdhw", "group_conv1d_ncw", "group_conv1d_nwc", "group_conv1d_transpose_ncw",
    "group_conv2d_nchw", "group_conv2d_nhwc", "group_conv2d_transpose_nchw",
    "group_conv3d_transpose_ncdhw",
]  # fmt: skip


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


def _line(
    layout: str,
    data: Tensor,
    kernel: Tensor,
    strides: Numbers = 1,
    padding: Padding = "VALID",
    dilation: Numbers = 1,
    out_dtype: DType | None = None,
) -> Tensor:
    return conv(data, kernel, strides, padding, dilation, 1, layout, out_dtype=out_dtype)


def _grouped_line(
    layout: str,
    data: Tensor,
    kernel: Tensor,
    strides: Numbers = 1,
    padding: Padding = "VALID",
    dilation: Numbers = 1,
    groups: int = 1,
    out_dtype: DType | None = None,
) -> Tensor:
    return conv(data, kernel, strides, padding, dilation, groups, layout, out_dtype=out_dtype)


def _plane(
    layout: str,
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None = None,
) -> Tensor:
    return conv(Input, Filter, stride, padding, dilation, 1, layout, out_dtype=out_dtype)


def conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None = "float32",
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Return a convolution of NHWC data with a filter in HWIO, whose order a tuner may change; see
    `conv`.
    """
    return conv(
        Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype,
        auto_scheduler_rewritten_layout, meta_schedule_original_shape, True,
    )  # fmt: skip


def conv3d_ndhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    out_dtype: DType | None = "float32",
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_origin_shape: Any = None,
) -> Tensor:
    """Return a convolution of NDHWC data with a filter in DHWIO, the channels in groups; see
    `conv`.
    """
    return conv(
        Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype,
        auto_scheduler_rewritten_layout, meta_schedule_origin_shape,
    )  # fmt: skip


def _grouped(
    layout: str,
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    out_dtype: DType | None = None,
) -> Tensor:
    return conv(Input, Filter, stride, padding, dilation, groups, layout, out_dtype=out_dtype)


def _transposed_line(
    layouts: tuple[str, str],
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    out_dtype: DType | None = None,
    output_padding: Numbers = 0,
) -> Tensor:
    return conv_transpose(
        data, kernel, stride, padding, output_padding, 1, 1, *layouts, out_dtype=out_dtype
    )


def _transposed(
    layouts: tuple[str, str],
    Input: Tensor,
    Filter: Tensor,
    strides: Numbers,
    padding: Padding,
    out_dtype: DType | None = None,
    output_padding: Numbers = 0,
) -> Tensor:
    return conv_transpose(
        Input, Filter, strides, padding, output_padding, 1, 1, *layouts, out_dtype=out_dtype
    )


def _grouped_transposed(
    layouts: tuple[str, str],
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    out_dtype: DType | None = None,
    output_padding: Numbers = 0,
    groups: int = 1,
) -> Tensor:
    return conv_transpose(
        data, kernel, stride, padding, output_padding, 1, groups, *layouts, out_dtype=out_dtype
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
    return _grouped_transposed(
        ("NCDHW", "IODHW"), data, kernel, strides, padding, out_dtype, output_padding, groups
    )


def _doc(data: str, kernel: str, *, transposed: bool = False, grouped: bool = False) -> str:
    what = "transposed convolution" if transposed else "convolution"
    groups = ", the channels in groups" if grouped else ""
    see = "conv_transpose" if transposed else "conv"
    return f"Return a {what} of {data} data with a filter in {kernel}{groups}; see `{see}`."


conv1d_ncw = variant("conv1d_ncw", _line, "NCW", _doc("NCW", "OIW"))
conv1d_nwc = variant("conv1d_nwc", _line, "NWC", _doc("NWC", "WIO"))
conv2d_nchw = variant("conv2d_nchw", _plane, "NCHW", _doc("NCHW", "OIHW"))
conv2d_hwcn = variant("conv2d_hwcn", _plane, "HWCN", _doc("HWCN", "HWIO"))

group_conv1d_ncw = variant(
    "group_conv1d_ncw", _grouped_line, "NCW", _doc("NCW", "OIW", grouped=True)
)
group_conv1d_nwc = variant(
    "group_conv1d_nwc", _grouped_line, "NWC", _doc("NWC", "WIO", grouped=True)
)
group_conv2d_nchw = variant(
    "group_conv2d_nchw", _grouped, "NCHW", _doc("NCHW", "OIHW", grouped=True)
)
group_conv2d_nhwc = variant(
    "group_conv2d_nhwc", _grouped, "NHWC", _doc("NHWC", "HWIO", grouped=True)
)
conv3d_ncdhw = variant("conv3d_ncdhw", _grouped, "NCDHW", _doc("NCDHW", "OIDHW", grouped=True))

conv1d_transpose_ncw = variant(
    "conv1d_transpose_ncw", _transposed_line, ("NCW", "IOW"), _doc("NCW", "IOW", transposed=True)
)
conv2d_transpose_nchw = variant(
    "conv2d_transpose_nchw", _transposed, ("NCHW", "IOHW"), _doc("NCHW", "IOHW", transposed=True)
)
conv3d_transpose_ncdhw = variant(
    "conv3d_transpose_ncdhw",
    _transposed,
    ("NCDHW", "IODHW"),
    _doc("NCDHW", "IODHW", transposed=True),
)
group_conv1d_transpose_ncw = variant(
    "group_conv1d_transpose_ncw",
    _grouped_transposed,
    ("NCW", "IOW"),
    _doc("NCW", "IOW", transposed=True, grouped=True),
)
group_conv2d_transpose_nchw = variant(
    "group_conv2d_transpose_nchw",
    _grouped_transposed,
    ("NCHW", "IOHW"),
    _doc("NCHW", "IOHW", transposed=True, grouped=True),
)
