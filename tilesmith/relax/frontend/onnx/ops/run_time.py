"""Parameters that are known only when the model runs: axes, and how much to pad or cut off.

Axes decide where elements go, so they become data: whether axis ``i`` is chosen is element ``i`` of
a vector of 0 and 1, sizes are computed from it and bound to symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant, ShapeExpr
from tilesmith.relax.frontend.onnx.node import OnnxNode, stack_sizes
from tilesmith.relax.frontend.onnx.values import (
    Size,
    dtype_of,
    product,
    rank_of,
    scalar,
    shape_of,
    vector,
)
from tilesmith.runtime.dtype import DataType

__all__ = ["RunTimeAxes", "long_vector", "pad_at_run_time", "size_vector", "spread"]


def long_vector(node: OnnxNode, value: Any) -> Any:
    """Return integers as a vector of int64."""
    value = value if dtype_of(value) == "int64" else op.astype(value, "int64")
    return node.emit(op.reshape(value, [1]) if rank_of(value) == 0 else value)


def size_vector(node: OnnxNode, sizes: Sequence[Size]) -> Any:
    """Return sizes as a vector of int64."""
    found = stack_sizes(list(sizes))
    return found if isinstance(found, Constant) else node.importer.tensor(found)


def _counted(node: OnnxNode, axes: Any, rank: int) -> Any:
    """Return axes counted from the front."""
    axes = long_vector(node, axes)
    behind = op.less(axes, scalar(0, "int64"))
    return node.emit(op.where(behind, op.add(axes, scalar(rank, "int64")), axes))


def spread(node: OnnxNode, values: Any, axes: Any, rank: int, default: int) -> Any:
    """Return a vector with an element for each axis: the given ones for ``axes``, which may be
    computed at run time, ``default`` for others.
    """
    values = long_vector(node, values)
    filled = vector([default] * rank)
    return node.emit(op.scatter_elements(filled, _counted(node, axes, rank), values, 0, "update"))


class RunTimeAxes:
    """Axes of tensors of some rank that are computed when the model runs; there are ``count``."""

    def __init__(self, node: OnnxNode, axes: Any, rank: int) -> None:
        shape = shape_of(axes)
        count = shape[0] if shape else 1
        if not isinstance(count, int):
            raise node.unsupported(
                "a list of axes that is computed at run time and has no fixed length",
                "give the length of the list in the model, or make it a constant",
            )
        self.node, self.rank, self.count = node, rank, count
        places = op.expand_dims(_counted(node, axes, rank), 1)
        hits = op.equal(places, vector([list(range(rank))]))
        self.chosen = node.emit(op.max(op.astype(hits, "int64"), [0]))
        """For each axis whether it is chosen: 1 or 0."""

    def replaced(self, sizes: Any, other: int) -> Any:
        """Return the sizes with ``other`` in place of those of the chosen axes."""
        is_chosen = op.astype(self.chosen, "bool")
        return self.node.emit(op.where(is_chosen, scalar(other, "int64"), sizes))

    def rest(self, sizes: Any) -> list[Size]:
        """Return the sizes of the axes that are not chosen, as symbolic ones."""
        left = self.rank - self.count
        if left == 0:
            return []
        kept = self.node.emit(op.subtract(scalar(1, "int64"), self.chosen))
        place = op.subtract(op.cumsum(kept, 0, "int64"), scalar(1, "int64"))
        place = op.where(op.astype(kept, "bool"), place, scalar(left, "int64"))
        room = vector([0] * (left + 1))
        packed = op.scatter_elements(room, self.node.emit(place), sizes, 0, "update")
        packed = op.strided_slice(packed, [0], [0], [left])
        return self.node.run_time_sizes(self.node.emit(packed), "size")

    def inserted(self, sizes: Any) -> list[Size]:
        """Return sizes of a tensor of the rank, with 1 for the chosen axes and the given sizes, in
        order, for the others.
        """
        kept = op.subtract(scalar(1, "int64"), self.chosen)
        place = op.subtract(op.cumsum(self.node.emit(kept), 0, "int64"), scalar(1, "int64"))
        place = self.node.emit(op.maximum(place, scalar(0, "int64")))
        known = sizes if self.rank > self.count else vector([1])
        return self.node.run_time_sizes(self.replaced(op.take(known, place, 0), 1), "size")


_IDENTITY = {"add": 0, "mul": 1}


class RunTimeReduction:
    """Reduces a tensor over axes that are computed when the model runs.

    Each element is added to the one of the result at its own position without the reduced axes.
    """

    def __init__(self, node: OnnxNode, x: Any, axes: Any, keep: bool) -> None:
        rank = rank_of(x)
        self.node, self.keep = node, keep
        self.axes = RunTimeAxes(node, axes, rank)
        self.before = shape_of(x)
        self.sizes = size_vector(node, self.before)
        self.after = node.run_time_sizes(self.axes.replaced(self.sizes, 1), "size")
        self.places = self._places()

    def _places(self) -> Any:
        """Return for each element the flat position in the result."""
        rank = len(self.before)
        kept = op.subtract(scalar(1, "int64"), self.axes.chosen)
        steps = size_vector(self.node, [product(self.after[i + 1 :]) for i in range(rank)])
        steps = self.node.emit(op.multiply(kept, steps))
        total: Any = None
        for axis, size in enumerate(self.before):
            index = op.reshape(
                op.arange(0, size, 1, "int64"), [size if i == axis else 1 for i in range(rank)]
            )
            part = op.multiply(index, op.take(steps, scalar(axis, "int64"), 0))
            total = part if total is None else op.add(total, part)
        return self.node.emit(op.flatten(total))

    def combined(self, x: Any, how: str) -> Any:
        """Return the flat result of combining elements: "add", "mul", "min" or "max"."""
        dtype = dtype_of(x)
        start = _IDENTITY[how] if how in _IDENTITY else _limit(dtype, how)
        room = op.full(ShapeExpr([product(self.after)]), scalar(start, dtype), dtype)
        flat = op.flatten(x)
        return self.node.emit(op.scatter_elements(room, self.places, flat, 0, how))

    def spread(self, flat: Any) -> Any:
        """Return what a flat result is for each element of the reduced tensor."""
        return op.reshape(op.take(flat, self.places, 0), ShapeExpr(self.before))

    def counted(self, dtype: Any) -> Any:
        """Return how many elements are combined to one."""
        size = size_vector(self.node, [product(self.before)])
        count = op.floor_divide(size, size_vector(self.node, [product(self.after)]))
        return op.astype(count, dtype)

    def shaped(self, flat: Any) -> Any:
        """Return a flat result in its shape."""
        sizes = self.after if self.keep else self.axes.rest(self.sizes)
        return op.reshape(flat, ShapeExpr(sizes))


def _limit(dtype: DataType, how: str) -> Any:
    if dtype.is_float:
        return -numpy.inf if how == "max" else numpy.inf
    return dtype.min_value if how == "max" else dtype.max_value


def pad_at_run_time(node: OnnxNode, x: Any, before: Any, after: Any, value: Any, mode: str) -> Any:
    """Pad each axis by elements of two vectors; negative ones cut elements off.

    ``mode`` is ONNX's: "constant", "edge", "reflect" or "wrap".
    """
    rank, sizes = rank_of(x), shape_of(x)
    whole = op.add(size_vector(node, sizes), op.add(before, after))
    wanted = node.run_time_sizes(node.emit(whole), "size")
    inside: Any = None
    for axis in range(rank):
        shift = op.take(before, scalar(axis, "int64"), 0)
        place = node.emit(op.subtract(op.arange(0, wanted[axis], 1, "int64"), shift))
        extent = op.reshape(size_vector(node, [sizes[axis]]), [])
        index = node.emit(_within(place, extent, mode))
        x = node.emit(op.take(x, index, axis))
        if mode == "constant":
            fits = op.reshape(op.equal(index, place), [-1 if i == axis else 1 for i in range(rank)])
            inside = fits if inside is None else op.logical_and(inside, fits)
    if inside is None:
        return x
    return op.where(inside, x, value)


def _within(place: Any, extent: Any, mode: str) -> Any:
    """Return the positions of the elements that are copied to places outside of an axis."""
    zero, one = scalar(0, "int64"), scalar(1, "int64")
    last = op.subtract(extent, one)
    if mode == "wrap":
        return op.floor_mod(place, extent)
    if mode == "reflect":
        period = op.maximum(op.multiply(last, scalar(2, "int64")), one)
        turned = op.floor_mod(place, period)
        return op.minimum(turned, op.abs(op.subtract(period, turned)))
    return op.maximum(op.minimum(place, last), zero)
