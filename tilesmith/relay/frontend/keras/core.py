"""Dense layers, embeddings, activations, normalisations, and what does nothing in evaluation."""

from __future__ import annotations

import string
from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.activations import elu as elu_of
from tilesmith.relay.frontend.activations import relu, softmax
from tilesmith.relay.frontend.images import dense
from tilesmith.relay.frontend.keras.activation import activated, activation_of
from tilesmith.relay.frontend.keras.registry import Graph, Value, plain, pointwise, raw
from tilesmith.relay.op.tensor import constant_like
from tilesmith.relay.op.view import rank_of, sizes
from tilesmith.support.errors import UnsupportedError

__all__ = ["with_bias"]


def with_bias(graph: Graph, layer: Any, x: Any, axis: int = -1, name: str = "bias") -> Any:
    """Return an expression plus a layer's bias, if it has one."""
    if getattr(layer, name, None) is None:
        return x
    return op.nn.bias_add(x, graph.weight(layer, name), axis)


@plain("Dense")
def _dense(graph: Graph, layer: Any, x: Any) -> Any:
    kernel = graph.weight(layer, "kernel", lambda held: held.T)
    return activation_of(graph, layer)(with_bias(graph, layer, dense(x, kernel)))


@plain("EinsumDense")
def _einsum_dense(graph: Graph, layer: Any, x: Any) -> Any:
    equation = _without_dots(layer.equation.replace(" ", ""), rank_of(x))
    found = op.einsum((x, graph.weight(layer, "kernel")), equation)
    if layer.bias is not None:
        found = found + graph.weight(layer, "bias")
    return activation_of(graph, layer)(found)


def _without_dots(equation: str, rank: int) -> str:
    """Return an equation with letters in place of an ellipsis in its first operand."""
    if "..." not in equation:
        return equation
    first = equation.partition(",")[0].replace("...", "")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    return equation.replace("...", "".join(free[: rank - len(first)]))


@plain("Embedding", "ReversibleEmbedding")
def _embedding(graph: Graph, layer: Any, x: Any, reverse: bool = False) -> Any:
    if reverse:
        raise UnsupportedError(f"the layer '{layer.name}' is used in reverse")
    return op.take(graph.weight(layer, "embeddings"), op.cast(x, "int32"), 0)


# Activations


@raw("Activation")
def _activation(graph: Graph, layer: Any, x: Value) -> Value:
    return Value(activated(graph, layer, x.expr, x.moved), x.moved)


@pointwise("ReLU")
def _relu(graph: Graph, layer: Any, x: Any) -> Any:
    slope = float(layer.negative_slope or 0)
    return relu(x, slope, layer.max_value, float(layer.threshold or 0))


@pointwise("LeakyReLU")
def _leaky_relu(graph: Graph, layer: Any, x: Any) -> Any:
    return op.nn.leaky_relu(x, float(layer.negative_slope))


@pointwise("ELU")
def _elu(graph: Graph, layer: Any, x: Any) -> Any:
    return elu_of(x, float(layer.alpha))


@plain("PReLU")
def _prelu(graph: Graph, layer: Any, x: Any) -> Any:
    below = op.negative(op.nn.relu(op.negative(x)))
    return op.nn.relu(x) + graph.weight(layer, "alpha") * below


@plain("Softmax")
def _softmax(graph: Graph, layer: Any, x: Any, mask: Any = None) -> Any:
    axes = layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
    if len(axes) == 1:
        return softmax(x, int(axes[0]))
    powers = op.exp(x - op.max(x, list(axes), True))
    return powers / op.sum(powers, list(axes), True)


# Normalisations


@raw("BatchNormalization")
def _batch_norm(graph: Graph, layer: Any, x: Value) -> Value:
    count = layer.moving_mean.shape[0]
    scale = graph.weight(layer, "gamma") if layer.scale else const(numpy.ones(count, "float32"))
    shift = graph.weight(layer, "beta") if layer.center else const(numpy.zeros(count, "float32"))
    mean, variance = graph.weight(layer, "moving_mean"), graph.weight(layer, "moving_variance")
    found = op.nn.batch_norm(
        x.expr, scale, shift, mean, variance, x.axis(layer.axis), float(layer.epsilon)
    )
    return Value(found[0], x.moved)


