"""Activations by the names that Keras and TensorFlow give them, as expressions.

y = ACTIVATIONS["hard_silu"](x)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.op.tensor import constant_like
from tilesmith.relay.op.view import rank_of, sizes

__all__ = [
    "ACTIVATIONS", "ALONG_CHANNELS", "elu", "gelu", "leaky_relu", "log_softmax", "relu", "softmax",
    "softplus",
]  # fmt: skip

_SELU = (1.0507009873554805, 1.6732632423543772)


def relu(
    x: Any, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0
) -> Any:
    """Return ``x`` above the threshold (at most ``max_value``), below it the slope's part."""
    if threshold:
        above = op.greater(x, constant_like(threshold, x))
        found = op.where(above, x, op.zeros_like(x))
    else:
        found = op.nn.relu(x)
    if max_value is not None:
        found = op.minimum(found, constant_like(max_value, x))
    if negative_slope:
        below = op.nn.relu(constant_like(threshold, x) - x)
        found = found - constant_like(negative_slope, x) * below
    return found


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    """Return x, with a slope where it is negative."""
    return op.nn.leaky_relu(x, negative_slope)


def elu(x: Any, alpha: float = 1.0) -> Any:
    """Return x, or ``alpha * (exp(x) - 1)`` where it is negative."""
    below = op.nn.relu(constant_like(1, x) - op.exp(x))
    return op.nn.relu(x) - constant_like(alpha, x) * below


def _celu(x: Any, alpha: float = 1.0) -> Any:
    a = constant_like(alpha, x)
    return op.nn.relu(x) - a * op.nn.relu(constant_like(1, x) - op.exp(x / a))


def _selu(x: Any) -> Any:
    scale, alpha = _SELU
    return constant_like(scale, x) * elu(x, alpha)


def gelu(x: Any, approximate: bool = False) -> Any:
    """Return x times the normal distribution's function of x; ``approximate`` takes tanh for it."""
    half, one = constant_like(0.5, x), constant_like(1, x)
    if approximate:
        inner = x + constant_like(0.044715, x) * x * x * x
        return half * x * (one + op.tanh(constant_like(math.sqrt(2 / math.pi), x) * inner))
    return half * x * (one + op.erf(x * constant_like(math.sqrt(0.5), x)))


def softplus(x: Any) -> Any:
    """Return ``log(1 + exp(x))`` without overflow."""
    small = op.exp(op.negative(op.abs(x)))
    return op.nn.relu(x) + op.log(constant_like(1, x) + small)


def softmax(x: Any, axis: int = -1) -> Any:
    """Return the softmax along an axis."""
    return op.nn.softmax(x, axis)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return the logarithm of the softmax along an axis."""
    return op.nn.log_softmax(x, axis)


def _glu(x: Any, axis: int = -1) -> Any:
    left, right = op.split(x, 2, axis)
    return left * op.sigmoid(right)


def _soft_shrink(x: Any, threshold: float = 0.5) -> Any:
    return op.sign(x) * op.nn.relu(op.abs(x) - constant_like(threshold, x))


def _hard_shrink(x: Any, threshold: float = 0.5) -> Any:
    far = op.greater(op.abs(x), constant_like(threshold, x))
    return op.where(far, x, op.zeros_like(x))


def _threshold(x: Any, threshold: float, default_value: float) -> Any:
    above = op.greater(x, constant_like(threshold, x))
    return op.where(above, x, op.full_like(x, constant_like(default_value, x)))


def _sparse_plus(x: Any) -> Any:
    one = constant_like(1, x)
    arc = (x + one) * (x + one) * constant_like(0.25, x)
    middle = op.where(op.less(x, one), arc, x)
    return op.where(op.less_equal(x, constant_like(-1, x)), op.zeros_like(x), middle)


def _squareplus(x: Any, b: float = 4) -> Any:
    return constant_like(0.5, x) * (x + op.sqrt(x * x + constant_like(b, x)))


def _hard_sigmoid(x: Any) -> Any:
    return op.clip(x + constant_like(3, x), 0.0, 6.0) / constant_like(6, x)


def _sparse_sigmoid(x: Any) -> Any:
    return op.clip(constant_like(0.5, x) * (x + constant_like(1, x)), 0.0, 1.0)


def _sparsemax(x: Any, axis: int = -1) -> Any:
    """Return Keras' sparsemax: it sums the sums of all elements inside for its threshold, where the
    published one (Martins, Astudillo: From softmax to sparsemax, 2016) takes the last of them.
    """
    rank = rank_of(x)
    axis %= rank
    counts = numpy.arange(1, int(sizes(x)[axis]) + 1, dtype="float32")
    number = op.cast_like(const(counts.reshape([-1] + [1] * (rank - 1 - axis))), x)
    ordered = op.sort(x, axis, False)
    sums = op.cumsum(ordered, axis)
    kept = op.cast_like(op.greater(constant_like(1, x) + number * ordered, sums), x)
    total = op.sum(kept * sums, axis, True) - constant_like(1, x)
    return op.nn.relu(x - total / op.sum(kept, axis, True))


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "celu": _celu,
    "elu": elu,
    "exponential": op.exp,
    "gelu": gelu,
    "glu": _glu,
    "hard_shrink": _hard_shrink,
    "hard_sigmoid": _hard_sigmoid,
    "hard_silu": lambda x: x * _hard_sigmoid(x),
    "hard_tanh": lambda x: op.clip(x, -1.0, 1.0),
    "leaky_relu": leaky_relu,
    "linear": lambda x: x,
    "log_sigmoid": lambda x: op.negative(softplus(op.negative(x))),
    "log_softmax": log_softmax,
    "mish": lambda x: x * op.tanh(softplus(x)),
    "relu": relu,
    "relu6": lambda x: op.clip(x, 0.0, 6.0),
    "selu": _selu,
    "sigmoid": op.sigmoid,
    "silu": lambda x: x * op.sigmoid(x),
    "soft_shrink": _soft_shrink,
    "softmax": softmax,
    "softplus": softplus,
    "softsign": lambda x: x / (constant_like(1, x) + op.abs(x)),
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": _sparse_sigmoid,
    "sparsemax": _sparsemax,
    "squareplus": _squareplus,
    "tanh": op.tanh,
    "tanh_shrink": lambda x: x - op.tanh(x),
    "threshold": _threshold,
}
"""Name → function of an expression and the activation's own parameters."""

ALONG_CHANNELS = frozenset({"glu", "log_softmax", "softmax", "sparsemax"})
"""Activations that look at all channels (the last axis) at once."""
