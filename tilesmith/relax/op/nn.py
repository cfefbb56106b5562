"""Operators of neural networks: activations, normalisation, attention, padding, losses.

Convolutions and poolings are in ``convolution.py`` and ``pooling.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from tilesmith.relax.attrs import (
    Schema,
    boolean,
    integer,
    ints,
    number,
    optional_integer,
    optional_number,
    scalar,
    text,
)
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import (
    check_axes,
    check_axis,
    check_dtypes,
    check_float,
    check_ndim,
    prove_equal,
    result,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.elementwise import infer_float, infer_same, unary
from tilesmith.relax.op.spec import FusionKind, call, define
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

_erf = numpy.vectorize(math.erf, otypes=["float64"])


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)).astype(x.dtype))


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _silu(x: Any) -> Any:
    return x / (1 + numpy.exp(-x))


relu = unary("nn.relu", lambda x: numpy.maximum(x, 0), "topi.nn.relu", "max(x, 0)")
gelu = unary("nn.gelu", _gelu, "nn:gelu", "x times the normal distribution at x", infer_float)
gelu_tanh = unary(
    "nn.gelu_tanh", _gelu_tanh, "nn:gelu_tanh", "gelu approximated with tanh", infer_float
)
silu = unary("nn.silu", _silu, "nn:silu", "x * sigmoid(x)", infer_float)

_LEAKYRELU = define(
    "nn.leakyrelu",
    "data",
    infer_same,
    schema=Schema(alpha=number(0.01)),
    compute="nn:leakyrelu",
    kind=FusionKind.ELEMWISE,
    evaluate=lambda attrs, x: numpy.where(x > 0, x, x * x.dtype.type(attrs.alpha)),
)


def leakyrelu(data: Any, alpha: float = 0.01) -> Call:
    """``data`` where positive, else ``alpha * data``."""
    return call(_LEAKYRELU, data, alpha=alpha)


def _infer_prelu(call: Call) -> Any:
    data, alpha = tensor(call, 0), tensor(call, 1)
    check_ndim(call, 1, alpha, 1)
    check_axis(call, call.attrs.axis, data.ndim)
    return data


def _prelu(attrs: Any, data: Any, alpha: Any) -> Any:
    shape = [1] * data.ndim
    shape[attrs.axis] = -1
    return numpy.where(data > 0, data, data * alpha.reshape(shape))


_PRELU = define(
    "nn.prelu",
    "data alpha",
    _infer_prelu,
    schema=Schema(axis=integer(1)),
    compute="nn:prelu",
    kind=FusionKind.BROADCAST,
    evaluate=_prelu,
)


def prelu(data: Any, alpha: Any, axis: int = 1) -> Call:
    """``data`` where positive, else times ``alpha``, a vector along ``axis``."""
    return call(_PRELU, data, alpha, axis=axis)


# Softmax


def _infer_softmax(call: Call) -> Any:
    info = tensor(call, 0)
    check_float(call, 0, info)
    check_axis(call, call.attrs.axis, info.ndim)
    return info


def _softmax(attrs: Any, x: Any) -> Any:
    exponentials = numpy.exp(x - x.max(axis=attrs.axis, keepdims=True))
    return exponentials / exponentials.sum(axis=attrs.axis, keepdims=True)


def _log_softmax(attrs: Any, x: Any) -> Any:
    shifted = x - x.max(axis=attrs.axis, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=attrs.axis, keepdims=True))


_SOFTMAX = define(
    "nn.softmax",
    "data",
    _infer_softmax,
    schema=Schema(axis=integer(-1)),
    compute="nn:softmax",
    evaluate=_softmax,
)
_LOG_SOFTMAX = define(
    "nn.log_softmax",
    "data",
    _infer_softmax,
    schema=Schema(axis=integer(-1)),
    compute="nn:log_softmax",
    evaluate=_log_softmax,
)


def softmax(data: Any, axis: int = -1) -> Call:
    """``exp(data)`` divided by its sum along ``axis``."""
    return call(_SOFTMAX, data, axis=axis)


def log_softmax(data: Any, axis: int = -1) -> Call:
    """The logarithm of ``softmax``."""
    return call(_LOG_SOFTMAX, data, axis=axis)


# Normalisation


def _check_parameters(call: Call, data: TensorStructInfo, axes: list[int], first: int) -> None:
    """The parameters from number ``first`` on have the sizes of ``data`` along ``axes``."""
    sizes = sizes_of(data)
    for index in range(first, len(call.args)):
        info = tensor(call, index)
        check_ndim(call, index, info, len(axes))
        own = sizes_of(info)
        if sizes is None or own is None:
            continue
        for axis, size in zip(axes, own):
            if not prove_equal(sizes[axis], size) and hasattr(size, "value"):
                name = call.op.spec.arguments[index]
                raise ShapeError(
                    f"{call.op.name}: '{name}' has size {size}, axis {axis} of the data {sizes[axis]}"
                )


def _infer_batch_norm(call: Call) -> Any:
    data = tensor(call, 0)
    check_float(call, 0, data)
    axis = check_axis(call, call.attrs.axis, data.ndim)
    if data.ndim != -1:
        _check_parameters(call, data, [axis], 1)
    return TupleStructInfo((data, tensor(call, 3), tensor(call, 4)))


def _batch_norm(attrs: Any, data: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    shape = [1] * data.ndim
    shape[attrs.axis] = -1
    scaled = (data - mean.reshape(shape)) / numpy.sqrt(var.reshape(shape) + attrs.epsilon)
    if attrs.scale:
        scaled = scaled * gamma.reshape(shape)
    if attrs.center:
        scaled = scaled + beta.reshape(shape)
    return scaled.astype(data.dtype), mean, var


_BATCH_NORM = define(
    "nn.batch_norm",
    "data gamma beta moving_mean moving_var",
    _infer_batch_norm,
    schema=Schema(
        axis=integer(1),
        epsilon=number(1e-5),
        center=boolean(True),
        scale=boolean(True),
        momentum=number(0.1),
    ),
    compute="nn:batch_norm",
    evaluate=_batch_norm,
)


def batch_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_var: Any,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    momentum: float = 0.1,
) -> Call:
    """``(data - moving_mean) / sqrt(moving_var + epsilon) * gamma + beta`` along ``axis``.

    Gives a tuple: the result, the mean and the variance (unchanged: this is inference).
    """
    return call(
        _BATCH_NORM,
        data,
        gamma,
        beta,
        moving_mean,
        moving_var,
        axis=axis,
        epsilon=epsilon,
        center=center,
        scale=scale,
        momentum=momentum,
    )


def _infer_layer_norm(call: Call) -> Any:
    data = tensor(call, 0)
    check_float(call, 0, data)
    axes = check_axes(call, call.attrs.axes, data.ndim)
    if data.ndim != -1:
        _check_parameters(call, data, axes, 1)
    return data


def _over_axes(values: Any, ndim: int, axes: Any) -> Any:
    """``values``, whose axes are ``axes`` of a tensor of rank ``ndim``, in a shape that broadcasts."""
    shape = [1] * ndim
    for axis, extent in zip(axes, values.shape):
        shape[axis] = extent
    return values.reshape(shape)


def _layer_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    axes = tuple(attrs.axes)
    wide = data.astype("float64")
    mean = wide.mean(axis=axes, keepdims=True)
    variance = wide.var(axis=axes, keepdims=True)
    scaled = (wide - mean) / numpy.sqrt(variance + attrs.epsilon)
    if attrs.scale:
        scaled = scaled * _over_axes(gamma, data.ndim, axes)
    if attrs.center:
        scaled = scaled + _over_axes(beta, data.ndim, axes)
    return scaled.astype(data.dtype)


_LAYER_NORM = define(
    "nn.layer_norm",
    "data gamma beta",
    _infer_layer_norm,
    schema=Schema(axes=ints(-1), epsilon=number(1e-5), center=boolean(True), scale=boolean(True)),
    compute="nn:layer_norm",
    evaluate=_layer_norm,
)


def layer_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    axes: Any = (-1,),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """``data`` with mean 0 and variance 1 over ``axes``, times ``gamma`` plus ``beta``."""
    return call(
        _LAYER_NORM, data, gamma, beta, axes=axes, epsilon=epsilon, center=center, scale=scale
    )


def _infer_group_norm(call: Call) -> Any:
    data = tensor(call, 0)
    check_float(call, 0, data)
    axis = check_axis(call, call.attrs.channel_axis, data.ndim)
    check_axes(call, call.attrs.axes, data.ndim)
    sizes = sizes_of(data)
    groups = call.attrs.num_groups
    if sizes is not None:
        channels = sizes[axis]
        if isinstance(getattr(channels, "value", None), int) and channels.value % groups:
            raise ShapeError(f"nn.group_norm: {groups} groups do not divide {channels} channels")
        _check_parameters(call, data, [axis], 1)
    return data


def _group_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    axis = attrs.channel_axis % data.ndim
    groups = attrs.num_groups
    shape = (*data.shape[:axis], groups, data.shape[axis] // groups, *data.shape[axis + 1 :])
    wide = data.astype("float64").reshape(shape)
    axes = [axis + 1] + [a % data.ndim + (a % data.ndim > axis) for a in attrs.axes]
    mean = wide.mean(axis=tuple(axes), keepdims=True)
    variance = wide.var(axis=tuple(axes), keepdims=True)
    scaled = ((wide - mean) / numpy.sqrt(variance + attrs.epsilon)).reshape(data.shape)
    if attrs.scale:
        scaled = scaled * _over_axes(gamma, data.ndim, [axis])
    if attrs.center:
        scaled = scaled + _over_axes(beta, data.ndim, [axis])
    return scaled.astype(data.dtype)


_GROUP_NORM = define(
    "nn.group_norm",
    "data gamma beta",
    _infer_group_norm,
    schema=Schema(
        num_groups=integer(),
        channel_axis=integer(1),
        axes=ints(),
        epsilon=number(1e-5),
        center=boolean(True),
        scale=boolean(True),
    ),
    compute="nn:group_norm",
    evaluate=_group_norm,
)


def group_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    num_groups: int,
    channel_axis: int,
    axes: Any,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """``data`` normalised in groups of channels, over each group and ``axes``."""
    return call(
        _GROUP_NORM,
        data,
        gamma,
        beta,
        num_groups=num_groups,
        channel_axis=channel_axis,
        axes=axes,
        epsilon=epsilon,
        center=center,
        scale=scale,
    )


def _infer_instance_norm(call: Call) -> Any:
    data = tensor(call, 0)
    check_float(call, 0, data)
    axis = check_axis(call, call.attrs.channel_axis, data.ndim)
    check_axes(call, call.attrs.axes, data.ndim)
    if data.ndim != -1:
        _check_parameters(call, data, [axis], 1)
    return data


def _instance_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    wide = data.astype("float64")
    axes = tuple(attrs.axes)
    scaled = (wide - wide.mean(axis=axes, keepdims=True)) / numpy.sqrt(
        wide.var(axis=axes, keepdims=True) + attrs.epsilon
    )
    scaled = scaled * _over_axes(gamma, data.ndim, [attrs.channel_axis])
    return (scaled + _over_axes(beta, data.ndim, [attrs.channel_axis])).astype(data.dtype)


_INSTANCE_NORM = define(
    "nn.instance_norm",
    "data gamma beta",
    _infer_instance_norm,
    schema=Schema(channel_axis=integer(1), axes=ints(), epsilon=number(1e-5)),
    compute="nn:instance_norm",
    evaluate=_instance_norm,
)


def instance_norm(
    data: Any, gamma: Any, beta: Any, channel_axis: int, axes: Any, epsilon: float = 1e-5
) -> Call:
    """``data`` normalised over ``axes`` for each channel and item of the batch."""
    return call(
        _INSTANCE_NORM, data, gamma, beta, channel_axis=channel_axis, axes=axes, epsilon=epsilon
    )


def _rms_norm(attrs: Any, data: Any, weight: Any) -> Any:
    axes = tuple(attrs.axes)
    wide = data.astype("float64")
    scale = numpy.sqrt((wide * wide).mean(axis=axes, keepdims=True) + attrs.epsilon)
    return (wide / scale * _over_axes(weight, data.ndim, axes)).astype(data.dtype)


_RMS_NORM = define(
    "nn.rms_norm",
    "data weight",
    _infer_layer_norm,
    schema=Schema(axes=ints(-1), epsilon=number(1e-5)),
    compute="nn:rms_norm",
    evaluate=_rms_norm,
)


def rms_norm(data: Any, weight: Any, axes: Any = -1, epsilon: float = 1e-5) -> Call:
    """``data`` divided by the root of its mean square over ``axes``, times ``weight``."""
    return call(_RMS_NORM, data, weight, axes=axes, epsilon=epsilon)


def _infer_dropout(call: Call) -> Any:
    info = tensor(call, 0)
    return TupleStructInfo((info, info))


_DROPOUT = define(
    "nn.dropout",
    "data",
    _infer_dropout,
    schema=Schema(rate=number(0.5)),
    compute="nn:dropout",
    evaluate=lambda attrs, x: (x, numpy.ones_like(x)),
)


def dropout(data: Any, rate: float = 0.5) -> Call:
    """A tuple of ``data`` (at inference nothing is dropped) and the mask (ones)."""
    return call(_DROPOUT, data, rate=rate)


def _infer_lrn(call: Call) -> Any:
    info = tensor(call, 0)
    check_float(call, 0, info)
    check_axis(call, call.attrs.axis, info.ndim)
    return info


def _lrn(attrs: Any, x: Any) -> Any:
    squares = numpy.moveaxis(x.astype("float64") ** 2, attrs.axis, 0)
    # Windows of even size reach one further to the right.
    left, right = (attrs.size - 1) // 2, attrs.size // 2
    count = len(squares)
    sums = [squares[max(0, i - left) : min(count, i + right + 1)].sum(axis=0) for i in range(count)]
    total = numpy.moveaxis(numpy.stack(sums), 0, attrs.axis)
    return (x / (attrs.bias + attrs.alpha / attrs.size * total) ** attrs.beta).astype(x.dtype)


_LRN = define(
    "nn.lrn",
    "data",
    _infer_lrn,
    schema=Schema(
        size=integer(5), axis=integer(1), bias=number(1.0), alpha=number(1e-4), beta=number(0.75)
    ),
    compute="nn:lrn",
    evaluate=_lrn,
)


def lrn(
    data: Any,
    size: int = 5,
    axis: int = 1,
    bias: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
) -> Call:
    """Local response normalisation: each channel divided by a power of the squares around it."""
    return call(_LRN, data, size=size, axis=axis, bias=bias, alpha=alpha, beta=beta)


# Padding


def _infer_pad(call: Call) -> Any:
    info = tensor(call, 0)
    width = call.attrs.pad_width
    if info.ndim != -1 and len(width) != 2 * info.ndim:
        raise ShapeError(
            f"nn.pad needs two widths for each of {info.ndim} dimensions, got {len(width)} numbers"
        )
    if call.attrs.pad_mode not in ("constant", "reflect", "replicate", "circular", "edge"):
        raise OpAttributeInvalid(f"nn.pad has no mode '{call.attrs.pad_mode}'")
    sizes = sizes_of(info)
    if sizes is None:
        return result(None, info.dtype, info.ndim)
    padded = [size + (width[2 * i] + width[2 * i + 1]) for i, size in enumerate(sizes)]
    return result(padded, info.dtype)


def _pad(attrs: Any, x: Any) -> Any:
    mode = {"replicate": "edge", "circular": "wrap"}.get(attrs.pad_mode, attrs.pad_mode)
    width = [(attrs.pad_width[2 * i], attrs.pad_width[2 * i + 1]) for i in range(x.ndim)]
    cut = [slice(max(0, -a), n - max(0, -b)) for (a, b), n in zip(width, x.shape)]
    width = [(max(0, a), max(0, b)) for a, b in width]
    extra = {"constant_values": attrs.pad_value} if mode == "constant" else {}
    return numpy.pad(x[tuple(cut)], width, mode, **extra)


_PAD = define(
    "nn.pad",
    "data",
    _infer_pad,
    schema=Schema(pad_width=ints(), pad_value=scalar(0), pad_mode=text("constant")),
    compute="nn:pad",
    kind=FusionKind.INJECTIVE,
    evaluate=_pad,
)


def pad(data: Any, pad_width: Any, pad_value: Any = 0, pad_mode: str = "constant") -> Call:
    """``data`` with more (negative: fewer) elements at both ends of each axis.

    ``pad_width``: before and after for each axis, flat or as pairs. ``pad_mode``: "constant",
    "reflect", "replicate" (the last element again) or "circular".
    """
    flat = []
    for item in pad_width:
        flat += list(item) if isinstance(item, (list, tuple)) else [item]
    value = getattr(pad_value, "value", pad_value)
    return call(_PAD, data, pad_width=flat, pad_value=value, pad_mode=pad_mode)


# Attention


def _infer_attention(call: Call) -> Any:
    query, key, value = (tensor(call, index) for index in range(3))
    for index, info in enumerate((query, key, value)):
        check_ndim(call, index, info, 4)
    dtype = check_dtypes(call, (query, key, value))
    q, k, v = sizes_of(query), sizes_of(key), sizes_of(value)
    if q is None or k is None or v is None:
        return result(None, dtype, 4)
    if not prove_equal(q[3], k[3]):
        raise ShapeError(f"nn.attention: head sizes of query ({q[3]}) and key ({k[3]}) differ")
    if not prove_equal(k[1], v[1]):
        raise ShapeError(f"nn.attention: {k[1]} keys but {v[1]} values")
    return result([q[0], q[1], q[2], v[3]], dtype)


def _attention(attrs: Any, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
    q, k, v = (x.transpose(0, 2, 1, 3).astype("float64") for x in (query, key, value))
    scale = attrs.scale if attrs.scale is not None else 1 / math.sqrt(query.shape[-1])
    scores = q @ k.transpose(0, 1, 3, 2) * scale
    if bias is not None:
        scores = scores + bias
    if attrs.causal_mask is not None:
        rows, columns = scores.shape[-2:]
        offset = columns - rows if attrs.causal_mask == "BottomRight" else 0
        mask = numpy.arange(columns)[None] > numpy.arange(rows)[:, None] + offset
        scores = numpy.where(mask, -numpy.inf, scores)
    weights = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return (weights @ v).transpose(0, 2, 1, 3).astype(query.dtype)


_ATTENTION = define(
    "nn.attention",
    "query key value bias",
    _infer_attention,
    schema=Schema(scale=optional_number(), causal_mask=text(None), window_size=optional_integer()),
    compute="nn:attention",
    evaluate=_attention,
)


def attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    scale: Any = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Call:
    """Scaled dot-product attention of tensors (batch, sequence, heads, head size).

    ``scale`` defaults to ``1 / sqrt(head size)``; ``causal_mask`` is "TopLeft" or "BottomRight".
    """
    if window_size is not None:
        raise OpAttributeInvalid("nn.attention: window_size is not supported; pass a bias instead")
    scale = getattr(scale, "value", scale)
    return call(_ATTENTION, query, key, value, bias, scale=scale, causal_mask=causal_mask)


# Losses


def _infer_cross_entropy(call: Call) -> Any:
    info = tensor(call, 0)
    tensor(call, 1)
    return result([], info.dtype)


def _cross_entropy(attrs: Any, predictions: Any, labels: Any) -> Any:
    total = -(predictions * labels).sum()
    return total / (predictions.shape[0] if predictions.ndim > 1 else 1)


_CROSS_ENTROPY = define(
    "nn.cross_entropy_with_logits",
    "predictions labels",
    _infer_cross_entropy,
    compute="nn:cross_entropy_with_logits",
    evaluate=_cross_entropy,
)


def cross_entropy_with_logits(predictions: Any, labels: Any) -> Call:
    """Minus the mean over the batch of the sums of ``predictions * labels``."""
    return call(_CROSS_ENTROPY, predictions, labels)


def _infer_nll_loss(call: Call) -> Any:
    info, targets = tensor(call, 0), tensor(call, 1)
    if call.attrs.reduction == "none":
        return result(sizes_of(targets), info.dtype, targets.ndim)
    if call.attrs.reduction not in ("mean", "sum"):
        raise OpAttributeInvalid("nn.nll_loss: reduction is 'mean', 'sum' or 'none'")
    return result([], info.dtype)


def _nll_loss(attrs: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
    classes = predictions.shape[1 if predictions.ndim > 1 else 0]
    weights = numpy.ones(classes, predictions.dtype) if weights is None else weights
    used = targets != attrs.ignore_index
    chosen = numpy.where(used, targets, 0)
    if predictions.ndim == 1:
        picked = predictions[chosen]
    else:
        picked = numpy.take_along_axis(predictions, numpy.expand_dims(chosen, 1), 1).squeeze(1)
    factor = numpy.where(used, weights[chosen], 0)
    losses = -picked * factor
    if attrs.reduction == "none":
        return losses
    return losses.sum() / factor.sum() if attrs.reduction == "mean" else losses.sum()


_NLL_LOSS = define(
    "nn.nll_loss",
    "predictions targets weights",
    _infer_nll_loss,
    schema=Schema(reduction=text("mean"), ignore_index=integer(-100)),
    compute="nn:nll_loss",
    evaluate=_nll_loss,
)


def nll_loss(
    predictions: Any,
    targets: Any,
    weights: Any = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Call:
    """The negative log-likelihood loss; ``reduction`` is "mean", "sum" or "none"."""
    return call(
        _NLL_LOSS, predictions, targets, weights, reduction=reduction, ignore_index=ignore_index
    )


# `relax.op.nn` has the convolutions and poolings too.
from tilesmith.relax.op.convolution import *  # noqa: E402, F403
from tilesmith.relax.op.pooling import *  # noqa: E402, F403
