"""Pooling."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.utils import get_const_int, simplify

__all__ = ["adaptive_pool", "global_pool", "pool1d", "pool2d", "pool3d"]


def _spatial_axes(layout: str, count: int) -> list[int]:
    letters = "DHW"[-count:]
    axes = [layout.find(letter) for letter in letters]
    if any(axis < 0 for axis in axes) or any(
        letter.islower() and letter in "dhw" for letter in layout
    ):
        raise UnsupportedError(f"pooling: layout '{layout}' has no plain axes {letters}")
    return axes


def _pool(
    data: Tensor,
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
    padding: list[int],
    pool_type: str,
    ceil_mode: bool,
    layout: str,
    count_include_pad: bool,
) -> Tensor:
    count = len(kernel)
    axes = _spatial_axes(layout, count)
    before, after = list(padding[:count]), list(padding[count:])
    if ceil_mode:
        after = [amount + step - 1 for amount, step in zip(after, stride)]
    shape = list(data.shape)
    pad_before, pad_after = [0] * len(shape), [0] * len(shape)
    for k, axis in enumerate(axes):
        free = data.shape[axis] - (kernel[k] - 1) * dilation[k] - 1 + before[k] + after[k]
        shape[axis] = simplify(op.floordiv(free, stride[k]) + 1)
        pad_before[axis], pad_after[axis] = before[k], after[k]
    iterators = [te.reduce_axis((0, kernel[k]), name=f"rv{k}") for k in range(count)]

    def place(indices: tuple) -> list[Any]:
        own = list(indices)
        for k, axis in enumerate(axes):
            own[axis] = indices[axis] * stride[k] + iterators[k] * dilation[k]
        return own

    if pool_type == "max":
        worst = tir.min_value(data.dtype)
        padded = pad(data, pad_before, pad_after, worst, name="pad_temp")
        largest = lambda *i: te.max(padded(*place(i)), axis=iterators)  # noqa: E731
        return te.compute(shape, largest, name="pool_max", tag="pool_max")
    if pool_type != "avg":
        raise UnsupportedError(f"pooling: type '{pool_type}' is neither max nor avg")
    padded = pad(data, pad_before, pad_after, 0, name="pad_temp")
    total = te.compute(
        shape, lambda *i: te.sum(padded(*place(i)), axis=iterators), name="pool_sum", tag="pool_sum"
    )
    original_after = list(padding[count:])

    def count_of(k: int, index: PrimExpr) -> PrimExpr | int:
        """How many elements of a window count along an axis."""
        if not any(padding) and not ceil_mode:
            return kernel[k]
        start, size = index * stride[k] - before[k], data.shape[axes[k]]
        last = size + original_after[k] if count_include_pad else size
        end = op.minimum(start + (kernel[k] - 1) * dilation[k] + 1, last)
        first = start if count_include_pad else op.maximum(start, const(0, start.dtype))
        return op.floordiv(end - first + dilation[k] - 1, dilation[k])

    def average(*indices: Any) -> PrimExpr:
        divisor: PrimExpr = const(1, indices[axes[0]].dtype)
        for k, axis in enumerate(axes):
            divisor = divisor * count_of(k, indices[axis])
        return _divide(total(*indices), op.maximum(divisor, const(1, divisor.dtype)))

    return te.compute(shape, average, name="pool_avg", tag="pool_avg")


def _divide(value: PrimExpr, count: PrimExpr) -> PrimExpr:
    divisor = op.cast(value.dtype, count)
    return value / divisor if value.dtype.is_float else op.truncdiv(value, divisor)


def pool2d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pooling of windows; ``padding`` is top, left, bottom, right; ``pool_type`` "max" or "avg"."""
    numbers = [[int(v) for v in values] for values in (kernel, stride, dilation, padding)]
    return _pool(data, *numbers, pool_type, ceil_mode, layout, count_include_pad)


def pool1d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pooling along one axis; ``padding`` is before, after."""
    numbers = [
        [int(v) for v in (values if isinstance(values, (list, tuple)) else [values])]
        for values in (kernel, stride, dilation, padding)
    ]
    return _pool(data, *numbers, pool_type, ceil_mode, layout, count_include_pad)


def pool3d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pooling of boxes; ``padding`` is three numbers before and three after."""
    numbers = [[int(v) for v in values] for values in (kernel, stride, dilation, padding)]
    return _pool(data, *numbers, pool_type, ceil_mode, layout, count_include_pad)


def adaptive_pool(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pooling to a given output size: window k covers ``floor(k*I/O)`` to ``ceil((k+1)*I/O)``."""
    axes = _spatial_axes(layout, 2)
    wanted = [int(size) for size in output_size]
    sizes = [get_const_int(data.shape[axis]) for axis in axes]
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
            missing = tir.min_value(data.dtype) if pool_type == "max" else const(0, data.dtype)
            value = tir.if_then_else(tir.all(*inside), value, missing)
        return (te.max if pool_type == "max" else te.sum)(value, axis=iterators)

    if pool_type == "max":
        return te.compute(shape, element, name="adaptive_pool_max", tag="adaptive_pool_max")
    if pool_type != "avg":
        raise UnsupportedError(f"pooling: type '{pool_type}' is neither max nor avg")
    total = te.compute(shape, element, name="adaptive_pool_sum", tag="adaptive_pool_sum")

    def average(*indices: Any) -> PrimExpr:
        count: Any = const(1, indices[axes[0]].dtype)
        for k, axis in enumerate(axes):
            start, end = bounds(k, indices[axis])
            count = count * (windows[k] if even else end - start)
        return _divide(total(*indices), count)

    return te.compute(shape, average, name="adaptive_pool_avg", tag="elemwise")


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pooling of everything to one element for each channel."""
    return adaptive_pool(data, [1, 1], pool_type, layout)
