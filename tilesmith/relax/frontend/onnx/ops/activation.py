"""Activation functions, and the softmax family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relax import op
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis
from tilesmith.relax.frontend.onnx.registry import add_converter, converter
from tilesmith.relax.frontend.onnx.values import (
    dtype_of,
    is_one,
    product,
    rank_of,
    scalar,
    shape_of,
)


def _like(x: Any, value: float) -> Any:
    return scalar(value, dtype_of(x))


def _positive(x: Any) -> Any:
    return op.greater(x, _like(x, 0))


def softplus(x: Any) -> Any:
    """Return log(1 + exp(x)), without overflow for large x."""
    tail = op.log(op.add(_like(x, 1), op.exp(op.negative(op.abs(x)))))
    return op.add(op.maximum(x, _like(x, 0)), tail)


def hard_sigmoid(x: Any, alpha: float = 0.2, beta: float = 0.5) -> Any:
    """Return ``alpha * x + beta`` between 0 and 1."""
    return op.clip(op.add(op.multiply(x, _like(x, alpha)), _like(x, beta)), 0, 1)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """Return ``x`` if positive, else ``alpha * (exp(x) - 1)``."""
    negative = op.multiply(
        op.subtract(op.exp(op.minimum(x, _like(x, 0))), _like(x, 1)), _like(x, alpha)
    )
    return op.where(_positive(x), x, negative)


def selu(x: Any, alpha: float, gamma: float) -> Any:
    """Return ``gamma * elu(x, alpha)``."""
    return op.multiply(elu(x, alpha), _like(x, gamma))


def celu(x: Any, alpha: float = 1.0) -> Any:
    """Return ``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    inner = op.subtract(op.exp(op.divide(x, _like(x, alpha))), _like(x, 1))
    return op.add(
        op.maximum(x, _like(x, 0)), op.minimum(op.multiply(inner, _like(x, alpha)), _like(x, 0))
    )


def softsign(x: Any) -> Any:
    """Return x / (1 + |x|)."""
    return op.divide(x, op.add(op.abs(x), _like(x, 1)))


def swish(x: Any, alpha: float = 1.0) -> Any:
    """Return x * sigmoid(alpha * x)."""
    if alpha == 1.0:
        return op.nn.silu(x)
    return op.multiply(x, op.sigmoid(op.multiply(x, _like(x, alpha))))


def mish(x: Any) -> Any:
    """Return x * tanh(softplus(x))."""
    return op.multiply(x, op.tanh(softplus(x)))


def gelu(x: Any, approximate: str = "none") -> Any:
    """Return x times the normal distribution function at x, exactly or with tanh."""
    return op.nn.gelu_tanh(x) if approximate == "tanh" else op.nn.gelu(x)


def thresholded_relu(x: Any, alpha: float = 1.0) -> Any:
    """Return ``x`` if above alpha, else 0."""
    return op.where(op.greater(x, _like(x, alpha)), x, _like(x, 0))


def _shrink(x: Any, bias: float, limit: float) -> Any:
    dtype = dtype_of(x)
    low = op.where(op.less(x, _like(x, -limit)), op.add(x, scalar(bias, dtype)), _like(x, 0))
    return op.where(op.greater(x, _like(x, limit)), op.subtract(x, scalar(bias, dtype)), low)


def _of(function: Callable[..., Any], **defaults: Any) -> Callable[[OnnxNode], Any]:
    """Return a converter that passes on attributes, with these defaults."""

    def convert(node: OnnxNode) -> Any:
        x = node[0]
        return function(x, *[node.attribute(name, value) for name, value in defaults.items()])

    return convert


_SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
_TABLE: dict[str, Callable[[OnnxNode], Any]] = {
    "Celu": _of(celu, alpha=1.0),
    "Elu": _of(elu, alpha=1.0),
    "Gelu": _of(gelu, approximate="none"),
    "HardSigmoid": _of(hard_sigmoid, alpha=0.2, beta=0.5),
    "HardSwish": _of(lambda x: op.multiply(x, hard_sigmoid(x, 1 / 6, 0.5))),
    "LeakyRelu": _of(op.nn.leakyrelu, alpha=0.01),
    "Mish": _of(mish),
    "Relu": _of(op.nn.relu),
    "Selu": _of(selu, **_SELU),
    "Shrink": _of(_shrink, bias=0.0, lambd=0.5),
    "Sigmoid": _of(op.sigmoid),
    "Softplus": _of(softplus),
    "Softsign": _of(softsign),
    "Swish": _of(swish, alpha=1.0),
    "ThresholdedRelu": _of(thresholded_relu, alpha=1.0),
}
for _name, _function in _TABLE.items():
    add_converter(_name, _function)


@converter("PRelu")
def _prelu(node: OnnxNode) -> Any:
    x, slope = node[0], node[1]
    shape = shape_of(slope)
    rank = rank_of(x)
    # One slope for each channel: (C, 1, 1) broadcasts along axis 1.
    if len(shape) == rank - 1 and rank > 1 and all(is_one(size) for size in shape[1:]):
        if not is_one(shape[0]):
            return op.nn.prelu(x, op.reshape(slope, [shape[0]]), 1)
    if node.version < 7 and len(shape) == 1 and rank > 1 and not is_one(shape[0]):
        return op.nn.prelu(x, slope, 1)  # one for each channel
    return _slope(x, slope)


def _slope(x: Any, slope: Any) -> Any:
    return op.where(_positive(x), x, op.multiply(x, slope))


# Softmax


def _exact(function: Callable[[Any, int], Any]) -> Callable[[OnnxNode], Any]:
    return lambda node: function(node[0], node.axis(-1, rank_of(node[0])))


def _flattened(function: Callable[[Any, int], Any]) -> Callable[[OnnxNode], Any]:
    """Apply a softmax as before opset 13, when all axes from ``axis`` on counted as one."""

    def convert(node: OnnxNode) -> Any:
        x, rank = node[0], rank_of(node[0])
        axis = normal_axis(node.attribute("axis", 1), rank)
        shape = shape_of(x)
        if all(is_one(size) for size in shape[axis + 1 :]):
            return function(x, axis)
        flat = op.reshape(x, [product(shape[:axis]), product(shape[axis:])])
        return op.reshape(function(flat, 1), shape)

    return convert


def hardmax(x: Any, axis: int) -> Any:
    """Return 1 at the first largest value along an axis, else 0."""
    rank, dtype = rank_of(x), dtype_of(x)
    size = shape_of(x)[axis]
    if not isinstance(size, int):
        places = op.arange(0, size, 1, "int64")
        places = op.reshape(places, [size if i == axis else 1 for i in range(rank)])
        return op.astype(op.equal(op.argmax(x, axis, True), places), dtype)
    return op.one_hot(op.argmax(x, axis), 1, 0, size, axis, dtype)


def _softmax(x: Any, axis: int) -> Any:
    return op.nn.softmax(x, axis)


for _name, _function in (
    ("Softmax", _softmax),
    ("LogSoftmax", op.nn.log_softmax),
    ("Hardmax", hardmax),
):
    add_converter(_name, _exact(_function), since=13)
    add_converter(_name, _flattened(_function), since=1)


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "affine": lambda x, alpha=1.0, beta=0.0: op.add(
        op.multiply(x, _like(x, alpha)), _like(x, beta)
    ),
    "elu": elu,
    "hardsigmoid": hard_sigmoid,
    "leakyrelu": op.nn.leakyrelu,
    "relu": lambda x: op.nn.relu(x),
    "scaledtanh": lambda x, alpha=1.0, beta=1.0: op.multiply(
        op.tanh(op.multiply(x, _like(x, beta))), _like(x, alpha)
    ),
    "sigmoid": lambda x: op.sigmoid(x),
    "softplus": softplus,
    "softsign": softsign,
    "tanh": lambda x: op.tanh(x),
    "thresholdedrelu": thresholded_relu,
}
"""The activations of recurrent operators, by their names in lower case."""
