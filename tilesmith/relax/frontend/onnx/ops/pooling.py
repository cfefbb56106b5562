"""Pooling: the largest, mean or p-norm of windows or of all spatial elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant
from tilesmith.relax.frontend.onnx.node import OnnxNode
from tilesmith.relax.frontend.onnx.ops.convolution import padding_of, spatial_list, spatial_rank
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import (
    dtype_of,
    product,
    rank_of,
    scalar,
    shape_of,
    static_shape,
)
from tilesmith.support.errors import OpAttributeInvalid, OpAttributeRequired, ShapeError

_MAX = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_AVERAGE = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}


class Window:
    """The windows of a pooling: sizes, strides, dilations, padding (before, then after)."""

    def __init__(self, node: OnnxNode, x: Any) -> None:
        if node.attribute("kernel_shape") is None:
            raise OpAttributeRequired("it needs the attribute 'kernel_shape'")
        self.rank = spatial_rank(x)
        self.sizes = shape_of(x)[2:]
        self.kernel = spatial_list(node, "kernel_shape", self.rank, 1)
        self.strides = spatial_list(node, "strides", self.rank, 1)
        self.dilations = spatial_list(node, "dilations", self.rank, 1)
        self.padding = padding_of(node, self.sizes, self.kernel, self.strides, self.dilations)
        self.ceil = node.flag("ceil_mode")
        for i, size in enumerate(self.sizes):
            padded = size + self.padding[i] + self.padding[i + self.rank]
            if isinstance(padded, int) and padded < self.reach(i):
                raise ShapeError(
                    f"a window of {self.reach(i)} is larger than the padded data ({padded}) along "
                    f"spatial axis {i}"
                )

    def reach(self, axis: int) -> int:
        """Return how far a window extends along an axis."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def missing(self) -> list[Any]:
        """Return how far windows extend beyond the end of the padded data, for each axis.

        With ``ceil_mode`` a last window is kept if it begins before the end of the data. Negative
        where elements at the end are in no window.
        """
        found: list[Any] = []
        for i, size in enumerate(self.sizes):
            if not isinstance(size, int):
                found.append(None)
                continue
            room = size + self.padding[i] + self.padding[i + self.rank] - self.reach(i)
            count = room // self.strides[i] + 1
            if self.ceil:
                count = -(-room // self.strides[i]) + 1
                if (count - 1) * self.strides[i] >= size + self.padding[i]:
                    count -= 1
            found.append((count - 1) * self.strides[i] - room)
        return found

    def arguments(self, node: OnnxNode) -> dict[str, Any]:
        """Return the windows as arguments of a pooling; ``ceil_mode`` becomes padding."""
        padding, ceil = list(self.padding), False
        if self.ceil:
            missing = self.missing()
            if any(item is None for item in missing):
                ceil = True  # symbolic sizes: nothing is known about the last window
            else:
                for i, extra in enumerate(missing):
                    padding[i + self.rank] += max(0, extra)
        return {
            "pool_size": self.kernel,
            "strides": self.strides,
            "padding": padding,
            "dilation": self.dilations,
            "ceil_mode": ceil,
        }


@converter("MaxPool")
def _max_pool(node: OnnxNode) -> Any:
    x = node[0]
    window = Window(node, x)
    if not node.wants(1):
        return _MAX[window.rank](x, **window.arguments(node))
    return _max_pool_with_places(node, x, window)


def _places(window: Window, order: str) -> tuple[Any, Any, list[int]]:
    """Return for each window and element in it: the flat spatial index, and whether it is in the
    data.
    """
    counts, grids = [], []
    missing = window.missing()
    for i, size in enumerate(window.sizes):
        room = size + window.padding[i] + window.padding[i + window.rank] - window.reach(i)
        count = (room + missing[i]) // window.strides[i] + 1
        counts.append(count)
        start = numpy.arange(count)[:, None] * window.strides[i] - window.padding[i]
        grids.append(start + numpy.arange(window.kernel[i])[None] * window.dilations[i])
    flat, inside = [], []
    for offset in itertools.product(*[range(k) for k in window.kernel]):
        axes = [grid[:, o] for grid, o in zip(grids, offset)]
        mesh = numpy.meshgrid(*axes, indexing="ij")
        valid = numpy.ones(mesh[0].shape, bool)
        place = numpy.zeros(mesh[0].shape, "int64")
        for i in _order(window.rank, order):
            valid &= (mesh[i] >= 0) & (mesh[i] < window.sizes[i])
            place = place * window.sizes[i] + mesh[i]
        flat.append(numpy.where(valid, place, 0).ravel())
        inside.append(valid.ravel())
    return numpy.stack(flat, -1), numpy.stack(inside, -1), counts


def _order(rank: int, order: str) -> Any:
    return range(rank) if order == "rows" else range(rank - 1, -1, -1)


def _max_pool_with_places(node: OnnxNode, x: Any, window: Window) -> Any:
    """Return the values and where they come from: an index into the flattened tensor."""
    shape = static_shape(x, "MaxPool with indices")
    places, inside, counts = _places(window, "rows")
    dtype = dtype_of(x)
    count = int(numpy.prod(window.sizes))
    flat = op.reshape(x, [shape[0] * shape[1], count])
    lowest = -numpy.inf if dtype.is_float else numpy.iinfo(dtype.numpy()).min
    parts = op.take(flat, Constant(places), 1)
    parts = node.emit(op.where(Constant(inside[None]), parts, scalar(lowest, dtype)))
    best = node.emit(op.argmax(parts, 2))
    windows, per_window = places.shape
    # With storage_order=1 indices count along columns.
    named = places if not node.flag("storage_order") else _places(window, "columns")[0]
    base = Constant(numpy.arange(windows, dtype="int64") * per_window)
    index = op.take(Constant(named.reshape(-1)), op.add(best, base), 0)
    start = Constant(numpy.arange(shape[0] * shape[1], dtype="int64")[:, None] * count)
    result = [shape[0], shape[1], *counts]
    return op.reshape(op.max(parts, 2), result), op.reshape(op.add(index, start), result)


@converter("AveragePool")
def _average_pool(node: OnnxNode) -> Any:
    return average_pool(node, node[0])


def average_pool(node: OnnxNode, x: Any) -> Any:
    """Return the means of windows of ``x``, as the node's attributes describe them."""
    window = Window(node, x)
    include = node.flag("count_include_pad")
    arguments = window.arguments(node)
    if include and arguments["padding"] != window.padding:
        # Elements that ceil_mode adds do not count in the mean, those of `pads` do: pad first.
        width = [0, 0, 0, 0]
        for i in range(window.rank):
            width += [window.padding[i], window.padding[i + window.rank]]
        x = op.nn.pad(x, width)
        before, after = window.padding[: window.rank], window.padding[window.rank :]
        outer = arguments["padding"][window.rank :]
        arguments["padding"] = [0] * len(before) + [b - a for a, b in zip(after, outer)]
        include = False
    return _AVERAGE[window.rank](x, **arguments, count_include_pad=include)


@converter("LpPool")
def _lp_pool(node: OnnxNode) -> Any:
    x = node[0]
    window = Window(node, x)
    order = _exponent(node)
    arguments = window.arguments(node)
    # A mean over whole windows times their size is a sum; padding adds nothing to it.
    total = _AVERAGE[window.rank](_power_of_size(x, order), **arguments, count_include_pad=True)
    count = scalar(int(numpy.prod(window.kernel)), dtype_of(x))
    return _root(op.multiply(total, count), order)


def _exponent(node: OnnxNode) -> float:
    order = float(node.attribute("p", 2))
    if order < 1:
        raise OpAttributeInvalid(f"its attribute 'p' is {order:g}, it has to be at least 1")
    return order


def _power_of_size(x: Any, order: float) -> Any:
    """Return |x| to the power of ``order``."""
    if order == 2:
        return op.multiply(x, x)
    return op.abs(x) if order == 1 else op.power(op.abs(x), scalar(order, dtype_of(x)))


def _root(x: Any, order: float) -> Any:
    if order == 2:
        return op.sqrt(x)
    return x if order == 1 else op.power(x, scalar(1 / order, dtype_of(x)))


def _spatial(x: Any) -> list[int]:
    return list(range(2, rank_of(x)))


@converter("GlobalAveragePool")
def _global_average_pool(node: OnnxNode) -> Any:
    return op.mean(node[0], _spatial(node[0]), True)


@converter("GlobalMaxPool")
def _global_max_pool(node: OnnxNode) -> Any:
    return op.max(node[0], _spatial(node[0]), True)


@converter("GlobalLpPool")
def _global_lp_pool(node: OnnxNode) -> Any:
    order = _exponent(node)
    return _root(op.sum(_power_of_size(node[0], order), _spatial(node[0]), True), order)


@converter("MaxUnpool")
def _max_unpool(node: OnnxNode) -> Any:
    x, places = node[0], node[1]
    shape = static_shape(x, "MaxUnpool")
    rank = len(shape) - 2
    kernel = spatial_list(node, "kernel_shape", rank, 1)
    strides = spatial_list(node, "strides", rank, 1)
    pads = spatial_list(node, "pads", 2 * rank, 0)
    inferred = [
        (shape[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank] for i in range(rank)
    ]
    inferred = [*shape[:2], *inferred]
    wanted = inferred
    if node.has(2):
        wanted = [int(value) for value in node.constant(2, "output_shape").ravel()]
    # Indices refer to the tensor that was pooled, which the output may exceed.
    counted = numpy.arange(product(inferred)).reshape(inferred)
    if wanted != inferred:
        steps = numpy.cumprod([1, *wanted[:0:-1]])[::-1]
        counted = sum([g * int(s) for g, s in zip(numpy.indices(inferred), steps)])
        places = op.take(Constant(counted.reshape(-1)), op.reshape(places, [-1]), 0)
    empty = op.zeros([product(wanted)], dtype_of(x))
    flat = op.scatter_elements(empty, op.reshape(places, [-1]), op.reshape(x, [-1]), 0)
    return op.reshape(flat, wanted)
