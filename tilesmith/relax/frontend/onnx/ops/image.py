"""Resizing of images, and images from columns (Col2Im)."""

from __future__ import annotations

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
from tilesmith.relax.frontend.onnx.ops.run_time_resize import RunTimeResize
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import (
    dtype_of,
    integer,
    rank_of,
    scalar,
    shape_of,
    static_shape,
    vector,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError

# Resizing

_LARGEST_SCALE = 2.0**31
_POLICIES = ("stretch", "not_larger", "not_smaller")


class _Plan:
    """The parameters of a Resize node: the axes, their new sizes, and the scale factors."""

    def __init__(self, node: OnnxNode, x: Any) -> None:
        rank, sizes = rank_of(x), shape_of(x)
        axes = node.attribute("axes")
        self.axes = [normal_axis(axis, rank) for axis in axes] if axes else list(range(rank))
        self.before = [sizes[axis] for axis in self.axes]
        self.after: list[Any] = list(self.before)
        self.scales: list[Any] = [1.0] * len(self.axes)

    def by_scales(self, scales: list[float]) -> None:
        """Make a plan whose sizes are the old ones times factors, rounded down."""
        if len(scales) != len(self.axes):
            raise ShapeError(f"{len(scales)} scales for {len(self.axes)} axes")
        if not all(0 < scale < _LARGEST_SCALE for scale in scales):
            raise ShapeError(f"its scales {scales} are not all positive numbers of usual size")
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
        """Make a plan with given sizes, or with sizes that keep the aspect ratio."""
        if len(sizes) != len(self.axes):
            raise ShapeError(f"{len(sizes)} sizes for {len(self.axes)} axes")
        for old, new in zip(self.before, sizes):
            if isinstance(new, int) and (new < 0 or (new > 0 and _same_size(old, 0))):
                raise ShapeError(f"an axis of the size {old} cannot get the size {new}")
        self.after = list(sizes)
        factors = [
            (new / old if old else 1.0) if isinstance(new, int) and isinstance(old, int) else None
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
        """Return the positions of the axes whose size or factor changes."""
        return [
            i
            for i, (old, new, scale) in enumerate(zip(self.before, self.after, self.scales))
            if not (old is new or (_same_size(old, new) and scale in (1.0, None)))
        ]


def _same_size(old: Any, new: Any) -> bool:
    return isinstance(old, int) and isinstance(new, int) and old == new


@converter("Resize", since=11)
def _resize(node: OnnxNode) -> Any:
    x = node[0]
    if any(_is_open(node, index) for index in (1, 2, 3)):
        return _resize_at_run_time(node, x)
    plan = _Plan(node, x)
    if node.has(3) and (node.known(3) is None or node.known(3).size):
        policy = node.choice("keep_aspect_ratio_policy", "stretch", *_POLICIES)
        plan.by_sizes(node.integers(3, "sizes"), policy)
    else:
        plan.by_scales([float(value) for value in node.constant(2, "scales").ravel()])
    region = node.constant(1, "roi").ravel().astype(float) if node.has(1) else None
    return _resized(node, x, plan, _settings(node), region)


def _is_open(node: OnnxNode, index: int) -> bool:
    """Return whether a parameter is computed when the model runs."""
    known = node.known(index)
    if not node.has(index) or (known is not None and known.dtype != object):
        return False
    return known is None and shape_of(node[index]) != [0]


def _resize_at_run_time(node: OnnxNode, x: Any) -> Any:
    rank = rank_of(x)
    given = node.attribute("axes")
    axes = [normal_axis(axis, rank) for axis in given] if given else list(range(rank))
    settings = _settings(node)
    is_cropped = settings["coordinates"] == "tf_crop_and_resize"
    region = node[1] if node.has(1) and is_cropped else None
    plan = RunTimeResize(node, x, axes, settings, region)
    if node.has(3):
        plan.by_sizes(node[3], node.choice("keep_aspect_ratio_policy", "stretch", *_POLICIES))
    else:
        plan.by_scales(node[2])
    return plan.result()


def _settings(node: OnnxNode) -> dict[str, Any]:
    return {
        "mode": node.choice("mode", "nearest", "nearest", "linear", "cubic"),
        "coordinates": str(node.attribute("coordinate_transformation_mode", "half_pixel")),
        "rounding": str(node.attribute("nearest_mode", "round_prefer_floor")),
        "alpha": float(node.attribute("cubic_coeff_a", -0.75)),
        "exclude_outside": node.flag("exclude_outside"),
        "antialias": node.flag("antialias"),
        "outside": float(node.attribute("extrapolation_value", 0.0)),
    }


_OLD = {
    "coordinates": "asymmetric", "rounding": "floor", "alpha": -0.75, "exclude_outside": False,
    "antialias": False, "outside": 0.0,
}  # fmt: skip


@converter("Resize", since=10)
@converter("Upsample", since=9)
def _resize_by_scales(node: OnnxNode) -> Any:
    mode = node.choice("mode", "nearest", "nearest", "linear")
    if _is_open(node, 1):
        axes = list(range(rank_of(node[0])))
        computed = RunTimeResize(node, node[0], axes, {"mode": mode, **_OLD}, None)
        computed.by_scales(node[1])
        return computed.result()
    plan = _Plan(node, node[0])
    plan.by_scales([float(value) for value in node.constant(1, "scales").ravel()])
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
    """Return whether the graph's own resize operator computes the same."""
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
    """Resize one axis after the other: by constant indices, or by a product with a matrix."""
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
    """Return ``x`` with the axis replaced by its products with the rows of ``matrix``."""
    dtype = dtype_of(x)
    weights = Constant(numpy.ascontiguousarray(matrix.T).astype(DataType(dtype).numpy()))
    rank = rank_of(x)
    if axis == rank - 1:
        return op.matmul(x, weights)
    order = [i for i in range(rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(rank)]
    return op.permute_dims(op.matmul(op.permute_dims(x, order), weights), back)


@converter("Col2Im")
def _columns_to_image(node: OnnxNode) -> Any:
    """Add blocks up at their positions in the image."""
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
    batch, columns, count = static_shape(x, "Col2Im", 3)
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
