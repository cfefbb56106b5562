"""Tensors with some elements replaced or combined with others."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant, ShapeExpr
from tilesmith.relax.frontend.torch.node import (
    AtenNode,
    cast,
    dtype_of,
    full_like_shape,
    number,
    product,
    rank_of,
    reshape,
    shape_of,
)
from tilesmith.relax.frontend.torch.ops.indexing import counted_from_front, cut_to
from tilesmith.relax.frontend.torch.ops.reduction import highest, lowest
from tilesmith.relax.frontend.torch.ops.views import bounds, diagonal_places, strided_places
from tilesmith.relax.frontend.torch.registry import converter

_MODES = {
    None: "update", "add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max",
    "amin": "min", "mean": "add",
}  # fmt: skip


def _is_empty(sizes: Any) -> bool:
    return any(isinstance(size, int) and size == 0 for size in sizes)


def _combined(node: AtenNode, x: Any, indices: Any, source: Any, mode: str) -> Any:
    """Return ``x`` with elements of ``source`` at places along the axis ``dim``."""
    if _is_empty(shape_of(indices)) or _is_empty(shape_of(x)):
        return x
    if not rank_of(x):
        x, indices, source = [reshape(tensor, [1]) for tensor in (x, indices, source)]
        found = _combined_at(node, x, indices, source, 0, mode)
        return reshape(node.emit(found), [])
    if not rank_of(indices):
        indices, source = reshape(indices, [1]), reshape(source, [1])
    axis = node.axis("dim", rank_of(x))
    return _combined_at(node, x, indices, source, axis, mode)


def _combined_at(node: AtenNode, x: Any, indices: Any, source: Any, axis: int, mode: str) -> Any:
    dtype = dtype_of(x)
    if dtype.is_bool:
        x, source = op.astype(x, "int8"), op.astype(source, "int8")
        mode = {"add": "max", "mul": "min"}.get(mode, mode)
    source = cut_to(node, node.emit(source), shape_of(indices), -1)
    found = op.scatter_elements(x, cast(indices, "int64"), source, axis, mode)
    return cast(node.emit(found), "bool") if dtype.is_bool else found


@converter("scatter")
def _scatter(node: AtenNode) -> Any:
    x, indices = node.tensor("self"), node.tensor("index")
    if node.has("src"):
        source = node.tensor("src", node.dtype)
    else:
        source = full_like_shape(shape_of(indices), node.tensor("value", node.dtype), node.dtype)
    return _combined(node, x, indices, source, _MODES[node.get("reduce")])


@converter("scatter_add")
def _scatter_add(node: AtenNode) -> Any:
    source = node.tensor("src", node.dtype)
    return _combined(node, node.tensor("self"), node.tensor("index"), source, "add")


@converter("scatter_reduce")
def _scatter_reduce(node: AtenNode) -> Any:
    x, indices = node.emit(node.tensor("self")), node.emit(node.tensor("index"))
    source, reduce = node.emit(node.tensor("src", node.dtype)), node["reduce"]
    if reduce in ("amax", "amin") and dtype_of(x).is_float:
        return _scattered_extreme(node, x, indices, source, reduce == "amax")
    ones = full_like_shape(shape_of(indices), 1, "int64")
    zeros = full_like_shape(shape_of(x), 0, "int64")
    if reduce == "mean" or not node.get("include_self", True):
        counts = node.emit(_combined(node, zeros, indices, ones, "add"))
    if not node.get("include_self", True):
        neutral = _neutral(reduce, node.dtype)
        touched = op.greater(counts, number(0, "int64"))
        x = node.emit(op.where(touched, number(neutral, node.dtype), x))
    found = _combined(node, x, indices, source, _MODES[reduce])
    if reduce != "mean":
        return found
    own = 1 if node.get("include_self", True) else 0
    counts = op.maximum(op.add(counts, number(own, "int64")), number(1, "int64"))
    divide = op.divide if dtype_of(x).is_float else op.floor_divide
    return divide(found, cast(node.emit(counts), node.dtype))


def _neutral(reduce: str, dtype: Any) -> Any:
    if reduce in ("amax", "amin"):
        return lowest(dtype) if reduce == "amax" else highest(dtype)
    return 1 if reduce == "prod" else 0


def _scattered_extreme(node: AtenNode, x: Any, indices: Any, source: Any, largest: bool) -> Any:
    """Return extremes of floats; an element that is not a number wins, as in torch."""
    mode = "max" if largest else "min"
    if not node.get("include_self", True):
        zeros = full_like_shape(shape_of(x), 0, "int64")
        ones = full_like_shape(shape_of(indices), 1, "int64")
        counts = _combined(node, zeros, indices, ones, "add")
        neutral = number(lowest(node.dtype) if largest else highest(node.dtype), node.dtype)
        x = node.emit(op.where(op.greater(counts, number(0, "int64")), neutral, x))
    found = _combined(node, x, indices, source, mode)
    strange = [op.astype(op.isnan(tensor), "int32") for tensor in (x, source)]
    some = _combined(node, node.emit(strange[0]), indices, node.emit(strange[1]), "max")
    return op.where(cast(node.emit(some), "bool"), number(numpy.nan, node.dtype), found)


# Parts of a tensor


def _placed(node: AtenNode, x: Any, source: Any, places: Any) -> Any:
    """Return ``x`` with ``source`` at constant positions of its flat form."""
    if not places.size:
        return x
    sizes = shape_of(x)
    flat = reshape(x, [product(sizes)])
    values = reshape(node.emit(source), [int(places.size)])
    tuples = Constant(numpy.ascontiguousarray(places.reshape(-1, 1)))
    is_bool = dtype_of(x).is_bool
    if is_bool:
        flat, values = op.astype(flat, "int8"), op.astype(values, "int8")
    found = node.emit(op.scatter_nd(flat, tuples, values))
    return reshape(cast(found, "bool") if is_bool else found, sizes)


def _along(node: AtenNode, x: Any, source: Any, axis: int, numbers: Any) -> Any:
    """Return ``x`` with slices of ``source`` at constant places along an axis."""
    if not numbers.size:
        return x
    order = [axis, *[i for i in range(rank_of(x)) if i != axis]]
    moved = order != sorted(order)
    x, source = node.emit(x), node.emit(source)
    if moved:
        x, source = node.emit(op.permute_dims(x, order)), node.emit(op.permute_dims(source, order))
    is_bool = dtype_of(x).is_bool
    if is_bool:
        x, source = node.emit(op.astype(x, "int8")), node.emit(op.astype(source, "int8"))
    found = node.emit(op.scatter_nd(x, Constant(numbers.reshape(-1, 1)), source))
    found = node.emit(cast(found, "bool")) if is_bool else found
    return op.permute_dims(found, [order.index(i) for i in range(len(order))]) if moved else found


@converter("slice_scatter")
def _slice_scatter(node: AtenNode) -> Any:
    x, source = node.tensor("self"), node.tensor("src", node.dtype)
    axis = node.axis("dim", rank_of(x), 0)
    size = shape_of(x)[axis]
    start, end = bounds(size, node["start"], node["end"])
    step = int(node.get("step", 1))
    if isinstance(start, int) and isinstance(end, int):
        places = numpy.arange(start, end, step, dtype="int64")
        if isinstance(size, int) and len(places) == size:
            return source
        return _along(node, x, source, axis, places)
    if step != 1:
        raise node.unsupported("writing every other element of an axis of symbolic size")
    before = op.strided_slice(x, [axis], [0], [start])
    after = op.strided_slice(x, [axis], [end], [size])
    parts = [] if isinstance(start, int) and start == 0 else [before]
    parts += [source] if end is size else [source, after]
    return op.concat(parts, axis) if len(parts) > 1 else source


@converter("select_scatter")
def _select_scatter(node: AtenNode) -> Any:
    x, source = node.tensor("self"), node.tensor("src", node.dtype)
    axis = node.axis("dim", rank_of(x))
    index, size = node["index"], shape_of(x)[axis]
    wide = op.expand_dims(source, axis)
    if isinstance(index, int) and (index >= 0 or isinstance(size, int)):
        index = index + size if index < 0 else index
        return _along(node, x, wide, axis, numpy.asarray([index], "int64"))
    index = index + size if isinstance(index, int) else index
    parts = [
        op.strided_slice(x, [axis], [0], [index]),
        wide,
        op.strided_slice(x, [axis], [index + 1], [size]),
    ]
    return op.concat(parts, axis)


@converter("diagonal_scatter")
def _diagonal_scatter(node: AtenNode) -> Any:
    x, source = node.tensor("self"), node.tensor("src", node.dtype)
    rank = rank_of(x)
    first, second = node.axis("dim1", rank, 0), node.axis("dim2", rank, 1)
    order = [*[axis for axis in range(rank) if axis not in (first, second)], first, second]
    moved = op.permute_dims(x, order)
    sizes = node.static([shape_of(x)[axis] for axis in order], "a diagonal")
    rows, columns = sizes[-2:]
    places = diagonal_places(rows, columns, int(node.get("offset", 0)))
    lead = int(numpy.prod(sizes[:-2])) if rank > 2 else 1
    whole = numpy.arange(lead, dtype="int64")[:, None] * (rows * columns) + places
    found = node.emit(_placed(node, node.emit(moved), source, whole))
    return op.permute_dims(found, [order.index(axis) for axis in range(rank)])


@converter("as_strided_scatter")
def _as_strided_scatter(node: AtenNode) -> Any:
    x, source = node.tensor("self"), node.tensor("src", node.dtype)
    places = strided_places(node, node["size"], node["stride"], node["storage_offset"])
    if not node.meta("self").is_contiguous():
        raise node.unsupported("writing to a strided view of a tensor that is not contiguous")
    return _placed(node, x, source, places)


@converter("masked_scatter")
def _masked_scatter(node: AtenNode) -> Any:
    """Replace the elements where a mask holds by those of a tensor, in order."""
    x, source = node.tensor("self"), node.tensor("source", node.dtype)
    shape = ShapeExpr(node.shape)
    if _is_empty(node.shape):
        return x
    mask = node.emit(op.broadcast_to(node.tensor("mask", "bool"), shape))
    count = product(node.shape)
    flat = node.emit(reshape(mask, [count]))
    numbers = op.subtract(op.cumsum(op.astype(flat, "int64"), 0), number(1, "int64"))
    numbers = op.maximum(numbers, number(0, "int64"))
    if _is_empty(shape_of(source)):
        return x
    last = product(shape_of(source))
    numbers = op.minimum(numbers, number(last - 1, "int64")) if isinstance(last, int) else numbers
    taken = op.take(reshape(source, [last]), node.emit(numbers), 0)
    return op.where(mask, op.reshape(taken, shape), x)


@converter("index_add")
def _index_add(node: AtenNode) -> Any:
    source = node.tensor("source", node.dtype)
    if node.get("alpha", 1) != 1:
        source = op.multiply(source, node.as_tensor(node["alpha"], node.dtype))
    return _by_vector(node, source, "add")


@converter("index_copy")
def _index_copy(node: AtenNode) -> Any:
    return _by_vector(node, node.tensor("source", node.dtype), "update")


@converter("index_fill")
def _index_fill(node: AtenNode) -> Any:
    x, indices = node.tensor("self"), node.tensor("index")
    sizes = list(shape_of(x))
    if not sizes:
        return node.tensor("value", node.dtype)
    sizes[node.axis("dim", len(sizes))] = product(shape_of(indices))
    value = op.broadcast_to(node.tensor("value", node.dtype), ShapeExpr(sizes))
    return _by_vector(node, value, "update")


def _by_vector(node: AtenNode, source: Any, mode: str) -> Any:
    """Combine slices of ``source`` with those of ``self`` that a vector of indices names."""
    x, indices = node.emit(node.tensor("self")), node.tensor("index")
    source = node.emit(source)
    if not rank_of(x):
        return op.add(x, reshape(source, [])) if mode == "add" else reshape(source, [])
    if _is_empty(shape_of(indices)) or _is_empty(shape_of(x)):
        return x
    axis = node.axis("dim", rank_of(x))
    count = product(shape_of(indices))
    indices = counted_from_front(node, reshape(indices, [count]), shape_of(x)[axis])
    if rank_of(source) < rank_of(x):
        source = reshape(source, [1])
    order = [axis, *[i for i in range(rank_of(x)) if i != axis]]
    if axis:
        x, source = [node.emit(op.permute_dims(tensor, order)) for tensor in (x, source)]
    is_bool = dtype_of(x).is_bool
    if is_bool:
        x, source = [node.emit(op.astype(tensor, "int8")) for tensor in (x, source)]
        mode = "max" if mode == "add" else mode
    found = node.emit(op.scatter_nd(x, node.emit(op.expand_dims(indices, 1)), source, mode))
    found = node.emit(cast(found, "bool")) if is_bool else found
    return op.permute_dims(found, [order.index(i) for i in range(len(order))]) if axis else found
