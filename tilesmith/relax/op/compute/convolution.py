"""Convolutions as tensor expressions: the standard layouts through topi, any plain layout
directly."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir, topi
from tilesmith.ir.operators import cast, const, floordiv, floormod
from tilesmith.relax.op.convolution import SPATIAL, paddings, repeat
from tilesmith.relax.op.layouts import parse_layout
from tilesmith.support.errors import UnsupportedError
from tilesmith.topi.utils import get_const_int, simplify


def _letters(layout: str, primal: str) -> str:
    axes = parse_layout(layout, primal)
    if any(factor != 1 for _, factor in axes):
        raise UnsupportedError(
            f"no compute for a convolution in the packed layout '{layout}'",
            notes=("convert it with layout_transform",),
        )
    return "".join([axis for axis, _ in axes])


def _at(tensor: Any, layout: str, **indices: Any) -> Any:
    return tensor(*[indices[letter] for letter in layout])


class _Geometry:
    """The numbers of a convolution of ``rank`` spatial axes, by letter of the axis."""

    def __init__(self, rank: int, attrs: Any, data: Any, weight: Any, transpose: bool) -> None:
        self.letters = SPATIAL[rank]
        primal, kernel = "NC" + self.letters, ("IO" if transpose else "OI") + self.letters
        self.data_layout = _letters(attrs.data_layout, primal)
        self.kernel_layout = _letters(attrs.kernel_layout, kernel)
        self.out_layout = _letters(attrs.out_layout or attrs.data_layout, primal)
        self.size = dict(zip(self.data_layout, data.shape))
        self.kernel = dict(zip(self.kernel_layout, weight.shape))
        self.stride = dict(zip(self.letters, repeat(attrs.strides, rank)))
        self.dilation = dict(zip(self.letters, repeat(attrs.dilation, rank)))
        pads = paddings(attrs.padding, rank)
        self.before = dict(zip(self.letters, pads[:rank]))
        self.after = dict(zip(self.letters, pads[rank:]))
        self.groups = attrs.groups
        self.out_dtype = attrs.out_dtype or data.dtype

    def reach(self, letter: str) -> Any:
        """How far the kernel reaches along an axis, counted from its first element."""
        return (self.kernel[letter] - 1) * self.dilation[letter]

    def padded(self, data: Any, before: dict[str, Any], after: dict[str, Any]) -> Any:
        """The data with zeros around it."""
        low = [before.get(letter, 0) for letter in self.data_layout]
        high = [after.get(letter, 0) for letter in self.data_layout]
        return topi.nn.pad(data, low, high, 0, name="pad_temp")

    def iterators(self, channels: Any) -> tuple[Any, dict[str, Any]]:
        """The reduction axes: input channels of a group, and places in the kernel."""
        spatial = {
            letter: te.reduce_axis((0, self.kernel[letter]), name="r" + letter.lower())
            for letter in self.letters
        }
        return te.reduce_axis((0, channels), name="rc"), spatial


def _convolution(rank: int, attrs: Any, data: Any, weight: Any) -> Any:
    g = _Geometry(rank, attrs, data, weight, False)
    padded = g.padded(data, g.before, g.after)
    out_size = {"N": g.size["N"], "C": g.kernel["O"]}
    for letter in g.letters:
        span = g.size[letter] + g.before[letter] + g.after[letter] - g.reach(letter) - 1
        out_size[letter] = simplify(floordiv(span, g.stride[letter]) + 1)
    rc, places = g.iterators(g.kernel["I"])
    per_group = simplify(floordiv(g.kernel["O"], g.groups))

    def element(*indices: Any) -> Any:
        at = dict(zip(g.out_layout, indices))
        channel = rc.var
        if g.groups > 1:
            channel = floordiv(at["C"], per_group) * g.kernel["I"] + rc
        spatial = {
            letter: at[letter] * g.stride[letter] + places[letter] * g.dilation[letter]
            for letter in g.letters
        }
        value = _at(padded, g.data_layout, N=at["N"], C=channel, **spatial)
        factor = _at(weight, g.kernel_layout, O=at["C"], I=rc, **places)
        product = cast(g.out_dtype, value) * cast(g.out_dtype, factor)
        return te.sum(product, axis=[rc, *places.values()])

    shape = [out_size[letter] for letter in g.out_layout]
    name = f"conv{rank}d_{g.out_layout.lower()}"
    return te.compute(shape, element, name=name, tag=name)


def _transposed(rank: int, attrs: Any, data: Any, weight: Any) -> Any:
    """As a convolution of the data with zeros between its elements and the kernel turned round."""
    g = _Geometry(rank, attrs, data, weight, True)
    extra = dict(zip(g.letters, repeat(attrs.output_padding, rank)))
    rc, places = g.iterators(simplify(floordiv(g.kernel["I"], g.groups)))
    outer = g.kernel["O"]
    out_size = {"N": g.size["N"], "C": simplify(outer * g.groups)}
    for letter in g.letters:
        pad = g.before[letter] + g.after[letter]
        full = (g.size[letter] - 1) * g.stride[letter] + g.reach(letter) + 1
        out_size[letter] = simplify(full - pad + extra[letter])

    def element(*indices: Any) -> Any:
        at = dict(zip(g.out_layout, indices))
        channel, filter_channel = rc.var, at["C"]
        if g.groups > 1:
            group = floordiv(at["C"], outer)
            channel = group * simplify(floordiv(g.kernel["I"], g.groups)) + rc
            filter_channel = floormod(at["C"], outer)
        spatial, inside = {}, []
        for letter in g.letters:
            # out = in * stride + place * dilation - padding, solved for in
            numerator = at[letter] + g.before[letter] - places[letter] * g.dilation[letter]
            source = floordiv(numerator, g.stride[letter])
            spatial[letter] = source
            inside += [source >= 0, source < g.size[letter]]
            if g.stride[letter] > 1:
                inside.append(tir.EQ(floormod(numerator, g.stride[letter]), const(0, source.dtype)))
        value = _at(data, g.data_layout, N=at["N"], C=channel, **spatial)
        value = tir.if_then_else(tir.all(*inside), value, const(0, data.dtype))
        factor = _at(weight, g.kernel_layout, I=channel, O=filter_channel, **places)
        product = cast(g.out_dtype, value) * cast(g.out_dtype, factor)
        return te.sum(product, axis=[rc, *places.values()])

    shape = [out_size[letter] for letter in g.out_layout]
    name = f"conv{rank}d_transpose_{g.out_layout.lower()}"
    return te.compute(shape, element, name=name, tag=name)


def _is_depthwise(attrs: Any, data: Any, weight: Any) -> bool:
    if attrs.groups == 1 or not hasattr(data.shape[1], "value"):
        return False
    channels = get_const_int(data.shape[1])
    return attrs.groups == channels == get_const_int(weight.shape[0])


def conv2d(attrs: Any, data: Any, weight: Any) -> Any:
    """Convolution along two axes."""
    out_layout = attrs.out_layout or attrs.data_layout
    plain = out_layout == attrs.data_layout
    numbers = (attrs.strides, attrs.padding, attrs.dilation)
    if plain and (attrs.data_layout, attrs.kernel_layout) == ("NCHW", "OIHW"):
        if _is_depthwise(attrs, data, weight):
            return topi.nn.depthwise_conv2d_nchw(data, weight, *numbers, attrs.out_dtype)
        if attrs.groups > 1:
            return topi.nn.group_conv2d_nchw(data, weight, *numbers, attrs.groups, attrs.out_dtype)
        return topi.nn.conv2d(data, weight, *numbers, "NCHW", "OIHW", attrs.out_dtype)
    standard = (attrs.data_layout, attrs.kernel_layout) == ("NHWC", "HWIO")
    if plain and standard and attrs.groups == 1:
        return topi.nn.conv2d(data, weight, *numbers, "NHWC", "HWIO", attrs.out_dtype)
    return _convolution(2, attrs, data, weight)


def conv1d(attrs: Any, data: Any, weight: Any) -> Any:
    """Convolution along one axis."""
    return _convolution(1, attrs, data, weight)


def conv3d(attrs: Any, data: Any, weight: Any) -> Any:
    """Convolution along three axes."""
    return _convolution(3, attrs, data, weight)


def conv1d_transpose(attrs: Any, data: Any, weight: Any) -> Any:
    """Transposed convolution along one axis."""
    return _transposed(1, attrs, data, weight)


def conv2d_transpose(attrs: Any, data: Any, weight: Any) -> Any:
    """Transposed convolution along two axes."""
    return _transposed(2, attrs, data, weight)


def conv3d_transpose(attrs: Any, data: Any, weight: Any) -> Any:
    """Transposed convolution along three axes."""
    return _transposed(3, attrs, data, weight)
