"""Operators as TensorFlow and TensorFlow Lite define them, for values that are known at import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.common import get_relay_op
from tilesmith.relay.op.tensor import constant_like
from tilesmith.relay.op.view import rank_of, sizes

__all__ = [
    "REDUCTIONS", "gather", "gather_nd", "lrn", "mirror_pad", "one_hot", "reduced", "resized",
    "reversed_along", "round_to_even", "slice_by_masks", "strided", "where_with_rank",
]  # fmt: skip

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "all": op.all, "any": op.any, "max": op.max, "mean": op.mean, "min": op.min, "prod": op.prod,
    "sum": op.sum,
}  # fmt: skip


def reduced(kind: str, x: Any, axes: Sequence[int], keepdims: bool) -> Any:
    """Return a reduction along axes; along none it is the tensor itself."""
    rank = rank_of(x)
    places = sorted({int(axis) % rank for axis in axes}) if rank else []
    return REDUCTIONS[kind](x, places, bool(keepdims)) if places else x


def reversed_along(x: Any, axes: Sequence[int]) -> Any:
    """Return a tensor whose elements along axes come in the opposite order."""
    for axis in axes:
        x = op.reverse(x, int(axis))
    return x


def strided(x: Any, begins: Sequence[int], ends: Sequence[int], strides: Sequence[int]) -> Any:
    """Return the elements from ``begins`` to ``ends`` (as Python's ``range`` takes them) in steps
    along all axes.
    """
    whole = sizes(x)
    axes = [
        axis
        for axis, (first, last, step) in enumerate(zip(begins, ends, strides))
        if (first, last, step) != (0, whole[axis], 1)
    ]
    if not axes:
        return x
    stops = [ends[axis] if ends[axis] >= 0 else -whole[axis] - 1 for axis in axes]
    steps = [strides[axis] for axis in axes]
    return op.strided_slice(x, [begins[axis] for axis in axes], stops, steps, axes)


def round_to_even(x: Any) -> Any:
    """Return the nearest whole numbers; of two the even one."""
    whole = op.floor(x)
    rest, half, two = x - whole, constant_like(0.5, x), constant_like(2, x)
    odd = op.not_equal(op.floor(whole / two) * two, whole)
    up = op.logical_or(op.greater(rest, half), op.logical_and(op.equal(rest, half), odd))
    return whole + op.cast_like(up, x)


def slice_by_masks(
    x: Any,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    masks: Sequence[int],
) -> Any:
    """Return a slice as ``x[begin:end:strides]`` with the masks of a StridedSlice: begin, end,
    ellipsis, new axis, shrink axis.

    Bit ``i`` of a mask is about the ``i``-th number: begin and end are left out, the number stands
    for an ellipsis or a new axis, or the axis has one element and goes.
    """
    no_begin, no_end, ellipsis, new, shrink = [int(mask) for mask in masks]
    whole = sizes(x)
    used = sum(not (ellipsis | new) >> place & 1 for place in range(len(begin)))
    taken: list[slice] = []
    form: list[int] = []
    for place in range(len(begin)):
        bit = 1 << place
        if ellipsis & bit:
            rest = whole[len(taken) : len(taken) + len(whole) - used]
            taken += [slice(0, size, 1) for size in rest]
            form += rest
        elif new & bit:
            form.append(1)
        else:
            axis = len(taken)
            first = int(begin[place])
            if shrink & bit:
                first += whole[axis] if first < 0 else 0
                taken.append(slice(first, first + 1, 1))
                continue
            low = None if no_begin & bit else first
            high = None if no_end & bit else int(end[place])
            taken.append(slice(*slice(low, high, int(strides[place])).indices(whole[axis])))
            form.append(len(range(taken[-1].start, taken[-1].stop, taken[-1].step)))
    form += whole[len(taken) :]
    taken += [slice(0, size, 1) for size in whole[len(taken) :]]
    found = strided(
        x, [one.start for one in taken], [one.stop for one in taken], [one.step for one in taken]
    )
    return found if list(sizes(found)) == form else op.reshape(found, tuple(form))


def resized(x: Any, size: Sequence[int], method: str, align_corners: bool, half_pixel: bool) -> Any:
    """Return images with their channels last, resized: ``method`` is "linear", "cubic" or
    "nearest_neighbor".
    """
    nearest = method == "nearest_neighbor"
    rounding = ""
    if align_corners:
        mode, rounding = "align_corners", "round_prefer_ceil" if nearest else ""
    elif half_pixel:
        mode, rounding = "half_pixel", "round_prefer_ceil" if nearest else ""
    else:
        mode, rounding = "asymmetric", "floor" if nearest else ""
    return get_relay_op("resize2d")(
        x, tuple([int(one) for one in size]), layout="NHWC", method=method,
        coordinate_transformation_mode=mode, rounding_method=rounding,
    )  # fmt: skip


def lrn(x: Any, radius: int, bias: float, alpha: float, beta: float) -> Any:
    """Return the channels (the last axis), each divided by a power of the squares around it."""
    window = 2 * radius + 1
    return op.nn.lrn(x, window, rank_of(x) - 1, bias, alpha * window, beta)


def mirror_pad(x: Any, pairs: Sequence[Sequence[int]], symmetric: bool) -> Any:
    """Pad with mirrored elements, those at the border repeated (``symmetric``) or not."""
    width = [(int(before), int(after)) for before, after in pairs]
    return op.nn.mirror_pad(x, width, "SYMMETRIC" if symmetric else "REFLECT")


def gather(x: Any, indices: Any, axis: int, batch_dims: int = 0) -> Any:
    """Return the parts of a tensor at indices along an axis."""
    return op.take(x, indices, int(axis) % rank_of(x), int(batch_dims))


def gather_nd(x: Any, indices: Any, batch_dims: int = 0) -> Any:
    """Return the elements at coordinates, which lie along the last axis of the indices."""
    rank = rank_of(indices)
    return op.gather_nd(x, op.transpose(indices, [rank - 1, *range(rank - 1)]), int(batch_dims))


def one_hot(indices: Any, depth: int, on: Any, off: Any, axis: int, dtype: str) -> Any:
    """Return vectors with ``on`` at the place that an index names, ``off`` elsewhere."""
    on_value, off_value = (const(numpy.asarray(one).reshape(()), dtype) for one in (on, off))
    return op.one_hot(indices, on_value, off_value, int(depth), int(axis), dtype)


def where_with_rank(condition: Any, x: Any, y: Any) -> Any:
    """Return x or y by a condition; one with a single axis chooses whole rows."""
    rank = rank_of(x)
    if rank_of(condition) == 1 and rank > 1 and rank_of(y) == rank:
        condition = op.reshape(condition, (-1, *[1] * (rank - 1)))
    return op.where(condition, x, y)
