"""Normalisations and softmax."""

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
from tilesmith.relax.frontend.torch.ops.reduction import variance
from tilesmith.relax.frontend.torch.registry import converter


def _is_empty(node: AtenNode) -> bool:
    return any(isinstance(size, int) and size == 0 for size in node.shape)


@converter("_softmax", "softmax", "_safe_softmax")
def _softmax(node: AtenNode) -> Any:
    x = node.tensor("self", node.dtype)
    if not rank_of(x):
        return number(1, node.dtype)
    if _is_empty(node):
        return x
    axis = node.axis("dim", rank_of(x))
    found = op.nn.softmax(x, axis)
    if "_safe_softmax" not in node.operator:
        return found
    hidden = op.all(op.equal(x, number(float("-inf"), node.dtype)), [axis], True)
    return op.where(hidden, number(0, node.dtype), found)


@converter("_log_softmax", "log_softmax")
def _log_softmax(node: AtenNode) -> Any:
    x = node.tensor("self", node.dtype)
    if not rank_of(x):
        return number(0, node.dtype)
    return x if _is_empty(node) else op.nn.log_softmax(x, node.axis("dim", rank_of(x)))


# Along the last axes


@converter("layer_norm")
def _layer_norm(node: AtenNode) -> Any:
    return _along_last_axes(node, node.tensor("input"))


def _along_last_axes(node: AtenNode, x: Any) -> Any:
    count, rank = len(node["normalized_shape"]), rank_of(x)
    sizes = shape_of(x)[rank - count :]
    if _is_empty(node):
        return x
    gamma, beta = [
        node.tensor(name) if node.has(name) else full_like_shape(sizes, value, dtype_of(x))
        for name, value in (("weight", 1), ("bias", 0))
    ]
    axes = list(range(rank - count, rank))
    return op.nn.layer_norm(x, gamma, beta, axes, float(node["eps"]))


@converter("native_layer_norm")
def _native_layer_norm(node: AtenNode) -> Any:
    x = node.emit(node.tensor("input"))
    results = [_along_last_axes(node, x), None, None]
    if node.wants(1) or node.wants(2):
        axes = list(range(rank_of(x) - len(node["normalized_shape"]), rank_of(x)))
        results[1:] = _statistics(node, x, axes, 1)
    return results


def _statistics(node: AtenNode, x: Any, axes: list[int], index: int) -> list[Any]:
    """Return mean and 1 / standard deviation in the shapes of two results."""
    spread, mean = variance(node, x, axes, True, 0)
    inverse = op.rsqrt(op.add(spread, number(float(node["eps"]), dtype_of(x))))
    shapes = [node.sizes(node.fx_node.meta["val"][index + i]) for i in range(2)]
    return [reshape(node.emit(value), sizes) for value, sizes in zip((mean, inverse), shapes)]


@converter("rms_norm", "_fused_rms_norm")
def _rms_norm(node: AtenNode) -> Any:
    x = node.emit(node.tensor("input"))
    rank, count = rank_of(x), len(node["normalized_shape"])
    axes = list(range(rank - count, rank))
    import torch

    eps = node.get("eps")
    eps = torch.finfo(node.result.dtype).eps if eps is None else float(eps)
    weight = node.tensor("weight") if node.has("weight") else None
    if weight is None:
        weight = full_like_shape(shape_of(x)[rank - count :], 1, dtype_of(x))
    found = op.nn.rms_norm(x, weight, axes, eps)
    if not isinstance(node.fx_node.meta["val"], (list, tuple)):
        return found
    if not node.wants(1):
        return [found, None]
    squares = op.mean(op.multiply(x, x), axes, True)
    return [found, op.rsqrt(op.add(squares, number(eps, dtype_of(x))))]


# By groups of channels


def _group_norm(node: AtenNode, x: Any, groups: int) -> tuple[Any, Any]:
    """Return the result, and the data with an axis for the groups."""
    sizes = shape_of(x)
    rest = product(sizes[1:])
    per_group = rest // groups
    grouped = node.emit(reshape(x, [sizes[0], groups, per_group]))
    spread, mean = variance(node, grouped, [2], True, 0)
    inverse = op.rsqrt(op.add(spread, number(float(node["eps"]), dtype_of(x))))
    found = op.reshape(op.multiply(op.subtract(grouped, mean), inverse), ShapeExpr(sizes))
    shape = [1, sizes[1], *[1] * (len(sizes) - 2)]
    if node.has("weight"):
        found = op.multiply(found, reshape(node.tensor("weight"), shape))
    if node.has("bias"):
        found = op.add(found, reshape(node.tensor("bias"), shape))
    return found, grouped


