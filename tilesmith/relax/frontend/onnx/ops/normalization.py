"""Normalisations."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant, TupleGetItem
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.values import dtype_of, rank_of, scalar, shape_of
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError


def _constant_of(value: float, shape: list[Any], dtype: Any) -> Any:
    if all(isinstance(size, int) for size in shape):
        return Constant(numpy.full(shape, value, DataType(dtype).numpy()))
    return op.full(shape, scalar(value, dtype), dtype)


def _same_dtype(value: Any, dtype: Any) -> Any:
    return value if dtype_of(value) == dtype else op.astype(value, dtype)


@converter("BatchNormalization")
def _batch_norm(node: OnnxNode) -> Any:
    x = node[0]
    dtype = dtype_of(x)
    if not dtype.is_float:
        raise ShapeError(f"it needs a tensor of floats, got {dtype}")
    epsilon = float(node.attribute("epsilon", 1e-5))
    training = node.flag("training_mode")
    if node.version < 7 and not node.flag("is_test") and node.outputs > 1:
        training = True
    if training:
        return _training_batch_norm(node, epsilon)
    parameters = [_same_dtype(node[index], dtype) for index in range(1, 5)]
    if not node.flag("spatial", True):
        raise node.unsupported("batch normalisation with spatial=0")
    return TupleGetItem(op.nn.batch_norm(x, *parameters, axis=1, epsilon=epsilon), 0)


def _training_batch_norm(node: OnnxNode, epsilon: float) -> Any:
    """Normalise with the statistics of the batch; update the running ones."""
    x, momentum = node[0], float(node.attribute("momentum", 0.9))
    dtype = dtype_of(x)
    axes = [axis for axis in range(rank_of(x)) if axis != 1]
    wide = _in_single(node, x)
    mean, variance = node.emit(op.mean(wide, axes)), node.emit(op.variance(wide, axes))
    scale, shift = _same_dtype(node[1], dtype), _same_dtype(node[2], dtype)
    out = op.nn.batch_norm(x, scale, shift, mean, variance, axis=1, epsilon=epsilon)
    running = []
    for index, batch in ((3, mean), (4, variance)):
        own = dtype_of(node[index])
        kept = op.multiply(node[index], scalar(momentum, own))
        running.append(
            op.add(kept, op.multiply(_same_dtype(batch, own), scalar(1 - momentum, own)))
        )
    return TupleGetItem(out, 0), *running


@converter("InstanceNormalization")
def _instance_norm(node: OnnxNode) -> Any:
    x = node[0]
    axes = list(range(2, rank_of(x)))
    return op.nn.instance_norm(x, node[1], node[2], 1, axes, float(node.attribute("epsilon", 1e-5)))


@converter("LayerNormalization")
def _layer_norm(node: OnnxNode) -> Any:
    x = node[0]
    rank, dtype = rank_of(x), dtype_of(x)
    axis = node.axis(-1, rank)
    axes, shape = list(range(axis, rank)), shape_of(x)
    epsilon = float(node.attribute("epsilon", 1e-5))
    scale = _fitted(node, node[1], shape[axis:])
    shift = node.get(2)
    shift = (
        _constant_of(0, shape[axis:], dtype)
        if shift is None
        else _fitted(node, shift, shape[axis:])
    )
    if scale is None or shift is None:
        return _written_out_layer_norm(node, x, axes, epsilon)
    result = op.nn.layer_norm(x, scale, shift, axes, epsilon)
    if node.outputs < 2:
        return result
    return (result, *_statistics(node, x, axes, epsilon)[:2])


def _fitted(node: OnnxNode, value: Any, sizes: list[Any]) -> Any:
    """Return a parameter in the sizes of the normalised axes; None if it has more axes."""
    shape = shape_of(value)
    while len(shape) > len(sizes) and isinstance(shape[0], int) and shape[0] == 1:
        shape = shape[1:]
    if len(shape) > len(sizes):
        return None
    if len(shape) != rank_of(value):
        value = op.reshape(value, shape)
    if list(shape) != list(sizes):
        value = op.broadcast_to(value, sizes)
    return node.emit(value)


def _in_single(node: OnnxNode, x: Any) -> Any:
    """Return a tensor in single precision at least."""
    return x if dtype_of(x) in ("float32", "float64") else node.emit(op.astype(x, "float32"))


def _statistics(node: OnnxNode, x: Any, axes: list[int], epsilon: float) -> tuple[Any, Any, Any]:
    """Return mean, 1 / deviation, and the tensor with both applied; in single precision at
    least.
    """
    wide = _in_single(node, x)
    dtype = dtype_of(wide)
    mean = node.emit(op.mean(wide, axes, True))
    centred = node.emit(op.subtract(wide, mean))
    variance = op.mean(op.multiply(centred, centred), axes, True)
    inverse = node.emit(
        op.divide(scalar(1, dtype), op.sqrt(op.add(variance, scalar(epsilon, dtype))))
    )
    return mean, inverse, op.multiply(centred, inverse)


def _written_out_layer_norm(node: OnnxNode, x: Any, axes: list[int], epsilon: float) -> Any:
    mean, inverse, normal = _statistics(node, x, axes, epsilon)
    result = op.multiply(_same_dtype(normal, dtype_of(x)), node[1])
    result = op.add(result, node[2]) if node.has(2) else result
    return result if node.outputs < 2 else (result, mean, inverse)


@converter("RMSNormalization")
@converter("SimplifiedLayerNormalization")
def _rms_norm(node: OnnxNode) -> Any:
    x = node[0]
    rank = rank_of(x)
    axis = node.axis(-1, rank)
    epsilon = float(node.attribute("epsilon", 1e-5))
    scale = _fitted(node, _same_dtype(node[1], dtype_of(x)), shape_of(x)[axis:])
    if scale is None:
        raise ShapeError("its scale has more axes than the normalised ones")
    return op.nn.rms_norm(x, scale, list(range(axis, rank)), epsilon)


@converter("GroupNormalization")
def _group_norm(node: OnnxNode) -> Any:
    x = node[0]
    groups = int(node.required("num_groups"))
    if rank_of(x) < 2:
        raise ShapeError(f"it needs a tensor (N, C, …), got one of rank {rank_of(x)}")
    channels = shape_of(x)[1]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise ShapeError(f"{channels} channels cannot be divided into {groups} groups")
    scale, shift = node[1], node[2]
    if node.version < 21 and isinstance(channels, int):  # one number for each group
        scale = op.repeat(scale, channels // groups, 0)
        shift = op.repeat(shift, channels // groups, 0)
    axes = list(range(2, rank_of(x)))
    epsilon = float(node.attribute("epsilon", 1e-5))
    return op.nn.group_norm(x, node.emit(scale), node.emit(shift), groups, 1, axes, epsilon)


@converter("LRN")
def _lrn(node: OnnxNode) -> Any:
    return op.nn.lrn(
        node[0],
        int(node.required("size")),
        axis=1,
        bias=float(node.attribute("bias", 1.0)),
        alpha=float(node.attribute("alpha", 1e-4)),
        beta=float(node.attribute("beta", 0.75)),
    )


@converter("LpNormalization")
def _lp_normalization(node: OnnxNode) -> Any:
    x, given = _in_single(node, node[0]), dtype_of(node[0])
    axis = node.axis(-1, rank_of(x))
    if int(node.attribute("p", 2)) == 1:
        norm = op.sum(op.abs(x), axis, True)
    else:
        norm = op.sqrt(op.sum(op.multiply(x, x), axis, True))
    norm, zero = node.emit(norm), scalar(0, dtype_of(x))
    empty = op.equal(norm, zero)
    divisor = op.where(empty, scalar(1, dtype_of(x)), norm)
    return _same_dtype(op.where(empty, zero, op.divide(x, divisor)), given)


@converter("MeanVarianceNormalization")
def _mean_variance_normalization(node: OnnxNode) -> Any:
    x = _in_single(node, node[0])
    rank, dtype = rank_of(x), dtype_of(x)
    axes = node.axes(None, rank)
    axes = [axis for axis in (0, 2, 3) if axis < rank] if axes is None else axes
    centred = node.emit(op.subtract(x, op.mean(x, axes, True)))
    deviation = op.sqrt(op.mean(op.multiply(centred, centred), axes, True))
    normal = op.divide(centred, op.add(deviation, scalar(1e-9, dtype)))
    return _same_dtype(normal, dtype_of(node[0]))
