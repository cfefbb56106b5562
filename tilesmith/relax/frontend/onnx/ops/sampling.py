"""Interpolation at arbitrary positions of an image: GridSample, RoiAlign, deformable
convolutions.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy

from tilesmith.ir.intrinsics import max_value
from tilesmith.relax import op
from tilesmith.relax.expr import Constant, ShapeExpr
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.ops.convolution import kernel_shape, spatial_list, with_bias
from tilesmith.relax.frontend.onnx.ops.run_time import size_vector
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import (
    dtype_of,
    product,
    rank_of,
    scalar,
    shape_of,
    static_shape,
)
from tilesmith.support.errors import OpAttributeInvalid, ShapeError


class _Sampler:
    """GridSample: the data with flat spatial axes, and the elements at whole-numbered places."""

    def __init__(self, node: OnnxNode, x: Any, padding: str, corners: bool) -> None:
        self.node = node
        self.sizes = static_shape(x, "GridSample")[2:]
        self.batch, self.channels = shape_of(x)[:2]
        self.flat = node.emit(op.reshape(x, [self.batch, self.channels, product(self.sizes)]))
        self.dtype = dtype_of(x)
        self.padding, self.corners = padding, corners

    def number(self, value: float) -> Any:
        """Return a constant of the data's dtype."""
        return scalar(value, self.dtype)

    def position(self, coordinate: Any, size: int) -> Any:
        """Convert coordinates in -1 … 1 to positions on the axis of the data; NaN counts as -1."""
        coordinate = op.where(op.isnan(coordinate), self.number(-1), coordinate)
        shifted = op.add(coordinate, self.number(1))
        if self.corners:
            place = op.multiply(shifted, self.number((size - 1) / 2))
        else:
            scaled = op.multiply(shifted, self.number(size / 2))
            place = op.subtract(scaled, self.number(0.5))
        return self.node.emit(self.finite(place, size))

    def finite(self, place: Any, size: int) -> Any:
        """Return positions without infinities, whose weights would be NaN: what is so far away that
        no neighbour lies inside may as well be nearer. NaN is far away.
        """
        if self.padding == "reflection":  # in which each finite place is another one
            largest = max_value(self.dtype).value / 4  # type: ignore[attr-defined]
            return op.clip(place, -largest, largest)
        low, high = self.number(-4), self.number(size + 3)
        place = op.where(op.greater(place, low), place, low)
        return op.where(op.less(place, high), place, high)

    def reflected(self, place: Any, size: int) -> Any:
        """Return a position mirrored at the borders of the data until it lies inside."""
        low, high = (0.0, size - 1.0) if self.corners else (-0.5, size - 0.5)
        span = high - low
        if span == 0:
            return op.multiply(place, self.number(0))
        away = op.floor_mod(op.abs(op.subtract(place, self.number(low))), self.number(2 * span))
        away = self.node.emit(away)
        turned = op.where(
            op.greater(away, self.number(span)), op.subtract(self.number(2 * span), away), away
        )
        return self.node.emit(op.add(turned, self.number(low)))

    def within(self, place: Any, size: int) -> Any:
        """Return a position after padding by the border or by reflection."""
        if self.padding == "border":
            return self.node.emit(op.clip(place, 0, size - 1))
        if self.padding == "reflection":
            return self.node.emit(op.clip(self.reflected(place, size), 0, size - 1))
        return place

    def at(self, places: list[Any]) -> Any:
        """Return the elements (batch, channels, positions) at integral positions given as
        floats.
        """
        inside, index = None, None
        for place, size in zip(places, self.sizes):
            bounded = op.clip(self.within(place, size), 0, size - 1)
            whole = op.astype(bounded, "int64")
            index = (
                whole if index is None else op.add(op.multiply(index, scalar(size, "int64")), whole)
            )
            if self.padding == "zeros":
                fits = op.logical_and(
                    op.greater_equal(place, self.number(0)),
                    op.less_equal(place, self.number(size - 1)),
                )
                inside = fits if inside is None else op.logical_and(inside, fits)
        index = op.expand_dims(self.node.emit(index), 1)
        count = shape_of(places[0])[1]
        index = op.broadcast_to(index, [self.batch, self.channels, count])
        found = self.node.emit(op.gather_elements(self.flat, self.node.emit(index), 2))
        if inside is None:
            return found
        return op.where(op.expand_dims(inside, 1), found, self.number(0))


