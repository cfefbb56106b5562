"""Pooling in numpy: window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilesmith.support.errors import UnsupportedError

__all__ = [
    "adaptive_pool", "adaptive_pool_channel_first", "adaptive_pool_channel_last", "pool_grad_nchw",
    "poolnd_python",
]  # fmt: skip


def _count(size: int, kernel: int, stride: int, dilation: int, ceil_mode: bool) -> int:
    """Return how many windows there are in a padded axis."""
    room = size - ((kernel - 1) * dilation + 1)
    return (math.ceil(room / stride) if ceil_mode else room // stride) + 1


class _Windows:
    """The elements of the data in each window, along one axis: those that exist, and how many count
    with the padding.
    """

    def __init__(
        self,
        size: int,
        kernel: int,
        stride: int,
        dilation: int,
        padding: tuple[int, int],
        ceil_mode: bool,
    ) -> None:
        before, after = padding
        self.places: list[list[int]] = []
        self.padded: list[int] = []
        for window in range(_count(size + before + after, kernel, stride, dilation, ceil_mode)):
            start = window * stride - before
            all_places = [start + k * dilation for k in range(kernel)]
            self.places.append([place for place in all_places if 0 <= place < size])
            self.padded.append(sum([-before <= place < size + after for place in all_places]))


def poolnd_python(
    np_data: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding_before: Sequence[int],
    padding_after: Sequence[int],
    pool_type: str,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    dtype: str = "float32",
    layout: str | None = None,
) -> np.ndarray:
    """Return the largest element ("max") or the mean ("avg") of each window over the spatial axes:
    those named D, H and W in ``layout``, by default all but the first two.
    """
    if pool_type not in ("max", "avg"):
        raise UnsupportedError(f"pooling: type '{pool_type}' is neither max nor avg")
    if layout is None:
        axes = list(range(2, np_data.ndim))
    else:
        axes = [k for k, letter in enumerate(layout) if letter in "DHW"]
    along = [
        _Windows(np_data.shape[axis], *numbers, ceil_mode)
        for axis, *numbers in zip(
            axes, kernel, strides, dilation, zip(padding_before, padding_after)
        )
    ]
    moved = np.moveaxis(np_data, axes, range(-len(axes), 0))
    outer = moved.shape[: -len(axes)]
    counts = [len(windows.places) for windows in along]
    out = np.zeros((*outer, *counts), dtype)
    for window in np.ndindex(*counts):
        chosen = [windows.places[k] for windows, k in zip(along, window)]
        values = moved[(..., *np.ix_(*chosen))].reshape(*outer, -1)
        if pool_type == "max":
            out[(..., *window)] = values.max(-1) if values.size else _lowest(dtype)
            continue
        real = values.shape[-1]
        padded = math.prod([windows.padded[k] for windows, k in zip(along, window)])
        divisor = max(padded if count_include_pad else real, 1)
        total = values.sum(-1, dtype="float64" if values.dtype.kind == "f" else "int64")
        out[(..., *window)] = total / divisor if out.dtype.kind == "f" else total // divisor
    return np.moveaxis(out, range(-len(axes), 0), axes)


def _lowest(dtype: str) -> Any:
    kind = np.dtype(dtype)
    return -np.inf if kind.kind == "f" else np.iinfo(kind).min


def pool_grad_nchw(
    a_np: np.ndarray,
    out_grad_np: np.ndarray,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    pool_type: str,
    ceil_mode: bool,
    count_include_pad: bool = True,
) -> np.ndarray:
    """Return the gradient of pooling by its NCHW data, from that of its result: to the first
    largest element of a window, or in equal parts to those that counted in the mean.

    ``padding``: top, left, bottom, right.
    """
    top, left, bottom, right = padding
    rows, columns = [
        _Windows(size, kernel, stride, 1, sides, ceil_mode)
        for size, kernel, stride, sides in zip(
            a_np.shape[2:], pool_size, strides, ((top, bottom), (left, right))
        )
    ]
    result = np.zeros(a_np.shape, out_grad_np.dtype)
    for n, c, y, x in np.ndindex(*out_grad_np.shape):
        ys, xs = rows.places[y], columns.places[x]
        if not ys or not xs:
            continue
        gradient = out_grad_np[n, c, y, x]
        part = np.ix_(ys, xs)
        if pool_type == "max":
            v, u = divmod(int(a_np[n, c][part].argmax()), len(xs))
            result[n, c, ys[v], xs[u]] += gradient
            continue
        real, padded = len(ys) * len(xs), rows.padded[y] * columns.padded[x]
        result[n, c][part] += gradient / (padded if count_include_pad else real)
    return result


def _parts(size: int, count: int) -> list[slice]:
    return [slice(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]


def adaptive_pool_channel_first(
    np_data: np.ndarray,
    out_size: Sequence[int],
    pool_op: str,
    np_op: Callable[..., Any],
) -> np.ndarray:
    """Apply ``np_op`` (such as `numpy.mean`) to the parts of the axes after the first two."""
    return _adaptive(np_data, out_size, range(2, np_data.ndim), np_op)


def adaptive_pool_channel_last(
    np_data: np.ndarray,
    out_size: Sequence[int],
    pool_op: str,
    np_op: Callable[..., Any],
) -> np.ndarray:
    """Apply ``np_op`` (such as `numpy.mean`) to the parts of the axes between the batch and the
    channels.
    """
    return _adaptive(np_data, out_size, range(1, np_data.ndim - 1), np_op)


def _adaptive(
    data: np.ndarray, out_size: Sequence[int], axes: Sequence[int], reduce: Callable[..., Any]
) -> np.ndarray:
    moved = np.moveaxis(data, list(axes), range(-len(axes), 0))
    sizes = moved.shape[-len(axes) :]
    parts = [_parts(size, count) for size, count in zip(sizes, out_size)]
    out = np.zeros((*moved.shape[: -len(axes)], *out_size), data.dtype)
    for place in np.ndindex(*out_size):
        window = tuple([own[k] for own, k in zip(parts, place)])
        values = moved[(..., *window)]
        out[(..., *place)] = reduce(values, axis=tuple(range(-len(axes), 0)))
    return np.moveaxis(out, range(-len(axes), 0), list(axes))


def adaptive_pool(
    np_data: np.ndarray, out_size: int | Sequence[int], pool_type: str, layout: str
) -> np.ndarray:
    """Pool to a given size: part k of n covers ``floor(k*I/n)`` to ``ceil((k+1)*I/n)``."""
    if pool_type not in ("max", "avg"):
        raise UnsupportedError(f"pooling: type '{pool_type}' is neither max nor avg")
    rank = len(layout) - 2
    sizes = [out_size] * rank if isinstance(out_size, int) else list(out_size)
    reduce = np.mean if pool_type == "avg" else np.max
    if layout.endswith("C"):
        return adaptive_pool_channel_last(np_data, sizes, pool_type, reduce)
    return adaptive_pool_channel_first(np_data, sizes, pool_type, reduce)
