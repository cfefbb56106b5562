"""Depthwise convolutions, and their gradients.

``Filter`` has a multiplier: so many results of each channel, which stand next to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.utils import Numbers, Padding, get_pad_tuple, per_axis, windows_within
from tilesmith.topi.utils import DType, Shape, get_const_int, simplify

__all__ = [
    "depthwise_conv2d_backward_input_nhwc", "depthwise_conv2d_backward_weight_nhwc",
    "depthwise_conv2d_nchw", "depthwise_conv2d_nhwc",
]  # fmt: skip


def _depthwise(
    layouts: tuple[str, str],
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: DType | None,
) -> Tensor:
    """Convolve data of a layout with a filter in an order of C, M (multiplier), H and W."""
    layout, filter_layout = layouts
    out_dtype = out_dtype or Input.dtype
    dtype = accumulator(out_dtype)
    (sy, sx), (dy, dx) = per_axis(stride, 2, "stride"), per_axis(dilation, 2, "dilation")
    size, taps = dict(zip(layout, Input.shape)), dict(zip(filter_layout, Filter.shape))
    multiplier, ky, kx = [get_const_int(taps[letter]) for letter in "MHW"]
    top, left, bottom, right = get_pad_tuple(padding, ((ky - 1) * dy + 1, (kx - 1) * dx + 1))
    out = {
        "N": size["N"],
        "C": simplify(size["C"] * multiplier),
        "H": windows_within(size["H"] + top + bottom, ky, sy, dy),
        "W": windows_within(size["W"] + left + right, kx, sx, dx),
    }
    before, after = {"H": top, "W": left}, {"H": bottom, "W": right}
    data = pad(
        Input,
        [before.get(letter, 0) for letter in layout],
        [after.get(letter, 0) for letter in layout],
        name="PaddedInput",
    )
    di = te.reduce_axis((0, ky), name="di")
    dj = te.reduce_axis((0, kx), name="dj")

    def element(*indices: Any) -> Any:
        at = dict(zip(layout, indices))
        c = at["C"]
        channel, which = (
            (c, 0) if multiplier == 1 else (op.floordiv(c, multiplier), op.floormod(c, multiplier))
        )
        source = {**at, "C": channel, "H": at["H"] * sy + di * dy, "W": at["W"] * sx + dj * dx}
        own = {"C": channel, "M": which, "H": di, "W": dj}
        value = data(*[source[letter] for letter in layout])
        weight = Filter(*[own[letter] for letter in filter_layout])
        return te.sum(op.cast(dtype, value) * op.cast(dtype, weight), axis=[di, dj])

    loops = {"N": "b", "C": "c", "H": "i", "W": "j"}
    result = compute(
        [out[letter] for letter in layout],
        element,
        name="DepthwiseConv2d",
        tag="depthwise_conv2d_" + layout.lower(),
        varargs_names=[loops[letter] for letter in layout],
    )
    return rounded(result, out_dtype)


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
    layouts = ("NCHW", "CMHW")
    return _depthwise(layouts, Input, Filter, stride, padding, dilation, out_dtype)


def depthwise_conv2d_nhwc(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    kernel_layout: str = "HWOI",
    out_dtype: DType | None = None,
) -> Tensor:
    """Convolve each channel of NHWC data on its own: ``Filter`` is (ky, kx, channels, multiplier)
    in the layout HWOI, (ky, kx, multiplier, channels) in HWIO; otherwise as
    `depthwise_conv2d_nchw`.
    """
    orders = {"HWOI": "HWCM", "HWIO": "HWMC"}
    if kernel_layout not in orders:
        raise UnsupportedError(
            f"depthwise_conv2d_nhwc: the kernel_layout '{kernel_layout}' is neither HWOI nor HWIO"
        )
    layouts = ("NHWC", orders[kernel_layout])
    return _depthwise(layouts, Input, Filter, stride, padding, dilation, out_dtype)


def _check_gradient(name: str, gradient: Tensor, oshape: Shape, channels: int, outer: int) -> None:
    given = [get_const_int(size) for size in gradient.shape]
    wanted = [get_const_int(size) for size in oshape]
    if given != wanted or given[3] != outer:
        raise ShapeError(
            f"{name}: a gradient of shape {given} for a result of shape {wanted} with {outer} "
            f"results of {channels} channels"
        )


def depthwise_conv2d_backward_input_nhwc(
    Filter: Tensor,
    Out_grad: Tensor,
    oshape: Shape,
    ishape: Shape,
    stride: Numbers,
    padding: Padding,
) -> Tensor:
    """Return the gradient of `depthwise_conv2d_nhwc` by its input, of shape ``ishape``, from that
    of its result, of shape ``oshape``. ``Filter`` is (ky, kx, channels, multiplier).
    """
    batch, height, width, channels = [get_const_int(size) for size in ishape]
    ky, kx, _, multiplier = [get_const_int(size) for size in Filter.shape]
    name = "depthwise_conv2d_backward_input_nhwc"
    _check_gradient(name, Out_grad, oshape, channels, channels * multiplier)
    sy, sx = per_axis(stride, 2, "stride")
    top, left, _, _ = get_pad_tuple(padding, (ky, kx))
    dtype = accumulator(Out_grad.dtype)
    dh, dw = te.reduce_axis((0, ky), name="dh"), te.reduce_axis((0, kx), name="dw")
    dc = te.reduce_axis((0, multiplier), name="dc")

    def element(b: Any, h: Any, w: Any, c: Any) -> Any:
        # row * stride + place - padding = h, solved for the row of the result
        source, inside = [], []
        for numerator, step, size in (
            (h + top - dh, sy, Out_grad.shape[1]),
            (w + left - dw, sx, Out_grad.shape[2]),
        ):
            source.append(op.floordiv(numerator, step))
            inside += [source[-1] >= 0, source[-1] < size]
            if step > 1:
                inside.append(op.equal(op.floormod(numerator, step), const(0, numerator.dtype)))
        value = Out_grad(b, *source, c * multiplier + dc)
        value = tir.if_then_else(tir.all(*inside), value, const(0, value.dtype))
        weight = Filter(dh, dw, c, dc)
        return te.sum(op.cast(dtype, value) * op.cast(dtype, weight), axis=[dh, dw, dc])

    shape: Sequence[int] = (batch, height, width, channels)
    return rounded(compute(shape, element, name, name), Out_grad.dtype)


def depthwise_conv2d_backward_weight_nhwc(
    Input: Tensor,
    Out_grad: Tensor,
    oshape: Shape,
    fshape: Shape,
    stride: Numbers,
    padding: Padding,
) -> Tensor:
    """Return the gradient of `depthwise_conv2d_nhwc` by its filter, of shape ``fshape`` (ky, kx,
    channels, multiplier), from that of its result, of shape ``oshape``.
    """
    ky, kx, channels, multiplier = [get_const_int(size) for size in fshape]
    name = "depthwise_conv2d_backward_weight_nhwc"
    _check_gradient(name, Out_grad, oshape, channels, channels * multiplier)
    sy, sx = per_axis(stride, 2, "stride")
    top, left, bottom, right = get_pad_tuple(padding, (ky, kx))
    padded = pad(Input, [0, top, left, 0], [0, bottom, right, 0], name="padded_input")
    batch, rows, columns, _ = Out_grad.shape
    dtype = accumulator(Input.dtype)
    db = te.reduce_axis((0, batch), name="db")
    dh, dw = te.reduce_axis((0, rows), name="dh"), te.reduce_axis((0, columns), name="dw")

    def element(fh: Any, fw: Any, c: Any, m: Any) -> Any:
        gradient = Out_grad(db, dh, dw, c * multiplier + m)
        value = padded(db, dh * sy + fh, dw * sx + fw, c)
        return te.sum(op.cast(dtype, gradient) * op.cast(dtype, value), axis=[db, dh, dw])

    made = compute((ky, kx, channels, multiplier), element, name, name)
    return rounded(made, Input.dtype)
