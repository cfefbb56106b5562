"""Convolutions of channels in blocks: NCHW8c data is (N, C / 8, H, W, 8).

The block of the inputs, that of the weights' inputs and that of the outputs may differ. Groups hold
whole blocks of outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import te
from tilesmith.ir import PrimExpr
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.compute import compute
from tilesmith.topi.helpers import nchw_xc_layout
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.utils import Numbers, Padding, get_pad_tuple, per_axis, windows_within
from tilesmith.topi.utils import DType, get_const_int, simplify

__all__ = [
    "conv2d_NCHWc", "conv2d_NCHWc_int8", "depthwise_conv2d_NCHWc", "unpack_NCHWc_to_nchw",
]  # fmt: skip


class _Blocked:
    """The sizes of a convolution of blocked data."""

    def __init__(
        self, name: str, data: Tensor, kernel: Tensor, stride: Numbers, padding: Padding,
        dilation: Numbers, layouts: tuple[str, str],
    ) -> None:  # fmt: skip
        self._name = name
        for layout in layouts:
            if not nchw_xc_layout(layout):
                raise UnsupportedError(
                    f"{name}: layout '{layout}' has no blocks of channels",
                    notes=("such as NCHW8c",),
                )
        if len(data.shape) != 5:
            raise ShapeError(f"{name}: the data has 5 dimensions, got {len(data.shape)}")
        self.batch = data.shape[0]
        self.block, self.channels = get_const_int(data.shape[4]), _channels(data, 4)
        self.outer, self.ky, self.kx = [get_const_int(kernel.shape[axis]) for axis in (0, 2, 3)]
        self.out_block = get_const_int(kernel.shape[5])
        for layout, block in zip(layouts, (self.block, self.out_block)):
            if int(layout[4:-1]) != block:
                raise ShapeError(f"{name}: layout '{layout}' with blocks of {block} channels")
        (self.sy, self.sx), (self.dy, self.dx) = (
            per_axis(stride, 2, "stride"),
            per_axis(dilation, 2, "dilation"),
        )
        reach = ((self.ky - 1) * self.dy + 1, (self.kx - 1) * self.dx + 1)
        top, left, bottom, right = get_pad_tuple(padding, reach)
        self._padded = pad(data, [0, 0, top, left, 0], [0, 0, bottom, right, 0], name="data_pad")
        self.height = windows_within(data.shape[2] + top + bottom, self.ky, self.sy, self.dy)
        self.width = windows_within(data.shape[3] + left + right, self.kx, self.sx, self.dx)

    def places(self) -> tuple[Any, Any]:
        """Return the reduction axes of the filter's rows and columns."""
        return (
            te.reduce_axis((0, self.ky), name="kh"),
            te.reduce_axis((0, self.kx), name="kw"),
        )

    def read(self, n: Any, channel: Any, y: Any, x: Any, ky: Any, kx: Any) -> PrimExpr:
        """Return what a place of the filter sees at a place of the result."""
        return self.read_block(n, *_split(channel, self.block), y, x, ky, kx)

    def read_block(
        self, n: Any, block: Any, inside: Any, y: Any, x: Any, ky: Any, kx: Any
    ) -> PrimExpr:
        """Return what `read` does, for a channel given by its block and its place there."""
        return self._padded(
            n, block, y * self.sy + ky * self.dy, x * self.sx + kx * self.dx, inside
        )

    def compute(self, element: Callable[..., PrimExpr], out_dtype: DType) -> Tensor:
        """Return the result, whose elements are sums in the accumulator's dtype."""
        shape = (self.batch, self.outer, self.height, self.width, self.out_block)
        names = ["n", "oc_chunk", "oh", "ow", "oc_block"]
        made = compute(shape, element, self._name, self._name, varargs_names=names)
        return rounded(made, out_dtype)


def _channels(data: Tensor, block_axis: int) -> int:
    return get_const_int(data.shape[1]) * get_const_int(data.shape[block_axis])


def _split(channel: Any, block: int) -> tuple[Any, Any]:
    return op.floordiv(channel, block), op.floormod(channel, block)


def _first_channel(g: _Blocked, own: int, out_block: Any) -> Any:
    """Return the first input of the group that a block of outputs belongs to, given how many inputs
    the filter takes.
    """
    groups, rest = divmod(g.channels, own)
    if rest or g.outer % groups:
        raise ShapeError(
            f"a convolution of {g.channels} channels with a filter for {own} and {g.outer} blocks "
            "of outputs: groups hold whole blocks",
        )
    return op.floordiv(out_block, g.outer // groups) * own if groups > 1 else 0


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    layout: str,
    out_layout: str,
    out_dtype: DType = "float32",
) -> Tensor:
    """Convolve blocked data with a filter (outputs / b, inputs / a, rows, columns, a, b).

    ``layout`` and ``out_layout`` name the blocks, such as NCHW8c. A filter that takes a part of the
    channels convolves in groups.
    """
    _check_rank("conv2d_NCHWc", kernel, 6)
    g = _Blocked("conv2d_NCHWc", data, kernel, stride, padding, dilation, (layout, out_layout))
    block, own = get_const_int(kernel.shape[4]), _channels(kernel, 4)
    dtype = accumulator(out_dtype)
    ic = te.reduce_axis((0, own), name="ic")
    kh, kw = g.places()

    def element(n: Any, oc_chunk: Any, oh: Any, ow: Any, oc_block: Any) -> Any:
        value = g.read(n, _first_channel(g, own, oc_chunk) + ic, oh, ow, kh, kw)
        chunk, inside = _split(ic, block)
        weight = kernel(oc_chunk, chunk, kh, kw, inside, oc_block)
        return te.sum(op.cast(dtype, value) * op.cast(dtype, weight), axis=[ic, kh, kw])

    return g.compute(element, out_dtype)


