"""Operators of the domain com.microsoft, which optimised models contain."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.ops.activation import gelu
from tilesmith.relax.frontend.onnx.ops.convolution import convolve, with_bias
from tilesmith.relax.frontend.onnx.ops.linear import scaled
from tilesmith.relax.frontend.onnx.registry import MICROSOFT, converter
from tilesmith.relax.frontend.onnx.values import dtype_of, rank_of, scalar, shape_of
from tilesmith.support.errors import OpAttributeRequired, ShapeError

__all__ = ["attend", "heads_of", "score_mask", "whole_bias"]


@converter("Gelu", domain=MICROSOFT)
def _gelu(node: OnnxNode) -> Any:
    return gelu(node[0])


@converter("BiasGelu", domain=MICROSOFT)
def _bias_gelu(node: OnnxNode) -> Any:
    return gelu(node.emit(op.add(node[0], node[1])))


@converter("FastGelu", domain=MICROSOFT)
def _fast_gelu(node: OnnxNode) -> Any:
    x = node.emit(op.add(node[0], node[1])) if node.has(1) else node[0]
    return gelu(x, "tanh")


@converter("QuickGelu", domain=MICROSOFT)
def _quick_gelu(node: OnnxNode) -> Any:
    alpha = scalar(node.attribute("alpha", 1.702), dtype_of(node[0]))
    return op.multiply(node[0], op.sigmoid(op.multiply(node[0], alpha)))


def _last_two_swapped(x: Any) -> Any:
    rank = rank_of(x)
    return op.permute_dims(x, [*range(rank - 2), rank - 1, rank - 2])


@converter("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_matmul(node: OnnxNode) -> Any:
    a, b = node[0], node[1]
    if node.flag("transBatchA") or node.flag("transBatchB"):
        raise node.unsupported("a batch axis that is transposed")
    a = _last_two_swapped(a) if node.flag("transA") else a
    b = _last_two_swapped(b) if node.flag("transB") else b
    return scaled(op.matmul(a, b), node.attribute("alpha", 1.0))


_FUSED = {
    "Relu": lambda x, parameters: op.nn.relu(x),
    "Tanh": lambda x, parameters: op.tanh(x),
    "Sigmoid": lambda x, parameters: op.sigmoid(x),
    "LeakyRelu": lambda x, parameters: op.nn.leakyrelu(x, parameters[0] if parameters else 0.01),
    "Clip": lambda x, parameters: op.clip(x, *parameters),
}


@converter("FusedConv", domain=MICROSOFT)
def _fused_conv(node: OnnxNode) -> Any:
    found = node.emit(convolve(node, node[0], node[1]))
    found = with_bias(found, node.get(2))
    if node.has(3):
        found = op.add(found, node[3])
    name = node.attribute("activation")
    if name is None:
        return found
    if name not in _FUSED:
        raise node.unsupported(f"the activation '{name}'")
    return _FUSED[name](node.emit(found), list(node.attribute("activation_params") or []))


@converter("MatMulNBits", domain=MICROSOFT)
def _matmul_of_few_bits(node: OnnxNode) -> Any:
    """Convert a product with 4-bit or 8-bit weights in scaled blocks; unpack them at import."""
    bits, block = int(node.attribute("bits", 4)), int(node.required("block_size"))
    inner, outer = int(node.required("K")), int(node.required("N"))
    if bits not in (4, 8) or node.has(4):
        raise node.unsupported(f"weights of {bits} bits, or in another order,")
    dtype = dtype_of(node[0])
    blocks = -(-inner // block)
    numbers = _unpacked(node.constant(1, "B"), bits).reshape(outer, blocks, block)
    scales = node.constant(2, "scales").reshape(outer, blocks, 1).astype("float64")
    zero = numpy.full((outer, blocks), 1 << (bits - 1))
    if node.has(3):
        points = node.constant(3, "zero_points")
        if points.dtype.kind == "f":
            zero = points.reshape(outer, blocks)
        else:
            zero = _unpacked(points.reshape(outer, -1), bits)[:, :blocks]
    weights = ((numbers - zero[..., None].astype("float64")) * scales).reshape(outer, -1)[:, :inner]
    product = op.matmul(node[0], Constant(numpy.ascontiguousarray(weights.T).astype(dtype.numpy())))
    return op.add(node.emit(product), node[5]) if node.has(5) else product


def _unpacked(packed: Any, bits: int) -> Any:
    """Unpack bytes to integers of ``bits``, the lower ones first, along the last axis."""
    if bits == 8:
        return packed.astype("int64")
    pairs = numpy.stack([packed & 15, packed >> 4], axis=-1)
    return pairs.reshape(*packed.shape[:-1], -1).astype("int64")


# Normalisation


def _sum_and_norm(node: OnnxNode, bias: int, normalise: Any) -> Any:
    """Return the normalised sum of input and skip, and the sum itself as output 3."""
    total = op.add(node[0], node[1])
    total = node.emit(op.add(total, node[bias]) if node.has(bias) else total)
    return normalise(total), None, None, total


@converter("SkipLayerNormalization", domain=MICROSOFT)
def _skip_layer_norm(node: OnnxNode) -> Any:
    epsilon = float(node.attribute("epsilon", 1e-12))

    def normalise(x: Any) -> Any:
        scale = node[2]
        shift = node[3] if node.has(3) else op.zeros_like(scale)
        return op.nn.layer_norm(x, scale, node.emit(shift), [-1], epsilon)

    if node.wants(1) or node.wants(2):
        raise node.unsupported("mean and deviation as outputs")
    return _sum_and_norm(node, 4, normalise)


@converter("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_rms_norm(node: OnnxNode) -> Any:
    epsilon = float(node.attribute("epsilon", 1e-12))
    if node.wants(1) or node.wants(2):
        raise node.unsupported("mean and deviation as outputs")
    return _sum_and_norm(node, 3, lambda x: op.nn.rms_norm(x, node[2], [-1], epsilon))


@converter("EmbedLayerNormalization", domain=MICROSOFT)
def _embed_layer_norm(node: OnnxNode) -> Any:
    """Sum the embeddings of words, positions and segments, and normalise."""
    ids = node[0]
    batch, length = shape_of(ids, 2)
    total = op.take(node[2], ids, 0)
    if node.has(8):
        places = op.take(node[3], node[8], 0)
    else:
        places = op.expand_dims(op.strided_slice(node[3], [0], [0], [length]), 0)
    total = op.add(total, places)
    if node.has(1) and node.has(4):
        total = op.add(total, op.take(node[4], node[1], 0))
    total = node.emit(total)
    epsilon = float(node.attribute("epsilon", 1e-12))
    found = op.nn.layer_norm(total, node[5], node[6], [-1], epsilon)
    lengths = None
    if node.wants(1):
        if node.has(7):
            lengths = op.astype(op.sum(node[7], [1]), "int32")
        else:
            lengths = op.zeros([batch], "int32")
    return found, lengths, total


# Attention


def heads_of(x: Any, count: int) -> Any:
    """Reshape (batch, sequence, hidden) → (batch, sequence, heads, head)."""
    batch, length, hidden = shape_of(x, 3)
    return op.reshape(x, [batch, length, count, hidden // count])


def attend(node: OnnxNode, parts: list[Any], bias: Any) -> Any:
    """Compute attention of queries, keys and values (batch, sequence, heads, head); join the
    heads.
    """
    causal = "TopLeft" if node.flag("unidirectional") else None
    scale = node.attribute("scale") or None
    found = node.emit(op.nn.attention(*parts, bias, scale, causal))
    batch, length, heads, head = shape_of(found, 4)
    return op.reshape(found, [batch, length, heads * head])


def score_mask(node: OnnxNode, index: int, dtype: Any) -> Any:
    """Return the score offsets of a mask (batch, keys) or (batch, queries, keys) of 0 and 1."""
    if not node.has(index):
        return None
    mask = node[index]
    rank = rank_of(mask)
    if rank not in (2, 3):
        raise node.unsupported(f"a mask of rank {rank}")
    mask = op.expand_dims(mask, [1, 2] if rank == 2 else [1])
    away = op.subtract(scalar(1, dtype), op.astype(mask, dtype))
    filled = float(node.attribute("mask_filter_value", -10000.0))
    return op.multiply(away, scalar(filled, dtype))


@converter("Attention", domain=MICROSOFT)
def _attention(node: OnnxNode) -> Any:
    """Convert self attention: one product gives queries, keys and values."""
    x, weight = node[0], node[1]
    count = node.attribute("num_heads")
    if not count:
        raise OpAttributeRequired("it needs the attribute 'num_heads'")
    if node.has(4) or node.wants(1):
        raise node.unsupported("keys and values of earlier calls")
    total = op.matmul(x, weight)
    total = node.emit(op.add(total, node[2]) if node.has(2) else total)
    width = shape_of(weight)[1]
    sizes = node.attribute("qkv_hidden_sizes") or [width // 3] * 3
    parts, begin = [], 0
    for size in sizes:
        part = op.strided_slice(total, [2], [begin], [begin + size])
        parts.append(node.emit(heads_of(node.emit(part), count)))
        begin += size
    bias = score_mask(node, 3, dtype_of(x))
    if node.has(5):
        bias = node[5] if bias is None else op.add(bias, node[5])
    return attend(node, parts, None if bias is None else node.emit(whole_bias(bias, parts)))


def whole_bias(bias: Any, parts: list[Any]) -> Any:
    """Broadcast a bias to the shape of the scores (batch, heads, queries, keys)."""
    batch, queries, heads, _ = shape_of(parts[0], 4)
    return op.broadcast_to(bias, [batch, heads, queries, shape_of(parts[1])[1]])


@converter("MultiHeadAttention", domain=MICROSOFT)
def _multi_head_attention(node: OnnxNode) -> Any:
    count = int(node.required("num_heads"))
    if node.has(6) or node.has(7) or node.wants(1) or not node.has(1):
        raise node.unsupported("packed inputs, or keys and values of earlier calls,")
    values = [node[0], node[1], node[2]]
    if any(rank_of(value) != 3 for value in values):
        raise ShapeError("it needs tensors (batch, sequence, hidden)")
    if node.has(3):
        begin, biased = 0, []
        for value in values:
            size = shape_of(value)[2]
            part = op.strided_slice(node[3], [0], [begin], [begin + size])
            biased.append(node.emit(op.add(value, part)))
            begin += size
        values = biased
    parts = [node.emit(heads_of(value, count)) for value in values]
    bias = score_mask(node, 4, dtype_of(node[0]))
    if node.has(5):
        bias = node[5] if bias is None else op.add(bias, node[5])
    return attend(node, parts, None if bias is None else node.emit(whole_bias(bias, parts)))
