"""Convolutions, pools, padding, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.frontend.common import get_relay_op
from tilesmith.relay.frontend.images import (
    convolution,
    data_layout,
    global_pool,
    kernel_for,
    pool,
    same_padding,
    space_sizes,
    transposed,
)
from tilesmith.relay.frontend.keras.activation import activated
from tilesmith.relay.frontend.keras.core import with_bias
from tilesmith.relay.frontend.keras.registry import Graph, image
from tilesmith.relay.op.view import rank_of
from tilesmith.support.errors import UnsupportedError

__all__: list[str] = []


def _tuple(given: Any, count: int) -> tuple[int, ...]:
    return (int(given),) * count if isinstance(given, int) else tuple([int(one) for one in given])


def _padding(
    layer: Any, x: Any, first: bool, window: Sequence[int], strides: Any, dilation: Any
) -> list[int]:
    if layer.padding == "same":
        return same_padding(space_sizes(x, first), window, strides, dilation)
    before = (window[0] - 1) * dilation[0] if layer.padding == "causal" else 0
    return [before] + [0] * (2 * len(window) - 1)


def _finished(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    return activated(graph, layer, with_bias(graph, layer, x, 1 if first else -1), first)


@image("Conv1D", "Conv2D", "Conv3D")
def _conv(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    layout = kernel_for(numpy.zeros([1] * (layer.rank + 2)), first)[1]
    weight = graph.weight(layer, "kernel", lambda held: kernel_for(held, first)[0])
    padding = _padding(layer, x, first, layer.kernel_size, layer.strides, layer.dilation_rate)
    found = convolution(
        x, weight, layout, first, layer.strides, padding, layer.dilation_rate, layer.groups
    )
    return _finished(graph, layer, found, first)


def _depthwise(graph: Graph, layer: Any, name: str, x: Any, first: bool) -> Any:
    count = layer.rank
    layout = kernel_for(numpy.zeros([1] * (count + 2)), first)[1]

    def arrange(held: numpy.ndarray) -> numpy.ndarray:
        return kernel_for(held.reshape([*held.shape[:count], 1, -1]), first)[0]

    weight = graph.weight(layer, name, arrange)
    strides, dilation = _tuple(layer.strides, count), _tuple(layer.dilation_rate, count)
    padding = _padding(layer, x, first, _tuple(layer.kernel_size, count), strides, dilation)
    groups = int(getattr(layer, name).shape[-2])
    return convolution(x, weight, layout, first, strides, padding, dilation, groups)


@image("DepthwiseConv1D", "DepthwiseConv2D")
def _depthwise_conv(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    return _finished(graph, layer, _depthwise(graph, layer, "kernel", x, first), first)


@image("SeparableConv1D", "SeparableConv2D")
def _separable_conv(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    each = _depthwise(graph, layer, "depthwise_kernel", x, first)
    layout = kernel_for(numpy.zeros([1] * (layer.rank + 2)), first)[1]
    weight = graph.weight(layer, "pointwise_kernel", lambda held: kernel_for(held, first)[0])
    ones = (1,) * layer.rank
    found = convolution(each, weight, layout, first, ones, (0, 0) * layer.rank, ones)
    return _finished(graph, layer, found, first)


@image("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
def _conv_transpose(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    count = layer.rank

    def arrange(held: numpy.ndarray) -> numpy.ndarray:
        return held.transpose([count + 1, count, *range(count)]) if first else held

    weight = graph.weight(layer, "kernel", arrange)
    strides, dilation = _tuple(layer.strides, count), _tuple(layer.dilation_rate, count)
    same = layer.padding == "same"
    more = layer.output_padding
    extra = [None] * count if more is None else _tuple(more, count)
    results = []
    for size, reach, stride, step, over in zip(
        space_sizes(x, first), layer.kernel_size, strides, dilation, extra
    ):
        window = (reach - 1) * step + 1
        if over is not None:
            cut = 2 * (window // 2) if same else 0
            results.append((size - 1) * stride + window - cut + over)
        else:
            results.append(size * stride + (0 if same else max(window - stride, 0)))
    found = transposed(x, weight, first, strides, dilation, results, same)
    return _finished(graph, layer, found, first)


# Pools


def _pool_of(kind: str) -> Any:
    def convert(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
        count = rank_of(x) - 2
        window = _tuple(layer.pool_size, count)
        strides = _tuple(layer.strides, count)
        padding = _padding(layer, x, first, window, strides, (1,) * count)
        return pool(kind, x, first, window, strides, padding)

    return convert


def _global_of(kind: str) -> Any:
    def convert(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
        return global_pool(kind, x, first, bool(layer.keepdims))

    return convert


def _adaptive_of(kind: str) -> Any:
    def convert(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
        count = rank_of(x) - 2
        function = getattr(op.nn, f"adaptive_{kind}_pool{count}d")
        return function(x, _tuple(layer.output_size, count), data_layout(count, first))

    return convert


for _kind, _name in (("max", "Max"), ("avg", "Average")):
    _D = ("1D", "2D", "3D")
    image(*[f"{_name}Pooling{d}" for d in _D])(_pool_of(_kind))
    image(*[f"Global{_name}Pooling{d}" for d in _D])(_global_of(_kind))
    image(*[f"Adaptive{_name}Pooling{d}" for d in _D])(_adaptive_of(_kind))


# Padding, cropping, resizing


def _pairs(given: Any, count: int) -> list[tuple[int, int]]:
    """Return (before, after) for each axis in space."""
    if isinstance(given, int):
        return [(given, given)] * count
    if count == 1 and isinstance(given[0], int):
        return [(int(given[0]), int(given[1]))]
    return [(int(one[0]), int(one[1])) for one in given]


@image("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def _zero_padding(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    pairs = _pairs(layer.padding, rank_of(x) - 2)
    return op.nn.pad(x, [(0, 0), (0, 0), *pairs] if first else [(0, 0), *pairs, (0, 0)])


@image("Cropping1D", "Cropping2D", "Cropping3D")
def _cropping(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    pairs = _pairs(layer.cropping, rank_of(x) - 2)
    space = space_sizes(x, first)
    axes = [place + (2 if first else 1) for place in range(len(space))]
    ends = [size - after for size, (_, after) in zip(space, pairs)]
    return op.strided_slice(x, [before for before, _ in pairs], ends, axes=axes)


@image("UpSampling1D", "UpSampling3D")
def _repeated(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    for place, times in enumerate(_tuple(layer.size, rank_of(x) - 2)):
        x = op.repeat(x, times, place + (2 if first else 1))
    return x


@image("UpSampling2D")
def _up_sampling(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    if layer.interpolation == "nearest":
        return _repeated(graph, layer, x, first)
    space = space_sizes(x, first)
    return _resized(x, [a * b for a, b in zip(space, layer.size)], layer.interpolation, first)


_METHODS = {"nearest": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}


def _resized(x: Any, wanted: Sequence[int], method: str, first: bool) -> Any:
    if method not in _METHODS:
        raise UnsupportedError(f"resizing by '{method}' is not imported")
    rounding = "floor" if method == "nearest" else ""
    return get_relay_op("resize2d")(
        x, tuple(wanted), layout=data_layout(2, first), method=_METHODS[method],
        coordinate_transformation_mode="half_pixel", rounding_method=rounding,
    )  # fmt: skip


@image("CenterCrop")
def _center_crop(graph: Graph, layer: Any, x: Any, first: bool) -> Any:
    space, wanted = space_sizes(x, first), (layer.height, layer.width)
    starts = [(size - target) // 2 for size, target in zip(space, wanted)]
    axes = [2, 3] if first else [1, 2]
    return op.strided_slice(x, starts, [a + b for a, b in zip(starts, wanted)], axes=axes)