def conv2d_NCHWc_int8(
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    layout: str,
    out_layout: str,
    out_dtype: DType = "int32",
    n_elems: int = 4,
) -> Tensor:
    """Convolve blocked data with a filter (outputs / b, inputs / a, rows, columns, a / n_elems, b,
    n_elems), the order that instructions for products of ``n_elems`` neighbours want.

    Otherwise as `conv2d_NCHWc`.
    """
    name = "conv2d_NCHWc_int8"
    _check_rank(name, kernel, 7)
    if get_const_int(kernel.shape[6]) != n_elems:
        raise ShapeError(f"{name}: the filter's last axis is {kernel.shape[6]}, n_elems {n_elems}")
    g = _Blocked(name, data, kernel, stride, padding, dilation, (layout, out_layout))
    parts = get_const_int(kernel.shape[4])
    block = parts * n_elems
    own = get_const_int(kernel.shape[1]) * block
    dtype = accumulator(out_dtype)
    kh, kw = g.places()
    chunks = te.reduce_axis((0, get_const_int(kernel.shape[1])), name="ic_outer")
    part = te.reduce_axis((0, parts), name="ic_f_inner")
    one = te.reduce_axis((0, n_elems), name="ic_s_inner")

    def element(n: Any, oc_chunk: Any, oh: Any, ow: Any, oc_block: Any) -> Any:
        channel = chunks * block + part * n_elems + one
        value = g.read(n, _first_channel(g, own, oc_chunk) + channel, oh, ow, kh, kw)
        weight = kernel(oc_chunk, chunks, kh, kw, part, oc_block, one)
        return te.sum(
            op.cast(dtype, value) * op.cast(dtype, weight), axis=[kh, kw, chunks, part, one]
        )

    return g.compute(element, out_dtype)


def depthwise_conv2d_NCHWc(
    Input: Tensor,
    Filter: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    layout: str,
    out_layout: str,
    out_dtype: DType | None = None,
) -> Tensor:
    """Convolve each channel of blocked data on its own, with a filter (outputs / b, 1, rows,
    columns, 1, b); where there are more outputs than channels, neighbours have one channel.
    """
    name = "depthwise_conv2d_NCHWc"
    _check_rank(name, Filter, 6)
    g = _Blocked(name, Input, Filter, stride, padding, dilation, (layout, out_layout))
    multiplier, rest = divmod(g.outer * g.out_block, g.channels)
    if rest or _channels(Filter, 4) != 1:
        raise ShapeError(
            f"{name}: {g.outer * g.out_block} outputs of {g.channels} channels, each output "
            f"of {_channels(Filter, 4)}"
        )
    out_dtype = out_dtype or Input.dtype
    dtype = accumulator(out_dtype)
    kh, kw = g.places()

    def element(n: Any, oc_chunk: Any, oh: Any, ow: Any, oc_block: Any) -> Any:
        if multiplier == 1 and g.block == g.out_block:
            value = g.read_block(n, oc_chunk, oc_block, oh, ow, kh, kw)
        else:
            channel = op.floordiv(oc_chunk * g.out_block + oc_block, multiplier)
            value = g.read(n, channel, oh, ow, kh, kw)
        weight = Filter(oc_chunk, 0, kh, kw, 0, oc_block)
        return te.sum(op.cast(dtype, value) * op.cast(dtype, weight), axis=[kh, kw])

    return g.compute(element, out_dtype)


def _check_rank(name: str, kernel: Tensor, rank: int) -> None:
    if len(kernel.shape) != rank:
        raise ShapeError(f"{name}: the filter has {rank} dimensions, got {len(kernel.shape)}")


def unpack_NCHWc_to_nchw(packed_out: Tensor, out_dtype: DType) -> Tensor:
    """Return blocked data (N, C / b, H, W, b) as NCHW, in another dtype."""
    batch, blocks, height, width, block = packed_out.shape
    return compute(
        (batch, simplify(blocks * block), height, width),
        lambda n, c, y, x: op.cast(
            out_dtype, packed_out(n, op.floordiv(c, block), y, x, op.floormod(c, block))
        ),
        name="output_unpack",
        tag="injective,unpack_nchwc",
    )
