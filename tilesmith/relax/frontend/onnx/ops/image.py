"""Resizing, sampling at places, regions of images."""

from __future__ import annotations

import itertools
from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis
from tilesmith.relax.frontend.onnx.ops.resizing import (
    AxisResize,
    nearest_places,
    resize_matrix,
)
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import (
    dtype_of,
    integer,
    product,
    rank_of,
    scalar,
    shape_of,
    static_shape,
    vector,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

# Resizing

_POLICIES = ("stretch", "not_larger", "not_smaller")


class _Plan:
    """What a Resize node asks for: the axes, their new sizes, and the factors between."""

    def __init__(self, node: OnnxNode, x: Any) -> None:
        rank, sizes = rank_of(x), shape_of(x)
        axes = node.attribute("axes")
        self.axes = [normal_axis(axis, rank) for axis in axes] if axes else list(range(rank))
        self.before = [sizes[axis] for axis in self.axes]
        self.after: list[Any] = list(self.before)
        self.scales: list[Any] = [1.0] * len(self.axes)

    def by_scales(self, scales: list[float]) -> None:
        """New sizes are the old ones times factors, rounded down."""
        if len(scales) != len(self.axes):
            raise ShapeError(f"{len(scales)} scales for {len(self.axes)} axes")
        self.scales = scales
        for i, (size, scale) in enumerate(zip(self.before, scales)):
            if isinstance(size, int):
                self.after[i] = int(numpy.floor(numpy.float32(size) * numpy.float32(scale)))
            elif float(scale).is_integer():
                self.after[i] = integer(size * int(scale))
            else:
                raise ShapeError(
                    f"a size ({size}) that is not constant cannot be scaled by {scale}"
                )

    def by_sizes(self, sizes: list[Any], policy: str) -> None:
        """New sizes as given, or so that no axis is distorted."""
        if len(sizes) != len(self.axes):
            raise ShapeError(f"{len(sizes)} sizes for {len(self.axes)} axes")
        self.after = list(sizes)
        factors = [
            new / old if isinstance(new, int) and isinstance(old, int) else None
            for new, old in zip(sizes, self.before)
        ]
        self.scales = factors
        if policy != "stretch":
            if None in factors:
                raise ShapeError("keep_aspect_ratio_policy needs constant sizes")
            factor = (min if policy == "not_larger" else max)(factors)  # type: ignore[type-var]
            self.scales = [factor] * len(factors)
            self.after = [int(numpy.floor(factor * size + 0.5)) for size in self.before]

    def changed(self) -> list[int]:
        """The places of the axes whose size or factor is not the old one."""
        return [
            i
            for i, (old, new, scale) in enumerate(zip(self.before, self.after, self.scales))
            if not (old is new or (isinstance(old, int) and old == new and scale in (1.0, None)))
        ]


@converter("Resize", since=11)
def _resize(node: OnnxNode) -> Any:
    x = node[0]
    plan = _Plan(node, x)
    if node.has(3) and (node.known(3) is None or node.known(3).size):
        policy = node.choice("keep_aspect_ratio_policy", "stretch", *_POLICIES)
        plan.by_sizes(node.integers(3, "sizes"), policy)
    else:
        plan.by_scales([float(value) for value in node.constant(2, "scales").ravel()])
    region = node.constant(1, "roi").ravel().astype(float) if node.has(1) else None
    settings = {
        "mode": node.choice("mode", "nearest", "nearest", "linear", "cubic"),
        "coordinates": str(node.attribute("coordinate_transformation_mode", "half_pixel")),
        "rounding": str(node.attribute("nearest_mode", "round_prefer_floor")),
        "alpha": float(node.attribute("cubic_coeff_a", -0.75)),
        "exclude_outside": bool(node.attribute("exclude_outside", 0)),
        "antialias": bool(node.attribute("antialias", 0)),
        "outside": float(node.attribute("extrapolation_value", 0.0)),
    }
    return _resized(node, x, plan, settings, region)


_OLD = {
    "coordinates": "asymmetric", "rounding": "floor", "alpha": -0.75, "exclude_outside": False,
    "antialias": False, "outside": 0.0,
}  # fmt: skip


@converter("Resize", since=10)
@converter("Upsample", since=9)
def _resize_by_scales(node: OnnxNode) -> Any:
    plan = _Plan(node, node[0])
    plan.by_scales([float(value) for value in node.constant(1, "scales").ravel()])
    mode = node.choice("mode", "nearest", "nearest", "linear")
    return _resized(node, node[0], plan, {"mode": mode, **_OLD}, None)


@converter("Upsample", since=1)
def _upsample(node: OnnxNode) -> Any:
    plan = _Plan(node, node[0])
    scales = node.attribute("scales")
    if scales is None:
        scales = [1.0, 1.0, node.attribute("height_scale", 1.0), node.attribute("width_scale", 1.0)]
    plan.by_scales([float(value) for value in scales])
    mode = node.choice("mode", "nearest", "nearest", "linear", "bilinear")
    mode = "linear" if mode == "bilinear" else mode
    return _resized(node, node[0], plan, {"mode": mode, **_OLD}, None)


_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


def _resized(node: OnnxNode, x: Any, plan: _Plan, settings: dict[str, Any], region: Any) -> Any:
    changed = plan.changed()
    if not changed and settings["coordinates"] != "tf_crop_and_resize":
        return x
    if settings["coordinates"] == "tf_crop_and_resize":
        changed = list(range(len(plan.axes)))
    if _is_plain(x, plan, changed, settings):
        places = dict(zip(plan.axes, plan.after))
        return op.image.resize2d(
            x,
            [places[2], places[3]],
            method=_METHODS[settings["mode"]],
            coordinate_transformation_mode=settings["coordinates"],
            rounding_method=settings["rounding"],
            cubic_alpha=settings["alpha"],
            cubic_exclude=int(settings["exclude_outside"]),
        )
    return _by_axis(node, x, plan, changed, settings, region)


def _is_plain(x: Any, plan: _Plan, changed: list[int], settings: dict[str, Any]) -> bool:
    """Whether the graph's own operator for images does it."""
    if rank_of(x) != 4 or not {plan.axes[i] for i in changed} <= {2, 3}:
        return False
    if not {2, 3} <= set(plan.axes) or settings["coordinates"] not in _COORDINATES:
        return False
    if settings["antialias"] or settings["exclude_outside"] or not dtype_of(x).is_float:
        return False
    for i in changed:
        old, new, scale = plan.before[i], plan.after[i], plan.scales[i]
        if isinstance(old, int) and isinstance(new, int) and scale is not None:
            if abs(old * scale - new) > 1e-6:
                return False  # positions follow the factor, not the sizes
    return True


def _by_axis(
    node: OnnxNode, x: Any, plan: _Plan, changed: list[int], settings: dict[str, Any], region: Any
) -> Any:
    """One axis after the other: elements picked by constant indices, or a product with a matrix."""
    dtype = dtype_of(x)
    count = len(plan.axes)
    outside = None
    for i in changed:
        before, after, axis = plan.before[i], plan.after[i], plan.axes[i]
        if not isinstance(before, int) or not isinstance(after, int):
            raise node.unsupported(
                "resizing an axis of symbolic size in this mode",
                "give the shapes of the model's inputs with shape_dict",
            )
        bounds = (0.0, 1.0) if region is None or not len(region) else (region[i], region[i + count])
        task = AxisResize(before, after, float(plan.scales[i]), bounds, settings)
        if settings["mode"] == "nearest":
            x = op.take(x, vector(nearest_places(task)), axis)
        else:
            wide = x if dtype.is_float else op.astype(x, "float32")
            x = _times_matrix(wide, resize_matrix(task), axis)
        x = node.emit(x)
        beyond = task.outside()
        if settings["coordinates"] == "tf_crop_and_resize" and beyond.any():
            shape = [len(beyond) if k == axis else 1 for k in range(rank_of(x))]
            mask = Constant(beyond.reshape(shape))
            outside = mask if outside is None else node.emit(op.logical_or(outside, mask))
    if outside is not None:
        x = op.where(outside, scalar(settings["outside"], dtype_of(x)), x)
    return x if dtype_of(x) == dtype else op.astype(x, dtype)


def _times_matrix(x: Any, matrix: Any, axis: int) -> Any:
    """``x`` with the axis replaced by its products with the rows of ``matrix``."""
    dtype = dtype_of(x)
    weights = Constant(numpy.ascontiguousarray(matrix.T).astype(DataType(dtype).numpy()))
    rank = rank_of(x)
    if axis == rank - 1:
        return op.matmul(x, weights)
    order = [i for i in range(rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(rank)]
    return op.permute_dims(op.matmul(op.permute_dims(x, order), weights), back)


# Sampling at places


def _spread(node: OnnxNode, x: Any, count: int) -> Any:
    """``x`` with new axes of size 1 at its end."""
    return op.expand_dims(x, [rank_of(x) + i for i in range(count)])


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
        """A constant of the data's dtype."""
        return scalar(value, self.dtype)

    def position(self, coordinate: Any, size: int) -> Any:
        """From -1 … 1 to the axis of the data."""
        shifted = op.add(coordinate, self.number(1))
        if self.corners:
            return self.node.emit(op.multiply(shifted, self.number((size - 1) / 2)))
        scaled = op.multiply(shifted, self.number(size / 2))
        return self.node.emit(op.subtract(scaled, self.number(0.5)))

    def reflected(self, place: Any, size: int) -> Any:
        """A place outside of the data mirrored at its borders, as often as it takes."""
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
        """A place after padding by the border or by reflection."""
        if self.padding == "border":
            return self.node.emit(op.clip(place, 0, size - 1))
        if self.padding == "reflection":
            return self.node.emit(op.clip(self.reflected(place, size), 0, size - 1))
        return place

    def at(self, places: list[Any]) -> Any:
        """The elements (batch, channels, places) at whole-numbered places of floats."""
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
    """The weights of the four places around, for the fraction behind the second one."""
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
    sampler = _Sampler(node, x, padding, bool(node.attribute("align_corners", 0)))
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
    """The elements around each place times their weights, summed."""
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


@converter("Col2Im")
def _columns_to_image(node: OnnxNode) -> Any:
    """Blocks added up at the places from which they came."""
    x = node[0]
    image = [int(value) for value in node.constant(1, "image_shape").ravel()]
    block = [int(value) for value in node.constant(2, "block_shape").ravel()]
    rank = len(image)
    strides = node.attribute("strides") or [1] * rank
    dilations = node.attribute("dilations") or [1] * rank
    pads = node.attribute("pads") or [0] * (2 * rank)
    padded = [size + pads[i] + pads[i + rank] for i, size in enumerate(image)]
    grids = []
    for size, extent, stride, dilation in zip(padded, block, strides, dilations):
        starts = numpy.arange(0, size - (extent - 1) * dilation, stride)
        grids.append(numpy.arange(extent)[:, None] * dilation + starts[None])
    places = numpy.zeros((1,) * (2 * rank), "int64")
    for i, grid in enumerate(grids):
        shape = [1] * (2 * rank)
        shape[i], shape[i + rank] = grid.shape
        places = places * padded[i] + grid.reshape(shape)
    batch, columns, count = static_shape(x, "Col2Im")
    channels = columns // int(numpy.prod(block))
    flat = op.reshape(x, [batch, channels, places.size])
    index = numpy.broadcast_to(places.reshape(-1), (batch, channels, places.size))
    empty = op.zeros([batch, channels, int(numpy.prod(padded))], dtype_of(x))
    index = Constant(numpy.ascontiguousarray(index))
    whole = op.scatter_elements(empty, index, flat, 2, "add")
    whole = op.reshape(whole, [batch, channels, *padded])
    begin = [int(value) for value in pads[:rank]]
    ends = [first + size for first, size in zip(begin, image)]
    return op.strided_slice(whole, [i + 2 for i in range(rank)], begin, ends)
