"""What a convolution does, as one tuple of numbers: dtypes, sizes, padding, dilation, strides."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.nn.utils import Numbers, Padding, get_pad_tuple, per_axis
from tilesmith.topi.utils import DType, get_const_int

__all__ = ["DepthwiseWorkload", "Workload", "conv2d_workload", "depthwise_workload"]


class Workload(NamedTuple):
    """A convolution; the filters are counted per group."""

    in_dtype: str
    out_dtype: str
    height: int
    width: int
    in_filter: int
    groups: int
    out_filter: int
    kernel_h: int
    kernel_w: int
    padt: int
    padl: int
    padb: int
    padr: int
    dilation_h: int
    dilation_w: int
    stride_h: int
    stride_w: int


class DepthwiseWorkload(NamedTuple):
    """A depthwise convolution."""

    in_dtype: str
    out_dtype: str
    height: int
    width: int
    in_filter: int
    out_filter: int
    kernel_h: int
    kernel_w: int
    padt: int
    padl: int
    padb: int
    padr: int
    dilation_h: int
    dilation_w: int
    stride_h: int
    stride_w: int


def _sizes(tensor: Tensor, layout: str) -> dict[str, int]:
    return {letter: get_const_int(size) for letter, size in zip(layout, tensor.shape)}


def _common(
    data: Tensor, out_dtype: DType | None, size: dict[str, int], taps: dict[str, int],
    stride: Numbers, padding: Padding, dilation: Numbers,
) -> dict[str, Any]:  # fmt: skip
    dilations, strides = per_axis(dilation, 2, "dilation"), per_axis(stride, 2, "stride")
    reach = [(taps[letter] - 1) * step + 1 for letter, step in zip("HW", dilations)]
    sides = get_pad_tuple(padding, reach)
    return {
        "in_dtype": str(data.dtype),
        "out_dtype": str(out_dtype or data.dtype),
        "height": size["H"],
        "width": size["W"],
        "in_filter": size["C"],
        "kernel_h": taps["H"],
        "kernel_w": taps["W"],
        **dict(zip(("padt", "padl", "padb", "padr"), sides)),
        **dict(zip(("dilation_h", "dilation_w"), dilations)),
        **dict(zip(("stride_h", "stride_w"), strides)),
    }


def _orders(data_layout: str, orders: dict[str, str]) -> str:
    if data_layout not in orders:
        raise UnsupportedError(
            f"no workload for data in the layout '{data_layout}'", notes=("NCHW or NHWC",)
        )
    return orders[data_layout]


def conv2d_workload(
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None,
    data_layout: str = "NCHW",
) -> Workload:
    """Return the workload of a convolution: NCHW with an OIHW kernel, or NHWC with HWIO."""
    taps = _sizes(kernel, _orders(data_layout, {"NCHW": "OIHW", "NHWC": "HWIO"}))
    size = _sizes(data, data_layout)
    common = _common(data, out_dtype, size, taps, stride, padding, dilation)
    return Workload(groups=size["C"] // taps["I"], out_filter=taps["O"], **common)


def depthwise_workload(
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None,
    data_layout: str = "NCHW",
) -> DepthwiseWorkload:
    """Return the workload of a depthwise convolution: NCHW with a kernel (channels, multiplier,
    height, width), or NHWC with (height, width, channels, multiplier).
    """
    taps = _sizes(kernel, _orders(data_layout, {"NCHW": "CMHW", "NHWC": "HWCM"}))
    size = _sizes(data, data_layout)
    common = _common(data, out_dtype, size, taps, stride, padding, dilation)
    return DepthwiseWorkload(out_filter=taps["C"] * taps["M"], **common)
