"""Elements by index."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax import op
from tilesmith.relax.expr import Constant, ShapeExpr
from tilesmith.relax.frontend.torch.node import (
    AtenNode,
    cast,
    dtype_of,
    full_like_shape,
    product,
    rank_of,
    reshape,
    scalar,
    shape_of,
)
from tilesmith.relax.frontend.torch.registry import converter
from tilesmith.relax.struct_info import TensorStructInfo


def counted_from_front(node: AtenNode, indices: Any, size: Any) -> Any:
    """Return indices as int64 that count from the front of an axis of ``size``."""
    indices = cast(indices, "int64")
    if isinstance(indices, Constant) and isinstance(size, int):
        array = numpy.asarray(indices.data)
        return Constant(numpy.where(array < 0, array + size, array))
    indices = node.emit(indices)
    extent = (
        scalar(size, "int64") if isinstance(size, int) else node.importer.tensor_of_scalar(size)
    )
    return op.where(op.less(indices, scalar(0, "int64")), op.add(indices, extent), indices)


def _is_empty(sizes: Any) -> bool:
    return any(isinstance(size, int) and size == 0 for size in sizes)


@converter("index_select")
def _index_select(node: AtenNode) -> Any:
    x, indices = node.tensor("self"), node.tensor("index")
    if not rank_of(x):
        return reshape(x, node.shape)
    if _is_empty(node.shape):
        return full_like_shape(node.shape, 0, node.dtype)
    indices = reshape(indices, [product(shape_of(indices))])
    return op.take(x, indices, node.axis("dim", rank_of(x)))


@converter("take")
def _take(node: AtenNode) -> Any:
    x, indices = node.tensor("self"), node.tensor("index")
    if _is_empty(node.shape):
        return full_like_shape(node.shape, 0, node.dtype)
    count = product(shape_of(x))
    return op.take(reshape(x, [count]), counted_from_front(node, indices, count), 0)


@converter("gather")
def _gather(node: AtenNode) -> Any:
    x, indices = node.tensor("self"), node.tensor("index")
    if _is_empty(node.shape):
        return full_like_shape(node.shape, 0, node.dtype)
    if not rank_of(x):
        return reshape(x, node.shape)
    if not rank_of(indices):
        indices = reshape(indices, [1])
        return reshape(node.emit(op.gather_elements(x, indices, 0)), node.shape)
    axis = node.axis("dim", rank_of(x))
    x = cut_to(node, x, shape_of(indices), axis)
    return op.gather_elements(x, cast(indices, "int64"), axis)


def cut_to(node: AtenNode, x: Any, sizes: list[Any], axis: int) -> Any:
    """Return the part of a tensor that indices of a smaller shape can reach."""
    own = shape_of(x)
    axes = [
        i for i, (a, b) in enumerate(zip(own, sizes))
        if i != axis and not (a is b or (isinstance(a, int) and isinstance(b, int) and a == b))
    ]  # fmt: skip
    if not axes:
        return x
    return node.emit(op.strided_slice(x, axes, [0] * len(axes), [sizes[i] for i in axes]))


# Several tensors of indices at once


class Indices:
    """Tensors of indices for some axes of a tensor, as one tensor of index tuples.

    ``axes`` come first in the tensor after ``order`` is applied; ``place`` is where the broadcast
    axes of the indices stand in the result.
    """

    def __init__(self, node: AtenNode, x: Any, given: list[Any]) -> None:
        self.node = node
        axes, tensors = [], []
        axis = 0
        for item in given:
            if item is None:
                axis += 1
                continue
            if dtype_of(item).is_bool:
                for part in self._of_mask(item):
                    axes.append(axis)
                    tensors.append(part)
                    axis += 1
            else:
                axes.append(axis)
                tensors.append(item)
                axis += 1
        self.axes = axes
        rank, sizes = rank_of(x), shape_of(x)
        self.rest = [i for i in range(rank) if i not in axes]
        self.order = [*axes, *self.rest]
        tensors = [
            node.emit(counted_from_front(node, tensor, sizes[axis]))
            for axis, tensor in zip(axes, tensors)
        ]
        self.tensors = tensors
        together = axes == list(range(axes[0], axes[-1] + 1)) if axes else True
        self.place = axes[0] if together and axes else 0

    def _of_mask(self, mask: Any) -> list[Any]:
        """Return the indices at which a mask holds; their number is known when it runs."""
        node = self.node
        if not rank_of(mask):
            raise node.unsupported("indexing by a mask of rank 0")
        found = op.nonzero(mask)
        return unbound_rows(node, found, rank_of(mask))

    def shape(self, described: list[Any]) -> list[Any]:
        """Return the sizes of the indices in a result of the given sizes."""
        count = len(described) - len(self.rest)
        return described[self.place : self.place + count]

    def tuples(self, sizes: list[Any]) -> Any:
        """Return the indices broadcast to ``sizes``, joined along a new last axis."""
        shape = ShapeExpr(sizes)
        parts = [op.broadcast_to(tensor, shape) for tensor in self.tensors]
        return self.node.emit(op.stack(parts, len(sizes)))

    def back(self, count: int) -> list[int]:
        """Return the order that moves the indices' axes from the front to their place."""
        behind = list(range(count, count + self.place))
        after = list(range(count + self.place, count + len(self.rest)))
        return [*behind, *range(count), *after]


