"""Parts by index: gather, scatter, slice, triangles, one-hot, conditions that choose elements."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import Constant, ShapeExpr, TupleGetItem
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis
from tilesmith.relax.frontend.onnx.ops.run_time import long_vector, size_vector, spread
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.values import (
    Size,
    as_array,
    dtype_of,
    rank_of,
    scalar,
    shape_of,
    vector,
)
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

_FAR = 1 << 40  # beyond the size of any axis


def from_front(node: OnnxNode, indices: Any, size: Size) -> Any:
    """Convert indices to count from the front; negative ones count from the end of an axis of
    ``size``.
    """
    dtype = dtype_of(indices)
    if dtype.is_uint:
        return indices
    if isinstance(indices, Constant):
        array = as_array(indices)
        if not (array < 0).any():
            return indices
        if isinstance(size, int):
            return Constant(numpy.where(array < 0, array + size, array).astype(array.dtype))
    extent: Any = scalar(size, dtype) if isinstance(size, int) else None
    if extent is None:
        extent = op.reshape(op.shape_to_tensor(ShapeExpr([size])), [])
        extent = extent if dtype == "int64" else op.astype(extent, dtype)
    return op.where(op.less(indices, scalar(0, dtype)), op.add(indices, extent), indices)


@converter("Gather")
def _gather(node: OnnxNode) -> Any:
    x = node[0]
    axis = node.axis(0, rank_of(x))
    size = shape_of(x)[axis]
    known = node.known(1)
    if known is not None and known.dtype != object and isinstance(size, int) and known.size:
        if known.min() < -size or known.max() >= size:
            raise ShapeError(
                f"an index is outside of axis {axis} of size {size}: {known.ravel()[:8]}"
            )
    return op.take(x, node[1], axis)


@converter("GatherElements")
def _gather_elements(node: OnnxNode) -> Any:
    x = node[0]
    return op.gather_elements(x, node[1], node.axis(0, rank_of(x)))


@converter("GatherND")
def _gather_nd(node: OnnxNode) -> Any:
    x, indices = node[0], node[1]
    batch = int(node.attribute("batch_dims", 0))
    if not 0 <= batch < min(rank_of(x), rank_of(indices)):
        raise OpAttributeInvalid(
            f"its attribute 'batch_dims' is {batch} for tensors of the ranks {rank_of(x)} and "
            f"{rank_of(indices)}"
        )
    if not isinstance(shape_of(indices)[-1], int):
        raise node.unsupported("vectors of indices of symbolic length")
    return op.gather_nd(x, indices, batch)


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


@converter("ScatterElements", "Scatter")
def _scatter_elements(node: OnnxNode) -> Any:
    x = node[0]
    axis = node.axis(0, rank_of(x))
    reduction = _REDUCTIONS[node.choice("reduction", "none", *_REDUCTIONS)]
    return op.scatter_elements(x, node[1], node[2], axis, reduction)


@converter("ScatterND")
def _scatter_nd(node: OnnxNode) -> Any:
    x, indices = node[0], node[1]
    if not isinstance(shape_of(indices)[-1], int):
        raise node.unsupported("vectors of indices of symbolic length")
    reduction = _REDUCTIONS[node.choice("reduction", "none", *_REDUCTIONS)]
    return op.scatter_nd(x, indices, node[2], reduction)


# Slices


def _bound(value: Any) -> Any:
    """Limit a bound to a range in which arithmetic with it does not overflow."""
    return max(-_FAR, min(_FAR, value)) if isinstance(value, int) else value


def _start(value: Any, size: Size, step: int) -> Any:
    """Return the start of a slice; going backwards, ONNX clamps it where Python selects nothing."""
    if step > 0 or not isinstance(value, int):
        return value
    limit = -size if isinstance(size, int) else -(_FAR // 2)
    return 0 if value < limit else value


@converter("Slice", since=10)
def _slice(node: OnnxNode) -> Any:
    x = node[0]
    rank = rank_of(x)
    count = shape_of(node[1])[0]
    if any(node.has(index) and node.known(index) is None for index in (3, 4)):
        return _slice_along_run_time_axes(node, x)
    axes = node.axes(3, rank)
    axes = list(range(int(count))) if axes is None else axes
    if len(axes) > rank or (isinstance(count, int) and len(axes) != count):
        raise ShapeError(f"it has {count} starts for {len(axes)} axes of a tensor of rank {rank}")
    steps = [1] * len(axes)
    if node.has(4):
        steps = [_bound(int(value)) for value in node.constant(4, "steps").ravel()]
    if node.known(1) is None or node.known(2) is None:
        return _slice_at_run_time(node, x, axes, steps)
    sizes = shape_of(x)
    starts = [
        _start(_bound(value), sizes[axis], step)
        for value, axis, step in zip(node.integers(1, "starts"), axes, steps)
    ]
    ends = [_bound(value) for value in node.integers(2, "ends")]
    return op.strided_slice(x, axes, starts, ends, steps)


def _slice_at_run_time(node: OnnxNode, x: Any, axes: list[int], steps: list[int]) -> Any:
    """Slice by bounds that are computed at run time, spread over all axes."""
    rank = rank_of(x)
    full = {"begin": 0, "end": _FAR}
    bounds = []
    for index, word in ((1, "begin"), (2, "end")):
        given = node[index]
        given = given if dtype_of(given) == "int64" else op.astype(given, "int64")
        # The extra last element is used for axes that are not sliced.
        joined = op.concat([given, vector([full[word]])], 0)
        places = [axes.index(axis) if axis in axes else len(axes) for axis in range(rank)]
        bounds.append(node.emit(op.take(joined, vector(places), 0)))
    strides = [1] * rank
    for axis, step in zip(axes, steps):
        strides[axis] = step
    return op.dynamic_strided_slice(x, bounds[0], bounds[1], vector(strides))


def _slice_along_run_time_axes(node: OnnxNode, x: Any) -> Any:
    """Slice along axes, or by steps, that are computed when the model runs."""
    rank = rank_of(x)
    count = shape_of(node[1])[0]
    if not isinstance(count, int):
        raise node.unsupported("bounds whose number is not constant")
    axes = node[3] if node.has(3) else vector(list(range(count)))
    begin = spread(node, node[1], axes, rank, 0)
    end = spread(node, node[2], axes, rank, _FAR)
    steps = spread(node, node[4], axes, rank, 1) if node.has(4) else vector([1] * rank)
    far = [scalar(-_FAR, "int64"), scalar(_FAR, "int64")]
    begin, end = [node.emit(op.minimum(op.maximum(v, far[0]), far[1])) for v in (begin, end)]
    return op.dynamic_strided_slice(x, begin, end, steps)


@converter("Slice", since=1)
def _slice_by_attributes(node: OnnxNode) -> Any:
    starts, ends = node.required("starts"), node.required("ends")
    axes = node.axes(None, rank_of(node[0])) or list(range(len(starts)))
    return op.strided_slice(
        node[0], axes, [_bound(int(v)) for v in starts], [_bound(int(v)) for v in ends]
    )


# Triangles and places


@converter("Trilu")
def _trilu(node: OnnxNode) -> Any:
    x = node[0]
    is_upper = node.flag("upper", True)
    if node.has(1) and node.known(1) is None:
        return _trilu_at_run_time(node, x, is_upper)
    diagonal = int(node.number(1, "k", 0))
    dtype = dtype_of(x)
    if dtype.is_bool:
        x = op.astype(x, "int8")
    found = (op.triu if is_upper else op.tril)(x, diagonal)
    return op.astype(found, dtype) if dtype.is_bool else found


def _trilu_at_run_time(node: OnnxNode, x: Any, is_upper: bool) -> Any:
    if rank_of(x) < 2:
        raise ShapeError("a tensor of matrices is needed")
    rows, columns = shape_of(x)[-2:]
    row = op.expand_dims(op.arange(0, rows, 1, "int64"), 1)
    column = op.expand_dims(op.arange(0, columns, 1, "int64"), 0)
    distance = op.subtract(op.subtract(column, row), op.reshape(node[1], []))
    compare = op.greater_equal if is_upper else op.less_equal
    return op.where(compare(distance, scalar(0, "int64")), x, scalar(0, dtype_of(x)))


@converter("OneHot")
def _one_hot(node: OnnxNode) -> Any:
    indices, values = node[0], node[2]
    if node.known(1) is None:
        return _one_hot_at_run_time(node, indices, values)
    depth = int(node.number(1, "depth"))
    rank = rank_of(indices)
    if shape_of(values) != [2]:
        raise ShapeError(f"its input 'values' has to have the shape (2), got {shape_of(values)}")
    if depth < 0:
        raise ShapeError(f"its input 'depth' is {depth}")
    axis = normal_axis(node.attribute("axis", -1), rank + 1)
    if dtype_of(indices).is_float:
        indices = op.astype(indices, "int64")
    if dtype_of(indices).is_uint:
        indices = op.astype(indices, "int64")
    places = from_front(node, indices, depth)
    known = node.known(2)
    if known is not None and known.dtype.kind in "if":
        off, on = [item.item() for item in known.ravel()]
        return op.one_hot(places, on, off, depth, axis, dtype_of(values))
    hit = op.astype(op.one_hot(places, 1, 0, depth, axis, "int8"), "bool")
    off_value, on_value = (
        op.take(values, scalar(0, "int64"), 0),
        op.take(values, scalar(1, "int64"), 0),
    )
    return op.where(hit, on_value, off_value)


def _one_hot_at_run_time(node: OnnxNode, indices: Any, values: Any) -> Any:
    """Compare each index with the positions on the new axis, whose size is computed."""
    rank = rank_of(indices)
    axis = normal_axis(node.attribute("axis", -1), rank + 1)
    (depth,) = node.run_time_sizes(long_vector(node, node[1]), "depth")
    indices = node.emit(op.expand_dims(op.astype(indices, "int64"), axis))
    extent = op.reshape(size_vector(node, [depth]), [])
    behind = op.less(indices, scalar(0, "int64"))
    places = op.where(behind, op.add(indices, extent), indices)
    steps = op.arange(0, depth, 1, "int64")
    steps = op.reshape(steps, [depth if i == axis else 1 for i in range(rank + 1)])
    off, on = [op.take(values, scalar(place, "int64"), 0) for place in (0, 1)]
    return op.where(op.equal(places, steps), on, off)


@converter("NonZero")
def _non_zero(node: OnnxNode) -> Any:
    x = node[0] if rank_of(node[0]) else node.emit(op.reshape(node[0], [1]))
    if node.known(0) is not None:
        return op.nonzero(x)
    return node.emit_with_sizes(op.nonzero(x), [rank_of(x), None])


@converter("Compress")
def _compress(node: OnnxNode) -> Any:
    x, axis = node[0], node.attribute("axis")
    if axis is None:
        x, axis = node.emit(op.flatten(x)), 0
    axis = normal_axis(axis, rank_of(x))
    known = node.known(1)
    if known is not None:
        return op.take(x, vector(numpy.nonzero(known)[0]), axis)
    chosen = node.emit(op.nonzero(node[1]))
    return op.take(x, node.emit(op.reshape(chosen, [-1])), axis)


@converter("EyeLike")
def _eye_like(node: OnnxNode) -> Any:
    from tilesmith.relax.frontend.onnx.tensors import dtype_name

    if rank_of(node[0]) != 2:
        raise ShapeError(f"it needs a matrix, got a tensor of rank {rank_of(node[0])}")
    rows, columns = shape_of(node[0], 2)
    to = node.attribute("dtype")
    dtype = dtype_of(node[0]) if to is None else dtype_name(int(to), "the result")
    row = op.expand_dims(op.arange(0, rows, 1, "int64"), 1)
    column = op.expand_dims(op.arange(0, columns, 1, "int64"), 0)
    diagonal = scalar(int(node.attribute("k", 0)), "int64")
    return op.astype(op.equal(op.subtract(column, row), diagonal), dtype)


@converter("TensorScatter")
def _tensor_scatter(node: OnnxNode) -> Any:
    """Write updates into a cache along one axis, from each sequence's own position on."""
    cache, update = node[0], node[1]
    rank = rank_of(cache)
    axis = node.axis(-2, rank)
    if rank_of(update) != rank:
        raise ShapeError(f"the update has the rank {rank_of(update)}, the cache {rank}")
    sizes, parts = shape_of(cache), shape_of(update)
    steps = op.arange(0, parts[axis], 1, "int64")
    steps = op.reshape(steps, [parts[axis] if i == axis else 1 for i in range(rank)])
    if node.has(2):
        start = op.astype(node[2], "int64")
        start = op.reshape(start, [sizes[0] if i == 0 else 1 for i in range(rank)])
        steps = op.add(start, steps)
    if node.choice("mode", "linear", "linear", "circular") == "circular":
        extent = sizes[axis]
        if not isinstance(extent, int):
            raise node.unsupported("a circular cache of symbolic size")
        steps = op.floor_mod(steps, scalar(extent, "int64"))
    places = op.broadcast_to(steps, ShapeExpr(parts))
    return op.scatter_elements(cache, places, update, axis, "update")


@converter("NonMaxSuppression")
def _non_max_suppression(node: OnnxNode) -> Any:
    boxes, scores = node[0], node[1]
    if node.attribute("center_point_box", 0):
        center, size = [op.strided_slice(boxes, [2], [at], [at + 2]) for at in (0, 2)]
        half = node.emit(op.multiply(size, scalar(0.5, dtype_of(boxes))))
        boxes = op.concat([op.subtract(center, half), op.add(center, half)], 2)

    def limit(index: int, dtype: str, default: float) -> Any:
        if not node.has(index):
            return vector([default], dtype)
        return op.reshape(node[index], [1])

    limits = limit(2, "int64", 0), limit(3, "float32", 0.0), limit(4, "float32", -numpy.inf)
    found = node.emit(op.vision.all_class_non_max_suppression(boxes, scores, *limits))
    rows, count = [node.emit(TupleGetItem(found, place)) for place in (0, 1)]
    (chosen,) = node.run_time_sizes(count, "chosen")
    return op.strided_slice(rows, [0], [0], [chosen], assume_inbound=True)
