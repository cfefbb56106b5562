"""Gradients of operators that are linear along each axis, or are made of such: resizing, pools of
parts of different sizes, local response normalisation.

    y = x · W along an axis            g · Wᵀ is its gradient

What an operator does along an axis is written as a matrix of constants; the gradients of products
do the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.ir import IntImm
from tilesmith.relax.expr import Constant, known_struct_info
from tilesmith.relax.op.common import sizes_of
from tilesmith.relax.op.elementwise import astype, where
from tilesmith.relax.op.image import axis_weights
from tilesmith.relax.op.index import strided_slice, take
from tilesmith.relax.op.linear_algebra import matmul
from tilesmith.relax.op.manipulate import layout_transform, permute_dims
from tilesmith.relax.op.statistical import max as greatest
from tilesmith.relax.op.views import reshape
from tilesmith.support.errors import UnsupportedError

__all__ = [
    "along_axis", "channel_sums", "constant_sizes", "largest_parts", "mean_parts", "moved_back",
    "resized",
]  # fmt: skip


def constant_sizes(expr: Any, what: str) -> list[int]:
    """Return the sizes of a tensor; raises UnsupportedError unless they are constant."""
    info: Any = known_struct_info(expr)
    found = sizes_of(info)
    known = [size.value for size in found or () if isinstance(size, IntImm)]
    if found is None or len(known) != len(found):
        raise UnsupportedError(f"the gradient of {what} needs constant sizes")
    return known


def along_axis(x: Any, axis: int, weights: Any) -> Any:
    """Return the product of a tensor with a matrix (new size, old size) along an axis."""
    info: Any = known_struct_info(x)
    matrix = Constant(numpy.ascontiguousarray(weights.T).astype(info.dtype.numpy()))
    order = [place for place in range(info.ndim) if place != axis] + [axis]
    back = [order.index(place) for place in range(info.ndim)]
    return permute_dims(matmul(permute_dims(x, order), matrix), back)


def resized(attrs: Any, x: Any, size: Sequence[int], spatial: str) -> Any:
    """Return a resized image as products along its axes."""
    if attrs.coordinate_transformation_mode == "tf_crop_and_resize":
        raise UnsupportedError("a resize that crops has no gradient")
    sizes = constant_sizes(x, "a resize")
    out = attrs.out_dtype
    for name, after in zip(spatial, size):
        axis = attrs.layout.index(name)
        x = along_axis(x, axis, axis_weights(attrs, sizes[axis], int(after)))
    return x if out in (None, "") else astype(x, out)


def _parts(whole: int, count: int) -> list[range]:
    """Return the elements of each part of an axis, as adaptive pools divide it."""
    return [range(at * whole // count, -(-(at + 1) * whole // count)) for at in range(count)]


def mean_parts(x: Any, axis: int, count: int) -> Any:
    """Return the mean of each part along an axis."""
    whole = constant_sizes(x, "an adaptive pool")[axis]
    weights = numpy.zeros((count, whole))
    for at, part in enumerate(_parts(whole, count)):
        weights[at, part] = 1 / len(part)
    return along_axis(x, axis, weights)


def largest_parts(x: Any, axis: int, count: int) -> Any:
    """Return the largest element of each part along an axis."""
    info: Any = known_struct_info(x)
    sizes = constant_sizes(x, "an adaptive pool")
    parts = _parts(sizes[axis], count)
    longest = max([len(part) for part in parts])
    places = numpy.array(
        [[part[min(at, len(part) - 1)] for at in range(longest)] for part in parts], "int64"
    )
    is_inside = numpy.array([[at < len(part) for at in range(longest)] for part in parts])
    around = [1] * axis, [1] * (len(sizes) - axis - 1)
    inside = Constant(is_inside.reshape(*around[0], count, longest, *around[1]))
    taken = reshape(
        take(x, Constant(places.reshape(-1)), axis),
        [*sizes[:axis], count, longest, *sizes[axis + 1 :]],
    )
    kind = info.dtype.numpy()
    lowest = numpy.finfo(kind).min if numpy.dtype(kind).kind == "f" else numpy.iinfo(kind).min
    return greatest(where(inside, taken, Constant(numpy.array(lowest, kind))), [axis + 1])


def channel_sums(x: Any, axis: int, size: int) -> Any:
    """Return the sum of the elements around each one along an axis; windows of even size extend one
    element further to the right.
    """
    count = constant_sizes(x, "nn.lrn")[axis]
    places = numpy.arange(count)
    distance = places[None, :] - places[:, None]
    return along_axis(x, axis, (distance >= -((size - 1) // 2)) & (distance <= size // 2))


def moved_back(call: Any, grad: Any) -> Any:
    """Return the gradient of a ``layout_transform`` by its data: the elements go back; what is
    padded is left out.
    """
    sizes = constant_sizes(call.args[0], "layout_transform")
    inverse, _ = call.attrs.index_map.non_surjective_inverse(sizes)
    found = layout_transform(grad, inverse)
    axes = list(range(len(sizes)))
    return strided_slice(found, axes, [0] * len(sizes), sizes)
