"""Activations, normalisation, padding, attention and losses as tensor expressions."""

from __future__ import annotations

import math
from typing import Any

from tilesmith import te, tir, topi
from tilesmith.ir.operators import cast, const, equal, floormod, less, maximum, minimum
from tilesmith.topi import tag
from tilesmith.topi.utils import get_const_int


def gelu(attrs: Any, x: Any) -> Any:
    """``x`` times the normal distribution."""
    return topi.nn.gelu(x)


def gelu_tanh(attrs: Any, x: Any) -> Any:
    """``gelu`` approximated with tanh."""
    return topi.nn.gelu(x, approximate=True)


def silu(attrs: Any, x: Any) -> Any:
    """``x * sigmoid(x)``."""
    return topi.nn.silu(x)


def leakyrelu(attrs: Any, x: Any) -> Any:
    """``x`` where positive, else ``alpha * x``."""
    return topi.nn.leaky_relu(x, attrs.alpha)


def prelu(attrs: Any, x: Any, alpha: Any) -> Any:
    """``x`` where positive, else times ``alpha`` along an axis."""
    return topi.nn.prelu(x, alpha, attrs.axis % len(x.shape))


def softmax(attrs: Any, x: Any) -> Any:
    """Exponentials divided by their sum."""
    return topi.nn.softmax(x, attrs.axis)


def log_softmax(attrs: Any, x: Any) -> Any:
    """The logarithm of ``softmax``."""
    return topi.nn.log_softmax(x, attrs.axis)


