"""Normalisations and softmax in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = [
    "batch_norm", "group_norm_python", "instance_norm_python", "l2_normalize_python",
    "layer_norm_python", "log_softmax_python", "lrn_python", "rms_norm_python", "softmax_python",
]  # fmt: skip


def softmax_python(a_np: np.ndarray, axis: int = 1) -> np.ndarray:
    """Return ``exp(x - max) / sum(exp(x - max))`` along an axis."""
    powers = np.exp(a_np - a_np.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def log_softmax_python(a_np: np.ndarray, axis: int = 1) -> np.ndarray:
    """Return the logarithm of softmax along an axis."""
    moved = a_np - a_np.max(axis, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis, keepdims=True))


def _along(vector: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    """Return a vector with axes of size 1 around its own."""
    return vector.reshape([-1 if k == axis % ndim else 1 for k in range(ndim)])


def batch_norm(
    x: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    moving_mean: np.ndarray,
    moving_var: np.ndarray,
    axis: int,
    epsilon: float,
    center: bool,
    scale: bool,
    training: bool,
    momentum: float,
) -> list[np.ndarray]:
    """Normalise channels with the moving statistics, or in training with those of the batch.

    Returns the result, and the moving mean and variance: in training moved by ``momentum`` towards
    those of the batch.
    """
    others = tuple([k for k in range(x.ndim) if k != axis % x.ndim])
    mean = x.mean(others) if training else moving_mean
    variance = x.var(others) if training else moving_var
    out = (x - _along(mean, axis, x.ndim)) / np.sqrt(_along(variance, axis, x.ndim) + epsilon)
    if scale:
        out = out * _along(gamma, axis, x.ndim)
    if center:
        out = out + _along(beta, axis, x.ndim)
    if not training:
        return [out, moving_mean, moving_var]
    estimate = x.var(others, ddof=1)
    kept = 1 - momentum
    return [
        out,
        moving_mean * kept + mean * momentum,
        moving_var * kept + estimate * momentum,
    ]


def _normal(data: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    mean = data.mean(axes, keepdims=True)
    return (data - mean) / np.sqrt(data.var(axes, keepdims=True) + epsilon)


def _axes(axis: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    given = [axis] if isinstance(axis, int) else axis
    return tuple(sorted([one % ndim for one in given]))


def layer_norm_python(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray | None,
    axis: int | Sequence[int],
    epsilon: float = 1e-5,
) -> np.ndarray:
    """Normalise over ``axis``; gamma and beta have the sizes of these axes."""
    axes = _axes(axis, data.ndim)
    shape = [size if k in axes else 1 for k, size in enumerate(data.shape)]
    out = _normal(data, axes, epsilon) * gamma.reshape(shape)
    return out if beta is None else out + beta.reshape(shape)


def instance_norm_python(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    axis: int | Sequence[int],
    epsilon: float = 1e-5,
) -> np.ndarray:
    """Normalise over ``axis`` (the spatial axes) for each channel, the second axis, of each
    sample.
    """
    out = _normal(data, _axes(axis, data.ndim), epsilon)
    return out * _along(gamma, 1, data.ndim) + _along(beta, 1, data.ndim)


def group_norm_python(
    data: np.ndarray,
    gamma: np.ndarray,
    beta: np.ndarray,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> np.ndarray:
    """Normalise over each of ``num_groups`` groups of channels and over ``axes``."""
    channel = channel_axis % data.ndim
    before, after = data.shape[:channel], data.shape[channel + 1 :]
    groups = data.reshape(*before, num_groups, -1, *after)
    over = [axis + (axis > channel) for axis in _axes(axes, data.ndim)]
    out = _normal(groups, (channel + 1, *over), epsilon).reshape(data.shape)
    return out * _along(gamma, channel, data.ndim) + _along(beta, channel, data.ndim)


def rms_norm_python(
    data: np.ndarray, weight: np.ndarray, axis: int | Sequence[int], epsilon: float = 1e-5
) -> np.ndarray:
    """Return ``x / sqrt(mean of squares + epsilon) * weight`` over ``axis``."""
    axes = _axes(axis, data.ndim)
    shape = [size if k in axes else 1 for k, size in enumerate(data.shape)]
    root = np.sqrt((data * data).mean(axes, keepdims=True) + epsilon)
    return data / root * weight.reshape(shape)


def lrn_python(
    a_np: np.ndarray, size: int, axis: int, bias: float, alpha: float, beta: float
) -> np.ndarray:
    """Return ``data / (bias + alpha / size * s) ** beta``: s is the sum of squares over a window of
    ``size`` elements along an axis.
    """
    low, length = (size - 1) // 2, a_np.shape[axis]
    moved = np.moveaxis(a_np, axis, 0)
    sums = np.zeros_like(moved)
    for k in range(length):
        first, last = max(k - low, 0), min(k - low + size, length)
        sums[k] = (moved[first:last] ** 2).sum(0)
    return a_np / (bias + alpha / size * np.moveaxis(sums, 0, axis)) ** beta


def l2_normalize_python(
    a_np: np.ndarray, eps: float, axis: int | Sequence[int] | None = None
) -> np.ndarray:
    """Return ``x / sqrt(max(sum of squares, eps))`` over ``axis``."""
    axes = None if axis is None else _axes(axis, a_np.ndim)
    return a_np / np.sqrt(np.maximum((a_np * a_np).sum(axes, keepdims=True), eps))