def _cubic(sampler: _Sampler, fraction: Any) -> list[Any]:
    """Return the weights of the four neighbours, for the fraction beyond the second one."""
    alpha = -0.75
    number, one = sampler.number, sampler.number(1)

    def near(t: Any) -> Any:
        square = op.multiply(t, t)
        inner = op.subtract(op.multiply(t, number(alpha + 2)), number(alpha + 3))
        return op.add(op.multiply(inner, square), one)

    def far(t: Any) -> Any:
        first = op.subtract(op.multiply(t, number(alpha)), number(5 * alpha))
        second = op.add(op.multiply(first, t), number(8 * alpha))
        return op.subtract(op.multiply(second, t), number(4 * alpha))

    rest = sampler.node.emit(op.subtract(one, fraction))
    ahead, behind = op.add(fraction, one), op.add(rest, one)
    weights = [far(sampler.node.emit(ahead)), near(fraction), near(rest)]
    weights.append(far(sampler.node.emit(behind)))
    return [sampler.node.emit(weight) for weight in weights]


@converter("GridSample")
def _grid_sample(node: OnnxNode) -> Any:
    x, grid = node[0], node[1]
    mode = str(node.attribute("mode", "linear"))
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic"):
        raise OpAttributeInvalid(f"its attribute 'mode' is '{mode}'")
    padding = node.choice("padding_mode", "zeros", "zeros", "border", "reflection")
    sampler = _Sampler(node, x, padding, node.flag("align_corners"))
    shape = shape_of(grid)
    rank, spatial = len(sampler.sizes), shape[1:-1]
    count = product(spatial)
    flat = op.reshape(grid, [shape[0], count, rank])
    flat = node.emit(flat if dtype_of(flat) == sampler.dtype else op.astype(flat, sampler.dtype))
    positions = []
    for axis, size in enumerate(sampler.sizes):
        # The grid names the last axis first.
        coordinate = op.take(flat, scalar(rank - 1 - axis, "int64"), 2)
        place = sampler.position(coordinate, size)
        positions.append(sampler.within(place, size) if mode != "cubic" else place)
    if mode == "nearest":
        found = sampler.at([node.emit(op.round(place)) for place in positions])
    else:
        found = _weighted(sampler, positions, mode)
    return op.reshape(found, [sampler.batch, sampler.channels, *spatial])


def _weighted(sampler: _Sampler, positions: list[Any], mode: str) -> Any:
    """Return the sum of the elements around each position times their weights."""
    node, one = sampler.node, sampler.number(1)
    taps: list[list[tuple[Any, Any]]] = []
    for place in positions:
        base = node.emit(op.floor(place))
        fraction = node.emit(op.subtract(place, base))
        if mode == "linear":
            weights = [node.emit(op.subtract(one, fraction)), fraction]
            offsets = [0, 1]
        else:
            weights, offsets = _cubic(sampler, fraction), [-1, 0, 1, 2]
        taps.append(
            [(node.emit(op.add(base, sampler.number(o))), w) for o, w in zip(offsets, weights)]
        )
    total = None
    for chosen in itertools.product(*taps):
        weight = chosen[0][1]
        for _, other in chosen[1:]:
            weight = op.multiply(weight, other)
        part = op.multiply(sampler.at([place for place, _ in chosen]), op.expand_dims(weight, 1))
        total = node.emit(part if total is None else op.add(total, part))
    return total


