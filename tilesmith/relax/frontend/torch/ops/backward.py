"""Gradients that torch has operators of their own for (what `torch.compile` meets in training)."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op
from tilesmith.relax.expr import ShapeExpr
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
from tilesmith.relax.frontend.torch.registry import converter


@converter("embedding_dense_backward")
def _embedding_backward(node: AtenNode) -> Any:
    grad, indices = node.tensor("grad_output"), node.tensor("indices")
    rows, width = node.shape
    count = product(shape_of(indices))
    flat = node.emit(reshape(indices, [count, 1]))
    grad = node.emit(reshape(grad, [count, width]))
    padding = int(node.get("padding_idx", -1))
    if padding >= 0:
        kept = op.not_equal(flat, number(padding, dtype_of(flat)))
        grad = node.emit(op.where(kept, grad, number(0, node.dtype)))
    return op.scatter_nd(full_like_shape([rows, width], 0, node.dtype), flat, grad, "add")


@converter("_softmax_backward_data")
def _softmax_backward(node: AtenNode) -> Any:
    grad, output = node.emit(node.tensor("grad_output")), node.emit(node.tensor("output"))
    if not rank_of(output):
        return full_like_shape([], 0, node.dtype)
    product_ = node.emit(op.multiply(grad, output))
    total = op.sum(product_, [node.axis("dim", rank_of(output))], True)
    return op.subtract(product_, op.multiply(output, total))


@converter("_log_softmax_backward_data")
def _log_softmax_backward(node: AtenNode) -> Any:
    grad, output = node.emit(node.tensor("grad_output")), node.tensor("output")
    if not rank_of(output):
        return full_like_shape([], 0, node.dtype)
    total = op.sum(grad, [node.axis("dim", rank_of(output))], True)
    return op.subtract(grad, op.multiply(op.exp(output), total))


@converter("threshold_backward")
def _threshold_backward(node: AtenNode) -> Any:
    x = node.tensor("self")
    above = op.greater(x, node.tensor("threshold", dtype_of(x)))
    return op.where(above, node.tensor("grad_output"), number(0, node.dtype))


@converter("native_layer_norm_backward")
def _layer_norm_backward(node: AtenNode) -> Any:
    grad, x = node.emit(node.tensor("grad_out")), node.emit(node.tensor("input"))
    count, rank = len(node["normalized_shape"]), rank_of(x)
    axes, lead = list(range(rank - count, rank)), list(range(rank - count))
    scaled = node.emit(op.multiply(op.subtract(x, node.tensor("mean")), node.tensor("rstd")))
    weighted = op.multiply(grad, node.tensor("weight")) if node.has("weight") else grad
    weighted = node.emit(weighted)
    mean = op.mean(weighted, axes, True)
    slope = op.mean(op.multiply(weighted, scaled), axes, True)
    inner = op.subtract(op.subtract(weighted, mean), op.multiply(scaled, slope))
    by_weight = op.multiply(grad, scaled)
    return [
        op.multiply(inner, node.tensor("rstd")),
        op.sum(by_weight, lead) if lead else by_weight,
        op.sum(grad, lead) if lead else grad,
    ]


@converter("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def _max_pool_backward(node: AtenNode) -> Any:
    grad, places = node.tensor("grad_output"), node.tensor("indices")
    rank = 2 if "2d" in node.operator else 3
    lead, sizes = node.shape[:-rank], node.shape[-rank:]
    count = product(shape_of(grad)[-rank:])
    flat = [product(lead), product(sizes)]
    grad = node.emit(reshape(grad, [flat[0], count]))
    places = node.emit(reshape(places, [flat[0], count]))
    empty = full_like_shape(flat, 0, node.dtype)
    found = op.scatter_elements(empty, places, grad, 1, "add")
    return op.reshape(found, ShapeExpr(node.shape))