def unbound_rows(node: AtenNode, found: Any, rank: int) -> list[Any]:
    """Return the rows of the result of ``nonzero``, vectors whose size a new variable names."""
    builder = node.importer.block_builder
    count = SymbolicVar(builder.get_unique_name("count"), "int64")
    bound = builder.match_cast(node.emit(found), TensorStructInfo([rank, count], "int64"))
    return [node.emit(op.take(bound, scalar(row, "int64"), 0)) for row in range(rank)]


@converter("index", "_unsafe_index")
def _index(node: AtenNode) -> Any:
    x = node.tensor("self")
    given = list(node["indices"])
    if _is_empty(node.shape) and all(item is None or not dtype_of(item).is_bool for item in given):
        return full_like_shape(node.shape, 0, node.dtype)
    indices = Indices(node, x, given)
    if len(indices.axes) == 1:
        found = op.take(x, indices.tensors[0], indices.axes[0])
        return found
    sizes = _broadcast_sizes(node, indices)
    order = indices.order
    x = x if order == sorted(order) else op.permute_dims(x, order)
    found = op.gather_nd(x, indices.tuples(sizes))
    back = indices.back(len(sizes))
    return found if back == sorted(back) else op.permute_dims(node.emit(found), back)


def _broadcast_sizes(node: AtenNode, indices: Indices) -> list[Any]:
    masks = any(item is not None and dtype_of(item).is_bool for item in node["indices"])
    if not masks:
        return indices.shape(node.shape)
    return max([shape_of(tensor) for tensor in indices.tensors], key=_weight)


def _weight(sizes: list[Any]) -> tuple[int, int]:
    return len(sizes), sum([not (isinstance(size, int) and size == 1) for size in sizes])


@converter("index_put", "_unsafe_index_put")
def _index_put(node: AtenNode) -> Any:
    x, given = node.tensor("self"), list(node["indices"])
    values = node.tensor("values", node.dtype)
    mode = "add" if node.get("accumulate", False) else "update"
    masks = [item for item in given if item is not None]
    if len(masks) == 1 and dtype_of(masks[0]).is_bool and product(shape_of(values)) == 1:
        return _put_by_mask(node, x, given, values, mode)
    indices = Indices(node, x, given)
    sizes = _common([shape_of(tensor) for tensor in indices.tensors])
    if _is_empty(sizes) or _is_empty(shape_of(x)):
        return x
    rest = [shape_of(x)[axis] for axis in indices.rest]
    whole = [*rest[: indices.place], *sizes, *rest[indices.place :]]
    values = node.emit(op.broadcast_to(_trimmed(values, len(whole)), ShapeExpr(whole)))
    place, count = indices.place, len(sizes)
    to_front = [*range(place, place + count), *range(place), *range(place + count, len(whole))]
    if to_front != sorted(to_front):
        values = node.emit(op.permute_dims(values, to_front))
    order = indices.order
    turned = order != sorted(order)
    moved = node.emit(op.permute_dims(x, order)) if turned else x
    found = scattered(node, moved, indices.tuples(sizes), values, mode)
    return op.permute_dims(node.emit(found), _inverse(order)) if turned else found


