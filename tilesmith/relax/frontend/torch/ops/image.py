"""Images: resizing, sampling at positions, blocks of pixels, columns."""

from __future__ import annotations

import math
from typing import Any

import numpy

from tilesmith import topi
from tilesmith.relax import op
from tilesmith.relax.expr import Constant, ShapeExpr
from tilesmith.relax.frontend.torch.node import (
    AtenNode,
    dtype_of,
    full_like_shape,
    product,
    rank_of,
    reshape,
    shape_of,
)
from tilesmith.relax.frontend.torch.ops.interpolation import (
    cubic_taps,
    interpolated,
    linear_taps,
)
from tilesmith.relax.frontend.torch.registry import converter
from tilesmith.runtime.dtype import DataType

# Resizing, one axis after the other


def _factors(node: AtenNode, rank: int) -> list[Any]:
    """Return for each axis the factor that the user gave, or None."""
    given = node.get("scale_factors")
    if given is not None:
        return list(given)
    names = {1: ["scales"], 2: ["scales_h", "scales_w"], 3: ["scales_d", "scales_h", "scales_w"]}
    return [node.get(name) for name in names[rank]]


def _step(before: int, after: int, factor: Any) -> float:
    """Return how far two neighbours of the new axis are apart on the old one."""
    return 1.0 / float(factor) if factor else before / after


@converter(
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
)  # fmt: skip
def _nearest(node: AtenNode) -> Any:
    x = node.tensor("self") if "self" in node.arguments else node.tensor("input")
    rank = rank_of(x) - 2
    half = 0.5 if "exact" in node.operator else 0.0
    befores, afters = shape_of(x)[2:], node.shape[2:]
    for axis, (before, after, factor) in enumerate(zip(befores, afters, _factors(node, rank))):
        if not (isinstance(before, int) and isinstance(after, int)):
            x = _repeated(node, x, axis + 2, factor)
            continue
        step = numpy.float32(_step(before, after, factor))
        places = numpy.floor((numpy.arange(after, dtype="float32") + numpy.float32(half)) * step)
        places = numpy.minimum(places.astype("int64"), before - 1)
        if len(places) != before or (places != numpy.arange(before)).any():
            x = op.take(x, Constant(places), axis + 2)
    return x


def _repeated(node: AtenNode, x: Any, axis: int, factor: Any) -> Any:
    if not factor or float(factor) != int(factor):
        raise node.unsupported("resizing an axis of symbolic size by a factor with a fraction")
    return op.repeat(x, int(factor), axis)


