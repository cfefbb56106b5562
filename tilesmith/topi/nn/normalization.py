"""softmax, and normalisations: batch, layer, group, instance, root mean square, local response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.accumulation import Axis, accumulator, reduce_axes, widened
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.transform import reshape
from tilesmith.topi.utils import Axes, get_const_int, normalize_axes, product

__all__ = [
    "batch_norm", "fast_softmax", "group_norm", "instance_norm", "layer_norm", "log_softmax", "lrn",
    "rms_norm", "softmax", "softmax_common",
]  # fmt: skip


def _without(indices: tuple, axis: int) -> tuple:
    return (*indices[:axis], *indices[axis + 1 :])


def _sum_of_powers(x: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest value along an axis, exp(x - largest), and the sum of these; the last two
    in the dtype in which ``x`` is added.
    """
    axes = [Axis(size, k == axis) for k, size in enumerate(x.shape)]
    shape = [size for k, size in enumerate(x.shape) if k != axis]
    k1 = te.reduce_axis((0, x.shape[axis]), name="k")
    largest = compute(
        shape,
        lambda *i: te.max(x(*i[:axis], k1, *i[axis:]), axis=k1),
        name="T_softmax_maxelem",
    )
    exponential = compute(
        x.shape,
        lambda *i: tir.exp(widened(x(*i)) - widened(largest(*_without(i, axis)))),
        name="T_softmax_exp",
    )
    total = reduce_axes(axes, exponential, te.sum, "T_softmax_expsum", tag="")
    return largest, exponential, total


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``exp(x - max) / sum(exp(x - max))`` along an axis.

    Along the last axis the exponentials are multiplied by the reciprocal of the sum, which is
    between the reciprocal of the length and 1: one division a row.
    """
    (axis,) = normalize_axes(axis, len(x.shape))
    _, exponential, total = _sum_of_powers(x, axis)
    is_last = axis == len(x.shape) - 1

    def element(*i: Any) -> PrimExpr:
        power, whole = exponential(*i), total(*_without(i, axis))
        value = power * (const(1, whole.dtype) / whole) if is_last else power / whole
        return op.cast(x.dtype, value)

    return compute(
        x.shape,
        element,
        name="T_softmax_norm",
        tag="softmax_output",
        attrs={"axis": axis},
    )


fast_softmax = softmax


def softmax_common(x: Tensor, axis: int, use_fast_exp: bool) -> Tensor:
    """Return `fast_softmax` or `softmax`."""
    return fast_softmax(x, axis) if use_fast_exp else softmax(x, axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``x - max - log(sum(exp(x - max)))`` along an axis."""
    (axis,) = normalize_axes(axis, len(x.shape))
    largest, _, total = _sum_of_powers(x, axis)

    def element(*i: Any) -> PrimExpr:
        outer = _without(i, axis)
        value = widened(x(*i)) - widened(largest(*outer)) - tir.log(total(*outer))
        return op.cast(x.dtype, value)

    return compute(
        x.shape, element, name="T_log_softmax", tag="log_softmax_output", attrs={"axis": axis}
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
    """Normalise with the given statistics, or in training with those of the batch.

    Returns the result and the moving statistics: as they are, or in training moved by ``momentum``
    towards those of the batch, whose variance is then the estimate ``squares / (count - 1)``.
    """
    (axis,) = normalize_axes(axis, len(data.shape))
    batch = _Moments(data, [k for k in range(len(data.shape)) if k != axis]) if training else None

    def element(*i: Any) -> PrimExpr:
        c = i[axis]
        if batch is None:
            variance = widened(moving_var(c))
            value = widened(data(*i)) - widened(moving_mean(c))
            value = value / tir.sqrt(variance + const(epsilon, variance.dtype))
        else:
            value = batch.normal(data(*i), i, epsilon)
        if scale:
            value = value * widened(gamma(c))
        return op.cast(data.dtype, value + widened(beta(c)) if center else value)

    normal = compute(data.shape, element, name="T_batch_norm", tag=tag.BROADCAST)
    moving: list[tuple[Tensor, Any]] = [(moving_mean, None), (moving_var, None)]
    if batch is not None:
        moving = [(moving_mean, batch.mean), (moving_var, batch.estimated_variance)]

    def statistics(old: Tensor, new: Any) -> Tensor:
        def moved(*i: Any) -> PrimExpr:
            if new is None:
                return old(*i)
            current = new(i)
            kept = op.cast(current.dtype, old(*i)) * const(1 - momentum, current.dtype)
            return op.cast(old.dtype, kept + current * const(momentum, current.dtype))

        kind = tag.ELEMWISE if new is None else tag.INJECTIVE
        return compute(old.shape, moved, name="T_statistics", tag=kind, varargs_names=["i"])

    return [normal, *[statistics(old, new) for old, new in moving]]


_MOMENTS = tir.comm_reducer(
    lambda a, b: (a[0] + b[0], a[1] + b[1]),
    lambda first, second: (const(0, first), const(0, second)),
    name="moments",
)


class _Moments:
    """The mean and the variance of a tensor over some axes, from sums made in one pass.

    Along rows the sums are of differences from the first element: those of numbers far from zero
    would lose the variance in rounding. Over several axes they are not, so that these can be one.
    """

    def __init__(self, data: Tensor, axes: list[int]) -> None:
        self._data, self._axes = data, axes
        self._are_rows = axes == [len(data.shape) - 1]
        self._dtype = accumulator(data.dtype)
        self._kept = [k for k in range(len(data.shape)) if k not in axes]
        self._size = product([data.shape[k] for k in axes])
        self._count = op.cast(self._dtype, self._size)

        def element(*i: Any) -> Any:
            value = self._distance(widened(data(*i)), i)
            return value, value * value

        space = [Axis(size, k in axes) for k, size in enumerate(data.shape)]
        self._total, self._squares = reduce_axes(
            space, element, _MOMENTS, data.op.name + "_red_temp"
        )

    def _distance(self, value: PrimExpr, indices: Sequence[Any]) -> PrimExpr:
        """Return a value, or its distance from the first element where sums are of these."""
        if not self._are_rows:
            return value
        difference: PrimExpr = value - widened(self._data(*indices[:-1], 0))
        return difference

    def mean(self, outer: Sequence[Any]) -> PrimExpr:
        """Return the mean at the indices of the axes that are kept."""
        mean: PrimExpr = self._total(*outer) / self._count
        if not self._are_rows:
            return mean
        first = tir.if_then_else(
            self._size > 0, widened(self._data(*outer, 0)), const(0, self._dtype)
        )
        shifted: PrimExpr = mean + first
        return shifted

    def estimated_variance(self, outer: Sequence[Any]) -> PrimExpr:
        """Return the unbiased estimate of the variance; of one value alone it is not known: NaN."""
        total = self._total(*outer)
        deviations: PrimExpr = self._squares(*outer) - total * (total / self._count)
        variance: PrimExpr = deviations / (self._count - const(1, self._dtype))
        return variance

    def normal(self, value: PrimExpr, indices: tuple, epsilon: float) -> PrimExpr:
        """Return ``(value - mean) / sqrt(variance + epsilon)`` in the dtype of the sums."""
        outer = [indices[k] for k in self._kept]
        distance = self._total(*outer) / self._count
        variance = self._squares(*outer) / self._count - distance * distance
        variance = tir.max(variance, const(0, self._dtype))  # the difference of rounded numbers
        scale = tir.rsqrt(variance + const(epsilon, self._dtype))
        return (self._distance(op.cast(self._dtype, value), indices) - distance) * scale


def layer_norm(
    data: Tensor, gamma: Tensor | None, beta: Tensor | None, axis: Axes = -1, epsilon: float = 1e-5
) -> Tensor:
    """Normalise over ``axis`` (one or several): ``(x - mean) / sqrt(variance + epsilon) * gamma +
    beta``.
    """
    axes = normalize_axes(axis, len(data.shape))
    moments = _Moments(data, axes)

    def element(*i: Any) -> PrimExpr:
        inner = [i[k] for k in axes]
        value = moments.normal(data(*i), i, epsilon)
        if gamma is not None:
            value = value * widened(gamma(*inner))
        return op.cast(data.dtype, value if beta is None else value + widened(beta(*inner)))

    return compute(data.shape, element, name="T_layer_norm", tag=tag.INJECTIVE)


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
    moments = _Moments(data, axes)

    def element(*i: Any) -> PrimExpr:
        value = moments.normal(data(*i), i, epsilon) * widened(gamma(i[channel_axis]))
        return op.cast(data.dtype, value + widened(beta(i[channel_axis])))

    return compute(data.shape, element, name="T_instance_norm", tag=tag.INJECTIVE)


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
    moments = _Moments(groups, sorted([channel_axis + 1, *normalised]))

    def element(*i: Any) -> PrimExpr:
        channel = i[channel_axis]
        split = (channel // per_group, channel % per_group)
        place = (*i[:channel_axis], *split, *i[channel_axis + 1 :])
        value = moments.normal(data(*i), place, epsilon)
        if gamma is not None:
            value = value * widened(gamma(channel))
        return op.cast(data.dtype, value if beta is None else value + widened(beta(channel)))

    return compute(data.shape, element, name="T_group_norm", tag=tag.INJECTIVE)


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
        value = widened(padded(*place))
        return te.sum(value * value, axis=k)

    total = compute(data.shape, squares, name="T_square_sum")

    def element(*i: Any) -> PrimExpr:
        value = widened(data(*i))
        base = const(bias, value.dtype) + const(alpha / size, value.dtype) * total(*i)
        return op.cast(data.dtype, value / tir.pow(base, const(beta, value.dtype)))

    return compute(data.shape, element, name="T_lrn", tag=tag.BROADCAST)


def rms_norm(data: Tensor, weight: Tensor, axis: Axes = -1, epsilon: float = 1e-5) -> Tensor:
    """Return ``x / sqrt(mean of squares + epsilon) * weight`` over ``axis``."""
    axes = normalize_axes(axis, len(data.shape))
    kept = [k for k in range(len(data.shape)) if k not in axes]
    space = [Axis(size, k in axes) for k, size in enumerate(data.shape)]

    def square(*i: Any) -> PrimExpr:
        value = widened(data(*i))
        return value * value

    squares = reduce_axes(space, square, te.sum, "T_multiply_red")
    count = op.cast(squares.dtype, product([data.shape[k] for k in axes]))

    def element(*i: Any) -> PrimExpr:
        outer, inner = [i[k] for k in kept], [i[k] for k in axes]
        scale = tir.rsqrt(squares(*outer) / count + const(epsilon, squares.dtype))
        return op.cast(data.dtype, widened(data(*i)) * scale * widened(weight(*inner)))

    return compute(data.shape, element, name="T_rms_norm", tag=tag.INJECTIVE)
