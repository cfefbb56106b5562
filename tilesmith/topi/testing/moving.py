"""Slices, look-ups, masks and rearrangements in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "batch_to_space_nd_python", "depth_to_space_python", "gather_nd_python", "gather_python",
    "get_slice", "matrix_set_diag", "one_hot", "pad_tensor", "reorg_python", "searchsorted_ref",
    "sequence_mask", "slice_axis_python", "space_to_batch_nd_python", "space_to_depth_python",
    "strided_set_python", "strided_slice_python",
]  # fmt: skip


def strided_slice_python(
    data: np.ndarray,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None,
    slice_mode: str = "end",
    axes: Sequence[int] | None = None,
) -> np.ndarray:
    """Return ``data[begin:end:strides]`` along ``axes``; with ``slice_mode="size"`` ends are
    lengths, -1 for the rest.
    """
    places = [slice(None)] * data.ndim
    for number, axis in enumerate(range(len(begin)) if axes is None else axes):
        first, last = int(begin[number]), int(end[number]) if number < len(end) else None
        if slice_mode == "size":
            places[axis] = slice(first, None if last in (None, -1) else first + last)
            continue
        step = int(strides[number % len(strides)]) if strides is not None and len(strides) else 1
        places[axis] = slice(first, last, step)
    return data[tuple(places)]


def strided_set_python(
    data: np.ndarray,
    v: np.ndarray,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None,
) -> np.ndarray:
    """Return the data after ``data[begin:end:strides] = v``."""
    steps = [1] * len(begin) if strides is None or len(strides) == 0 else strides
    result = data.copy()
    result[tuple([slice(int(b), int(e), int(s)) for b, e, s in zip(begin, end, steps)])] = v
    return result


def slice_axis_python(
    data: np.ndarray, axis: int, begin: int, end: int | None = None
) -> np.ndarray:
    """Return ``data[begin:end]`` along an axis."""
    return data[
        tuple(
            [slice(begin, end) if k == axis % data.ndim else slice(None) for k in range(data.ndim)]
        )
    ]


def gather_python(data: np.ndarray, axis: int, indices: np.ndarray) -> np.ndarray:
    """Return the elements at ``indices`` along an axis, elementwise in the others."""
    return np.take_along_axis(data, indices.astype("int64"), axis)


def gather_nd_python(a_np: np.ndarray, indices_np: np.ndarray) -> np.ndarray:
    """Return slices at index tuples, which stand along the first axis of the indices."""
    return a_np[tuple(indices_np.astype("int64"))]


def one_hot(
    indices: np.ndarray, on_value: Any, off_value: Any, depth: int, axis: int, dtype: Any
) -> np.ndarray:
    """Return ``on_value`` where a new axis has the index, ``off_value`` elsewhere."""
    hot = indices[..., None] == np.arange(depth)
    last = indices.ndim
    return np.moveaxis(np.where(hot, on_value, off_value).astype(dtype), last, axis)


def sequence_mask(
    data: np.ndarray, valid_length: np.ndarray, mask_value: float, axis: int
) -> np.ndarray:
    """Set the elements of a sequence from its valid length on; sequences run along ``axis``, 0 or
    1, the other one numbers them.
    """
    result = data.copy()
    for number, length in enumerate(valid_length):
        place = [slice(None), slice(None)]
        place[axis], place[1 - axis] = slice(int(length), None), number
        result[tuple(place)] = mask_value
    return result


def matrix_set_diag(
    input_np: np.ndarray,
    diagonal: np.ndarray,
    k: int | Sequence[int] = 0,
    align: str = "RIGHT_LEFT",
) -> np.ndarray:
    """Return matrices with diagonals replaced; parameters as in `topi.matrix_set_diag`."""
    several = not isinstance(k, (int, np.integer))
    low, high = (int(k[0]), int(k[-1])) if several else (int(k), int(k))  # type: ignore[index,arg-type]
    rows, columns = input_np.shape[-2:]
    above, below = align.split("_")
    result = input_np.copy()
    for number in range(low, high + 1):
        own = diagonal[..., high - number, :] if low != high else diagonal
        length = min(columns - max(number, 0), rows + min(number, 0))
        side = above if number >= 0 else below
        skipped = own.shape[-1] - length if side == "RIGHT" else 0
        for place in range(length):
            row, column = place - min(number, 0), place + max(number, 0)
            result[..., row, column] = own[..., skipped + place]
    return result


def searchsorted_ref(
    sorted_sequence: np.ndarray, values: np.ndarray, right: bool, out_dtype: Any
) -> np.ndarray:
    """Return where values would be inserted, in a sequence or in one for each row."""
    side = "right" if right else "left"
    if sorted_sequence.ndim == 1:
        return np.searchsorted(sorted_sequence, values, side).astype(out_dtype)
    rows = sorted_sequence.reshape(-1, sorted_sequence.shape[-1])
    wanted = values.reshape(-1, values.shape[-1])
    found = [np.searchsorted(row, own, side) for row, own in zip(rows, wanted)]
    return np.array(found).reshape(values.shape).astype(out_dtype)


def pad_tensor(
    np_arr: np.ndarray,
    pad_value: float,
    padding_before: Sequence[int],
    padding_after: Sequence[int],
    dtype: Any,
) -> np.ndarray:
    """Pad an array with a value at both ends of its axes."""
    sides = list(zip(padding_before, padding_after))
    return np.pad(np_arr.astype(dtype), sides, constant_values=pad_value)


def get_slice(
    spatial_dimensions: int,
    pad_np: np.ndarray,
    dim_coord: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> list[slice]:
    """Return the window at a place of the result, within the padded data (batch, channels, then the
    spatial axes).
    """
    starts = [place * stride for place, stride in zip(dim_coord, strides)]
    spans = [(size - 1) * apart + 1 for size, apart in zip(kernel, dilation)]
    windows = [
        slice(start, start + span, apart) for start, span, apart in zip(starts, spans, dilation)
    ]
    return [slice(None)] * (pad_np.ndim - spatial_dimensions) + windows


def depth_to_space_python(data: np.ndarray, block_size: int, mode: str = "DCR") -> np.ndarray:
    """Turn channels of NCHW data into blocks of pixels."""
    n, c, h, w = data.shape
    b = block_size
    depth = c // (b * b)
    if mode == "DCR":
        split = data.reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        split = data.reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return split.reshape(n, depth, h * b, w * b)


def space_to_depth_python(data: np.ndarray, block_size: int) -> np.ndarray:
    """Turn blocks of pixels of NCHW data into channels."""
    n, c, h, w = data.shape
    b = block_size
    split = data.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return split.reshape(n, c * b * b, h // b, w // b)


def space_to_batch_nd_python(
    data: np.ndarray,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0,
) -> np.ndarray:
    """Move the place within blocks of the spatial axes in front of the batch."""
    rank, rest = len(block_shape), data.ndim - len(block_shape) - 1
    sides = [(0, 0), *zip(pad_before, pad_after), *[(0, 0)] * rest]
    padded = np.pad(data, sides, constant_values=pad_value)
    batch, *sizes = padded.shape
    split = [batch]
    for size, block in zip(sizes, block_shape):
        split += [size // block, block]
    parts = padded.reshape(*split, *sizes[rank:])
    within = [2 + 2 * k for k in range(rank)]
    outer = [1 + 2 * k for k in range(rank)]
    moved = parts.transpose(*within, 0, *outer, *range(1 + 2 * rank, parts.ndim))
    counts = [size // block for size, block in zip(sizes, block_shape)]
    return moved.reshape(-1, *counts, *sizes[rank:])


def batch_to_space_nd_python(
    data: np.ndarray,
    block_shape: Sequence[int],
    crop_begin_list: Sequence[int],
    crop_end_list: Sequence[int],
) -> np.ndarray:
    """Undo `space_to_batch_nd_python`."""
    rank = len(block_shape)
    batch = data.shape[0] // int(np.prod(block_shape))
    parts = data.reshape(*block_shape, batch, *data.shape[1:])
    order = [rank]
    for k in range(rank):
        order += [rank + 1 + k, k]
    moved = parts.transpose(*order, *range(2 * rank + 1, parts.ndim))
    sizes = [size * block for size, block in zip(data.shape[1:], block_shape)]
    whole = moved.reshape(batch, *sizes, *data.shape[1 + rank :])
    cut = [slice(b, n - e) for n, b, e in zip(sizes, crop_begin_list, crop_end_list)]
    return whole[(slice(None), *cut)]


def reorg_python(a_np: np.ndarray, stride: int) -> np.ndarray:
    """Turn NCHW pixels into channels as Darknet does: the data is read as an image whose channels
    are fewer and whose sides are longer by ``stride``.
    """
    n, c, h, w = a_np.shape
    inner = c // (stride * stride)
    whole = a_np.reshape(n, inner, h, stride, w, stride)
    return whole.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * stride**2, h // stride, w // stride)