@converter("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def _linear(node: AtenNode) -> Any:
    return _resized(node, _linear_weights, linear_taps)


@converter("upsample_bicubic2d")
def _cubic(node: AtenNode) -> Any:
    return _resized(node, _cubic_weights, cubic_taps)


@converter("_upsample_bilinear2d_aa")
def _linear_smoothed(node: AtenNode) -> Any:
    return _resized(node, _smoothed_weights, None)


def _resized(node: AtenNode, weights: Any, taps: Any) -> Any:
    """Multiply each axis that changes by a constant matrix of weights; one of symbolic size by the
    weights of its taps, which are computed where they are used.
    """
    x = node.tensor("self") if "self" in node.arguments else node.tensor("input")
    rank = rank_of(x) - 2
    aligned = bool(node["align_corners"])
    befores: list[Any] = shape_of(x)[2:]
    afters: list[Any] = node.shape[2:]
    if taps is None:
        befores, afters = node.static(befores, "resizing"), node.static(afters, "resizing")
    is_known = all(isinstance(size, int) for size in [*befores, *afters])
    if is_known and _is_plain(node, x, aligned, befores, afters, weights):
        mode = "align_corners" if aligned else "half_pixel"
        return op.image.resize2d(x, afters, method="linear", coordinate_transformation_mode=mode)
    for axis, (before, after, factor) in enumerate(zip(befores, afters, _factors(node, rank))):
        if before is after or (isinstance(before, int) and before == after):
            if aligned or not factor or float(factor) == 1.0:
                continue
        if isinstance(before, int) and isinstance(after, int):
            matrix = weights(before, after, _positions(before, after, factor, aligned), factor)
            x = node.emit(_times_matrix(x, matrix, axis + 2))
        else:
            name = "resized_axis"
            options = (axis + 2, after, factor, aligned, taps)
            x = node.emit(node.call_te(interpolated, x, *options, primfunc_name_hint=name))
    return x


def _is_plain(
    node: AtenNode, x: Any, aligned: bool, befores: Any, afters: Any, weights: Any
) -> bool:
    """Return whether the graph's own resize operator computes the same."""
    if rank_of(x) != 4 or weights is not _linear_weights or not dtype_of(x).is_float:
        return False
    if 0 in afters or 1 in befores:
        return False
    return aligned or all(
        not factor or abs(before * float(factor) - after) < 1e-6
        for before, after, factor in zip(befores, afters, _factors(node, 2))
    )


def _positions(before: int, after: int, factor: Any, aligned: bool) -> Any:
    places = numpy.arange(after, dtype="float64")
    if aligned:
        return places * ((before - 1) / (after - 1) if after > 1 else 0.0)
    return (places + 0.5) * _step(before, after, factor) - 0.5


def _linear_weights(before: int, after: int, places: Any, factor: Any) -> Any:
    places = numpy.clip(places, 0, before - 1)
    low = numpy.floor(places).astype(int)
    high = numpy.minimum(low + 1, before - 1)
    matrix = numpy.zeros((after, before))
    rows = numpy.arange(after)
    numpy.add.at(matrix, (rows, low), 1 - (places - low))
    numpy.add.at(matrix, (rows, high), places - low)
    return matrix


def _cubic_weights(before: int, after: int, places: Any, factor: Any) -> Any:
    base = numpy.floor(places).astype(int)
    matrix = numpy.zeros((after, before))
    for offset in range(-1, 3):
        distance = numpy.abs(places - base - offset)
        near = ((1.25 * distance - 2.25) * distance) * distance + 1
        far = ((-0.75 * distance + 3.75) * distance - 6) * distance + 3
        index = numpy.clip(base + offset, 0, before - 1)
        numpy.add.at(matrix, (numpy.arange(after), index), numpy.where(distance <= 1, near, far))
    return matrix


def _smoothed_weights(before: int, after: int, places: Any, factor: Any) -> Any:
    step = _step(before, after, factor)
    support = max(step, 1.0)
    matrix = numpy.zeros((after, before))
    for row, place in enumerate(places):
        centre = place + 0.5
        first = max(int(centre - support + 0.5), 0)
        last = min(int(centre + support + 0.5), before)
        index = numpy.arange(first, last)
        weights = numpy.maximum(0, 1 - numpy.abs((index - centre + 0.5) / support))
        matrix[row, first:last] = weights / weights.sum()
    return matrix


def _times_matrix(x: Any, matrix: Any, axis: int) -> Any:
    """Return ``x`` with the axis replaced by its products with the rows of ``matrix``."""
    weights = Constant(numpy.ascontiguousarray(matrix.T).astype(DataType(dtype_of(x)).numpy()))
    rank = rank_of(x)
    if axis == rank - 1:
        return op.matmul(x, weights)
    order = [i for i in range(rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(rank)]
    return op.permute_dims(op.matmul(op.permute_dims(x, order), weights), back)


# Sampling

_SAMPLING = ("bilinear", "nearest", "bicubic")
_OUTSIDE = ("zeros", "border", "reflection")


@converter("grid_sampler_2d", "grid_sampler_3d", "grid_sampler")
def _grid_sampler(node: AtenNode) -> Any:
    x, grid = node.tensor("input"), node.tensor("grid")
    rank = rank_of(x) - 2
    layout = "NCHW" if rank == 2 else "NCDHW"
    last = rank + 1
    turned = op.permute_dims(grid, [0, last, *range(1, last)])
    return node.call_te(
        topi.image.grid_sample,
        x,
        node.emit(turned),
        _SAMPLING[int(node["interpolation_mode"])],
        layout,
        _OUTSIDE[int(node["padding_mode"])],
        bool(node["align_corners"]),
        primfunc_name_hint="grid_sample",
    )


# Blocks of pixels


@converter("pixel_shuffle")
def _pixel_shuffle(node: AtenNode) -> Any:
    x, factor = node.tensor("self"), int(node["upscale_factor"])
    *lead, channels, height, width = shape_of(x)
    rank = len(lead)
    split = reshape(x, [*lead, channels // (factor * factor), factor, factor, height, width])
    order = [*range(rank), rank, rank + 3, rank + 1, rank + 4, rank + 2]
    return op.reshape(op.permute_dims(split, order), ShapeExpr(node.shape))


@converter("pixel_unshuffle")
def _pixel_unshuffle(node: AtenNode) -> Any:
    x, factor = node.tensor("self"), int(node["downscale_factor"])
    *lead, channels, height, width = shape_of(x)
    rank = len(lead)
    split = reshape(x, [*lead, channels, height // factor, factor, width // factor, factor])
    order = [*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3]
    return op.reshape(op.permute_dims(split, order), ShapeExpr(node.shape))


# Columns


def column_places(
    sizes: list[int], kernel: list[int], dilation: list[int], padding: list[int], stride: list[int]
) -> Any:
    """Return for each element of a block and each block its place in the flat padded image."""
    padded = [size + 2 * pad for size, pad in zip(sizes, padding)]
    grids = []
    for size, extent, step, gap in zip(padded, kernel, stride, dilation):
        starts = numpy.arange(0, size - (extent - 1) * gap, step)
        grids.append(numpy.arange(extent)[:, None] * gap + starts)
    rows, columns = grids
    places = rows[:, None, :, None] * padded[1] + columns[None, :, None, :]
    return places.reshape(math.prod(kernel), -1).astype("int64")


def _blocks(node: AtenNode) -> list[list[int]]:
    names = ("kernel_size", "dilation", "padding", "stride")
    return [[int(value) for value in node.ints(name, 2)] for name in names]


@converter("im2col")
def _image_to_columns(node: AtenNode) -> Any:
    x = node.tensor("self")
    lead, sizes = shape_of(x)[:-2], node.static(shape_of(x)[-2:], "columns of an image")
    kernel, dilation, padding, stride = _blocks(node)
    places = column_places(sizes, kernel, dilation, padding, stride)
    width = [0, 0] * len(lead) + [pad for item in padding for pad in (item, item)]
    x = op.nn.pad(x, width) if any(padding) else x
    padded = math.prod([size + 2 * pad for size, pad in zip(sizes, padding)])
    flat = op.reshape(x, ShapeExpr([*lead, padded]))
    return op.reshape(op.take(flat, Constant(places), len(lead)), ShapeExpr(node.shape))


@converter("col2im")
def _columns_to_image(node: AtenNode) -> Any:
    x = node.tensor("self")
    sizes = [int(size) for size in node.ints("output_size", 2)]
    if any(isinstance(size, int) and size == 0 for size in node.shape):
        return full_like_shape(node.shape, 0, node.dtype)
    kernel, dilation, padding, stride = _blocks(node)
    places = column_places(sizes, kernel, dilation, padding, stride)
    lead = node.shape[:-2]
    padded = [size + 2 * pad for size, pad in zip(sizes, padding)]
    flat = reshape(x, [product(lead), places.size])
    moved = op.permute_dims(flat, [1, 0])
    empty = full_like_shape([math.prod(padded), product(lead)], 0, node.dtype)
    tuples = Constant(places.reshape(-1, 1))
    whole = node.emit(op.scatter_nd(empty, tuples, node.emit(moved), "add"))
    image = op.reshape(op.permute_dims(whole, [1, 0]), ShapeExpr([*lead, *padded]))
    axes = [len(lead), len(lead) + 1]
    ends = [first + size for first, size in zip(padding, sizes)]
    return op.strided_slice(image, axes, padding, ends) if any(padding) else image
