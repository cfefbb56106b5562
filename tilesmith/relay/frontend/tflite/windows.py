"""Pools and resizing."""

from __future__ import annotations

from typing import Any

from tilesmith.relay import op
from tilesmith.relay.frontend.images import pool, same_padding, space_sizes
from tilesmith.relay.frontend.tf_operators import resized
from tilesmith.relay.frontend.tflite.registry import operator

__all__: list[str] = []


def _pooled(converter: Any, one: Any, kind: str, x: Any) -> Any:
    options = converter.options(one)
    window = (options.FilterHeight, options.FilterWidth)
    strides = (options.StrideH, options.StrideW)
    padding = [0] * 4
    if options.Padding == 0:
        padding = same_padding(space_sizes(x, False), window, strides, (1, 1))
    return pool(kind, x, False, window, strides, padding)


def _activated(converter: Any, one: Any, found: Any) -> Any:
    kind = converter.options(one).FusedActivationFunction
    return converter.as_outputs(one, converter.convert_fused_activation_function(found, kind))


@operator("MAX_POOL_2D", method="convert_max_pool2d")
def _max_pool(converter: Any, one: Any) -> Any:
    source, target = converter.get_input_tensors(one)[0], converter.get_output_tensors(one)[0]
    x = converter.get_tensor_expr(source)
    if source.qnn_params is None or not converter.has_same_qnn_params(source, target):
        return _activated(converter, one, _pooled(converter, one, "max", converter.number(source)))
    return converter.convert_qnn_fused_activation_function(
        _pooled(converter, one, "max", x), converter.options(one).FusedActivationFunction,
        float(target.qnn_params["scale"][0]), int(target.qnn_params["zero_point"][0]), target.dtype,
    )  # fmt: skip


@operator("AVERAGE_POOL_2D", method="convert_average_pool2d")
def _average_pool(converter: Any, one: Any) -> Any:
    x = converter.number(converter.get_input_tensors(one)[0])
    return _activated(converter, one, _pooled(converter, one, "avg", x))


@operator("L2_POOL_2D", method="convert_l2_pool2d")
def _l2_pool(converter: Any, one: Any) -> Any:
    x = converter.number(converter.get_input_tensors(one)[0])
    return _activated(converter, one, op.sqrt(_pooled(converter, one, "avg", x * x)))


def _resize(converter: Any, one: Any, method: str) -> Any:
    source, size = converter.get_input_tensors(one)
    options = converter.options(one)
    return resized(
        converter.number(source), converter.value(size, "the size").tolist(), method,
        bool(options.get("AlignCorners", False)), bool(options.get("HalfPixelCenters", False)),
    )  # fmt: skip


@operator("RESIZE_BILINEAR")
def _resize_bilinear(converter: Any, one: Any) -> Any:
    return converter.as_outputs(one, _resize(converter, one, "linear"))


@operator("RESIZE_NEAREST_NEIGHBOR")
def _resize_nearest(converter: Any, one: Any) -> Any:
    return converter.as_outputs(one, _resize(converter, one, "nearest_neighbor"))
