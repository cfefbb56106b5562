"""Normalisation: batch, layer, group, instance, root mean square; dropout and local response."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IntImm
from tilesmith.relax.attrs import (
    Schema,
    boolean,
    integer,
    ints,
    number,
)
from tilesmith.relax.expr import Call, Tuple, known_struct_info
from tilesmith.relax.op.agreement import vectors_along
from tilesmith.relax.op.common import (
    check_axes,
    check_float,
    check_ndim,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.declaration import define
from tilesmith.relax.op.elementwise import rsqrt
from tilesmith.relax.op.scatter import collapsed
from tilesmith.relax.op.statistical import mean
from tilesmith.relax.spec import topi
from tilesmith.relax.struct_info import TupleStructInfo
from tilesmith.support.errors import ShapeError, UnsupportedError


def _parameter_axes(attrs: Any) -> list[int]:
    """Return the axes of the data along which the parameters lie: the channels (``channel_axis`` or
    ``axis``), else the normalised ``axes``.
    """
    channels = attrs.get("channel_axis", attrs.get("axis"))
    return list(attrs.axes) if channels is None else [channels]


_parameter_sizes = vectors_along(_parameter_axes)


def infer_normalization(call: Call) -> Any:
    """Infer the struct info of the data, which is that of the result."""
    data, attrs = tensor(call, 0), call.attrs
    check_float(call, 0, data)
    if "axes" in attrs:
        check_axes(call, attrs.axes, data.ndim)
    along = check_axes(call, _parameter_axes(attrs), data.ndim)
    for index in range(1, len(call.args)):
        check_ndim(call, index, tensor(call, index), len(along))
    return data


def _infer_batch_norm(call: Call) -> Any:
    return TupleStructInfo((infer_normalization(call), tensor(call, 3), tensor(call, 4)))


def _batch_norm(attrs: Any, data: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    shape = [1] * data.ndim
    shape[attrs.axis] = -1
    given = mean, var
    if attrs.training:
        others = tuple([k for k in range(data.ndim) if k != attrs.axis % data.ndim])
        wide = data.astype("float64")
        mean, var = wide.mean(axis=others), wide.var(axis=others)
        count = data.size // len(mean)
        found = mean, var * (count / (count - 1) if count > 1 else numpy.nan)
        given = tuple(
            [
                (old * (1 - attrs.momentum) + new * attrs.momentum).astype(old.dtype)
                for old, new in zip(given, found)
            ]
        )
    scaled = (data - mean.reshape(shape)) / numpy.sqrt(var.reshape(shape) + attrs.epsilon)
    if attrs.scale:
        scaled = scaled * gamma.reshape(shape)
    if attrs.center:
        scaled = scaled + beta.reshape(shape)
    return scaled.astype(data.dtype), *given


batch_norm = define(
    "nn.batch_norm",
    "data gamma beta moving_mean moving_var",
    _infer_batch_norm,
    description="""``(data - moving_mean) / sqrt(moving_var + epsilon) * gamma + beta`` by axis.

    Gives a tuple: the result, the mean and the variance, unchanged unless in ``training``: then the
    statistics are those of the batch, and the moving ones come nearer to them by ``momentum``.
    """,
    schema=Schema(
        axis=integer(1),
        epsilon=number(1e-5),
        center=boolean(True),
        scale=boolean(True),
        momentum=number(0.1),
        training=boolean(False),
    ),
    agreeing=_parameter_sizes,
    compute="topi.nn.batch_norm",
    evaluate=_batch_norm,
)


def _over_axes(values: Any, ndim: int, axes: Any) -> Any:
    """Reshape ``values``, whose axes are ``axes`` of a tensor of rank ``ndim``, so that it
    broadcasts.
    """
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


def _layer_norm_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the gradients of data, gamma and beta."""
    x, gamma, beta = orig_call.args
    attrs = orig_call.attrs
    rank = known_struct_info(x).ndim
    axes = sorted([axis % rank for axis in attrs.axes])
    if axes != list(range(rank - len(axes), rank)):
        raise UnsupportedError("the gradient of layer_norm needs the last axes")
    centred = ctx.emit(x - mean(x, axes, True))
    variance = mean(centred * centred, axes, True)
    scale = ctx.emit(rsqrt(variance + attrs.epsilon))
    normal = ctx.emit(centred * scale)
    inner = ctx.emit(output_grad * gamma if attrs.scale else output_grad)
    along = mean(inner * normal, axes, True)
    rest = inner - mean(inner, axes, True) - normal * along
    by_gamma = collapsed(ctx.emit(output_grad * normal), gamma)
    return [
        scale * rest,
        by_gamma if attrs.scale else None,
        collapsed(output_grad, beta) if attrs.center else None,
    ]


def _scale_and_shift(attrs: Any, gamma: Any, beta: Any) -> tuple[Any, Any]:
    """Return gamma and beta, None for an omitted one."""
    return gamma if attrs.scale else None, beta if attrs.center else None


