"""Products of matrices, attention, distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant, ShapeExpr
from tilesmith.relax.frontend.torch.node import (
    AtenNode,
    dtype_of,
    full_like_shape,
    number,
    product,
    rank_of,
    reshape,
    shape_of,
)
from tilesmith.relax.frontend.torch.ops.reduction import extreme
from tilesmith.relax.frontend.torch.registry import converter
from tilesmith.runtime.dtype import DataType


def _is_empty(*tensors: Any) -> bool:
    sizes = [size for tensor in tensors for size in shape_of(tensor)]
    return any(isinstance(size, int) and size == 0 for size in sizes)


def multiply(node: AtenNode, a: Any, b: Any) -> Any:
    """Return the product of matrices; of nothing it is zeros."""
    if _is_empty(a, b):
        first, second = shape_of(a), shape_of(b)
        lead = [*first[:-1]] if rank_of(b) == 1 else [*first[:-1], second[-1]]
        return full_like_shape(lead, 0, dtype_of(a))
    return op.matmul(a, b)


@converter("mm", "bmm", "matmul", "mv", "dot", "inner")
def _matmul(node: AtenNode) -> Any:
    names = [name for name in node.arguments if name not in ("out_dtype", "out")]
    return multiply(node, *[node.tensor(name) for name in names[:2]])


@converter("addmm", "baddbmm", "addmv", "addbmm")
def _addmm(node: AtenNode) -> Any:
    names = [name for name in node.arguments if name not in ("self", "alpha", "beta", "out_dtype")]
    found = multiply(node, *[node.tensor(name) for name in names[:2]])
    if "addbmm" in node.operator:
        found = op.sum(node.emit(found), [0])
    alpha, beta = node.get("alpha", 1), node.get("beta", 1)
    if alpha != 1:
        found = op.multiply(found, node.as_tensor(alpha, node.dtype))
    if beta == 0:
        return found
    added = node.tensor("self", node.dtype)
    if beta != 1:
        added = op.multiply(added, node.as_tensor(beta, node.dtype))
    found = op.add(found, added)
    return found


@converter("linear")
def _linear(node: AtenNode) -> Any:
    x, weight = node.tensor("input"), node.tensor("weight")
    turned = op.permute_dims(weight, list(range(rank_of(weight)))[::-1])
    found = multiply(node, x, node.emit(turned) if _is_empty(x, weight) else turned)
    return op.add(found, node.tensor("bias")) if node.has("bias") else found


@converter("addcmul")
def _addcmul(node: AtenNode) -> Any:
    return _added(node, op.multiply)


@converter("addcdiv")
def _addcdiv(node: AtenNode) -> Any:
    return _added(node, op.divide)


def _added(node: AtenNode, function: Any) -> Any:
    found = function(node.tensor("tensor1", node.dtype), node.tensor("tensor2", node.dtype))
    value = node.get("value", 1)
    if value != 1:
        found = op.multiply(found, node.as_tensor(value, node.dtype))
    return op.add(node.tensor("self", node.dtype), found)


# Attention


@converter("scaled_dot_product_attention")
def _attention(node: AtenNode) -> Any:
    query, key, value = [node.emit(node.tensor(name)) for name in ("query", "key", "value")]
    if float(node.get("dropout_p", 0.0)):
        raise node.unsupported("attention with dropout", "call model.eval() before exporting")
    dtype = DataType(node.dtype)
    if node.get("enable_gqa", False):
        key, value = [_repeated(node, query, tensor) for tensor in (key, value)]
    scale = node.get("scale")
    size = shape_of(query)[-1]
    factor = (1 / math.sqrt(size) if isinstance(size, int) else None) if scale is None else scale
    if factor is None:
        raise node.unsupported("attention over heads of symbolic size")
    order = list(range(rank_of(key)))
    order[-2:] = order[:-3:-1]
    scores = op.matmul(
        op.multiply(query, number(float(factor), dtype)), op.permute_dims(key, order)
    )
    scores = _masked(node, node.emit(scores), query, key, dtype)
    weights = op.nn.softmax(scores, -1)
    if node.has("attn_mask"):
        hidden = op.all(op.equal(scores, number(-math.inf, dtype)), [-1], True)
        weights = op.where(hidden, number(0, dtype), weights)
    return op.matmul(weights, value)


def _repeated(node: AtenNode, query: Any, tensor: Any) -> Any:
    """Return keys or values with each head as often as there are heads of queries for it."""
    heads, own = shape_of(query)[-3], shape_of(tensor)[-3]
    if not isinstance(heads, int) or not isinstance(own, int) or heads == own:
        return tensor
    return node.emit(op.repeat(tensor, heads // own, rank_of(tensor) - 3))


def _masked(node: AtenNode, scores: Any, query: Any, key: Any, dtype: Any) -> Any:
    hidden = number(-math.inf, dtype)
    if node.get("is_causal", False):
        rows, columns = shape_of(query)[-2], shape_of(key)[-2]
        ones = op.ones(ShapeExpr([rows, columns]), "int8")
        seen = op.not_equal(op.tril(ones), number(0, "int8"))
        scores = op.where(seen, scores, hidden)
    if node.has("attn_mask"):
        mask = node.tensor("attn_mask")
        if dtype_of(mask).is_bool:
            scores = op.where(mask, scores, hidden)
        else:
            scores = op.add(scores, op.astype(mask, dtype) if dtype_of(mask) != dtype else mask)
    return node.emit(scores)


# Distances


def distances(
    node: AtenNode, difference: Any, p: float, axes: Sequence[int] = (-1,), keep: bool = False
) -> Any:
    """Return the p-norms of vectors along axes."""
    dtype = dtype_of(difference)
    size = node.emit(op.abs(difference))
    if p == 0:
        return op.sum(op.astype(op.not_equal(size, number(0, dtype)), dtype), axes, keep)
    if p == 1:
        return op.sum(size, axes, keep)
    if math.isinf(p):
        return extreme(node, size, list(axes), keep, p > 0)
    if p == 2:
        return op.sqrt(op.sum(op.multiply(size, size), axes, keep))
    total = op.sum(op.power(size, number(p, dtype)), axes, keep)
    return op.power(total, number(1 / p, dtype))


@converter("linalg_vector_norm")
def _vector_norm(node: AtenNode) -> Any:
    x = node.tensor("self", node.dtype)
    if _is_empty(x):
        return full_like_shape(node.shape, 0, node.dtype)
    rank = rank_of(x)
    x = x if rank else reshape(x, [1])
    axes = node.axes("dim", rank) if rank else [0]
    keep = bool(rank and node.get("keepdim", False))
    return distances(node, x, float(node.get("ord", 2)), axes, keep)


@converter("_cdist_forward")
def _cdist(node: AtenNode) -> Any:
    a, b = node.tensor("x1"), node.tensor("x2")
    if _is_empty(a, b):
        return full_like_shape(node.shape, 0, node.dtype)
    difference = op.subtract(op.expand_dims(a, rank_of(a) - 1), op.expand_dims(b, rank_of(b) - 2))
    return distances(node, difference, float(node["p"]))


@converter("_pdist_forward")
def _pdist(node: AtenNode) -> Any:
    x = node.tensor("self")
    rows = node.static(shape_of(x)[:1], "distances of pairs")[0]
    if _is_empty(x) or rows < 2:
        return full_like_shape(node.shape, 0, node.dtype)
    first, second = numpy.triu_indices(rows, 1)
    parts = [op.take(x, Constant(places.astype("int64")), 0) for places in (first, second)]
    return distances(node, op.subtract(*parts), float(node.get("p", 2)))


@converter("outer", "ger")
def _outer(node: AtenNode) -> Any:
    a, b = node.tensor("self", node.dtype), node.tensor("vec2", node.dtype)
    return op.multiply(reshape(a, [product(shape_of(a)), 1]), reshape(b, [1, product(shape_of(b))]))


@converter("einsum")
def _einsum(node: AtenNode) -> Any:
    equation = str(node["equation"]).replace(" ", "")
    return op.einsum([node.as_tensor(part) for part in node["tensors"]], equation)
