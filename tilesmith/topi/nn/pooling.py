"""Pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import widened
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.utils import (
    SPATIAL,
    Numbers,
    Padding,
    get_pad_tuple_generic,
    per_axis,
    windows_within,
)
from tilesmith.topi.utils import get_const_int, largest, lowest
from tilesmith.topi.variants import variant

__all__ = [
    "POOL_TYPE_CODE", "adaptive_pool", "adaptive_pool1d", "adaptive_pool3d", "global_pool",
    "pool1d", "pool2d", "pool3d",
]  # fmt: skip


POOL_TYPE_CODE = {"avg": 0, "max": 1}
"""Numbers that stand for the kinds of pooling in saved programs."""


def spatial_axes(layout: str, rank: int) -> list[int]:
    """Return the numbers of the spatial axes of a layout in which they are not split."""
    letters = SPATIAL[rank]
    axes = [layout.find(letter) for letter in letters]
    if any(axis < 0 for axis in axes) or any(
        letter.islower() and letter in "dhw" for letter in layout
    ):
        raise UnsupportedError(
            f"Unsupported layout '{layout}' of pooling: it has no plain axes {letters}"
        )
    return axes


@dataclass(frozen=True)
class Windows:
    """The windows of a pooling: sizes, steps and padding, one number for each spatial axis."""

    axes: list[int]
    kernel: list[int]
    stride: list[int]
    dilation: list[int]
    before: list[int]
    after: list[int]

    def first(self, k: int, window: PrimExpr) -> PrimExpr:
        """Return the index of the data at which a window starts along the k-th spatial axis."""
        return window * self.stride[k] - self.before[k]

    def count(
        self, k: int, window: PrimExpr, size: PrimExpr, ceil_mode: bool, include_pad: bool
    ) -> PrimExpr | int:
        """Return how many elements of a window count along the k-th spatial axis."""
        is_padded = self.before[k] > 0 or self.after[k] > 0
        if not ceil_mode and (include_pad or not is_padded):
            return self.kernel[k]  # without ceil_mode each window lies within the padded data
        start = self.first(k, window)
        last = size + self.after[k] if include_pad else size
        end = op.minimum(start + (self.kernel[k] - 1) * self.dilation[k] + 1, last)
        first = start if include_pad else op.maximum(start, const(0, start.dtype))
        return op.floordiv(end - first + self.dilation[k] - 1, self.dilation[k])


def windows_of(
    layout: str, rank: int, kernel: Numbers, stride: Numbers, dilation: Numbers, padding: Padding
) -> Windows:
    """Return the windows that the parameters of a pooling describe."""
    sizes = per_axis(kernel, rank, "kernel")
    before, after = get_pad_tuple_generic(padding, sizes)
    return Windows(
        spatial_axes(layout, rank),
        sizes,
        per_axis(stride, rank, "stride"),
        per_axis(dilation, rank, "dilation"),
        before,
        after,
    )


def _pool(
    data: Tensor, windows: Windows, pool_type: str, ceil_mode: bool, count_include_pad: bool
) -> Tensor:
    if pool_type not in ("max", "avg"):
        raise UnsupportedError(f"pooling: type '{pool_type}' is neither max nor avg")
    kernel, stride, dilation = windows.kernel, windows.stride, windows.dilation
    shape = list(data.shape)
    pad_before, pad_after = [0] * len(shape), [0] * len(shape)
    for k, axis in enumerate(windows.axes):
        after = windows.after[k] + (stride[k] - 1 if ceil_mode else 0)
        size = data.shape[axis] + windows.before[k] + after
        shape[axis] = windows_within(size, kernel[k], stride[k], dilation[k])
        pad_before[axis], pad_after[axis] = windows.before[k], after
    iterators = [te.reduce_axis((0, size), name=f"rv{k}") for k, size in enumerate(kernel)]

    def place(indices: tuple) -> list[Any]:
        own = list(indices)
        for k, axis in enumerate(windows.axes):
            own[axis] = indices[axis] * stride[k] + iterators[k] * dilation[k]
        return own

    if pool_type == "max":
        padded = pad(data, pad_before, pad_after, lowest(data.dtype), name="pad_temp")

        def greatest(*i: Any) -> PrimExpr:
            found: PrimExpr = largest(padded(*place(i)), axis=iterators)
            return found

        return compute(shape, greatest, name="pool_max", tag="pool_max")
    padded = pad(data, pad_before, pad_after, 0, name="pad_temp")
    total = compute(
        shape,
        lambda *i: te.sum(widened(padded(*place(i))), axis=iterators),
        name="pool_sum",
        tag="pool_sum",
    )

    def average(*indices: Any) -> PrimExpr:
        divisor: PrimExpr = const(1, indices[windows.axes[0]].dtype)
        for k, axis in enumerate(windows.axes):
            divisor = divisor * windows.count(
                k, indices[axis], data.shape[axis], ceil_mode, count_include_pad
            )
        count = op.maximum(divisor, const(1, divisor.dtype))
        return op.cast(data.dtype, _divide(total(*indices), count))

    return compute(shape, average, name="pool_avg", tag="pool_avg")


def _divide(value: PrimExpr, count: PrimExpr) -> PrimExpr:
    divisor = op.cast(value.dtype, count)
    return value / divisor if value.dtype.is_float else op.truncdiv(value, divisor)


def _pool_layout(
    rank: int,
    data: Tensor,
    kernel: Numbers,
    stride: Numbers,
    dilation: Numbers,
    padding: Padding,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "",
    count_include_pad: bool = True,
) -> Tensor:
    windows = windows_of(layout, rank, kernel, stride, dilation, padding)
    return _pool(data, windows, pool_type, ceil_mode, count_include_pad)


pool1d = variant(
    "pool1d", _pool_layout, 1, "Pool along W; parameters as in `pool2d`.", layout="NCW"
)
pool2d = variant(
    "pool2d",
    _pool_layout,
    2,
    """Return the largest element ("max") or the mean ("avg") of each window.

    ``padding``: see `get_pad_tuple_generic`; its elements are never the largest, and count in the
    mean with ``count_include_pad`` only. ``ceil_mode`` keeps a last window that is cut off by the
    end. Integers are divided toward zero. Raises UnsupportedError for layouts with split axes.
    """,
    layout="NCHW",
)
pool3d = variant(
    "pool3d", _pool_layout, 3, "Pool along D, H and W; parameters as in `pool2d`.", layout="NCDHW"
)


def _adaptive_pool(
    data: Tensor, output_size: Numbers | None, pool_type: str, layout: str, rank: int
) -> Tensor:
    if pool_type not in ("max", "avg"):
        raise UnsupportedError(f"pooling: type '{pool_type}' is neither max nor avg")
    axes = spatial_axes(layout, rank)
    sizes = [get_const_int(data.shape[axis]) for axis in axes]
    wanted = sizes if output_size is None else per_axis(output_size, rank, "output_size")
    shape = list(data.shape)
    windows = []
    for axis, size, target in zip(axes, sizes, wanted):
        shape[axis] = const(target, data.shape[axis].dtype)
        windows.append(
            max(-(-(k + 1) * size // target) - k * size // target for k in range(target))
        )
    iterators = [te.reduce_axis((0, window), name=f"rv{k}") for k, window in enumerate(windows)]

    def bounds(k: int, index: Any) -> tuple[Any, Any]:
        start = op.floordiv(index * sizes[k], wanted[k])
        end = op.floordiv((index + 1) * sizes[k] + (wanted[k] - 1), wanted[k])
        return start, end

    even = all(size % target == 0 for size, target in zip(sizes, wanted))

    def element(*indices: Any) -> PrimExpr:
        own, inside = list(indices), []
        for k, axis in enumerate(axes):
            start, end = bounds(k, indices[axis])
            own[axis] = start + iterators[k]
            inside.append(op.less(start + iterators[k], end))
        value = data(*own)
        if not even:
            missing = lowest(data.dtype) if pool_type == "max" else const(0, data.dtype)
            value = tir.if_then_else(tir.all(*inside), value, missing)
        if pool_type == "max":
            greatest: PrimExpr = largest(value, axis=iterators)
            return greatest
        return te.sum(widened(value), axis=iterators)

    if pool_type == "max":
        return compute(shape, element, name="adaptive_pool_max", tag="adaptive_pool_max")
    total = compute(shape, element, name="adaptive_pool_sum", tag="adaptive_pool_sum")

    def average(*indices: Any) -> PrimExpr:
        count: Any = const(1, indices[axes[0]].dtype)
        for k, axis in enumerate(axes):
            start, end = bounds(k, indices[axis])
            count = count * (windows[k] if even else end - start)
        return op.cast(data.dtype, _divide(total(*indices), count))

    return compute(shape, average, name="adaptive_pool_avg", tag="elemwise")


def adaptive_pool(
    data: Tensor, output_size: Numbers | None, pool_type: str, layout: str = "NCHW"
) -> Tensor:
    """Pool to a given output size: part k of n covers ``floor(k*I/n)`` to ``ceil((k+1)*I/n)``.

    ``output_size`` is one number or (height, width), None keeps the size. Sizes are constants;
    raises ShapeError for symbolic ones.
    """
    return _adaptive_pool(data, output_size, pool_type, layout, 2)


def adaptive_pool1d(
    data: Tensor, output_size: Numbers | None, pool_type: str, layout: str = "NCW"
) -> Tensor:
    """Pool along W to a given output size; see `adaptive_pool`."""
    return _adaptive_pool(data, output_size, pool_type, layout, 1)


def adaptive_pool3d(
    data: Tensor, output_size: Numbers | None, pool_type: str, layout: str = "NCDHW"
) -> Tensor:
    """Pool along D, H and W to a given output size; see `adaptive_pool`."""
    return _adaptive_pool(data, output_size, pool_type, layout, 3)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pool all spatial elements to one for each channel."""
    return adaptive_pool(data, [1, 1], pool_type, layout)
