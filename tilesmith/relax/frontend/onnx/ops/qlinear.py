"""Quantised operators of the domain com.microsoft, which onnxruntime's quantiser emits.

Except for products they are computed on floats: the integers are converted, the operator is
applied, and its result is quantised, all in one kernel after fusion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relax import op
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis
from tilesmith.relax.frontend.onnx.ops.elementwise import with_common_sizes
from tilesmith.relax.frontend.onnx.ops.pooling import average_pool
from tilesmith.relax.frontend.onnx.registry import MICROSOFT, add_converter, converter
from tilesmith.relax.frontend.onnx.values import dtype_of, rank_of, scalar, shape_of
from tilesmith.support.errors import FrontendError


def _plain(value: Any) -> Any:
    """Return a scale or zero point of one element without axes."""
    shape = shape_of(value)
    return op.reshape(value, []) if len(shape) == 1 and shape[0] == 1 else value


def _real(node: OnnxNode, index: int, axis: int = -1) -> Any:
    """Return the floats of a tensor that is followed by its scale and zero point."""
    x, scale = node[index], node[index + 1]
    zero = node[index + 2] if node.has(index + 2) else op.zeros([], dtype_of(x))
    return node.emit(op.dequantize(x, _plain(scale), _plain(zero), axis, "float32"))


def _quantised(node: OnnxNode, value: Any, index: int, like: Any) -> Any:
    """Quantise a result by the scale and zero point at ``index``."""
    zero = node[index + 1] if node.has(index + 1) else op.zeros([], dtype_of(like))
    return op.quantize(value, _plain(node[index]), _plain(zero), -1, dtype_of(zero))


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[OnnxNode], Any]:
    def convert(node: OnnxNode) -> Any:
        a, b = with_common_sizes(node, _real(node, 0), _real(node, 3))
        return _quantised(node, node.emit(function(a, b)), 6, node[0])

    return convert


add_converter("QLinearAdd", _binary(op.add), 1, MICROSOFT)
add_converter("QLinearMul", _binary(op.multiply), 1, MICROSOFT)


def _unary(function: Callable[[OnnxNode, Any], Any]) -> Callable[[OnnxNode], Any]:
    """Return the conversion of an operator with the inputs x, its scale and zero point, and those
    of the result.
    """

    def convert(node: OnnxNode) -> Any:
        return _quantised(node, node.emit(function(node, _real(node, 0))), 3, node[0])

    return convert


def _leaky(node: OnnxNode, x: Any) -> Any:
    return op.nn.leakyrelu(x, float(node.attribute("alpha", 0.01)))


def _global_average(node: OnnxNode, x: Any) -> Any:
    rank = rank_of(x)
    axes = range(1, rank - 1) if node.flag("channels_last") else range(2, rank)
    return op.mean(x, list(axes), True)


def _reduced_mean(node: OnnxNode, x: Any) -> Any:
    axes = node.axes(None, rank_of(x)) or list(range(rank_of(x)))
    return op.mean(x, axes, node.flag("keepdims", True))


def _softmax(node: OnnxNode, x: Any) -> Any:
    if int(node.attribute("opset", 13)) < 13:
        raise node.unsupported("a softmax over several axes (opset below 13)")
    return op.nn.softmax(x, node.axis(-1, rank_of(x)))


def _average(node: OnnxNode, x: Any) -> Any:
    if node.flag("channels_last"):
        raise node.unsupported("pooling with the channels last")
    return average_pool(node, x)


for _name, _function in {
    "QLinearSigmoid": lambda node, x: op.sigmoid(x),
    "QLinearLeakyRelu": _leaky,
    "QLinearGlobalAveragePool": _global_average,
    "QLinearReduceMean": _reduced_mean,
    "QLinearSoftmax": _softmax,
    "QLinearAveragePool": _average,
}.items():
    add_converter(_name, _unary(_function), 1, MICROSOFT)


@converter("QLinearConcat", domain=MICROSOFT)
def _concat(node: OnnxNode) -> Any:
    count = len(node) - 2
    if count < 3 or count % 3:
        raise FrontendError(f"it has {len(node)} inputs: 2, and 3 for each tensor, are needed")
    parts = [_real(node, index) for index in range(2, len(node), 3)]
    axis = normal_axis(node.required("axis"), rank_of(parts[0]))
    return _quantised(node, node.emit(op.concat(parts, axis)), 0, node[2])


@converter("QLinearWhere", domain=MICROSOFT)
def _where(node: OnnxNode) -> Any:
    condition, a, b = with_common_sizes(node, node[0], _real(node, 1), _real(node, 4))
    return _quantised(node, node.emit(op.where(condition, a, b)), 7, node[1])


# Products: sums of integers are exact


def _centred(node: OnnxNode, x: Any, zero: Any, axis: int) -> Any:
    """Return integers as int32 without their zero point, which may differ along an axis."""
    x = op.astype(x, "int32")
    if zero is None:
        return node.emit(x)
    return node.emit(op.subtract(x, _along(op.astype(zero, "int32"), rank_of(x), axis)))


def _along(value: Any, rank: int, axis: int) -> Any:
    value = _plain(value)
    shape = shape_of(value)
    if len(shape) != 1:
        return value
    return op.reshape(value, [shape[0] if i == axis % rank else 1 for i in range(rank)])


@converter("QGemm", domain=MICROSOFT)
def _gemm(node: OnnxNode) -> Any:
    """Multiply integers, add the bias (of the product's scale), and scale the result."""
    a, b = _centred(node, node[0], node.get(2), 0), _centred(node, node[3], node.get(5), 1)
    if node.flag("transB") and node.has(5) and rank_of(_plain(node[5])):
        b = _centred(node, node[3], node[5], 0)
    a = op.permute_dims(a, [1, 0]) if node.flag("transA") else a
    b = op.permute_dims(b, [1, 0]) if node.flag("transB") else b
    total = node.emit(op.matmul(a, b))
    alpha = float(node.attribute("alpha", 1.0))
    if node.has(6):
        total = node.emit(op.add(total, node[6]))
    factor = op.multiply(_along(node[1], 2, 0), _along(node[4], 2, 1))
    if alpha != 1:
        factor = op.multiply(factor, scalar(alpha, "float32"))
    real = node.emit(op.multiply(op.astype(total, "float32"), factor))
    return _quantised(node, real, 7, node[0]) if node.has(7) else real


@converter("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_to_float(node: OnnxNode) -> Any:
    """Multiply integers; inputs are a, b, their scales, their zero points, and a bias."""
    a, b = _centred(node, node[0], node.get(4), -2), _centred(node, node[1], node.get(5), -1)
    return _scaled_product(node, a, b, op.multiply(_plain(node[2]), _plain(node[3])), node.get(6))


def _scaled_product(node: OnnxNode, a: Any, b: Any, factor: Any, bias: Any) -> Any:
    total = op.astype(node.emit(op.matmul(a, b)), "float32")
    real = op.multiply(total, factor)
    return real if bias is None else op.add(node.emit(real), bias)


@converter("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_matmul(node: OnnxNode) -> Any:
    """Quantise the first input to uint8 by its range, multiply, and scale."""
    x, weight = node[0], node[1]
    scale, point = dynamic_range(node, x)
    a = _centred(node, op.quantize(x, scale, point, -1, "uint8"), point, 0)
    b = _centred(node, weight, node.get(3), -1)
    return _scaled_product(node, a, b, op.multiply(scale, _plain(node[2])), node.get(4))


def dynamic_range(node: OnnxNode, x: Any) -> tuple[Any, Any]:
    """Return the scale and the zero point (uint8) for the range of the data with 0 in it."""
    zero = scalar(0, "float32")
    high = node.emit(op.maximum(op.max(x), zero))
    low = node.emit(op.minimum(op.min(x), zero))
    scale = op.divide(op.subtract(high, low), scalar(255, "float32"))
    scale = node.emit(op.where(op.equal(scale, zero), scalar(1, "float32"), scale))
    point = op.clip(op.round(op.divide(op.negative(low), scale)), 0, 255)
    return scale, node.emit(op.astype(point, "uint8"))


@converter("QuantizeLinear", domain=MICROSOFT)
def _quantize_linear(node: OnnxNode) -> Any:
    x = node[0]
    zero = node[2] if node.has(2) else op.zeros([], "uint8")
    axis = node.axis(1, rank_of(x)) if rank_of(_plain(node[1])) else -1
    return op.quantize(x, _plain(node[1]), _plain(zero), axis, dtype_of(zero))


@converter("DequantizeLinear", domain=MICROSOFT)
def _dequantize_linear(node: OnnxNode) -> Any:
    axis = node.axis(1, rank_of(node[0])) if rank_of(_plain(node[1])) else -1
    return _real(node, 0, axis)