# Regions of interest


def _numbers(values: Any, dtype: Any) -> Constant:
    return Constant(numpy.asarray(values).astype(dtype.numpy()))


def _sample_places(node: OnnxNode, low: Any, high: Any, count: int, scale: float) -> Any:
    """Return the sample positions along one axis of each region: (regions, results, samples)."""
    dtype = dtype_of(low)
    samples = int(node.attribute("sampling_ratio", 0))
    if samples <= 0:
        raise node.unsupported(
            "sampling_ratio=0, by which the number of samples follows from data,"
        )
    default = "half_pixel" if node.version >= 16 else "output_half_pixel"
    mode = node.attribute("coordinate_transformation_mode", default)
    factor = scalar(scale, dtype)
    start = op.multiply(low, factor)
    extent = op.multiply(op.subtract(high, low), factor)
    if mode == "half_pixel":
        start = op.subtract(start, scalar(0.5, dtype))
    else:
        extent = op.maximum(extent, scalar(1, dtype))
    steps = numpy.arange(count)[:, None] + (numpy.arange(samples)[None] + 0.5) / samples
    place = op.multiply(op.reshape(extent, [-1, 1, 1]), _numbers(steps / count, dtype))
    return node.emit(op.add(op.reshape(start, [-1, 1, 1]), place))


def _neighbours(node: OnnxNode, place: Any, size: int) -> list[tuple[Any, Any]]:
    """Return the two elements around each position with their weights; weight 0 far outside, and
    for NaN.
    """
    dtype = dtype_of(place)
    inside = node.emit(
        op.logical_and(
            op.greater_equal(place, scalar(-1, dtype)), op.less_equal(place, scalar(size, dtype))
        )
    )
    place = node.emit(op.where(inside, op.clip(place, 0, size - 1), scalar(0, dtype)))
    inside = node.emit(op.astype(inside, dtype))
    base = node.emit(op.floor(place))
    fraction = node.emit(op.subtract(place, base))
    after = op.minimum(op.add(base, scalar(1, dtype)), scalar(size - 1, dtype))
    return [
        (base, node.emit(op.multiply(op.subtract(scalar(1, dtype), fraction), inside))),
        (node.emit(after), node.emit(op.multiply(fraction, inside))),
    ]


@converter("RoiAlign")
def _roi_align(node: OnnxNode) -> Any:
    """Sample each part of each region at equal distances, by bilinear interpolation."""
    x, regions = node[0], node[1]
    ranks = [rank_of(tensor) for tensor in (x, regions, node[2])]
    if ranks != [4, 2, 1]:
        raise ShapeError(f"its inputs have the ranks {ranks}, needed are 4, 2 and 1")
    channels, height, width = static_shape(op.take(x, scalar(0, "int64"), 0), "RoiAlign")
    rows, columns = int(node.attribute("output_height", 1)), int(node.attribute("output_width", 1))
    scale = float(node.attribute("spatial_scale", 1.0))
    edges = [node.emit(op.take(regions, scalar(i, "int64"), 1)) for i in range(4)]
    y = _sample_places(node, edges[1], edges[3], rows, scale)
    x_places = _sample_places(node, edges[0], edges[2], columns, scale)
    samples = shape_of(y)[2]
    last = node.emit(op.permute_dims(x, [0, 2, 3, 1]))
    # Unsigned, since negative numbers of images do not count from the last one.
    batch = op.reshape(op.astype(node[2], "uint64"), [-1, 1, 1, 1])
    # Axes: region, row, sample of the row, column, sample of the column.
    shape = [shape_of(regions)[0], rows, samples, columns, samples]
    parts = []
    for (top, above), (left, before) in itertools.product(
        _neighbours(node, y, height), _neighbours(node, x_places, width)
    ):
        places = []
        for place, axes in ((batch, [4]), (top, [3, 4]), (left, [1, 2])):
            wide = op.expand_dims(op.astype(place, "uint64"), axes)
            places.append(op.broadcast_to(wide, shape))
        found = op.gather_nd(last, node.emit(op.stack(places, 5)))
        weight = op.multiply(op.expand_dims(above, [3, 4]), op.expand_dims(before, [1, 2]))
        parts.append(node.emit(op.multiply(found, op.expand_dims(weight, 5))))
    is_mean = node.choice("mode", "avg", "avg", "max") == "avg"
    total = parts[0]
    for part in parts[1:]:
        total = node.emit((op.add if is_mean else op.maximum)(total, part))
    result = (op.mean if is_mean else op.max)(total, [2, 4])
    return op.permute_dims(result, [0, 3, 1, 2])


