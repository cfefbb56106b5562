"""Convolutions and transposed convolutions of one, two and three spatial dimensions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy

from tilesmith.ir import IntImm
from tilesmith.relax.attrs import Schema, dtype, integer, ints, text
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import check_ndim, prove_equal, result, size_text, sizes_of, tensor
from tilesmith.relax.op.layouts import from_primal, parse_layout, to_primal
from tilesmith.relax.op.spec import FusionKind, call, define, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

__all__ = [
    "conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose",
]  # fmt: skip

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def repeat(value: Any, count: int) -> tuple[int, ...]:
    """One number for each of ``count`` axes."""
    values = tuple(value) if hasattr(value, "__iter__") else (value,)
    values = tuple([int(item) for item in values])
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise OpAttributeInvalid(f"expected 1 or {count} numbers, got {len(values)}")
    return values


def paddings(value: Any, count: int) -> tuple[int, ...]:
    """Padding before each axis, then after each axis; one number, one per axis, or both sides."""
    values = tuple(value) if hasattr(value, "__iter__") else (value,)
    values = tuple([int(item) for item in values])
    if len(values) == 1:
        return values * (2 * count)
    if len(values) == count:
        return values * 2
    if len(values) != 2 * count:
        raise OpAttributeInvalid(
            f"padding is 1, {count} or {2 * count} numbers (before, then after), got {len(values)}"
        )
    return values


def _layouts(attrs: Any, rank: int, transpose: bool) -> tuple[str, str, str]:
    return "NC" + SPATIAL[rank], ("IO" if transpose else "OI") + SPATIAL[rank], attrs.out_layout


def _result_dtype(call: Call, data: Any, weight: Any) -> Any:
    if call.attrs.out_dtype is not None:
        return call.attrs.out_dtype
    if data.dtype != weight.dtype and not data.dtype.is_void and not weight.dtype.is_void:
        raise OpAttributeInvalid(
            f"{call.op.name} of {data.dtype} and {weight.dtype} needs out_dtype"
        )
    return data.dtype


def _check_channels(call: Call, channels: Any, wanted: Any, groups: int) -> None:
    if not prove_equal(channels, wanted) and isinstance(channels, IntImm):
        raise ShapeError(
            f"{call.op.name}: the data has {size_text(channels)} channels, the weight with "
            f"{groups} group"
            f"{'s' if groups != 1 else ''} needs {size_text(wanted)}"
        )


def _infer(rank: int, transpose: bool) -> Any:
    def infer(call: Call) -> Any:
        data, weight, attrs = tensor(call, 0), tensor(call, 1), call.attrs
        primal, kernel, out_layout = _layouts(attrs, rank, transpose)
        out_layout = out_layout or attrs.data_layout
        check_ndim(call, 0, data, len(parse_layout(attrs.data_layout, primal)))
        check_ndim(call, 1, weight, len(parse_layout(attrs.kernel_layout, kernel)))
        out_dtype = _result_dtype(call, data, weight)
        ndim = len(parse_layout(out_layout, primal))
        sizes, filters = sizes_of(data), sizes_of(weight)
        if sizes is None or filters is None:
            return result(None, out_dtype, ndim)
        sizes = to_primal(sizes, attrs.data_layout, primal)
        filters = to_primal(filters, attrs.kernel_layout, kernel)
        strides, dilation = repeat(attrs.strides, rank), repeat(attrs.dilation, rank)
        padding = paddings(attrs.padding, rank)
        groups = attrs.groups
        if transpose:
            _check_channels(call, sizes[1], filters[0], groups)
            channels = filters[1] * groups
            extra = repeat(attrs.output_padding, rank)
        else:
            _check_channels(call, sizes[1], filters[1] * groups, groups)
            channels = filters[0]
        spatial = []
        for i in range(rank):
            extent = (filters[i + 2] - 1) * dilation[i] + 1
            pad = padding[i] + padding[i + rank]
            if transpose:
                spatial.append((sizes[i + 2] - 1) * strides[i] + extent - pad + extra[i])
            else:
                spatial.append((sizes[i + 2] + pad - extent) // strides[i] + 1)
        info = result(from_primal([sizes[0], channels, *spatial], out_layout, primal), out_dtype)
        for size in info.shape:
            if isinstance(size, IntImm) and size.value < 0:
                raise ShapeError(f"{call.op.name}: the kernel is larger than the padded data")
        return info

    return infer


# Evaluation with numpy


def to_primal_array(array: Any, layout: str, primal: str) -> Any:
    """An array in ``layout`` with its axes in the order of ``primal``, split axes joined."""
    if layout == primal:
        return array
    axes = parse_layout(layout, primal)
    order, sizes = [], []
    for letter in primal:
        places = [i for i, (axis, factor) in enumerate(axes) if axis == letter]
        places.sort(key=lambda i: axes[i][1] != 1)  # the outer part first
        order += places
        sizes.append(int(numpy.prod([array.shape[i] for i in places])))
    return array.transpose(order).reshape(sizes)


def from_primal_array(array: Any, layout: str, primal: str) -> Any:
    """The inverse of ``to_primal_array``."""
    if layout == primal:
        return array
    axes = parse_layout(layout, primal)
    inner = {axis: factor for axis, factor in axes if factor != 1}
    sizes, places = [], {}
    for letter, size in zip(primal, array.shape):
        places[letter, 1] = len(sizes)
        if letter in inner:
            sizes += [size // inner[letter], inner[letter]]
            places[letter, inner[letter]] = len(sizes) - 1
        else:
            sizes.append(size)
    return array.reshape(sizes).transpose([places[piece] for piece in axes])


def _convolve(data: Any, weight: Any, strides: Any, dilation: Any, groups: int) -> Any:
    """The convolution of padded data (N, C, spatial) with a weight (O, I, spatial)."""
    rank = data.ndim - 2
    batch, out_channels = data.shape[0], weight.shape[0]
    extents = [
        (data.shape[i + 2] - (weight.shape[i + 2] - 1) * dilation[i] - 1) // strides[i] + 1
        for i in range(rank)
    ]
    inner, outer = weight.shape[1], out_channels // groups
    kind = data.dtype if data.dtype.kind in "iu" else numpy.dtype("float64")
    out = numpy.zeros((batch, groups, outer, *extents), kind)
    split = data.reshape(batch, groups, inner, *data.shape[2:])
    filters = weight.reshape(groups, outer, inner, *weight.shape[2:])
    for offset in itertools.product(*[range(k) for k in weight.shape[2:]]):
        window = tuple(
            [
                slice(o * d, o * d + (n - 1) * s + 1, s)
                for o, d, n, s in zip(offset, dilation, extents, strides)
            ]
        )
        part = split[(slice(None), slice(None), slice(None), *window)]
        out += numpy.einsum(
            "ngi...,goi->ngo...",
            part.astype(kind),
            filters[(slice(None), slice(None), slice(None), *offset)].astype(kind),
        )
    return out.reshape(batch, out_channels, *extents)


def _evaluate(rank: int, transpose: bool) -> Any:
    def evaluate(attrs: Any, data: Any, weight: Any) -> Any:
        primal, kernel, out_layout = _layouts(attrs, rank, transpose)
        out_dtype = data.dtype if attrs.out_dtype is None else attrs.out_dtype.numpy()
        data = to_primal_array(data, attrs.data_layout, primal)
        weight = to_primal_array(weight, attrs.kernel_layout, kernel)
        if data.dtype.kind in "iu":
            data = data.astype(out_dtype)
        strides, dilation = repeat(attrs.strides, rank), repeat(attrs.dilation, rank)
        padding = paddings(attrs.padding, rank)
        if transpose:
            data, weight, padding = _as_convolution(attrs, data, weight, padding, rank)
            strides = (1,) * rank
        # A negative padding (of a transposed convolution) cuts.
        data = data[
            (
                slice(None),
                slice(None),
                *[
                    slice(max(0, -padding[i]), data.shape[i + 2] - max(0, -padding[i + rank]))
                    for i in range(rank)
                ],
            )
        ]
        width = [(max(0, padding[i]), max(0, padding[i + rank])) for i in range(rank)]
        data = numpy.pad(data, [(0, 0), (0, 0), *width])
        out = _convolve(data, weight, strides, dilation, attrs.groups)
        return from_primal_array(out.astype(out_dtype), out_layout or attrs.data_layout, primal)

    return evaluate


def _as_convolution(attrs: Any, data: Any, weight: Any, padding: Any, rank: int) -> Any:
    """A transposed convolution is a convolution of the spread data with the turned weight."""
    strides, dilation = repeat(attrs.strides, rank), repeat(attrs.dilation, rank)
    extra = repeat(attrs.output_padding, rank)
    spread = [(n - 1) * s + 1 for n, s in zip(data.shape[2:], strides)]
    wide = numpy.zeros((*data.shape[:2], *spread), data.dtype)
    wide[(slice(None), slice(None), *[slice(None, None, s) for s in strides])] = data
    groups = attrs.groups
    channels, outer = weight.shape[:2]
    turned = numpy.flip(weight, tuple(range(2, 2 + rank)))
    turned = turned.reshape(groups, channels // groups, outer, *weight.shape[2:]).swapaxes(1, 2)
    turned = turned.reshape(groups * outer, channels // groups, *weight.shape[2:])
    reach = [(weight.shape[i + 2] - 1) * dilation[i] for i in range(rank)]
    before = [reach[i] - padding[i] for i in range(rank)]
    after = [reach[i] - padding[i + rank] + extra[i] for i in range(rank)]
    return wide, turned, (*before, *after)


# The operators


def _expression(attrs: Any, data: Any, weight: Any) -> Any:
    return topi.nn.conv(
        data,
        weight,
        attrs.strides,
        attrs.padding,
        attrs.dilation,
        attrs.groups,
        attrs.data_layout,
        attrs.kernel_layout,
        attrs.out_dtype,
        attrs.out_layout,
    )


def _transposed_expression(attrs: Any, data: Any, weight: Any) -> Any:
    return topi.nn.conv_transpose(
        data,
        weight,
        attrs.strides,
        attrs.padding,
        attrs.output_padding,
        attrs.dilation,
        attrs.groups,
        attrs.data_layout,
        attrs.kernel_layout,
        attrs.out_dtype,
        attrs.out_layout,
    )


def _define(rank: int, transpose: bool) -> Any:
    spatial = SPATIAL[rank]
    fields = {
        "strides": ints(*(1,) * rank),
        "padding": ints(*(0,) * (2 * rank)),
        "dilation": ints(*(1,) * rank),
        "groups": integer(1),
        "data_layout": text("NC" + spatial),
        "kernel_layout": text(("IO" if transpose else "OI") + spatial),
        "out_layout": text(None),
        "out_dtype": dtype(),
    }
    if transpose:
        fields["output_padding"] = ints(*(0,) * rank)
    return define(
        f"nn.conv{rank}d" + ("_transpose" if transpose else ""),
        "data weight",
        _infer(rank, transpose),
        schema=Schema(**fields),
        compute=_transposed_expression if transpose else _expression,
        kind=FusionKind.OUT_ELEMWISE_FUSABLE,
        evaluate=_evaluate(rank, transpose),
    )


_OPS = {
    (rank, transpose): _define(rank, transpose) for transpose in (False, True) for rank in SPATIAL
}


def _conv(rank: int, transpose: bool, data: Any, weight: Any, attrs: dict[str, Any]) -> Call:
    for key in ("strides", "dilation", "output_padding"):
        if key in attrs:
            attrs[key] = repeat(attrs[key], rank)
    attrs["padding"] = paddings(attrs["padding"], rank)
    return call(_OPS[rank, transpose], data, weight, **attrs)


def conv1d(
    data: Any,
    weight: Any,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str | None = None,
    out_dtype: Any = None,
) -> Call:
    """Convolution along one axis: data (N, C, W), weight (O, I, W)."""
    return _conv(
        1, False, data, weight,
        {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups,
         "data_layout": data_layout, "kernel_layout": kernel_layout, "out_layout": out_layout,
         "out_dtype": out_dtype},
    )  # fmt: skip


def conv2d(
    data: Any,
    weight: Any,
    strides: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str | None = None,
    out_dtype: Any = None,
) -> Call:
    """Convolution along two axes: data (N, C, H, W), weight (O, I, H, W) unless the layouts
    differ."""
    return _conv(
        2, False, data, weight,
        {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups,
         "data_layout": data_layout, "kernel_layout": kernel_layout, "out_layout": out_layout,
         "out_dtype": out_dtype},
    )  # fmt: skip


def conv3d(
    data: Any,
    weight: Any,
    strides: Any = (1, 1, 1),
    padding: Any = (0, 0, 0),
    dilation: Any = (1, 1, 1),
    groups: int = 1,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
    out_layout: str | None = None,
    out_dtype: Any = None,
) -> Call:
    """Convolution along three axes: data (N, C, D, H, W), weight (O, I, D, H, W)."""
    return _conv(
        3, False, data, weight,
        {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups,
         "data_layout": data_layout, "kernel_layout": kernel_layout, "out_layout": out_layout,
         "out_dtype": out_dtype},
    )  # fmt: skip


def conv1d_transpose(
    data: Any,
    weight: Any,
    strides: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "IOW",
    out_layout: str | None = None,
    out_dtype: Any = None,
) -> Call:
    """Transposed convolution along one axis; weight (I, O, W)."""
    return _conv(
        1, True, data, weight,
        {"strides": strides, "padding": padding, "output_padding": output_padding,
         "dilation": dilation, "groups": groups, "data_layout": data_layout,
         "kernel_layout": kernel_layout, "out_layout": out_layout, "out_dtype": out_dtype},
    )  # fmt: skip


def conv2d_transpose(
    data: Any,
    weight: Any,
    strides: Any = (1, 1),
    padding: Any = (0, 0),
    output_padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str | None = None,
    out_dtype: Any = None,
) -> Call:
    """Transposed convolution along two axes; weight (I, O, H, W)."""
    return _conv(
        2, True, data, weight,
        {"strides": strides, "padding": padding, "output_padding": output_padding,
         "dilation": dilation, "groups": groups, "data_layout": data_layout,
         "kernel_layout": kernel_layout, "out_layout": out_layout, "out_dtype": out_dtype},
    )  # fmt: skip


def conv3d_transpose(
    data: Any,
    weight: Any,
    strides: Any = (1, 1, 1),
    padding: Any = (0, 0, 0),
    output_padding: Any = (0, 0, 0),
    dilation: Any = (1, 1, 1),
    groups: int = 1,
    data_layout: str = "NCDHW",
    kernel_layout: str = "IODHW",
    out_layout: str | None = None,
    out_dtype: Any = None,
) -> Call:
    """Transposed convolution along three axes; weight (I, O, D, H, W)."""
    return _conv(
        3, True, data, weight,
        {"strides": strides, "padding": padding, "output_padding": output_padding,
         "dilation": dilation, "groups": groups, "data_layout": data_layout,
         "kernel_layout": kernel_layout, "out_layout": out_layout, "out_dtype": out_dtype},
    )  # fmt: skip
