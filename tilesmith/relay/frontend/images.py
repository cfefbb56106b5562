"""Convolutions, windows and products as models of other tools describe them.

Images have a batch, one to three axes in space, and channels: last, or at axis 1 (``first``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.op.view import rank_of, sizes
from tilesmith.support.errors import ShapeError

__all__ = [
    "channels_first", "channels_last", "convolution", "data_layout", "dense", "global_pool",
    "kernel_for", "matmul", "pool", "same_padding", "space_sizes", "transposed",
]  # fmt: skip

_SPACE = {1: "W", 2: "HW", 3: "DHW"}
_DIMS = {1: "1d", 2: "2d", 3: "3d"}


def data_layout(count: int, first: bool) -> str:
    """Return the layout of images with ``count`` axes in space."""
    return f"NC{_SPACE[count]}" if first else f"N{_SPACE[count]}C"


def channels_first(x: Any) -> Any:
    """Move the last axis to place 1."""
    rank = rank_of(x)
    return op.transpose(x, [0, rank - 1, *range(1, rank - 1)])


def channels_last(x: Any) -> Any:
    """Move axis 1 to the end."""
    rank = rank_of(x)
    return op.transpose(x, [0, *range(2, rank), 1])


def space_sizes(x: Any, first: bool) -> tuple[int, ...]:
    """Return the sizes of an image in space; raises ShapeError where one is not known."""
    whole = sizes(x)
    found = whole[2:] if first else whole[1:-1]
    if not all(isinstance(size, int) for size in found):
        raise ShapeError(
            "the sizes of this image have to be known here",
            notes=("give the inputs their shapes: shape={name: (1, 224, 224, 3)}",),
        )
    return tuple(found)


def same_padding(
    space: Sequence[int], window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """Return the padding (at all beginnings, then at all ends) such that a window in steps gives
    ``ceil(size / stride)`` results; an odd element lies at the end.
    """
    before, after = [], []
    for size, reach, stride, step in zip(space, window, strides, dilation):
        covered = (-(-size // stride) - 1) * stride + (reach - 1) * step + 1
        total = max(covered - size, 0)
        before.append(total // 2)
        after.append(total - total // 2)
    return before + after


def kernel_for(kernel: numpy.ndarray, first: bool) -> tuple[numpy.ndarray, str]:
    """Return a kernel whose last axes are inputs and outputs as it lies beside such images, and
    that layout. For a transposed convolution the last axes are outputs and inputs.
    """
    count = kernel.ndim - 2
    if not first:
        return kernel, f"{_SPACE[count]}IO"
    return kernel.transpose([count + 1, count, *range(count)]), f"OI{_SPACE[count]}"


def convolution(
    x: Any,
    weight: Any,
    kernel_layout: str,
    first: bool,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Any:
    """Return a convolution; the sizes of the window and the channels are those of the weight."""
    count = len(strides)
    form = sizes(weight)
    return getattr(op.nn, f"conv{_DIMS[count]}")(
        x, weight, tuple(strides), tuple(padding), tuple(dilation), groups,
        channels=form[kernel_layout.index("O")],
        kernel_size=tuple([form[kernel_layout.index(letter)] for letter in _SPACE[count]]),
        data_layout=data_layout(count, first), kernel_layout=kernel_layout,
    )  # fmt: skip


def transposed(
    x: Any,
    weight: Any,
    first: bool,
    strides: Sequence[int],
    dilation: Sequence[int],
    results: Sequence[int],
    same: bool,
) -> Any:
    """Return a transposed convolution with results of a size: the gradient of the convolution that
    makes images like ``x`` of such results, with the padding "same" or none.

    The weight has the layout IO and space (``first``), or space and OI.
    """
    count = len(strides)
    form = sizes(weight)
    window = form[2:] if first else form[:count]
    channels = form[1] if first else form[count]
    before, after, more = [], [], []
    for size, reach, stride, step, result in zip(
        space_sizes(x, first), window, strides, dilation, results
    ):
        full = (size - 1) * stride + (reach - 1) * step + 1
        cut = max(full - result, 0)
        before.append(cut // 2 if same else 0)
        after.append(cut - before[-1])
        more.append(max(result - full, 0))
    extra = [max(value - stride + 1, 0) for value, stride in zip(more, strides)]
    layout = f"IO{_SPACE[count]}" if first else f"{_SPACE[count]}OI"
    made = getattr(op.nn, f"conv{_DIMS[count]}_transpose")(
        x, weight, tuple(strides), tuple(before + after), tuple(dilation), 1, channels,
        tuple(window), data_layout=data_layout(count, first), kernel_layout=layout,
        output_padding=tuple([value - over for value, over in zip(more, extra)]),
    )  # fmt: skip
    if any(extra):  # beyond a stride: nothing reaches these results
        pairs = [(0, value) for value in extra]
        made = op.nn.pad(made, [(0, 0), (0, 0), *pairs] if first else [(0, 0), *pairs, (0, 0)])
    return made


def pool(
    kind: str,
    x: Any,
    first: bool,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
) -> Any:
    """Return the greatest ("max") or mean ("avg") element of each window; padding does not
    count.
    """
    count = len(window)
    function = getattr(op.nn, f"{kind}_pool{_DIMS[count]}")
    return function(
        x, tuple(window), tuple(strides), padding=tuple(padding), layout=data_layout(count, first)
    )


def global_pool(kind: str, x: Any, first: bool, keepdims: bool) -> Any:
    """Return the greatest or mean element of each channel."""
    rank = rank_of(x)
    axes = list(range(2, rank)) if first else list(range(1, rank - 1))
    return (op.max if kind == "max" else op.mean)(x, axes, keepdims)


# Products


def dense(x: Any, weight: Any) -> Any:
    """Return the product of the last axis with the rows of a weight (outputs, inputs)."""
    whole = sizes(x)
    if len(whole) == 2:
        return op.nn.dense(x, weight)
    outputs, inputs = sizes(weight)
    rows = op.nn.dense(op.reshape(x, (-1, inputs)), weight)
    return op.reshape(rows, (*_open(whole[:-1]), outputs))


def _open(whole: Sequence[Any]) -> tuple[Any, ...]:
    """Return sizes for `reshape`, one that is not known as -1."""
    return tuple([size if isinstance(size, int) else -1 for size in whole])


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    """Return products of the matrices in the last two axes; those before are broadcast."""
    left, right = list(sizes(a)), list(sizes(b))
    if len(left) == len(right) == 2:
        return op.nn.matmul(a, b, None, "", transpose_a, transpose_b)
    batch = list(numpy.broadcast_shapes(tuple(left[:-2]), tuple(right[:-2])))
    a, b = _batched(a, left, batch), _batched(b, right, batch)
    made = op.nn.batch_matmul(a, b, "", transpose_a, transpose_b)
    rows = left[-1] if transpose_a else left[-2]
    columns = right[-2] if transpose_b else right[-1]
    return op.reshape(made, (*batch, rows, columns))


def _batched(x: Any, whole: Sequence[int], batch: Sequence[int]) -> Any:
    if list(whole[:-2]) != list(batch):
        x = op.broadcast_to(x, (*batch, *whole[-2:]))
    return op.reshape(x, (int(numpy.prod(batch)), *whole[-2:]))
