"""softmax, and normalisations: batch, layer, group, instance, root mean square, local response."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.transform import reshape
from tilesmith.topi.utils import Axes, get_const_int, normalize_axes, product

__all__ = [
    "batch_norm", "fast_softmax", "group_norm", "instance_norm", "layer_norm", "log_softmax", "lrn",
    "rms_norm", "softmax",
]  # fmt: skip


def _without(indices: tuple, axis: int) -> tuple:
    return (*indices[:axis], *indices[axis + 1 :])


def _with(indices: tuple, axis: int, value: Any) -> tuple:
    return (*indices[:axis], value, *indices[axis:])


def _max_and_exp(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    shape = [size for k, size in enumerate(x.shape) if k != axis]
    k1 = te.reduce_axis((0, x.shape[axis]), name="k")
    largest = te.compute(
        shape, lambda *i: te.max(x(*_with(i, axis, k1)), axis=k1), name="T_softmax_maxelem"
    )
    exponential = te.compute(
        x.shape, lambda *i: tir.exp(x(*i) - largest(*_without(i, axis))), name="T_softmax_exp"
    )
    return largest, exponential


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``exp(x - max) / sum(exp(x - max))`` along an axis."""
    (axis,) = normalize_axes(axis, len(x.shape))
    shape = [size for k, size in enumerate(x.shape) if k != axis]
    _, exponential = _max_and_exp(x, axis)
    k2 = te.reduce_axis((0, x.shape[axis]), name="k")
    total = te.compute(
        shape, lambda *i: te.sum(exponential(*_with(i, axis, k2)), axis=k2), name="T_softmax_expsum"
    )
    return te.compute(
        x.shape,
        lambda *i: exponential(*i) / total(*_without(i, axis)),
        name="T_softmax_norm",
        tag="softmax_output",
        attrs={"axis": axis},
    )