def _layer_norm_expression(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    gamma, beta = _scale_and_shift(attrs, gamma, beta)
    return topi.nn.layer_norm(data, gamma, beta, attrs.axes, attrs.epsilon)


layer_norm = define(
    "nn.layer_norm",
    "data gamma beta",
    infer_normalization,
    description=(
        "``data`` with mean 0 and variance 1 over ``axes``, times ``gamma`` plus ``beta``."
    ),
    schema=Schema(axes=ints(-1), epsilon=number(1e-5), center=boolean(True), scale=boolean(True)),
    agreeing=_parameter_sizes,
    compute=_layer_norm_expression,
    evaluate=_layer_norm,
    gradient=_layer_norm_gradient,
)


def _infer_group_norm(call: Call) -> Any:
    data = infer_normalization(call)
    sizes, groups = sizes_of(data), call.attrs.num_groups
    channels = None if sizes is None else sizes[call.attrs.channel_axis]
    if isinstance(channels, IntImm) and channels.value % groups:
        raise ShapeError(f"nn.group_norm: {groups} groups do not divide {channels.value} channels")
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


def _group_norm_expression(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    return topi.nn.group_norm(
        data,
        *_scale_and_shift(attrs, gamma, beta),
        attrs.num_groups,
        attrs.channel_axis,
        attrs.axes,
        attrs.epsilon,
    )


group_norm = define(
    "nn.group_norm",
    "data gamma beta",
    _infer_group_norm,
    description="``data`` normalised in groups of channels, over each group and ``axes``.",
    schema=Schema(
        num_groups=integer(),
        channel_axis=integer(),
        axes=ints(),
        epsilon=number(1e-5),
        center=boolean(True),
        scale=boolean(True),
    ),
    agreeing=_parameter_sizes,
    compute=_group_norm_expression,
    evaluate=_group_norm,
)


def _instance_norm(attrs: Any, data: Any, gamma: Any, beta: Any) -> Any:
    wide = data.astype("float64")
    axes = tuple(attrs.axes)
    scaled = (wide - wide.mean(axis=axes, keepdims=True)) / numpy.sqrt(
        wide.var(axis=axes, keepdims=True) + attrs.epsilon
    )
    scaled = scaled * _over_axes(gamma, data.ndim, [attrs.channel_axis])
    return (scaled + _over_axes(beta, data.ndim, [attrs.channel_axis])).astype(data.dtype)


instance_norm = define(
    "nn.instance_norm",
    "data gamma beta",
    infer_normalization,
    description="``data`` normalised over ``axes`` for each channel and item of the batch.",
    schema=Schema(channel_axis=integer(), axes=ints(), epsilon=number(1e-5)),
    agreeing=_parameter_sizes,
    compute=lambda attrs, data, gamma, beta: topi.nn.instance_norm(
        data, gamma, beta, attrs.axes, attrs.epsilon, attrs.channel_axis
    ),
    evaluate=_instance_norm,
)


def _rms_norm(attrs: Any, data: Any, weight: Any) -> Any:
    axes = tuple(attrs.axes)
    wide = data.astype("float64")
    scale = numpy.sqrt((wide * wide).mean(axis=axes, keepdims=True) + attrs.epsilon)
    return (wide / scale * _over_axes(weight, data.ndim, axes)).astype(data.dtype)


rms_norm = define(
    "nn.rms_norm",
    "data weight",
    infer_normalization,
    description=(
        "``data`` divided by the root of its mean square over ``axes``, times ``weight``."
    ),
    schema=Schema(axes=ints(-1), epsilon=number(1e-5)),
    agreeing=_parameter_sizes,
    compute=lambda attrs, data, weight: topi.nn.rms_norm(data, weight, attrs.axes, attrs.epsilon),
    evaluate=_rms_norm,
)


def _infer_dropout(call: Call) -> Any:
    info = tensor(call, 0)
    return TupleStructInfo((info, info))


def _dropout_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the gradient unchanged, since nothing is dropped."""
    return [output_grad.fields[0] if isinstance(output_grad, Tuple) else output_grad[0]]


dropout = define(
    "nn.dropout",
    "data",
    _infer_dropout,
    description="A tuple of ``data`` (at inference nothing is dropped) and the mask (ones).",
    schema=Schema(rate=number(0.5)),
    compute=lambda attrs, x: [topi.identity(x), topi.full_like(x, 1)],
    evaluate=lambda attrs, x: (x, numpy.ones_like(x)),
    gradient=_dropout_gradient,
)


def _lrn(attrs: Any, x: Any) -> Any:
    squares = numpy.moveaxis(x.astype("float64") ** 2, attrs.axis, 0)
    # Windows of even size extend one element further to the right.
    left, right = (attrs.size - 1) // 2, attrs.size // 2
    count = len(squares)
    sums = [squares[max(0, i - left) : min(count, i + right + 1)].sum(axis=0) for i in range(count)]
    total = numpy.moveaxis(numpy.stack(sums), 0, attrs.axis)
    return (x / (attrs.bias + attrs.alpha / attrs.size * total) ** attrs.beta).astype(x.dtype)


lrn = define(
    "nn.lrn",
    "data",
    infer_normalization,
    description=(
        "Local response normalisation: each channel divided by a power of the squares around it."
    ),
    schema=Schema(
        size=integer(5), axis=integer(1), bias=number(1.0), alpha=number(1e-4), beta=number(0.75)
    ),
    compute="topi.nn.lrn",
    evaluate=_lrn,
)
