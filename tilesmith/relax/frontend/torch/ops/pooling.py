"""Pooling: the largest or the mean of windows, also of windows that share the axis out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant, ShapeExpr
from tilesmith.relax.frontend.torch.node import (
    AtenNode,
    dtype_of,
    is_static,
    number,
    product,
    rank_of,
    reshape,
    shape_of,
)
from tilesmith.relax.frontend.torch.ops.reduction import extreme, lowest, position
from tilesmith.relax.frontend.torch.registry import add_converter, converter
from tilesmith.runtime.dtype import DataType

_MAX = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_AVERAGE = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}
_ADAPTIVE = {
    1: op.nn.adaptive_avg_pool1d, 2: op.nn.adaptive_avg_pool2d, 3: op.nn.adaptive_avg_pool3d,
}  # fmt: skip


class Windows:
    """The windows of a pooling over the last ``rank`` axes of a tensor."""

    def __init__(self, node: AtenNode, rank: int) -> None:
        self.rank = rank
        self.kernel = node.ints("kernel_size", rank)
        self.strides = node.ints("stride", rank) or self.kernel
        self.padding = node.ints("padding", rank) or [0] * rank
        self.dilation = node.ints("dilation", rank) or [1] * rank
        self.counts = node.shape[-rank:]

    def starts(self, axis: int) -> Any:
        """Return where the windows along an axis begin, in elements of the data."""
        return numpy.arange(self.counts[axis]) * self.strides[axis] - self.padding[axis]

    def places(self, sizes: list[int]) -> tuple[Any, Any]:
        """Return for each window and element in it: the flat spatial index, and whether it is in
        the data.
        """
        grids = [
            self.starts(axis)[:, None] + numpy.arange(self.kernel[axis]) * self.dilation[axis]
            for axis in range(self.rank)
        ]
        flat, inside = [], []
        for offset in itertools.product(*[range(size) for size in self.kernel]):
            mesh = numpy.meshgrid(*[grid[:, o] for grid, o in zip(grids, offset)], indexing="ij")
            valid, place = numpy.ones(mesh[0].shape, bool), numpy.zeros(mesh[0].shape, "int64")
            for axis, size in enumerate(sizes):
                valid &= (mesh[axis] >= 0) & (mesh[axis] < size)
                place = place * size + mesh[axis]
            flat.append(numpy.where(valid, place, 0).ravel())
            inside.append(valid.ravel())
        return numpy.stack(flat, -1), numpy.stack(inside, -1)

    def after(self, sizes: list[Any]) -> list[int]:
        """Return how many elements have to follow the data for the last windows."""
        found = []
        for axis, size in enumerate(sizes):
            reach = (self.kernel[axis] - 1) * self.dilation[axis] + 1
            last = (self.counts[axis] - 1) * self.strides[axis] - self.padding[axis]
            found.append(last + reach - size)
        return found


def _with_batch(x: Any, rank: int) -> Any:
    """Return a tensor with exactly two axes before the spatial ones."""
    sizes = shape_of(x)
    lead = sizes[: len(sizes) - rank]
    if len(lead) == 2:
        return x
    return reshape(x, [1, product(lead), *sizes[len(lead) :]])


def _max_pool(rank: int, with_places: bool) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        x = node.emit(node.tensor("self"))
        windows = Windows(node, rank)
        results: list[Any] = [None, None]
        wants = [not with_places or node.wants(0), with_places and node.wants(1)]
        if wants[1]:
            results = _max_with_places(node, x, windows)
        elif wants[0]:
            results[0] = _plain_max(node, x, windows)
        return results if with_places else results[0]

    return convert


def _plain_max(node: AtenNode, x: Any, windows: Windows) -> Any:
    sizes = shape_of(x)[-windows.rank :]
    if not dtype_of(x).is_float:
        return _max_with_places(node, x, windows)[0]
    after = windows.padding
    ceil = bool(node.get("ceil_mode", False))
    if is_static(sizes) and is_static(windows.counts):
        after, ceil = windows.after(sizes), False
    found = _MAX[windows.rank](
        _with_batch(x, windows.rank),
        windows.kernel,
        windows.strides,
        [*windows.padding, *[max(0, item) for item in after]],
        windows.dilation,
        ceil,
    )
    return reshape(node.emit(found), node.shape)


def _max_with_places(node: AtenNode, x: Any, windows: Windows) -> list[Any]:
    """Return the largest elements and where they come from, in the flat spatial axes."""
    shape = shape_of(x)
    sizes = node.static(shape[-windows.rank :], "pooling with indices")
    places, inside = windows.places(sizes)
    lead, dtype = shape[: -windows.rank], dtype_of(x)
    flat = reshape(x, [*lead, product(sizes)])
    parts = op.take(flat, Constant(places), len(lead))
    parts = node.emit(op.where(Constant(inside), parts, number(lowest(dtype), dtype)))
    axis = len(lead) + 1
    best = node.emit(position(node, parts, axis, False, True))
    base = Constant(numpy.arange(len(places), dtype="int64") * places.shape[1])
    index = op.take(Constant(places.reshape(-1)), op.add(best, base), 0)
    values = node.emit(extreme(node, parts, [axis], False, True))
    return [reshape(values, node.shape), reshape(node.emit(index), node.shape)]


for _rank in (1, 2, 3):
    add_converter(f"max_pool{_rank}d_with_indices", _max_pool(_rank, True))
    add_converter(f"max_pool{_rank}d", _max_pool(_rank, False))


def _average_pool(rank: int) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        x, windows = node.tensor("self"), Windows(node, rank)
        include = bool(node.get("count_include_pad", True))
        sizes = shape_of(x)[-rank:]
        divisor = node.get("divisor_override")
        if not is_static(sizes) or not is_static(windows.counts):
            if divisor is not None or node.get("ceil_mode", False):
                raise node.unsupported("this average over axes of symbolic size")
            after = windows.padding
        else:
            after = windows.after(sizes)
        plain = [max(0, item) for item in after] == windows.padding or not any(windows.padding)
        if divisor is None and dtype_of(x).is_float and (plain or not include):
            exact = include and all(item <= pad for item, pad in zip(after, windows.padding))
            found = _AVERAGE[rank](
                _with_batch(x, rank),
                windows.kernel,
                windows.strides,
                [*windows.padding, *[max(0, item) for item in after]],
                [1] * rank,
                False,
                exact,
            )
            return reshape(node.emit(found), node.shape)
        return _by_sums(node, x, windows, sizes, include, divisor)

    return convert


def _by_sums(
    node: AtenNode, x: Any, windows: Windows, sizes: Any, include: bool, divisor: Any
) -> Any:
    """Add each window's elements up and divide by a number of its own."""
    rank, dtype = windows.rank, DataType(node.dtype)
    places, inside = windows.places(sizes)
    counts = inside.sum(-1)
    if include:  # elements of the padding count, those beyond it do not
        extents = []
        for axis, size in enumerate(sizes):
            starts = windows.starts(axis)
            ends = numpy.minimum(starts + windows.kernel[axis], size + windows.padding[axis])
            extents.append(ends - starts)
        mesh = numpy.meshgrid(*extents, indexing="ij")
        counts = numpy.prod(numpy.stack(mesh), 0).ravel()
    if divisor is not None:
        counts = numpy.full_like(counts, divisor)
    lead = shape_of(x)[:-rank]
    flat = reshape(x, [*lead, product(sizes)])
    parts = op.where(Constant(inside), op.take(flat, Constant(places), len(lead)), number(0, dtype))
    total = op.sum(parts, [len(lead) + 1])
    return reshape(node.emit(op.divide(total, Constant(counts.astype(dtype.numpy())))), node.shape)