fast_softmax = softmax


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``x - max - log(sum(exp(x - max)))`` along an axis."""
    (axis,) = normalize_axes(axis, len(x.shape))
    shape = [size for k, size in enumerate(x.shape) if k != axis]
    largest, exponential = _max_and_exp(x, axis)
    k2 = te.reduce_axis((0, x.shape[axis]), name="k")
    total = te.compute(
        shape, lambda *i: te.sum(exponential(*_with(i, axis, k2)), axis=k2), name="T_softmax_expsum"
    )
    return te.compute(
        x.shape,
        lambda *i: x(*i) - largest(*_without(i, axis)) - tir.log(total(*_without(i, axis))),
        name="T_log_softmax",
        tag="log_softmax_output",
        attrs={"axis": axis},
    )


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    training: bool = False,
    momentum: float = 0.1,
) -> list[Tensor]:
    """Normalise with given statistics; return the result and the unchanged statistics."""
    if training:
        raise UnsupportedError("batch_norm: training is not served, statistics are taken as given")
    (axis,) = normalize_axes(axis, len(data.shape))

    def element(*i: Any) -> PrimExpr:
        c = i[axis]
        value = (data(*i) - moving_mean(c)) / tir.sqrt(moving_var(c) + const(epsilon, data.dtype))
        if scale:
            value = value * gamma(c)
        return value + beta(c) if center else value

    normal = te.compute(data.shape, element, name="T_batch_norm", tag=tag.BROADCAST)
    copies = [
        te.compute(
            t.shape,
            lambda *i, t=t: t(*i),
            name="T_statistics",
            tag=tag.ELEMWISE,
            varargs_names=["i"],
        )
        for t in (moving_mean, moving_var)
    ]
    return [normal, *copies]


def _moments(data: Tensor, axes: list[int], dtype: Any) -> tuple[Tensor, Tensor, list[int]]:
    """Compute sum and sum of squares over some axes, in one pass."""
    kept = [k for k in range(len(data.shape)) if k not in axes]
    iterators = {axis: te.reduce_axis((0, data.shape[axis]), name=f"k{axis}") for axis in axes}

    def place(indices: tuple) -> list[Any]:
        given = iter(indices)
        return [iterators[k].var if k in iterators else next(given) for k in range(len(data.shape))]

    reducer = tir.comm_reducer(
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda first, second: (const(0, first), const(0, second)),
        name="moments",
    )

    def element(*i: Any) -> Any:
        value = data(*place(i)).astype(dtype)
        return reducer((value, value * value), axis=list(iterators.values()))

    total, squares = te.compute(
        [data.shape[k] for k in kept], element, name="T_moments", tag=tag.COMM_REDUCE
    )
    return total, squares, kept


def layer_norm(
    data: Tensor, gamma: Tensor | None, beta: Tensor | None, axis: Axes = -1, epsilon: float = 1e-5
) -> Tensor:
    """Normalise over ``axis`` (one or several): ``(x - mean) / sqrt(variance + epsilon) * gamma +
    beta``.
    """
    axes = normalize_axes(axis, len(data.shape))
    dtype = "float32" if data.dtype == "float16" else data.dtype
    total, squares, kept = _moments(data, axes, dtype)
    count = product([data.shape[k] for k in axes]).astype(dtype)

    def element(*i: Any) -> PrimExpr:
        outer, inner = [i[k] for k in kept], [i[k] for k in axes]
        mean = total(*outer) / count
        variance = squares(*outer) / count - mean * mean
        value = (data(*i).astype(dtype) - mean) * tir.rsqrt(variance + const(epsilon, dtype))
        value = value.astype(data.dtype)
        if gamma is not None:
            value = value * gamma(*inner)
        return value if beta is None else value + beta(*inner)

    return te.compute(data.shape, element, name="T_layer_norm", tag=tag.INJECTIVE)


def instance_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    axis: Axes,
    epsilon: float = 1e-5,
    channel_axis: int = 1,
) -> Tensor:
    """Normalise over ``axis`` (the spatial axes) of each channel of each sample: ``(x - mean) /
    sqrt(variance + epsilon) * gamma + beta``, with gamma and beta of shape (channels,).
    """
    channel_axis = channel_axis % len(data.shape)
    axes = normalize_axes(axis, len(data.shape))
    total, squares, kept = _moments(data, axes, data.dtype)
    count = product([data.shape[k] for k in axes]).astype(data.dtype)

    def element(*i: Any) -> PrimExpr:
        outer = [i[k] for k in kept]
        mean = total(*outer) / count
        variance = squares(*outer) / count - mean * mean
        value = (data(*i) - mean) * tir.rsqrt(variance + const(epsilon, data.dtype))
        return value * gamma(i[channel_axis]) + beta(i[channel_axis])

    return te.compute(data.shape, element, name="T_instance_norm", tag=tag.INJECTIVE)


def group_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    num_groups: int,
    channel_axis: int,
    axes: Axes,
    epsilon: float = 1e-5,
) -> Tensor:
    """Normalise over each of ``num_groups`` groups of channels and over ``axes``.

    ``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, with gamma and beta of shape
    (channels,), or None to leave one out.

    Raises ShapeError where the channels do not divide into the groups.
    """
    ndim = len(data.shape)
    channel_axis = channel_axis % ndim
    channels = get_const_int(data.shape[channel_axis])
    if channels % num_groups:
        raise ShapeError(f"group_norm: {channels} channels are not {num_groups} equal groups")
    per_group = channels // num_groups
    outer, inner = data.shape[:channel_axis], data.shape[channel_axis + 1 :]
    groups = reshape(data, [*outer, num_groups, per_group, *inner])
    # The channels of a group are an axis of their own; axes behind them move by one.
    normalised = [axis + (axis > channel_axis) for axis in normalize_axes(axes, ndim)]
    normal = layer_norm(groups, None, None, [channel_axis + 1, *normalised], epsilon)

    def element(*i: Any) -> PrimExpr:
        channel = i[channel_axis]
        place = (channel // per_group, channel % per_group)
        value = normal(*i[:channel_axis], *place, *i[channel_axis + 1 :])
        if gamma is not None:
            value = value * gamma(channel)
        return value if beta is None else value + beta(channel)

    return te.compute(data.shape, element, name="T_group_norm", tag=tag.INJECTIVE)


def lrn(
    data: Tensor,
    size: int,
    axis: int = 1,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 2,
) -> Tensor:
    """Normalise by local response: ``data / (bias + alpha / size * s) ** beta``.

    s is the sum of squares over a window of ``size`` elements along an axis.
    """
    (axis,) = normalize_axes(axis, len(data.shape))
    low, high = [0] * len(data.shape), [0] * len(data.shape)
    low[axis], high[axis] = (size - 1) // 2, size // 2
    padded = pad(data, low, high, 0.0, name="pad_data")
    k = te.reduce_axis((0, size), name="k")

    def squares(*i: Any) -> PrimExpr:
        place = [*i[:axis], i[axis] + k, *i[axis + 1 :]]
        return te.sum(padded(*place) * padded(*place), axis=k)

    total = te.compute(data.shape, squares, name="T_square_sum")
    scale = const(alpha / size, data.dtype)

    def element(*i: Any) -> PrimExpr:
        base = const(bias, data.dtype) + scale * total(*i)
        return data(*i) / tir.pow(base, const(beta, data.dtype))

    return te.compute(data.shape, element, name="T_lrn", tag=tag.BROADCAST)


def rms_norm(data: Tensor, weight: Tensor, axis: Axes = -1, epsilon: float = 1e-5) -> Tensor:
    """Return ``x / sqrt(mean of squares + epsilon) * weight`` over ``axis``."""
    axes = normalize_axes(axis, len(data.shape))
    kept = [k for k in range(len(data.shape)) if k not in axes]
    iterators = {a: te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes}

    def place(indices: tuple) -> list[Any]:
        given = iter(indices)
        return [iterators[k].var if k in iterators else next(given) for k in range(len(data.shape))]

    squares = te.compute(
        [data.shape[k] for k in kept],
        lambda *i: te.sum(data(*place(i)) * data(*place(i)), axis=list(iterators.values())),
        name="T_square_sum",
        tag=tag.COMM_REDUCE,
    )
    count = product([data.shape[k] for k in axes]).astype(data.dtype)

    def element(*i: Any) -> PrimExpr:
        outer, inner = [i[k] for k in kept], [i[k] for k in axes]
        return (
            data(*i)
            * tir.rsqrt(squares(*outer) / count + const(epsilon, data.dtype))
            * weight(*inner)
        )

    return te.compute(data.shape, element, name="T_rms_norm", tag=tag.INJECTIVE)
