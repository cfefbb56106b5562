"""Quantised tensors: to integers and back, and products of them."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.ops.convolution import convolve, with_bias
from tilesmith.relax.frontend.onnx.ops.elementwise import cast
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.tensors import dtype_name
from tilesmith.relax.frontend.values import (
    dtype_of,
    is_one,
    product,
    rank_of,
    scalar,
    shape_of,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError


def _parameter(node: OnnxNode, value: Any, x: Any, axis: int) -> Any:
    """Return a scale or zero point in a shape that broadcasts with ``x``: one, by channel, or by
    block.
    """
    shape = shape_of(value)
    rank = rank_of(x)
    block = int(node.attribute("block_size", 0) or 0)
    if product(shape) == 1 and len(shape) <= 1:
        return op.reshape(value, []) if shape else value
    if len(shape) == 1 and (rank > 1 or not block):
        return op.reshape(value, [shape[0] if i == axis else 1 for i in range(rank)])
    if len(shape) != rank:
        raise ShapeError(f"a scale of rank {len(shape)} does not fit a tensor of rank {rank}")
    size = shape_of(x)[axis]
    parts = shape[axis]
    if not isinstance(size, int) or not isinstance(parts, int):
        raise node.unsupported("quantisation by blocks on an axis of symbolic size")
    block = block or -(-size // parts)
    wide = op.repeat(value, block, axis)
    return wide if parts * block == size else op.strided_slice(wide, [axis], [0], [size])


def _is_simple(value: Any) -> bool:
    return rank_of(value) <= 1


def _zero_point(node: OnnxNode, scale: Any, dtype: Any) -> Any:
    if not node.has(2):
        return op.zeros(shape_of(scale), dtype)
    return _one_for_all(node[2])


def _one_for_all(value: Any) -> Any:
    """Return a parameter, without its axis if it has one element: that serves a whole tensor."""
    is_single = len(shape_of(value)) == 1 and is_one(shape_of(value)[0])
    return op.reshape(value, []) if is_single else value


def _target(node: OnnxNode) -> Any:
    if node.has(2):
        return dtype_of(node[2])
    to = int(node.attribute("output_dtype", 0) or 0)
    return DataType(dtype_name(to, "the result") if to else "uint8")


@converter("QuantizeLinear")
def _quantize_linear(node: OnnxNode) -> Any:
    x, scale, dtype = node[0], _one_for_all(node[1]), _target(node)
    rank = rank_of(x)
    axis = node.axis(1, rank) if rank > 1 or rank_of(scale) else 0
    if not dtype_of(x).is_float:
        x = op.astype(x, dtype_of(scale))
    if dtype.is_integer and _is_simple(scale):
        zero = _zero_point(node, scale, dtype)
        return op.quantize(x, scale, zero, axis, dtype)
    scaled = op.divide(x, _parameter(node, scale, x, axis))
    if dtype.is_float or dtype.code.startswith("float"):
        if node.has(2):
            zero = cast(_parameter(node, node[2], x, axis), dtype_of(x))
            scaled = op.add(scaled, zero)
        return cast(scaled, dtype, node.flag("saturate", True))
    scaled = op.round(scaled)
    if node.has(2):
        scaled = op.add(scaled, op.astype(_parameter(node, node[2], x, axis), dtype_of(x)))
    return op.astype(op.clip(scaled, dtype.min_value, dtype.max_value), dtype)


@converter("DequantizeLinear")
def _dequantize_linear(node: OnnxNode) -> Any:
    x, scale = node[0], _one_for_all(node[1])
    rank, dtype = rank_of(x), dtype_of(x)
    axis = node.axis(1, rank) if rank > 1 else 0
    to = int(node.attribute("output_dtype", 0) or 0)
    out = DataType(dtype_name(to, "the result")) if to else dtype_of(scale)
    if dtype.is_integer and _is_simple(scale):
        return op.dequantize(x, scale, _zero_point(node, scale, dtype), axis, out)
    wide = op.astype(x, dtype_of(scale))
    if node.has(2):
        zero = op.astype(node[2], dtype_of(scale))
        wide = op.subtract(wide, _parameter(node, zero, x, axis))
    found = op.multiply(wide, _parameter(node, scale, x, axis))
    return found if out == dtype_of(scale) else op.astype(found, out)


def _centred(node: OnnxNode, index: int, zero_index: int, axis: int) -> Any:
    """Return an input as int32 without its zero point, which may differ along ``axis``."""
    x = op.astype(node[index], "int32")
    if not node.has(zero_index):
        return node.emit(x)
    zero = op.astype(node[zero_index], "int32")
    return node.emit(op.subtract(x, _along(zero, rank_of(x), axis)))


def _along(value: Any, rank: int, axis: int) -> Any:
    """Return a vector along an axis of a tensor of ``rank``; what has more axes broadcasts by
    itself.
    """
    shape = shape_of(value)
    if len(shape) != 1:
        return value
    if is_one(shape[0]):
        return op.reshape(value, [])
    return op.reshape(value, [shape[0] if i == axis % rank else 1 for i in range(rank)])


@converter("MatMulInteger")
def _matmul_integer(node: OnnxNode) -> Any:
    return op.matmul(_centred(node, 0, 2, -2), _centred(node, 1, 3, -1))


def _requantized(node: OnnxNode, total: Any, factor: Any, scale: Any, zero: Any) -> Any:
    """Convert sums of products (int32) to the result's integers: scale, round, saturate."""
    dtype = dtype_of(zero)
    real = op.multiply(op.astype(total, "float32"), op.astype(factor, "float32"))
    scale = op.astype(scale, "float32") if dtype_of(scale) != "float32" else scale
    if not _is_simple(scale) or product(shape_of(scale)) != 1:
        raise node.unsupported("a result with more than one scale")
    return op.quantize(real, op.reshape(scale, []), op.reshape(zero, []), -1, dtype)


@converter("QLinearMatMul")
def _q_linear_matmul(node: OnnxNode) -> Any:
    a, b = _centred(node, 0, 2, -2), _centred(node, 3, 5, -1)
    total = node.emit(op.matmul(a, b))
    rank = rank_of(total)
    factor = op.multiply(_along(node[1], rank, -2), _along(node[4], rank, -1))
    return _requantized(node, total, factor, node[6], node[7])


@converter("QLinearConv")
def _q_linear_conv(node: OnnxNode) -> Any:
    x, weight = _centred(node, 0, 2, 1), _centred(node, 3, 5, 0)
    total = node.emit(convolve(node, x, weight))
    if node.has(8):
        total = node.emit(with_bias(total, node[8]))
    factor = op.multiply(_along(node[1], rank_of(total), 1), _along(node[4], rank_of(total), 1))
    return _requantized(node, total, factor, node[6], node[7])


@converter("DynamicQuantizeLinear")
def _dynamic_quantize_linear(node: OnnxNode) -> Any:
    """Quantise to uint8 with a scale from the range of the data, extended to contain 0."""
    x = node[0]
    zero = scalar(0, "float32")
    high = node.emit(op.maximum(op.max(x), zero))
    low = node.emit(op.minimum(op.min(x), zero))
    scale = op.divide(op.subtract(high, low), scalar(255, "float32"))
    scale = node.emit(op.where(op.equal(scale, zero), scalar(1, "float32"), scale))
    point = op.clip(op.round(op.divide(op.negative(low), scale)), 0, 255)
    point = node.emit(op.astype(point, "uint8"))
    return op.quantize(x, scale, point, -1, "uint8"), scale, point
