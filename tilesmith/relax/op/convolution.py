"""Convolutions and transposed convolutions of one, two and three spatial dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from tilesmith.ir import IntImm
from tilesmith.ir.windows import window_count
from tilesmith.relax.attrs import AttrField, Schema, dtype, integer, paddings, repeated, text
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import (
    check_ndim,
    result,
    size_text,
    sizes_of,
    surely_different,
    tensor,
)
from tilesmith.relax.op.declaration import OpFunction, define
from tilesmith.relax.op.layouts import from_primal, parse_layout, to_primal
from tilesmith.relax.spec import Agreement, Precision, topi
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


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


def _channels(rank: int, transpose: bool) -> Callable[[Call], Iterator[Agreement]]:
    """Return the agreement of the data's channels with the weight's."""

    def agreeing(call: Call) -> Iterator[Agreement]:
        attrs: Any = call.attrs
        primal, kernel, _ = _layouts(attrs, rank, transpose)
        sizes, filters = sizes_of(tensor(call, 0)), sizes_of(tensor(call, 1))
        if sizes is not None and filters is not None:
            own = to_primal(sizes, attrs.data_layout, primal)[1]
            of_weight = to_primal(filters, attrs.kernel_layout, kernel)
            wanted = of_weight[0] if transpose else of_weight[1] * attrs.groups
            yield "the channel axis of 'data'", own, wanted

    return agreeing


def _check_channels(call: Call, channels: Any, wanted: Any, groups: int) -> None:
    if surely_different(channels, wanted):
        raise ShapeError(
            f"{call.op.name}: the data has {size_text(channels)} channels, the weight with "
            f"{groups} group"
            f"{'s' if groups != 1 else ''} needs {size_text(wanted)}"
        )


def check_windows(call: Call, what: str, sizes: Any, results: Any) -> None:
    """Refuse a window (``what``) that does not fit into the padded data once along some axis, for
    sizes that are constants; data without elements has results without.
    """
    for axis, (size, result_size) in enumerate(zip(sizes, results)):
        if not isinstance(result_size, IntImm):
            continue
        is_empty = isinstance(size, IntImm) and size.value == 0
        if result_size.value < 0 or (result_size.value == 0 and not is_empty):
            raise ShapeError(
                f"{call.op.name}: the {what} is larger than the padded data along spatial axis "
                f"{axis}, of size {size_text(size)} without padding",
                notes=(f"pad the data, or make the {what} smaller",),
            )


def check_not_negative(call: Call, results: Any) -> None:
    """Refuse a padding that takes more than there is."""
    for axis, size in enumerate(results):
        if isinstance(size, IntImm) and size.value < 0:
            raise ShapeError(
                f"{call.op.name}: the padding takes more than the result has along spatial axis "
                f"{axis}: its size would be {size.value}"
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
        strides, dilation = attrs.strides, attrs.dilation
        padding = attrs.padding
        groups = attrs.groups
        if transpose:
            _check_channels(call, sizes[1], filters[0], groups)
            channels = filters[1] * groups
            extra = attrs.output_padding
        else:
            _check_channels(call, sizes[1], filters[1] * groups, groups)
            channels = filters[0]
        spatial = []
        for i in range(rank):
            pad = padding[i] + padding[i + rank]
            if transpose:
                extent = (filters[i + 2] - 1) * dilation[i] + 1
                spatial.append((sizes[i + 2] - 1) * strides[i] + extent - pad + extra[i])
            else:
                size = sizes[i + 2] + pad
                spatial.append(window_count(size, filters[i + 2], strides[i], dilation[i]))
        if transpose:
            check_not_negative(call, spatial)
        else:
            check_windows(call, "kernel", sizes[2:], spatial)
        return result(from_primal([sizes[0], channels, *spatial], out_layout, primal), out_dtype)

    return infer


# Evaluation with numpy


def to_primal_array(array: Any, layout: str, primal: str) -> Any:
    """Return an array in ``layout`` with its axes in the order of ``primal``, split axes joined."""
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
    """Return the inverse of ``to_primal_array``."""
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
    """Return the convolution of padded data (N, C, spatial) with a weight (O, I, spatial)."""
    rank = data.ndim - 2
    batch, out_channels = data.shape[0], weight.shape[0]
    extents = [
        window_count(data.shape[i + 2], weight.shape[i + 2], strides[i], dilation[i])
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
        strides, dilation = attrs.strides, attrs.dilation
        padding = attrs.padding
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
    """Compute a transposed convolution as a convolution of dilated data with the flipped weight."""
    strides, dilation = attrs.strides, attrs.dilation
    extra = attrs.output_padding
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


_PRIMAL = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}


def _blocked_expression(attrs: Any, data: Any, weight: Any) -> Any:
    """Compute a convolution of tensors whose channels are split: in whole ones."""
    primal, primal_kernel = _PRIMAL[len(attrs.strides)]
    found = topi.nn.conv(
        topi.layout_transform(data, attrs.data_layout, primal),
        topi.layout_transform(weight, attrs.kernel_layout, primal_kernel),
        attrs.strides,
        attrs.padding,
        attrs.dilation,
        attrs.groups,
        primal,
        primal_kernel,
        attrs.out_dtype,
    )
    return topi.layout_transform(found, primal, attrs.out_layout or attrs.data_layout)


def _expression(attrs: Any, data: Any, weight: Any) -> Any:
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or "")
    if any(axis.islower() for layout in layouts for axis in layout):
        return _blocked_expression(attrs, data, weight)
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
        out_layout=attrs.out_layout,
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


def _schema(rank: int, kernel_layout: str, **more: AttrField) -> Schema:
    return Schema(
        strides=repeated(rank, least=1),
        padding=paddings(rank),
        **more,
        dilation=repeated(rank, least=1),
        groups=integer(1, least=1),
        data_layout=text("NC" + SPATIAL[rank]),
        kernel_layout=text(kernel_layout + SPATIAL[rank]),
        out_layout=text(None),
        out_dtype=dtype(),
    )


def _convolution(rank: int) -> OpFunction:
    axes = ", ".join(SPATIAL[rank])
    return define(
        f"nn.conv{rank}d",
        "data weight",
        _infer(rank, False),
        description=(
            f"Convolution along {_COUNTS[rank]}: data (N, C, {axes}), weight (O, I, {axes}) unless "
            "the layouts differ."
        ),
        schema=_schema(rank, "OI"),
        agreeing=_channels(rank, False),
        compute=_expression,
        evaluate=_evaluate(rank, False),
        precision=Precision.ALWAYS,
    )


def _transposed(rank: int, precision: Precision = Precision.ALWAYS) -> OpFunction:
    axes = ", ".join(SPATIAL[rank])
    return define(
        f"nn.conv{rank}d_transpose",
        "data weight",
        _infer(rank, True),
        description=f"Transposed convolution along {_COUNTS[rank]}; weight (I, O, {axes}).",
        schema=_schema(rank, "IO", output_padding=repeated(rank, 0, least=0)),
        agreeing=_channels(rank, True),
        compute=_transposed_expression,
        evaluate=_evaluate(rank, True),
        precision=precision,
    )


_COUNTS = {1: "one axis", 2: "two axes", 3: "three axes"}

conv1d = _convolution(1)
conv2d = _convolution(2)
conv3d = _convolution(3)
conv1d_transpose = _transposed(1)
conv2d_transpose = _transposed(2)
conv3d_transpose = _transposed(3, Precision.NEVER)
