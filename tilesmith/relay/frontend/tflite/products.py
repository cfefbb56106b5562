"""Convolutions and products, of floats and of integers that stand for numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.images import (
    convolution,
    dense,
    matmul,
    same_padding,
    space_sizes,
    transposed,
)
from tilesmith.relay.frontend.tflite.registry import operator, plain
from tilesmith.relay.op.view import rank_of, sizes
from tilesmith.relay.qnn import op as qnn

__all__: list[str] = []

_INTEGERS = ("int8", "uint8")
_SAME = 0


def _padding(
    kind: int, x: Any, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    if kind == _SAME:
        return same_padding(space_sizes(x, False), window, strides, dilation)
    return [0] * (2 * len(window))


def _float_values(converter: Any, wrapper: Any) -> numpy.ndarray:
    """Return the numbers of a constant tensor."""
    values: numpy.ndarray = converter.plain_weight(wrapper)
    given = wrapper.qnn_params
    if given is None or values.dtype.kind == "f":
        return values
    form = [1] * values.ndim
    if given["scale"].size > 1:
        form[given["axis"]] = -1
    scale, zero = given["scale"].reshape(form), given["zero_point"].reshape(form)
    return numpy.asarray((values.astype("float32") - zero) * scale, "float32")


def _float_weight(converter: Any, wrapper: Any, order: Sequence[int] | None, form: str) -> Any:
    """Return a weight as floats, its axes in an order."""
    if not wrapper.is_constant:  # made by a DEQUANTIZE, or computed
        x = converter.number(wrapper)
        return x if order is None else op.transpose(x, list(order))

    def arrange(_: numpy.ndarray) -> numpy.ndarray:
        values = _float_values(converter, wrapper)
        return values if order is None else values.transpose(order)

    return converter.weight(wrapper, arrange, f"{form} float")


def _is_integer(data: Any, weight: Any, target: Any) -> bool:
    return all(one.qnn_params is not None for one in (data, weight, target)) and (
        data.dtype in _INTEGERS and weight.dtype in (*_INTEGERS, "int4")
    )


def _finish_float(converter: Any, one: Any, found: Any, bias: Any) -> Any:
    if bias is not None:
        held = converter.number(bias)
        found = found + held
    kind = converter.options(one).FusedActivationFunction
    found = converter.convert_fused_activation_function(found, kind)
    return converter.as_outputs(one, found)


def _finish_integer(converter: Any, one: Any, found: Any, wrappers: Sequence[Any]) -> Any:
    """Return the 32 bit integers of a product in the quantisation of the result."""
    data, weight, bias = wrappers
    target = converter.get_output_tensors(one)[0]
    if bias is not None:
        found = op.nn.bias_add(found, converter.get_tensor_expr(bias), -1)
    scales = data.qnn_params["scale"][0] * weight.qnn_params["scale"]
    scale = const(scales if scales.size > 1 else scales.reshape(()), "float32")
    out_scale = float(target.qnn_params["scale"][0])
    zero = int(target.qnn_params["zero_point"][0])
    made = qnn.requantize(
        found, scale, const(0), const(out_scale, "float32"), const(zero),
        axis=rank_of(found) - 1, rounding="TONEAREST", out_dtype=target.dtype,
    )  # fmt: skip
    return converter.convert_qnn_fused_activation_function(
        made, converter.options(one).FusedActivationFunction, out_scale, zero, target.dtype
    )


def _kernel_parameters(data: Any, weight: Any) -> tuple[Any, Any, Any, Any]:
    scale, zero = weight.qnn_params["scale"], weight.qnn_params["zero_point"]
    return (
        const(int(data.qnn_params["zero_point"][0])),
        const(int(zero[0])),
        const(float(data.qnn_params["scale"][0]), "float32"),
        const(scale if scale.size > 1 else scale.reshape(()), "float32"),
    )


def _three(converter: Any, one: Any) -> tuple[Any, Any, Any]:
    inputs = converter.get_input_tensors(one)
    return inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None


def _conv(converter: Any, one: Any, depthwise: bool) -> Any:
    data, weight, bias = _three(converter, one)
    options = converter.options(one)
    x = converter.get_tensor_expr(data)
    strides = (options.StrideH, options.StrideW)
    dilation = (options.get("DilationHFactor") or 1, options.get("DilationWFactor") or 1)
    form = converter.get_tensor_shape(weight)
    padding = _padding(options.Padding, x, form[1:3], strides, dilation)
    order = (1, 2, 0, 3) if depthwise else (1, 2, 3, 0)
    groups = sizes(x)[3] if depthwise else sizes(x)[3] // form[3]
    if not _is_integer(data, weight, converter.get_output_tensors(one)[0]):
        kernel = _float_weight(converter, weight, order, "HWIO")
        found = convolution(
            converter.number(data), kernel, "HWIO", False, strides, padding, dilation, groups
        )
        return _finish_float(converter, one, found, bias)
    kernel = converter.weight(weight, lambda held: held.transpose(order), "HWIO")
    found = qnn.conv2d(
        x, kernel, *_kernel_parameters(data, weight), kernel_size=form[1:3],
        channels=form[3] if depthwise else form[0], strides=strides, padding=tuple(padding),
        dilation=dilation, groups=groups, data_layout="NHWC", kernel_layout="HWIO",
    )  # fmt: skip
    return _finish_integer(converter, one, found, (data, weight, bias))


@operator("CONV_2D", method="convert_conv2d")
def _conv2d(converter: Any, one: Any) -> Any:
    return _conv(converter, one, False)


@operator("DEPTHWISE_CONV_2D", method="convert_depthwise_conv2d")
def _depthwise(converter: Any, one: Any) -> Any:
    return _conv(converter, one, True)


@operator("FULLY_CONNECTED")
def _fully_connected(converter: Any, one: Any) -> Any:
    data, weight, bias = _three(converter, one)
    units, inputs = converter.get_tensor_shape(weight)
    whole = converter.get_tensor_shape(data)
    x = converter.get_tensor_expr(data)
    keep = bool(converter.options(one).get("KeepNumDims", False))
    if not _is_integer(data, weight, converter.get_output_tensors(one)[0]):
        held = op.reshape(converter.number(data), (-1, inputs))
        found = dense(held, _float_weight(converter, weight, None, "rows"))
        result = _finish_float(converter, one, found, bias)
    else:
        kernel = converter.weight(weight, lambda values: values, "rows")
        rows = op.reshape(x, (-1, inputs))
        found = qnn.dense(rows, kernel, *_kernel_parameters(data, weight), units=units)
        result = _finish_integer(converter, one, found, (data, weight, bias))
    return op.reshape(result, (*whole[:-1], units)) if keep else result


@operator("TRANSPOSE_CONV")
def _transpose_conv(converter: Any, one: Any) -> Any:
    inputs = converter.get_input_tensors(one)
    results = converter.value(inputs[0], "the shape of the result").tolist()
    options = converter.options(one)
    weight = _float_weight(converter, inputs[1], (1, 2, 0, 3), "HWOI")
    found = transposed(
        converter.number(inputs[2]), weight, False, (options.StrideH, options.StrideW), (1, 1),
        results[1:3], options.Padding == _SAME,
    )  # fmt: skip
    return _finish_float(converter, one, found, inputs[3] if len(inputs) > 3 else None)


def _space_options(options: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    strides = (options.StrideD, options.StrideH, options.StrideW)
    dilation = (options.DilationDFactor, options.DilationHFactor, options.DilationWFactor)
    return strides, tuple([one or 1 for one in dilation])


@operator("CONV_3D")
def _conv3d(converter: Any, one: Any) -> Any:
    data, weight, bias = _three(converter, one)
    options = converter.options(one)
    strides, dilation = _space_options(options)
    x = converter.number(data)
    padding = _padding(options.Padding, x, weight.shape[:3], strides, dilation)
    kernel = _float_weight(converter, weight, (0, 1, 2, 3, 4), "DHWIO")
    found = convolution(x, kernel, "DHWIO", False, strides, padding, dilation)
    return _finish_float(converter, one, found, bias)


@operator("CONV_3D_TRANSPOSE")
def _conv3d_transpose(converter: Any, one: Any) -> Any:
    inputs = converter.get_input_tensors(one)
    results = converter.value(inputs[0], "the shape of the result").tolist()
    options = converter.options(one)
    strides, dilation = _space_options(options)
    weight = _float_weight(converter, inputs[1], (0, 1, 2, 3, 4), "DHWOI")
    x = converter.number(inputs[2])
    same = options.Padding == _SAME
    found = transposed(x, weight, False, strides, dilation, results[1:4], same)
    return _finish_float(converter, one, found, inputs[3] if len(inputs) > 3 else None)


@plain("BATCH_MATMUL")
def _batch_matmul(converter: Any, options: Any, a: Any, b: Any) -> Any:
    return matmul(a, b, bool(options.AdjX), bool(options.AdjY))
