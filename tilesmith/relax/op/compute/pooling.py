"""Poolings as tensor expressions."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir, topi
from tilesmith.ir.operators import cast, const, floordiv
from tilesmith.relax.op.convolution import SPATIAL, repeat
from tilesmith.support.errors import UnsupportedError
from tilesmith.topi.utils import get_const_int


def _pool(rank: int, kind: str, attrs: Any, data: Any) -> Any:
    if attrs.out_layout not in (None, attrs.layout):
        raise UnsupportedError("a pooling that changes the layout has no compute")
    function = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}[rank]
    return function(
        data,
        list(attrs.pool_size),
        list(attrs.strides),
        list(attrs.dilation),
        list(attrs.padding),
        kind,
        attrs.ceil_mode,
        attrs.layout,
        attrs.count_include_pad,
    )


def max_pool1d(attrs: Any, data: Any) -> Any:
    """The largest value of each window."""
    return _pool(1, "max", attrs, data)


def max_pool2d(attrs: Any, data: Any) -> Any:
    """The largest value of each window."""
    return _pool(2, "max", attrs, data)


def max_pool3d(attrs: Any, data: Any) -> Any:
    """The largest value of each window."""
    return _pool(3, "max", attrs, data)


def avg_pool1d(attrs: Any, data: Any) -> Any:
    """The mean of each window."""
    return _pool(1, "avg", attrs, data)


def avg_pool2d(attrs: Any, data: Any) -> Any:
    """The mean of each window."""
    return _pool(2, "avg", attrs, data)


def avg_pool3d(attrs: Any, data: Any) -> Any:
    """The mean of each window."""
    return _pool(3, "avg", attrs, data)


def _adaptive(rank: int, kind: str, attrs: Any, data: Any) -> Any:
    """Parts from ``floor(i * size / parts)`` to ``ceil((i + 1) * size / parts)``."""
    axes = [attrs.layout.index(letter) for letter in SPATIAL[rank]]
    sizes = [get_const_int(data.shape[axis]) for axis in axes]
    wanted = sizes if attrs.output_size is None else repeat(attrs.output_size, rank)
    shape = list(data.shape)
    windows = []
    for axis, size, parts in zip(axes, sizes, wanted):
        shape[axis] = const(parts, data.shape[axis].dtype)
        spans = [-(-(i + 1) * size // parts) - i * size // parts for i in range(parts)]
        windows.append(max(spans))
    even = all(size % parts == 0 for size, parts in zip(sizes, wanted))
    iterators = [te.reduce_axis((0, extent), name=f"rv{n}") for n, extent in enumerate(windows)]
    worst = tir.min_value(data.dtype) if kind == "max" else const(0, data.dtype)

    def bounds(n: int, index: Any) -> tuple[Any, Any]:
        first = floordiv(index * sizes[n], wanted[n])
        return first, floordiv((index + 1) * sizes[n] + (wanted[n] - 1), wanted[n])

    def element(*indices: Any) -> Any:
        place, inside = list(indices), []
        for n, axis in enumerate(axes):
            first, last = bounds(n, indices[axis])
            place[axis] = first + iterators[n]
            inside.append(place[axis] < last)
        value = data(*place)
        if not even:
            value = tir.if_then_else(tir.all(*inside), value, worst)
        return (te.max if kind == "max" else te.sum)(value, axis=iterators)

    pooled = te.compute(shape, element, name=f"adaptive_{kind}_pool", tag=f"adaptive_pool_{kind}")
    if kind == "max":
        return pooled

    def mean(*indices: Any) -> Any:
        count = const(1, "int64")
        for n, axis in enumerate(axes):
            first, last = bounds(n, indices[axis])
            count = count * cast("int64", last - first)
        divisor = cast(data.dtype, count)
        value = pooled(*indices)
        return value / divisor if data.dtype.is_float else tir.truncdiv(value, divisor)

    return te.compute(shape, mean, name="adaptive_avg", tag="elemwise")


def adaptive_avg_pool1d(attrs: Any, data: Any) -> Any:
    """The mean of equal parts."""
    return _adaptive(1, "avg", attrs, data)


def adaptive_avg_pool2d(attrs: Any, data: Any) -> Any:
    """The mean of equal parts."""
    return _adaptive(2, "avg", attrs, data)


def adaptive_avg_pool3d(attrs: Any, data: Any) -> Any:
    """The mean of equal parts."""
    return _adaptive(3, "avg", attrs, data)


def adaptive_max_pool1d(attrs: Any, data: Any) -> Any:
    """The largest value of equal parts."""
    return _adaptive(1, "max", attrs, data)


def adaptive_max_pool2d(attrs: Any, data: Any) -> Any:
    """The largest value of equal parts."""
    return _adaptive(2, "max", attrs, data)


def adaptive_max_pool3d(attrs: Any, data: Any) -> Any:
    """The largest value of equal parts."""
    return _adaptive(3, "max", attrs, data)