def scattered(node: AtenNode, x: Any, tuples: Any, values: Any, mode: str) -> Any:
    """Return ``x`` with values at tuples of indices; booleans as bytes."""
    if not dtype_of(x).is_bool:
        return op.scatter_nd(x, tuples, values, mode)
    wide = [op.astype(tensor, "int8") for tensor in (x, values)]
    mode = "max" if mode == "add" else mode
    return cast(node.emit(op.scatter_nd(wide[0], tuples, wide[1], mode)), "bool")


def _inverse(order: list[int]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


def _trimmed(values: Any, rank: int) -> Any:
    """Return values without leading axes of size 1 that the place has not."""
    sizes = shape_of(values)
    extra = len(sizes) - rank
    return reshape(values, sizes[extra:]) if extra > 0 else values


def _common(shapes: list[list[Any]]) -> list[Any]:
    """Return the sizes that several shapes broadcast to."""
    rank = max([len(shape) for shape in shapes])
    found: list[Any] = []
    for place in range(rank):
        sizes = [shape[place - rank + len(shape)] for shape in shapes if place >= rank - len(shape)]
        found.append(next((s for s in sizes if not (isinstance(s, int) and s == 1)), 1))
    return found


def _put_by_mask(node: AtenNode, x: Any, given: list[Any], values: Any, mode: str) -> Any:
    """Choose between old and new elements where a mask says which."""
    before = next(i for i, item in enumerate(given) if item is not None)
    mask = given[before]
    after = rank_of(x) - before - rank_of(mask)
    mask = reshape(mask, [*[1] * before, *shape_of(mask), *[1] * after])
    value = reshape(values, [])
    if mode == "add":
        value = op.add(x, value)
    return op.where(mask, value, x)


@converter("nonzero")
def _nonzero(node: AtenNode) -> Any:
    x = node.tensor("self")
    mask = x if dtype_of(x).is_bool else cast(x, "bool")
    rank, count = rank_of(x), node.shape[0]
    if not rank:
        mask = op.reshape(mask, ShapeExpr([1]))
    found = node.emit(op.nonzero(mask))
    sizes = TensorStructInfo([max(rank, 1), count], "int64")
    bound = node.importer.block_builder.match_cast(found, sizes)
    if not rank:
        return op.zeros(ShapeExpr([count, 0]), "int64")
    return op.permute_dims(bound, [1, 0])


@converter("masked_select")
def _masked_select(node: AtenNode) -> Any:
    x, mask = node.tensor("self"), node.tensor("mask")
    sizes = _common([shape_of(x), shape_of(mask)])
    x = op.broadcast_to(x, ShapeExpr(sizes))
    mask = op.broadcast_to(mask, ShapeExpr(sizes))
    count = product(sizes)
    mask = node.emit(reshape(node.emit(mask), [count]))
    places = unbound_rows(node, op.nonzero(mask), 1)[0]
    return op.take(reshape(node.emit(x), [count]), places, 0)


@converter("isin")
def _isin(node: AtenNode) -> Any:
    elements, tests = node.tensor("elements"), node.tensor("test_elements")
    if _is_empty(shape_of(elements)) or _is_empty(shape_of(tests)):
        return full_like_shape(node.shape, bool(node.get("invert", False)), "bool")
    flat = reshape(tests, [product(shape_of(tests))])
    same = op.equal(op.expand_dims(elements, rank_of(elements)), flat)
    found = op.any(same, [rank_of(elements)])
    return op.logical_not(found) if node.get("invert", False) else found


@converter("bucketize", "searchsorted")
def _bucketize(node: AtenNode) -> Any:
    """Count the boundaries below each element."""
    bounds_name = "boundaries" if node.has("boundaries") else "sorted_sequence"
    bounds, x = node.tensor(bounds_name), node.tensor("self")
    if rank_of(bounds) != 1 or node.has("sorter"):
        raise node.unsupported("searching in several sequences")
    right = bool(node.get("right", False)) or node.get("side") == "right"
    compare = op.less_equal if right else op.less
    below = compare(bounds, op.expand_dims(x, rank_of(x)))
    found = op.sum(op.astype(below, "int64"), [rank_of(x)])
    return cast(node.emit(found), node.dtype) if rank_of(x) else found
