"""Convolutions, pools, normalisation, resizing, products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.relay import op
from tilesmith.relay.frontend.common import get_relay_op
from tilesmith.relay.frontend.images import (
    convolution,
    matmul,
    pool,
    same_padding,
    space_sizes,
    transposed,
)
from tilesmith.relay.frontend.tensorflow.registry import Operands, operator
from tilesmith.relay.frontend.tf_operators import lrn, resized
from tilesmith.relay.op.view import sizes
from tilesmith.support.errors import OpAttributeUnImplemented

__all__: list[str] = []


def _is_first(one: Operands) -> bool:
    return str(one.node.get("data_format") or "NHWC").startswith("NC")


def _in_space(one: Operands, name: str, first: bool, count: int) -> tuple[int, ...]:
    """Return the numbers of an attribute for the axes in space."""
    given = one.node.get(name) or [1] * (count + 2)
    return tuple([int(size) for size in (given[2:] if first else given[1:-1])])


def _padding(
    one: Operands, x: Any, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    kind, first = one.node.get("padding"), _is_first(one)
    if kind == "SAME":
        return same_padding(space_sizes(x, first), window, strides, dilation)
    if kind == "EXPLICIT":
        given = one.node.get("explicit_paddings")
        pairs = list(zip(given[::2], given[1::2]))
        pairs = pairs[2:] if first else pairs[1:-1]
        return [int(pair[0]) for pair in pairs] + [int(pair[1]) for pair in pairs]
    return [0] * (2 * len(window))


@operator("Conv2D", "Conv3D")
def _conv(one: Operands) -> Any:
    x, weight = one.exprs[:2]
    form, first = sizes(weight), _is_first(one)
    count = len(form) - 2
    strides = _in_space(one, "strides", first, count)
    dilation = _in_space(one, "dilations", first, count)
    padding = _padding(one, x, form[:count], strides, dilation)
    groups = int(sizes(x)[1 if first else -1]) // int(form[-2])
    layout = "HWIO" if count == 2 else "DHWIO"
    return convolution(x, weight, layout, first, strides, padding, dilation, groups)


@operator("DepthwiseConv2dNative")
def _depthwise(one: Operands) -> Any:
    x, weight = one.exprs
    height, width, channels, times = sizes(weight)
    first = _is_first(one)
    strides = _in_space(one, "strides", first, 2)
    dilation = _in_space(one, "dilations", first, 2)
    padding = _padding(one, x, (height, width), strides, dilation)
    kernel = op.reshape(weight, (height, width, 1, channels * times))
    return convolution(x, kernel, "HWIO", first, strides, padding, dilation, channels)


@operator("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def _transposed(one: Operands) -> Any:
    results = one.ints(0, "the shape of the result")
    weight, x = one.exprs[1], one.exprs[2]
    first = _is_first(one)
    count = len(results) - 2
    if one.node.get("padding") == "EXPLICIT":
        raise OpAttributeUnImplemented("a transposed convolution with a padding of its own")
    strides = _in_space(one, "strides", first, count)
    dilation = _in_space(one, "dilations", first, count)
    if first:
        weight = op.transpose(weight, [count + 1, count, *range(count)])
    wanted = results[2:] if first else results[1:-1]
    same = one.node.get("padding") == "SAME"
    return transposed(x, weight, first, strides, dilation, wanted, same)


def _pool_of(kind: str, count: int) -> Callable[[Operands], Any]:
    def convert(one: Operands) -> Any:
        x, first = one.exprs[0], _is_first(one)
        window = _in_space(one, "ksize", first, count)
        strides = _in_space(one, "strides", first, count)
        padding = _padding(one, x, window, strides, (1,) * count)
        return pool(kind, x, first, window, strides, padding)

    return convert


operator("AvgPool")(_pool_of("avg", 2))
operator("AvgPool3D")(_pool_of("avg", 3))
operator("MaxPool")(_pool_of("max", 2))
operator("MaxPool3D")(_pool_of("max", 3))


@operator("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(one: Operands) -> Any:
    if one.node.get("is_training", True):
        raise OpAttributeUnImplemented(
            "a batch normalisation in training",
            notes=("freeze the graph as it computes in evaluation",),
        )
    x, scale, shift, mean, variance = one.exprs
    axis = 1 if _is_first(one) else len(sizes(x)) - 1
    epsilon = float(one.node.get("epsilon", 1e-4))
    found = op.nn.batch_norm(x, scale, shift, mean, variance, axis, epsilon)[0]
    return [found, mean, variance, mean, variance, variance]


@operator("LRN")
def _lrn(one: Operands) -> Any:
    get = one.node.get
    return lrn(
        one.exprs[0], int(get("depth_radius", 5)), float(get("bias", 1.0)),
        float(get("alpha", 1.0)), float(get("beta", 0.5)),
    )  # fmt: skip


def _resize_of(method: str) -> Callable[[Operands], Any]:
    def convert(one: Operands) -> Any:
        get = one.node.get
        found = resized(
            one.exprs[0], one.ints(1, "the size"), method, bool(get("align_corners", False)),
            bool(get("half_pixel_centers", False)),
        )  # fmt: skip
        return found

    return convert


operator("ResizeBilinear")(_resize_of("linear"))
operator("ResizeNearestNeighbor")(_resize_of("nearest_neighbor"))


@operator("CropAndResize")
def _crop_and_resize(one: Operands) -> Any:
    image, boxes, which = one.exprs[:3]
    method = {"bilinear": "bilinear", "nearest": "nearest_neighbor"}[one.node.get("method")]
    return get_relay_op("crop_and_resize")(
        image, boxes, which, tuple(one.ints(3, "the size")), "NHWC", method,
        float(one.node.get("extrapolation_value", 0.0)),
    )  # fmt: skip


# Products


@operator("MatMul")
def _matmul(one: Operands) -> Any:
    get = one.node.get
    left, right = one.exprs
    return matmul(left, right, bool(get("transpose_a", False)), bool(get("transpose_b", False)))


@operator("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(one: Operands) -> Any:
    get = one.node.get
    left, right = one.exprs
    return matmul(left, right, bool(get("adj_x", False)), bool(get("adj_y", False)))


@operator("Einsum")
def _einsum(one: Operands) -> Any:
    equation = one.node.get("equation")
    if "..." in equation:
        raise OpAttributeUnImplemented(f"Einsum with an ellipsis: {equation}")
    return op.einsum(tuple(one.exprs), equation)
