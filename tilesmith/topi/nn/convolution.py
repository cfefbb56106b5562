"""Convolutions of any rank in any plain layout, and the transposed ones.

The functions named after a layout (`conv2d_nchw`, `conv1d_nwc`, ...; `conv_layouts`) are calls of
these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.te.create_prim_func import LAYOUT_FREE
from tilesmith.tir import IterVar
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.depthwise_conv2d import depthwise_conv2d_nchw
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.rewritten import given_weight
from tilesmith.topi.nn.utils import (
    SPATIAL,
    Numbers,
    Padding,
    check_plain_layout,
    get_pad_tuple_generic,
    per_axis,
    windows_within,
)
from tilesmith.topi.utils import DType, get_const_int, simplify

__all__ = ["conv", "conv_transpose"]

_KERNEL_LAYOUTS = {
    "NCW": "OIW", "NWC": "WIO", "NCHW": "OIHW", "NHWC": "HWIO", "HWCN": "HWIO", "NCDHW": "OIDHW",
    "NDHWC": "DHWIO",
}  # fmt: skip
"""The layout of the filter that goes with a layout of the data unless told otherwise."""

_ITERATORS = {"D": "rz", "H": "ry", "W": "rx", "I": "rc"}
_WEIGHT_AXES = {**_ITERATORS, "O": "ff"}
_LOOPS = {"N": "nn", "C": "ff", "D": "zz", "H": "yy", "W": "xx"}


class _Geometry:
    """The parameters of a convolution, by letter of the axis."""

    def __init__(
        self,
        data: Tensor,
        weight: Tensor,
        strides: Numbers,
        padding: Padding,
        dilation: Numbers,
        data_layout: str,
        kernel_layout: str,
        out_layout: str | None,
    ) -> None:
        rank = len(data.shape) - 2
        if rank not in SPATIAL:
            raise ShapeError(f"a convolution takes 3 to 5 dimensions, got {len(data.shape)}")
        self.letters = SPATIAL[rank]
        if not kernel_layout and data_layout not in _KERNEL_LAYOUTS:
            raise UnsupportedError(
                f"a convolution in the layout '{data_layout}' needs kernel_layout"
            )
        self.data_layout = check_plain_layout(data_layout, "NC" + self.letters)
        self.kernel_layout = check_plain_layout(
            kernel_layout or _KERNEL_LAYOUTS[data_layout], "OI" + self.letters
        )
        self.out_layout = check_plain_layout(out_layout or data_layout, "NC" + self.letters)
        self.size = dict(zip(self.data_layout, data.shape))
        self.kernel = dict(zip(self.kernel_layout, weight.shape))
        self.stride = dict(zip(self.letters, per_axis(strides, rank, "strides")))
        self.dilation = dict(zip(self.letters, per_axis(dilation, rank, "dilation")))
        before, after = get_pad_tuple_generic(padding, [self.reach(x) + 1 for x in self.letters])
        self.before, self.after = dict(zip(self.letters, before)), dict(zip(self.letters, after))

    @property
    def name(self) -> str:
        """The name of the result: conv2d_nchw."""
        return f"conv{len(self.letters)}d_{self.out_layout.lower()}"

    def reach(self, letter: str) -> PrimExpr:
        """Return how far the filter extends along an axis, counted from its first element."""
        return (self.kernel[letter] - 1) * self.dilation[letter]

    def windows(self) -> dict[str, PrimExpr]:
        """Return the sizes of the result by letter."""
        size = {"N": self.size["N"], "C": self.kernel["O"]}
        for x in self.letters:
            length = self.size[x] + self.before[x] + self.after[x]
            size[x] = windows_within(length, self.kernel[x], self.stride[x], self.dilation[x])
        return size

    def iterators(self, channels: PrimExpr) -> dict[str, IterVar]:
        """Return the reduction axes (``channels`` of a group, and filter positions) in the order of
        the filter's layout.
        """
        return {
            letter: te.reduce_axis(
                (0, channels if letter == "I" else self.kernel[letter]), name=_ITERATORS[letter]
            )
            for letter in self.kernel_layout
            if letter != "O"
        }

    def compute(
        self,
        name: str,
        size: dict[str, PrimExpr],
        element: Callable[..., PrimExpr],
        attrs: dict[str, Any] | None = None,
    ) -> Tensor:
        """Return the result of sizes by letter, whose indices come in the order of its layout."""
        return compute(
            [size[letter] for letter in self.out_layout],
            element,
            name=name,
            tag=name,
            attrs=attrs,
            varargs_names=[_LOOPS[letter] for letter in self.out_layout],
        )


def _is_depthwise(g: _Geometry, groups: int) -> bool:
    """Return whether the convolution is depthwise, in the layout with a special compute."""
    if (g.data_layout, g.kernel_layout, g.out_layout) != ("NCHW", "OIHW", "NCHW") or groups == 1:
        return False
    channels = g.size["C"]
    return isinstance(channels, IntImm) and groups == channels.value == get_const_int(g.kernel["O"])


def _check_channels(g: _Geometry, groups: int) -> None:
    if groups < 1:
        raise OpAttributeInvalid(f"a convolution has at least 1 group, got {groups}")
    channels, wanted, outputs = g.size["C"], g.kernel["I"], g.kernel["O"]
    known = isinstance(channels, IntImm) and isinstance(wanted, IntImm)
    what = f"conv{len(g.letters)}d"
    if known and int(channels) != int(wanted) * groups:
        raise ShapeError(
            f"{what}: the input has {channels} channels, the filter takes {wanted}"
            if groups == 1
            else f"{what}: {channels} channels are not {groups} groups of {wanted}"
        )
    if isinstance(outputs, IntImm) and int(outputs) % groups:
        raise ShapeError(f"{what}: {outputs} output channels do not divide into {groups} groups")


def conv(
    inp: Tensor,
    filt: Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: DType | None = None,
    auto_scheduler_rewritten_layout: str | None = None,
    meta_schedule_original_shape: Any = None,
    auto_scheduler_should_rewrite_layout: bool = False,
    *,
    out_layout: str | None = None,
) -> Tensor:
    """Compute a convolution along one, two or three axes.

    In NCHW ``out[n, o, y, x]`` is the sum over c, ky, kx of
    ``inp[n, c, y*s + ky*d, x*s + kx*d] * filt[o, c, ky, kx]``; layouts are orders of the letters N,
    C (of the filter O, I) and D, H, W. ``groups``: channels fall into that many groups that do not
    see each other. ``padding``: zeros around the data, see `get_pad_tuple_generic`. Computed in
    ``out_dtype``, by default that of the data. A tuner may rearrange the filter where
    ``auto_scheduler_should_rewrite_layout`` is true, and it has where the two parameters before say
    so (see `given_weight`; the axes of the filter are ff, rc, rz, ry and rx). Raises ShapeError
    where channels do not fit, UnsupportedError for packed layouts.
    """
    given, names = filt, kernel_layout or _KERNEL_LAYOUTS.get(data_layout, "")
    filt = given_weight(
        filt, [_WEIGHT_AXES.get(letter, letter) for letter in names],
        auto_scheduler_rewritten_layout, meta_schedule_original_shape,
    )  # fmt: skip
    g = _Geometry(inp, filt, stride, padding, dilation, data_layout, kernel_layout, out_layout)
    _check_channels(g, groups)
    if _is_depthwise(g, groups):
        return depthwise_conv2d_nchw(inp, filt, stride, padding, dilation, out_dtype)
    out_dtype = out_dtype or inp.dtype
    dtype = accumulator(out_dtype)
    padded = pad(
        inp,
        [g.before.get(letter, 0) for letter in g.data_layout],
        [g.after.get(letter, 0) for letter in g.data_layout],
        name="pad_temp",
    )
    places = g.iterators(g.kernel["I"])
    per_group, group_channels = simplify(op.floordiv(g.kernel["O"], groups)), g.kernel["I"]

    def element(*indices: Any) -> PrimExpr:
        at = dict(zip(g.out_layout, indices))
        channel: Any = places["I"].var
        if groups > 1:
            group = at["C"] if op.is_const(per_group, 1) else op.floordiv(at["C"], per_group)
            one = op.is_const(group_channels, 1)
            channel = group if one else group * group_channels + places["I"]
        source = {"N": at["N"], "C": channel}
        for letter in g.letters:
            source[letter] = at[letter] * g.stride[letter] + places[letter] * g.dilation[letter]
        value = padded(*[source[letter] for letter in g.data_layout])
        own = {**places, "O": at["C"]}
        factor = filt(*[own[letter] for letter in g.kernel_layout])
        product = op.cast(dtype, value) * op.cast(dtype, factor)
        return te.sum(product, axis=list(places.values()))

    name = g.name if groups == 1 else "group_" + g.name
    attrs = {LAYOUT_FREE: [given]} if auto_scheduler_should_rewrite_layout else None
    return rounded(g.compute(name, g.windows(), element, attrs), out_dtype)


def conv_transpose(
    data: Tensor,
    kernel: Tensor,
    strides: Numbers,
    padding: Padding,
    output_padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_dtype: DType | None = None,
    out_layout: str | None = None,
) -> Tensor:
    """Compute a transposed convolution: the gradient of a convolution by its input.

    Parameters as in `conv`, but I are the channels of ``data`` and O the ones of the result in each
    group; ``padding`` is cut off the result, ``output_padding`` is added at its end.
    """
    g = _Geometry(data, kernel, strides, padding, dilation, data_layout, kernel_layout, out_layout)
    channels, inputs, outer = g.size["C"], g.kernel["I"], g.kernel["O"]
    if isinstance(channels, IntImm) and isinstance(inputs, IntImm) and int(channels) != int(inputs):
        raise ShapeError(
            f"conv{len(g.letters)}d_transpose: the input has {channels} channels, the filter takes"
            f" {inputs}"
        )
    out_dtype = out_dtype or data.dtype
    dtype = accumulator(out_dtype)
    extra = per_axis(output_padding, len(g.letters), "output_padding", 0)
    per_group = simplify(op.floordiv(inputs, groups))
    places = g.iterators(per_group)
    out_size = {"N": g.size["N"], "C": simplify(outer * groups)}
    for letter, more in zip(g.letters, extra):
        full = (g.size[letter] - 1) * g.stride[letter] + g.reach(letter) + 1
        out_size[letter] = simplify(full - (g.before[letter] + g.after[letter]) + more)

    def element(*indices: Any) -> PrimExpr:
        at = dict(zip(g.out_layout, indices))
        channel, filter_channel = places["I"].var, at["C"]
        if groups > 1:
            channel = op.floordiv(at["C"], outer) * per_group + places["I"]
            filter_channel = op.floormod(at["C"], outer)
        source, inside = {"N": at["N"], "C": channel}, []
        for letter in g.letters:
            # out = in * stride + place * dilation - padding, solved for in
            numerator = at[letter] + g.before[letter] - places[letter] * g.dilation[letter]
            source[letter] = op.floordiv(numerator, g.stride[letter])
            inside += [source[letter] >= 0, source[letter] < g.size[letter]]
            if g.stride[letter] > 1:
                rest = op.floormod(numerator, g.stride[letter])
                inside.append(op.equal(rest, const(0, rest.dtype)))
        value = data(*[source[letter] for letter in g.data_layout])
        value = tir.if_then_else(tir.all(*inside), value, const(0, data.dtype))
        own = {**places, "I": channel, "O": filter_channel}
        factor = kernel(*[own[letter] for letter in g.kernel_layout])
        product = op.cast(dtype, value) * op.cast(dtype, factor)
        return te.sum(product, axis=list(places.values()))

    name = g.name.replace("_", "_transpose_", 1)
    return rounded(g.compute(name, out_size, element), out_dtype)