# Deformed convolutions


def _deformed_places(
    node: OnnxNode, kernel: list[int], result: list[int], groups: int
) -> list[Any]:
    """Return, for rows and columns, the position that each element of each window is read from."""
    offset = node[2]
    dtype = dtype_of(offset)
    strides, dilations = spatial_list(node, "strides", 2, 1), spatial_list(node, "dilations", 2, 1)
    pads = spatial_list(node, "pads", 4, 0)
    batch, window = shape_of(offset)[0], kernel[0] * kernel[1]
    count = result[0] * result[1]
    moved = node.emit(op.reshape(offset, [batch * groups, window, 2, count]))
    found = []
    for axis in range(2):
        inner = numpy.indices(kernel)[axis].reshape(-1, 1) * dilations[axis]
        outer = numpy.indices(result)[axis].reshape(1, -1) * strides[axis] - pads[axis]
        shift = op.take(moved, scalar(axis, "int64"), 2)
        place = op.add(shift, _numbers(inner + outer, dtype))
        found.append(node.emit(op.reshape(place, [batch * groups, window * count])))
    return found


@converter("DeformConv")
def _deform_conv(node: OnnxNode) -> Any:
    """Convolve elements read at shifted positions, weighted by a mask."""
    x, weight = node[0], node[1]
    kernel = kernel_shape(node, weight, 2)
    shifts, groups = int(node.attribute("offset_group", 1)), int(node.attribute("group", 1))
    batch, channels, height, width = shape_of(x, 4)
    if rank_of(node[2]) != 4:
        raise ShapeError(f"its input 'offset' has the rank {rank_of(node[2])}, 4 needed")
    result = static_shape(op.take(node[2], scalar(0, "int64"), 0), "DeformConv")[1:]
    count, window = result[0] * result[1], kernel[0] * kernel[1]
    split = node.emit(op.reshape(x, [batch * shifts, channels // shifts, height, width]))
    sampler = _Sampler(node, split, "zeros", True)
    places = _deformed_places(node, kernel, result, shifts)
    places = [node.emit(sampler.finite(place, size)) for place, size in zip(places, sampler.sizes)]
    values = _weighted(sampler, places, "linear")
    if node.has(4):
        mask = op.reshape(node[4], [batch * shifts, 1, window * count])
        values = op.multiply(values, mask)
    filters = shape_of(weight)[0]
    depth = channels // groups * window
    columns = op.reshape(values, [batch, groups, depth, count])
    weights = op.reshape(weight, [1, groups, filters // groups, depth])
    total = node.emit(op.matmul(weights, columns))
    return with_bias(node.emit(op.reshape(total, [batch, filters, *result])), node.get(3))


@converter("AffineGrid")
def _affine_grid(node: OnnxNode) -> Any:
    """Multiply the coordinates of all pixels, from -1 to 1, by a matrix for each image."""
    theta, sizes = node[0], node.integers(1, "size")
    spatial = list(reversed(sizes[2:]))  # x comes first, which is the last axis
    rank = len(spatial)
    if rank not in (2, 3) or shape_of(theta)[1:] != [rank, rank + 1]:
        raise ShapeError(
            f"its sizes {tuple(sizes)} do not fit matrices of the shape {tuple(shape_of(theta))}"
        )
    dtype = dtype_of(theta)
    corners = node.flag("align_corners")
    whole = ShapeExpr(sizes[2:])
    columns = []
    for place, size in enumerate(spatial):
        steps = op.astype(op.arange(0, size, 1, "int64"), dtype)
        extent = op.astype(op.reshape(size_vector(node, [size]), []), dtype)
        one, two = scalar(1, dtype), scalar(2, dtype)
        if corners:
            step = op.divide(two, op.maximum(op.subtract(extent, one), one))
            line = op.subtract(op.multiply(steps, step), one)
        else:
            doubled = op.add(op.multiply(steps, two), one)
            line = op.subtract(op.divide(doubled, extent), one)
        line = op.reshape(line, [size if i == rank - 1 - place else 1 for i in range(rank)])
        columns.append(node.emit(op.broadcast_to(line, whole)))
    columns.append(node.emit(op.ones(whole, dtype)))
    points = op.reshape(op.stack(columns, rank), ShapeExpr([product(sizes[2:]), rank + 1]))
    found = op.matmul(node.emit(points), op.permute_dims(theta, [0, 2, 1]))
    return op.reshape(node.emit(found), ShapeExpr([shape_of(theta)[0], *sizes[2:], rank]))


@converter("MaxRoiPool")
def _max_roi_pool(node: OnnxNode) -> Any:
    """Take the largest element of each part of each region: along rows, then along columns."""
    x, regions = node[0], node[1]
    sizes = static_shape(x, "MaxRoiPool", 4)[2:]
    counts = [int(count) for count in node.required("pooled_shape")]
    dtype = dtype_of(x)
    lowest = scalar(-numpy.inf, dtype)
    images = op.astype(op.take(regions, scalar(0, "int64"), 1), "int64")
    found = node.emit(op.take(x, node.emit(images), 0))
    masks = [_parts_of_regions(node, regions, i, counts[i], sizes[i]) for i in (0, 1)]
    # (regions, channels, height, 1, width) by (regions, 1, 1, parts, width)
    wide = op.where(op.expand_dims(masks[1], [1, 2]), op.expand_dims(found, 3), lowest)
    found = node.emit(op.max(wide, [4]))
    high = op.where(
        op.expand_dims(masks[0], [1, 4]), op.expand_dims(found, 2), lowest
    )  # (regions, channels, parts, height, columns)
    found = node.emit(op.max(high, [3]))
    return op.where(op.isfinite(found), found, scalar(0, dtype))


def _parts_of_regions(node: OnnxNode, regions: Any, axis: int, count: int, size: int) -> Any:
    """Return for each region and part which elements of an axis (0: rows) belong to it."""
    scale = scalar(node.attribute("spatial_scale", 1.0), dtype_of(regions))
    bounds = []
    for column in (2 - axis, 4 - axis):
        place = op.multiply(op.take(regions, scalar(column, "int64"), 1), scale)
        place = op.floor(op.add(place, scalar(0.5, dtype_of(regions))))
        bounds.append(node.emit(op.expand_dims(op.astype(place, "float32"), 1)))
    one = scalar(1, "float32")
    extent = op.maximum(op.add(op.subtract(bounds[1], bounds[0]), one), one)
    step = node.emit(op.divide(extent, scalar(count, "float32")))
    parts = Constant(numpy.arange(count, dtype="float32")[None])
    first = op.add(op.floor(op.multiply(parts, step)), bounds[0])
    last = op.add(op.ceil(op.multiply(op.add(parts, one), step)), bounds[0])
    places = Constant(numpy.arange(size, dtype="float32"))
    first, last = [op.expand_dims(node.emit(value), 2) for value in (first, last)]
    return node.emit(op.logical_and(op.greater_equal(places, first), op.less(places, last)))
