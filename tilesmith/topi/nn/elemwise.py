"""Activation functions."""

from __future__ import annotations

from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.transform import reshape
from tilesmith.topi.utils import normalize_axes, product, simplify

__all__ = [
    "elu",
    "flatten",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "prelu",
    "relu",
    "silu",
]


def relu(x: Any) -> Any:
    """Return the larger of x and 0."""
    if not isinstance(x, Tensor):
        return op.maximum(x, const(0, x.dtype))
    return compute(
        x.shape, lambda *i: op.maximum(x(*i), const(0, x.dtype)), name="compute", tag=tag.ELEMWISE
    )


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Return x, or x times alpha where it is negative."""

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        return tir.Select(value > const(0, x.dtype), value, value * const(alpha, x.dtype))

    return compute(x.shape, element, name="T_leaky_relu", tag=tag.ELEMWISE)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return x, or alpha * (exp(x) - 1) where it is negative."""

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        below = (tir.exp(value) - const(1, x.dtype)) * const(alpha, x.dtype)
        return tir.Select(value > const(0, x.dtype), value, below)

    return compute(x.shape, element, name="T_elu", tag=tag.ELEMWISE)


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """Return x, or x times the slope of its channel (along ``axis``) where it is negative."""
    (axis,) = normalize_axes(axis, len(x.shape))

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        return tir.Select(value > const(0, x.dtype), value, value * slope(i[axis]))

    return compute(x.shape, element, name="T_prelu", tag=tag.BROADCAST)


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """Return x times the normal distribution function at x, or its tanh approximation."""

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        half, one = const(0.5, x.dtype), const(1, x.dtype)
        if approximate:
            inner = const(0.7978845608028654, x.dtype) * (
                value + const(0.044715, x.dtype) * value * value * value
            )
            return value * half * (one + tir.tanh(inner))
        return value * half * (one + tir.erf(value * const(0.7071067811865476, x.dtype)))

    return compute(x.shape, element, name="T_gelu", tag=tag.ELEMWISE)


def silu(x: Tensor) -> Tensor:
    """Return x times its sigmoid."""
    return compute(x.shape, lambda *i: x(*i) * tir.sigmoid(x(*i)), name="T_silu", tag=tag.ELEMWISE)


def hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """Return ``alpha * x + beta`` limited to [0, 1]."""

    def element(*i: Any) -> PrimExpr:
        value = x(*i) * const(alpha, x.dtype) + const(beta, x.dtype)
        return op.maximum(op.minimum(value, const(1, x.dtype)), const(0, x.dtype))

    return compute(x.shape, element, name="T_hard_sigmoid", tag=tag.ELEMWISE)


def hard_swish(x: Tensor) -> Tensor:
    """Return x times ``x / 6 + 1/2`` limited to [0, 1]."""

    def element(*i: Any) -> PrimExpr:
        value = x(*i)
        gate = value * const(1.0 / 6.0, x.dtype) + const(0.5, x.dtype)
        return value * op.maximum(op.minimum(gate, const(1, x.dtype)), const(0, x.dtype))

    return compute(x.shape, element, name="T_hard_swish", tag=tag.ELEMWISE)


def flatten(data: Tensor) -> Tensor:
    """Flatten all axes but the first into one."""
    return reshape(data, [data.shape[0], simplify(product(data.shape[1:]))])
