"""Morphological dilation."""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import PrimExpr
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.utils import Numbers, Padding, get_pad_tuple, per_axis, windows_within
from tilesmith.topi.utils import DType, get_const_int, largest, lowest
from tilesmith.topi.variants import variant

__all__ = ["dilation2d_nchw", "dilation2d_nhwc"]


def _dilation2d(
    layout: str,
    input: Tensor,
    filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilations: Numbers,
    out_dtype: DType | None = None,
) -> Tensor:
    steps, apart = per_axis(stride, 2, "stride"), per_axis(dilations, 2, "dilation")
    axes = [layout.index(letter) for letter in "HW"]
    channel = layout.index("C")
    kernel_axes = [axis - 1 for axis in axes]  # the filter has no batch
    kernel = [get_const_int(filter.shape[axis]) for axis in kernel_axes]
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, apart)]
    top, left, bottom, right = get_pad_tuple(padding, spans)
    before, after, shape = [0] * 4, [0] * 4, list(input.shape)
    for axis, low, high, size, step, dilation in zip(
        axes, (top, left), (bottom, right), kernel, steps, apart
    ):
        before[axis], after[axis] = low, high
        shape[axis] = windows_within(input.shape[axis] + low + high, size, step, dilation)
    padded = pad(input, before, after, lowest(input.dtype), name="pad_temp")
    places = [te.reduce_axis((0, size), name=name) for size, name in zip(kernel, ("ry", "rx"))]
    dtype = out_dtype or input.dtype

    def element(*i: Any) -> PrimExpr:
        at, weight = list(i), list(i[1:])
        for axis, place, step, dilation in zip(axes, places, steps, apart):
            at[axis] = i[axis] * step + place * dilation
            weight[axis - 1] = place.var
        weight[channel - 1] = i[channel]
        value = op.cast(dtype, padded(*at)) + op.cast(dtype, filter(*weight))
        greatest: PrimExpr = largest(value, axis=places)
        return greatest

    return compute(shape, element, name="dilation2d", tag="dilation2d_" + layout.lower())


dilation2d_nchw = variant(
    "dilation2d_nchw",
    _dilation2d,
    "NCHW",
    """Return the largest sum of a pixel and the filter's value in each window of NCHW data, for
    each channel by itself; what is padded is never the largest. ``filter`` is (channels, ky, kx).
    """,
)
dilation2d_nhwc = variant(
    "dilation2d_nhwc",
    _dilation2d,
    "NHWC",
    "Return the dilation of NHWC data by a filter (ky, kx, channels); see `dilation2d_nchw`.",
)