def _adaptive_average(rank: int) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        x, target = node.tensor("self"), node.shape[-rank:]
        if all(isinstance(size, int) and size == 1 for size in target):
            axes = list(range(rank_of(x) - rank, rank_of(x)))
            return op.mean(x, axes, True)
        found = _ADAPTIVE[rank](_with_batch(x, rank), node.static(target, "adaptive pooling"))
        return reshape(node.emit(found), node.shape)

    return convert


for _rank in (1, 2, 3):
    add_converter(f"avg_pool{_rank}d", _average_pool(_rank))
    add_converter(f"_adaptive_avg_pool{_rank}d", _adaptive_average(_rank))
    add_converter(f"adaptive_avg_pool{_rank}d", _adaptive_average(_rank))


@converter("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max(node: AtenNode) -> Any:
    """Take the largest element of windows that share each axis out as evenly as possible."""
    x = node.emit(node.tensor("self"))
    rank = len(node.ints("output_size"))
    rank = int(node.operator.split("pool")[1][0]) if rank == 1 else rank
    shape = shape_of(x)
    sizes = node.static(shape[-rank:], "adaptive pooling")
    target = node.static(node.shape[-rank:], "adaptive pooling")
    spans = [
        [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]
        for size, out in zip(sizes, target)
    ]
    lead = shape[:-rank]
    widest = [max(end - start for start, end in span) for span in spans]
    places, inside = [], []
    for window in itertools.product(*spans):
        grids = [numpy.arange(start, start + wide) for (start, _), wide in zip(window, widest)]
        mesh = numpy.meshgrid(*grids, indexing="ij")
        valid, place = numpy.ones(mesh[0].shape, bool), numpy.zeros(mesh[0].shape, "int64")
        for grid, (_, end), size in zip(mesh, window, sizes):
            valid &= grid < end
            place = place * size + grid
        places.append(numpy.where(valid, place, 0).ravel())
        inside.append(valid.ravel())
    flat_places = numpy.stack(places)
    parts = op.take(reshape(x, [*lead, product(sizes)]), Constant(flat_places), len(lead))
    dtype = dtype_of(x)
    mask = Constant(numpy.stack(inside))
    parts = node.emit(op.where(mask, parts, number(lowest(dtype), dtype)))
    best = node.emit(position(node, parts, len(lead) + 1, False, True))
    base = Constant(numpy.arange(len(places), dtype="int64") * flat_places.shape[1])
    index = op.take(Constant(flat_places.reshape(-1)), op.add(best, base), 0)
    values = node.emit(extreme(node, parts, [len(lead) + 1], False, True))
    result = ShapeExpr(node.shape)
    return [op.reshape(values, result), op.reshape(node.emit(index), result)]
