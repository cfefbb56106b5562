"""Two-dimensional convolutions."""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.nn.pad import get_pad_tuple, pad
from tilesmith.topi.utils import get_const_int, simplify

__all__ = [
    "conv2d", "conv2d_nchw", "conv2d_nhwc", "conv2d_transpose_nchw", "depthwise_conv2d_nchw",
    "group_conv2d_nchw",
]  # fmt: skip


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, (list, tuple)):
        return (int(value[0]), int(value[0])) if len(value) == 1 else (int(value[0]), int(value[1]))
    return int(value), int(value)


def conv2d(
    input: Tensor,
    filter: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution in layout NCHW (filter OIHW) or NHWC (filter HWIO)."""
    if data_layout == "NCHW" and kernel_layout in ("", "OIHW"):
        return conv2d_nchw(input, filter, strides, padding, dilation, out_dtype)
    if data_layout == "NHWC" and kernel_layout in ("", "HWIO"):
        return conv2d_nhwc(input, filter, strides, padding, dilation, out_dtype)
    raise UnsupportedError(
        f"conv2d: layout '{data_layout}' with filter '{kernel_layout}' has no direct compute",
        notes=("convert to NCHW/OIHW or NHWC/HWIO with layout_transform",),
    )


def _output_size(
    size: Any, before: int, after: int, kernel: int, stride: int, dilation: int
) -> Any:
    reach = (kernel - 1) * dilation + 1
    return simplify(op.floordiv(size - reach + before + after, stride) + 1)


def conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> Tensor:
    """``out[n, o, y, x] = sum over c, ky, kx of in[n, c, y*s + ky*d, x*s + kx*d] * filter[o, c, ky,
    kx]``.
    """
    channels, wanted = Input.shape[1], Filter.shape[1]
    if op.is_const(channels) and op.is_const(wanted) and int(channels) != int(wanted):
        raise ShapeError(f"conv2d: the input has {channels} channels, the filter takes {wanted}")
    return group_conv2d_nchw(Input, Filter, stride, padding, dilation, 1, out_dtype)


def group_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution whose channels fall into groups that do not see each other."""
    out_dtype = out_dtype or Input.dtype
    (sy, sx), (dy, dx) = _pair(stride), _pair(dilation)
    batch, channels, height, width = Input.shape
    out_channels, group_channels = Filter.shape[0], Filter.shape[1]
    ky, kx = get_const_int(Filter.shape[2]), get_const_int(Filter.shape[3])
    if groups > 1:
        if get_const_int(channels) != get_const_int(group_channels) * groups:
            raise ShapeError(
                f"conv2d: {channels} channels are not {groups} groups of {group_channels}"
            )
        if get_const_int(out_channels) % groups:
            raise ShapeError(
                f"conv2d: {out_channels} output channels do not divide into {groups} groups"
            )
    top, left, bottom, right = get_pad_tuple(padding, ((ky - 1) * dy + 1, (kx - 1) * dx + 1))
    shape = (
        batch,
        out_channels,
        _output_size(height, top, bottom, ky, sy, dy),
        _output_size(width, left, right, kx, sx, dx),
    )
    data = pad(Input, [0, 0, top, left], [0, 0, bottom, right], name="pad_temp")
    rc = te.reduce_axis((0, group_channels), name="rc")
    ry = te.reduce_axis((0, ky), name="ry")
    rx = te.reduce_axis((0, kx), name="rx")
    per_group = simplify(op.floordiv(out_channels, groups))

    def element(nn: Any, ff: Any, yy: Any, xx: Any) -> Any:
        channel = rc.var
        if groups > 1:
            group = ff if op.is_const(per_group, 1) else op.floordiv(ff, per_group)
            channel = group if op.is_const(group_channels, 1) else group * group_channels + rc
        value = data(nn, channel, yy * sy + ry * dy, xx * sx + rx * dx)
        return te.sum(
            op.cast(out_dtype, value) * op.cast(out_dtype, Filter(ff, rc, ry, rx)),
            axis=[rc, ry, rx],
        )

    kind = "conv2d_nchw" if groups == 1 else "group_conv2d_nchw"
    return te.compute(shape, element, name=kind, tag=kind)


def depthwise_conv2d_nchw(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> Tensor:
    """Each channel convolved on its own with ``Filter.shape[1]`` filters."""
    out_dtype = out_dtype or Input.dtype
    (sy, sx), (dy, dx) = _pair(stride), _pair(dilation)
    batch, channels, height, width = Input.shape
    multiplier = get_const_int(Filter.shape[1])
    ky, kx = get_const_int(Filter.shape[2]), get_const_int(Filter.shape[3])
    top, left, bottom, right = get_pad_tuple(padding, ((ky - 1) * dy + 1, (kx - 1) * dx + 1))
    shape = (
        batch,
        simplify(channels * multiplier),
        _output_size(height, top, bottom, ky, sy, dy),
        _output_size(width, left, right, kx, sx, dx),
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
        return te.sum(op.cast(out_dtype, value) * op.cast(out_dtype, weight), axis=[di, dj])

    return te.compute(shape, element, name="DepthwiseConv2d", tag="depthwise_conv2d_nchw")


def conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str | None = None,
) -> Tensor:
    """A convolution in layout NHWC with a filter HWIO."""
    out_dtype = out_dtype or Input.dtype
    (sy, sx), (dy, dx) = _pair(stride), _pair(dilation)
    batch, height, width, channels = Input.shape
    ky, kx = get_const_int(Filter.shape[0]), get_const_int(Filter.shape[1])
    top, left, bottom, right = get_pad_tuple(padding, ((ky - 1) * dy + 1, (kx - 1) * dx + 1))
    shape = (
        batch,
        _output_size(height, top, bottom, ky, sy, dy),
        _output_size(width, left, right, kx, sx, dx),
        Filter.shape[3],
    )
    data = pad(Input, [0, top, left, 0], [0, bottom, right, 0], name="pad_temp")
    ry = te.reduce_axis((0, ky), name="ry")
    rx = te.reduce_axis((0, kx), name="rx")
    rc = te.reduce_axis((0, channels), name="rc")
    return te.compute(
        shape,
        lambda nn, yy, xx, ff: te.sum(
            op.cast(out_dtype, data(nn, yy * sy + ry * dy, xx * sx + rx * dx, rc))
            * op.cast(out_dtype, Filter(ry, rx, rc, ff)),
            axis=[ry, rx, rc],
        ),
        name="conv2d_nhwc",
        tag="conv2d_nhwc",
    )


def conv2d_transpose_nchw(
    Input: Tensor,
    Filter: Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str | None = None,
    output_padding: Any = (0, 0),
) -> Tensor:
    """The gradient of a convolution by its input: filter in layout (in, out, ky, kx)."""
    out_dtype = out_dtype or Input.dtype
    (sy, sx), (oy, ox) = _pair(strides), _pair(output_padding)
    batch, channels, height, width = Input.shape
    _, out_channels, ky, kx = (
        *Filter.shape[:2],
        get_const_int(Filter.shape[2]),
        get_const_int(Filter.shape[3]),
    )
    top, left, bottom, right = get_pad_tuple(padding, (ky, kx))
    out_height = simplify((height - 1) * sy - top - bottom + ky + oy)
    out_width = simplify((width - 1) * sx - left - right + kx + ox)
    dc = te.reduce_axis((0, channels), name="dc")
    dh = te.reduce_axis((0, ky), name="dh")
    dw = te.reduce_axis((0, kx), name="dw")

    def element(b: Any, c: Any, h: Any, w: Any) -> Any:
        from tilesmith import tir
        from tilesmith.ir import const

        row, column = h + top - dh, w + left - dw
        inside = tir.all(
            row >= 0, column >= 0, op.floormod(row, sy).equal(0), op.floormod(column, sx).equal(0),
            op.floordiv(row, sy) < height, op.floordiv(column, sx) < width,
        )  # fmt: skip
        value = Input(b, dc, op.floordiv(row, sy), op.floordiv(column, sx))
        taken = tir.if_then_else(inside, op.cast(out_dtype, value), const(0, out_dtype))
        return te.sum(taken * op.cast(out_dtype, Filter(dc, c, dh, dw)), axis=[dc, dh, dw])

    shape = (batch, out_channels, out_height, out_width)
    return te.compute(shape, element, name="conv2d_transpose_nchw", tag="conv2d_transpose_nchw")