def _along(layer: Any, rank: int) -> list[int]:
    axes = layer.axis if isinstance(layer.axis, (list, tuple)) else [layer.axis]
    return sorted([int(axis) % rank for axis in axes])


def _placed(graph: Graph, layer: Any, name: str, axes: list[int], whole: tuple[Any, ...]) -> Any:
    """Return a weight that runs along axes, in a form that is broadcast over all of them."""
    form = [whole[axis] if axis in axes else 1 for axis in range(len(whole))]
    return graph.weight(layer, name, lambda held: held.reshape(form))


@plain("LayerNormalization")
def _layer_norm(graph: Graph, layer: Any, x: Any) -> Any:
    axes = _along(layer, rank_of(x))
    epsilon = constant_like(float(layer.epsilon), x)
    if getattr(layer, "rms_scaling", False):
        mean = op.mean(x, axes, True)
        spread = op.mean((x - mean) * (x - mean), axes, True)
        return x * op.rsqrt(spread + epsilon) * _placed(graph, layer, "gamma", axes, sizes(x))
    mean = op.mean(x, axes, True)
    centred = x - mean
    found = centred * op.rsqrt(op.mean(centred * centred, axes, True) + epsilon)
    if layer.scale:
        found = found * _placed(graph, layer, "gamma", axes, sizes(x))
    return found + _placed(graph, layer, "beta", axes, sizes(x)) if layer.center else found


@plain("RMSNormalization")
def _rms_norm(graph: Graph, layer: Any, x: Any) -> Any:
    axes = _along(layer, rank_of(x))
    spread = op.mean(x * x, axes, True) + constant_like(float(layer.epsilon), x)
    return x * op.rsqrt(spread) * _placed(graph, layer, "scale", axes, sizes(x))


@plain("UnitNormalization")
def _unit_norm(graph: Graph, layer: Any, x: Any) -> Any:
    squares = op.sum(x * x, _along(layer, rank_of(x)), True)
    return x * op.rsqrt(op.maximum(squares, constant_like(1e-12, x)))


@raw("GroupNormalization")
def _group_norm(graph: Graph, layer: Any, x: Value) -> Value:
    axis = x.axis(layer.axis)
    count = int(sizes(x.expr)[axis])
    one, zero = const(numpy.ones(count, "float32")), const(numpy.zeros(count, "float32"))
    scale = graph.weight(layer, "gamma") if layer.scale else one
    shift = graph.weight(layer, "beta") if layer.center else zero
    groups = count if layer.groups == -1 else int(layer.groups)
    rank = rank_of(x.expr)
    front = [0, axis, *[place for place in range(1, rank) if place != axis]]
    back = [front.index(place) for place in range(rank)]
    found = op.nn.group_norm(
        op.transpose(x.expr, front), scale, shift, groups, 1, float(layer.epsilon)
    )
    return Value(op.transpose(found, back), x.moved)


@plain("Normalization")
def _normalization(graph: Graph, layer: Any, x: Any) -> Any:
    mean, variance = graph.array(layer, "mean"), graph.array(layer, "variance")
    spread = numpy.maximum(numpy.sqrt(variance), 1e-7)
    if layer.invert:
        return x * const(spread) + const(mean)
    return (x - const(mean)) / const(spread)


@raw("Rescaling")
def _rescaling(graph: Graph, layer: Any, x: Value) -> Value:
    parts = [numpy.asarray(one, "float32") for one in (layer.scale, layer.offset)]
    kept = all(part.ndim == 0 for part in parts)
    held = op.cast(x.expr if kept else x.plain(), "float32")
    return Value(held * const(parts[0]) + const(parts[1]), x.moved and kept)


@raw("SpectralNormalization")
def _wrapper(graph: Graph, layer: Any, x: Value) -> Any:
    return graph.call(layer.layer, x)


# Nothing in evaluation


@pointwise(
    "ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise",
    "Identity", "RandomBrightness", "RandomContrast", "RandomFlip", "RandomRotation",
    "RandomTranslation", "RandomZoom", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
)  # fmt: skip
def _same(graph: Graph, layer: Any, x: Any) -> Any:
    return x
