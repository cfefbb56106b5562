"""Rows of tables: embeddings, and bags of them."""

from __future__ import annotations

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
    reshape,
    shape_of,
)
from tilesmith.relax.frontend.torch.ops.linear import distances
from tilesmith.relax.frontend.torch.registry import converter


@converter("embedding")
def _embedding(node: AtenNode) -> Any:
    return op.take(node.tensor("weight"), node.tensor("indices"), 0)


@converter("embedding_renorm")
def _embedding_renorm(node: AtenNode) -> Any:
    """Return the table with the rows that are used limited in their norm."""
    weight, indices = node.emit(node.tensor("self")), node.tensor("indices")
    norms = node.emit(distances(node, weight, float(node["norm_type"])))
    limit = number(float(node["max_norm"]), node.dtype)
    scale = op.divide(limit, op.add(norms, number(1e-7, node.dtype)))
    flat = node.emit(reshape(indices, [product(shape_of(indices)), 1]))
    ones = op.ones(ShapeExpr(shape_of(flat)[:1]), "int8")
    rows = shape_of(weight)[:1]
    used = op.scatter_nd(full_like_shape(rows, 0, "int8"), flat, ones)
    chosen = op.logical_and(op.greater(norms, limit), op.not_equal(used, number(0, "int8")))
    factor = node.emit(op.where(chosen, scale, number(1, node.dtype)))
    return op.multiply(weight, op.expand_dims(factor, 1))


@converter("_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(node: AtenNode) -> Any:
    """Combine rows of a table by bags that offsets into the indices begin: by their sum (0), mean
    (1) or largest elements (2).
    """
    weight, indices = node.emit(node.tensor("weight")), node.emit(node.tensor("indices"))
    mode = int(node.get("mode", 0))
    rows = op.take(weight, indices, 0)
    if node.has("per_sample_weights"):
        rows = op.multiply(rows, op.expand_dims(node.tensor("per_sample_weights"), 1))
    inside = _bags(node, indices)
    if mode == 2:
        lowest = number(-numpy.inf, node.dtype)
        spread = op.where(op.expand_dims(inside, 2), op.expand_dims(rows, 0), lowest)
        found = op.max(node.emit(spread), [1])
        some = op.any(inside, [1], True)
        return [op.where(some, found, number(0, node.dtype)), None, None, None]
    mask = node.emit(op.astype(inside, node.dtype))
    found = op.matmul(mask, rows)
    if mode == 1:
        counts = op.maximum(op.sum(mask, [1], True), number(1, node.dtype))
        found = op.divide(found, counts)
    return [found, None, None, None]


def _bags(node: AtenNode, indices: Any) -> Any:
    """Return for each bag and each index whether it belongs to the bag."""
    offsets = node.emit(node.tensor("offsets"))
    total = node.static(shape_of(indices), "bags of embeddings")[0]
    bags = node.static(node.shape[:1], "bags of embeddings")[0]
    starts = op.reshape(op.astype(offsets, "int64"), ShapeExpr([shape_of(offsets)[0], 1]))
    starts = node.emit(starts)
    if bags < shape_of(offsets)[0]:
        starts = node.emit(op.strided_slice(starts, [0], [0], [bags]))
    last = Constant(numpy.full((1, 1), total, "int64"))
    ends = op.concat([op.strided_slice(starts, [0], [1], [bags]), last], 0)
    places = Constant(numpy.arange(total, dtype="int64").reshape(1, -1))
    inside = op.logical_and(op.greater_equal(places, starts), op.less(places, ends))
    padding = int(node.get("padding_idx", -1))
    if padding >= 0:
        kept = op.not_equal(indices, number(padding, dtype_of(indices)))
        inside = op.logical_and(inside, op.expand_dims(kept, 0))
    return node.emit(inside)