def batch_norm(attrs: Any, data: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    """Normalisation with given statistics, and the statistics."""
    return topi.nn.batch_norm(
        data, gamma, beta, mean, var, attrs.axis, attrs.epsilon, attrs.center, attrs.scale
    )


def layer_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    """Normalisation over axes."""
    gamma = gamma if attrs.scale else None
    beta = beta if attrs.center else None
    return topi.nn.layer_norm(data, gamma, beta, list(attrs.axes), attrs.epsilon)


def instance_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    """Normalisation over the spatial axes."""
    axis = attrs.channel_axis % len(data.shape)
    return topi.nn.instance_norm(data, gamma, beta, axis, list(attrs.axes), attrs.epsilon)


def rms_norm(attrs: Any, data: Any, weight: Any) -> Any:
    """Division by the root of the mean square."""
    return topi.nn.rms_norm(data, weight, list(attrs.axes), attrs.epsilon)


def group_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    """Normalisation in groups of channels."""
    ndim, groups = len(data.shape), attrs.num_groups
    axis = attrs.channel_axis % ndim
    per_group = get_const_int(data.shape[axis]) // groups
    shape = [*data.shape[:axis], groups, per_group, *data.shape[axis + 1 :]]
    split = topi.reshape(data, shape)
    axes = [axis + 1] + [a % ndim + (a % ndim > axis) for a in attrs.axes]
    normal = topi.nn.layer_norm(split, None, None, axes, attrs.epsilon)

    def element(*i: Any) -> Any:
        channel = i[axis]
        value = normal(*i[:axis], channel // per_group, channel % per_group, *i[axis + 1 :])
        if attrs.scale:
            value = value * gamma(channel)
        return value + beta(channel) if attrs.center else value

    return te.compute(data.shape, element, name="T_group_norm", tag=tag.INJECTIVE)


def dropout(attrs: Any, data: Any) -> Any:
    """The data and a mask of ones."""
    copy = te.compute(data.shape, lambda *i: data(*i), name="T_identity", tag=tag.ELEMWISE)
    return [copy, topi.full(data.shape, data.dtype, 1)]


def lrn(attrs: Any, x: Any) -> Any:
    """Local response normalisation over a window of an axis."""
    axis = attrs.axis % len(x.shape)
    before, after = (attrs.size - 1) // 2, attrs.size // 2
    low, high = [0] * len(x.shape), [0] * len(x.shape)
    low[axis], high[axis] = before, after
    padded = topi.nn.pad(x, low, high, 0.0, name="pad_data")
    k = te.reduce_axis((0, attrs.size), name="k")

    def squares(*i: Any) -> Any:
        place = [*i[:axis], i[axis] + k, *i[axis + 1 :]]
        return te.sum(padded(*place) * padded(*place), axis=k)

    total = te.compute(x.shape, squares, name="T_square_sum")
    scale = const(attrs.alpha / attrs.size, x.dtype)

    def element(*i: Any) -> Any:
        base = const(attrs.bias, x.dtype) + scale * total(*i)
        return x(*i) / tir.pow(base, const(attrs.beta, x.dtype))

    return te.compute(x.shape, element, name="T_lrn", tag=tag.BROADCAST)


def pad(attrs: Any, x: Any) -> Any:
    """More elements around the data, by mode."""
    ndim = len(x.shape)
    before = [attrs.pad_width[2 * i] for i in range(ndim)]
    after = [attrs.pad_width[2 * i + 1] for i in range(ndim)]
    if attrs.pad_mode == "constant":
        return topi.nn.pad(x, before, after, attrs.pad_value)
    shape = [size + low + high for size, low, high in zip(x.shape, before, after)]

    def place(index: Any, size: Any, low: int) -> Any:
        own = index - low
        if attrs.pad_mode in ("replicate", "edge"):
            return maximum(minimum(own, size - 1), const(0, own.dtype))
        if attrs.pad_mode == "circular":
            return floormod(own, size)
        own = tir.Select(less(own, 0), -own, own)
        return tir.Select(less(own, size), own, (size - 1) * 2 - own)

    def element(*indices: Any) -> Any:
        own = [
            index if low == 0 and high == 0 else place(index, size, low)
            for index, size, low, high in zip(indices, x.shape, before, after)
        ]
        return x(*own)

    return te.compute(shape, element, name="T_pad", tag=tag.INJECTIVE)


def attention(attrs: Any, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
    """Scaled dot-product attention of (batch, sequence, heads, head size)."""
    batch, length, heads, size = query.shape
    keys, out_size = key.shape[1], value.shape[3]
    dtype = "float32" if query.dtype == "float16" else query.dtype
    if attrs.scale is not None:
        scale = const(attrs.scale, dtype)
    elif hasattr(size, "value"):
        scale = const(1 / math.sqrt(size.value), dtype)
    else:
        scale = tir.rsqrt(cast(dtype, size))
    d = te.reduce_axis((0, size), name="d")
    scores = te.compute(
        (batch, heads, length, keys),
        lambda b, h, i, j: te.sum(
            cast(dtype, query(b, i, h, d)) * cast(dtype, key(b, j, h, d)), axis=d
        ),
        name="T_scores",
    )

    def masked(b: Any, h: Any, i: Any, j: Any) -> Any:
        found = scores(b, h, i, j) * scale
        if bias is not None:
            place = [
                const(0, index.dtype) if getattr(extent, "value", None) == 1 else index
                for index, extent in zip((b, h, i, j), bias.shape)
            ]
            found = found + cast(dtype, bias(*place))
        if attrs.causal_mask is not None:
            last = i + (keys - length) if attrs.causal_mask == "BottomRight" else i
            found = tir.Select(j <= last, found, tir.min_value(dtype))
        return found

    masked_scores = te.compute(scores.shape, masked, name="T_masked", tag=tag.BROADCAST)
    weights = topi.nn.softmax(masked_scores, 3)
    k = te.reduce_axis((0, keys), name="k")
    product_ = te.compute(
        (batch, length, heads, out_size),
        lambda b, i, h, o: te.sum(weights(b, h, i, k) * cast(dtype, value(b, k, h, o)), axis=k),
        name="T_attention",
    )
    return product_ if dtype == query.dtype else topi.cast(product_, query.dtype)


def cross_entropy_with_logits(attrs: Any, predictions: Any, labels: Any) -> Any:
    """Minus the mean of the sums of products."""
    total = topi.negative(topi.sum(topi.multiply(predictions, labels)))
    if len(predictions.shape) < 2:
        return total
    batch = cast(predictions.dtype, predictions.shape[0])
    return te.compute((), lambda: total() / batch, name="T_divide")


def nll_loss(attrs: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
    """The negative log-likelihood loss."""
    dtype = predictions.dtype
    ignored = const(attrs.ignore_index, targets.dtype)

    def factor(*i: Any) -> Any:
        target = targets(*i)
        chosen = tir.Select(equal(target, ignored), const(0, target.dtype), target)
        value = const(1, dtype) if weights is None else weights(chosen)
        return tir.Select(equal(target, ignored), const(0, dtype), value)

    def loss(*i: Any) -> Any:
        target = targets(*i)
        chosen = tir.Select(equal(target, ignored), const(0, target.dtype), target)
        picked = predictions(*i[:1], chosen, *i[1:]) if i else predictions(chosen)
        return -picked * factor(*i)

    losses = te.compute(targets.shape, loss, name="T_nll_loss", tag=tag.INJECTIVE)
    if attrs.reduction == "none":
        return losses
    total = topi.sum(losses) if targets.shape else losses
    if attrs.reduction == "sum":
        return total
    factors = te.compute(targets.shape, factor, name="T_weights", tag=tag.INJECTIVE)
    weight = topi.sum(factors) if targets.shape else factors
    return topi.divide(total, weight)