@converter("group_norm")
def _plain_group_norm(node: AtenNode) -> Any:
    x = node.tensor("input")
    return x if _is_empty(node) else _group_norm(node, x, int(node["num_groups"]))[0]


@converter("native_group_norm")
def _native_group_norm(node: AtenNode) -> Any:
    x = node.tensor("input")
    groups = int(node["group"])
    if _is_empty(node):
        shape = node.sizes(node.fx_node.meta["val"][1])
        return [x, *[full_like_shape(shape, value, node.dtype) for value in (0.0, float("nan"))]]
    found, grouped = _group_norm(node, x, groups)
    rest = _statistics(node, grouped, [2], 1) if node.wants(1) or node.wants(2) else [None, None]
    return [found, *rest]


# By channels


def _channels(x: Any, value: Any) -> Any:
    return reshape(value, [1, *shape_of(value), *[1] * (rank_of(x) - 2)])


def _scaled(node: AtenNode, x: Any, found: Any) -> Any:
    for name, function in (("weight", op.multiply), ("bias", op.add)):
        if node.has(name):
            found = function(found, _channels(x, node.tensor(name, dtype_of(x))))
    return found


def _with_given_statistics(node: AtenNode, x: Any) -> Any:
    dtype = dtype_of(x)
    mean, spread = node.tensor("running_mean", dtype), node.tensor("running_var", dtype)
    if node.has("weight") and node.has("bias"):
        weight, bias = node.tensor("weight", dtype), node.tensor("bias", dtype)
        from tilesmith.relax.expr import TupleGetItem

        found = op.nn.batch_norm(x, weight, bias, mean, spread, 1, float(node["eps"]))
        return TupleGetItem(node.emit(found), 0)
    inverse = op.rsqrt(op.add(spread, number(float(node["eps"]), dtype)))
    centred = op.subtract(x, _channels(x, mean))
    return _scaled(node, x, op.multiply(centred, _channels(x, node.emit(inverse))))


@converter("_native_batch_norm_legit_no_training")
def _batch_norm_of_evaluation(node: AtenNode) -> Any:
    x = node.tensor("input")
    return [_with_given_statistics(node, x), *_nothing(node)]


def _nothing(node: AtenNode) -> list[Any]:
    described = node.fx_node.meta["val"][1:]
    return [full_like_shape(node.sizes(item), 0, node.dtype) for item in described]


@converter("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "native_batch_norm")
def _batch_norm_of_training(node: AtenNode) -> Any:
    """Normalise by the statistics of the batch; the functional form gives new running ones, too."""
    x = node.emit(node.tensor("input"))
    if not node.get("training", True):
        functional = "functional" in node.operator
        results = [_with_given_statistics(node, x), *_nothing(node)]
        if functional:
            results[3:] = [node.tensor("running_mean"), node.tensor("running_var")]
        return results
    axes = [axis for axis in range(rank_of(x)) if axis != 1]
    dtype = dtype_of(x)
    spread, mean = variance(node, x, axes, True, 0)
    spread, mean = node.emit(spread), node.emit(mean)
    inverse = node.emit(op.rsqrt(op.add(spread, number(float(node["eps"]), dtype))))
    found = _scaled(node, x, op.multiply(op.subtract(x, mean), inverse))
    channels = [shape_of(x)[1]]
    results = [found, reshape(mean, channels), reshape(inverse, channels)]
    if "functional" in node.operator:
        count = product([shape_of(x)[axis] for axis in axes])
        unbiased = op.multiply(spread, number(count / max(count - 1, 1), dtype))
        for name, value in (("running_mean", mean), ("running_var", unbiased)):
            results.append(_moved(node, name, reshape(node.emit(value), channels)))
    return results


def _moved(node: AtenNode, name: str, value: Any) -> Any:
    """Return a running statistic moved toward the batch's."""
    old = node.emit(node.tensor(name))
    momentum = number(float(node["momentum"]), dtype_of(old))
    return op.add(old, op.multiply(op.subtract(value, old), momentum))
