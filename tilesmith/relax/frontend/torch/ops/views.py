"""Shapes, order and parts of tensors without arithmetic."""

from __future__ import annotations

import functools
from typing import Any

import numpy

from tilesmith.ir import PrimExpr
from tilesmith.relax import op
from tilesmith.relax.expr import Constant, ShapeExpr, TupleGetItem
from tilesmith.relax.frontend.torch.node import (
    AtenNode,
    cast,
    dtype_of,
    full_like_shape,
    normal_axis,
    number,
    product,
    rank_of,
    reshape,
    scalar,
    shape_of,
)
from tilesmith.relax.frontend.torch.registry import converter

FAR = 1 << 40
"""Beyond the size of any axis."""


@converter(
    "view.default", "_unsafe_view", "reshape", "view_copy", "_reshape_alias", "squeeze",
    "unsqueeze", "flatten", "unflatten", "squeeze_copy", "unsqueeze_copy",
)  # fmt: skip
def _reshape(node: AtenNode) -> Any:
    x = node.tensor("self") if "self" in node.arguments else node.tensor("input")
    return reshape(x, node.shape)


@converter("view.dtype")
def _view_as_dtype(node: AtenNode) -> Any:
    x = node.tensor("self")
    if dtype_of(x).bits == _bits(node.dtype):
        return op.view(x, dtype=node.dtype) if dtype_of(x) != node.dtype else x
    raise node.unsupported("a view whose elements have another number of bytes")


def _bits(dtype: Any) -> int:
    from tilesmith.runtime.dtype import DataType

    return DataType(dtype).bits


@converter("permute", "permute_copy")
def _permute(node: AtenNode) -> Any:
    x = node.tensor("self")
    axes = [normal_axis(axis, rank_of(x)) for axis in node["dims"]]
    return x if axes == sorted(axes) else op.permute_dims(x, axes)


@converter("transpose", "transpose_copy", "swapaxes")
def _transpose(node: AtenNode) -> Any:
    x = node.tensor("self")
    axes = list(range(rank_of(x)))
    if len(axes) < 2:
        return x
    a, b = node.axis("dim0", len(axes)), node.axis("dim1", len(axes))
    axes[a], axes[b] = axes[b], axes[a]
    return op.permute_dims(x, axes)


@converter("t", "numpy_T", "mT", "adjoint", "t_copy")
def _turned(node: AtenNode) -> Any:
    x = node.tensor("self")
    axes = list(range(rank_of(x)))
    return op.permute_dims(x, axes[::-1]) if len(axes) > 1 else x


@converter("expand", "expand_copy", "broadcast_to", "expand_as")
def _expand(node: AtenNode) -> Any:
    x = node.tensor("self")
    return x if _same_sizes(shape_of(x), node.shape) else op.broadcast_to(x, ShapeExpr(node.shape))


def _same_sizes(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(
        x is y or (isinstance(x, int) and isinstance(y, int) and x == y) for x, y in zip(a, b)
    )


@converter("cat", "concat")
def _cat(node: AtenNode) -> Any:
    parts = [node.as_tensor(part, node.dtype) for part in node["tensors"]]
    rank = len(node.shape)
    parts = [part for part in parts if rank_of(part) == rank and shape_of(part)[-1:] != [0]] or [
        part for part in parts if rank_of(part) == rank
    ]  # torch passes over empty vectors
    return op.concat(parts, node.axis("dim", rank, 0)) if len(parts) > 1 else parts[0]


@converter("stack")
def _stack(node: AtenNode) -> Any:
    parts = [node.as_tensor(part, node.dtype) for part in node["tensors"]]
    return op.stack(parts, node.axis("dim", len(node.shape), 0))


@converter("repeat")
def _repeat(node: AtenNode) -> Any:
    x, counts = node.tensor("self"), list(node["repeats"])
    if any(isinstance(size, int) and size == 0 for size in node.shape):
        return full_like_shape(node.shape, 0, node.dtype)
    missing = len(counts) - rank_of(x)
    x = reshape(x, [1] * missing + list(shape_of(x)))
    if any(isinstance(count, PrimExpr) for count in counts):
        return _repeat_symbolically(node, x, counts)
    return op.tile(x, counts) if any(count != 1 for count in counts) else x


def _repeat_symbolically(node: AtenNode, x: Any, counts: list[Any]) -> Any:
    """Repeat by broadcasting a new axis before each one."""
    sizes = shape_of(x)
    split = reshape(x, [size for pair in sizes for size in (1, pair)])
    wide = [size for pair in zip(counts, sizes) for size in pair]
    return op.reshape(op.broadcast_to(node.emit(split), ShapeExpr(wide)), ShapeExpr(node.shape))


@converter("flip")
def _flip(node: AtenNode) -> Any:
    x = node.tensor("self")
    if not rank_of(x):
        return x
    for axis in node["dims"]:
        x = op.flip(x, normal_axis(axis, rank_of(x)))
    return x


@converter("roll")
def _roll(node: AtenNode) -> Any:
    x, shifts, axes = node.tensor("self"), node.ints("shifts"), node.ints("dims")
    if not axes:
        flat = reshape(x, [product(shape_of(x))])
        return reshape(node.emit(_rolled(node, flat, 0, shifts[0])), node.shape)
    for axis, shift in zip(axes, shifts):
        x = node.emit(_rolled(node, x, normal_axis(axis, rank_of(x)), shift))
    return x


def _rolled(node: AtenNode, x: Any, axis: int, shift: Any) -> Any:
    size = shape_of(x)[axis] if rank_of(x) else 1
    if not isinstance(shift, int):
        raise node.unsupported("rolling by a symbolic distance")
    if not isinstance(size, int):
        split = -shift if shift <= 0 else size - shift
    elif size == 0 or shift % size == 0:
        return x
    else:
        split = size - shift % size
    first = op.strided_slice(x, [axis], [split], [FAR])
    return op.concat([first, op.strided_slice(x, [axis], [0], [split])], axis)


# Slices


def bounds(size: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """Return start and end of a slice, counted from the front and inside of an axis of ``size``."""
    start = 0 if start is None else start
    end = FAR if end is None else end
    if isinstance(size, int):
        found = []
        for value in (start, end):
            if isinstance(value, int):
                value = max(0, min(size, value + size if value < 0 else value))
            found.append(value)
        return found[0], max(found) if all(isinstance(x, int) for x in found) else found[1]
    found = [
        value + size if isinstance(value, int) and value < 0 else value for value in (start, end)
    ]
    return found[0], size if isinstance(found[1], int) and found[1] >= FAR else found[1]


@converter("slice", "slice_copy")
def _slice(node: AtenNode) -> Any:
    x = node.tensor("self")
    axis, step = node.axis("dim", rank_of(x), 0), node.get("step", 1)
    start, end = bounds(shape_of(x)[axis], node["start"], node["end"])
    if isinstance(start, int) and start == 0 and step == 1 and _is_same(end, shape_of(x)[axis]):
        return x
    return op.strided_slice(x, [axis], [start], [end], [step])


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


@converter("narrow")
def _narrow(node: AtenNode) -> Any:
    x = node.tensor("self")
    axis = node.axis("dim", rank_of(x))
    start, _ = bounds(shape_of(x)[axis], node["start"], None)
    return op.strided_slice(x, [axis], [start], [start + node["length"]])


@converter("select", "select_copy")
def _select(node: AtenNode) -> Any:
    x = node.tensor("self")
    axis = node.axis("dim", rank_of(x))
    index = from_front(node["index"], shape_of(x)[axis])
    if isinstance(index, int):
        return op.take(x, scalar(index, "int64"), axis)
    part = op.strided_slice(x, [axis], [index], [index + 1])
    return op.reshape(part, ShapeExpr(node.shape))


def from_front(index: Any, size: Any) -> Any:
    """Return an index that counts from the front."""
    return index + size if isinstance(index, int) and index < 0 else index


@converter("split_with_sizes", "split", "chunk", "split_with_sizes_copy", "tensor_split")
def _split(node: AtenNode) -> Any:
    x = node.tensor("self")
    axis = node.axis("dim", rank_of(x), 0)
    sizes = [node.sizes(part)[axis] for part in node.fx_node.meta["val"]]
    starts: list[Any] = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    if len(sizes) == 1:
        return [x]
    if all(isinstance(size, int) and size > 0 for size in sizes):
        parts = node.emit(op.split(x, starts[1:-1], axis))
        return [TupleGetItem(parts, index) for index in range(len(sizes))]
    return [op.strided_slice(x, [axis], [first], [last]) for first, last in zip(starts, starts[1:])]


@converter("unbind")
def _unbind(node: AtenNode) -> Any:
    x = node.tensor("self")
    axis = node.axis("dim", rank_of(x), 0)
    count = len(node.fx_node.meta["val"])
    return [op.take(x, scalar(index, "int64"), axis) for index in range(count)]


# Diagonals and strides


@converter("diagonal", "diagonal_copy")
def _diagonal(node: AtenNode) -> Any:
    x = node.tensor("self")
    rank = rank_of(x)
    first, second = node.axis("dim1", rank, 0), node.axis("dim2", rank, 1)
    if any(isinstance(size, int) and size == 0 for size in node.shape):
        return full_like_shape(node.shape, 0, node.dtype)
    others = [axis for axis in range(rank) if axis not in (first, second)]
    x = op.permute_dims(x, [first, second, *others])
    sizes = shape_of(x)
    rows, columns = node.static(sizes[:2], "a diagonal")
    offset = int(node.get("offset", 0))
    places = diagonal_places(rows, columns, offset)
    flat = op.reshape(x, ShapeExpr([rows * columns, *sizes[2:]]))
    taken = op.take(flat, Constant(places), 0)
    return op.permute_dims(taken, [*range(1, rank - 1), 0])


def diagonal_places(rows: int, columns: int, offset: int) -> Any:
    """Return the positions of a diagonal's elements in a flat matrix."""
    start = (max(-offset, 0), max(offset, 0))
    count = max(min(rows - start[0], columns - start[1]), 0)
    steps = numpy.arange(count, dtype="int64")
    return (start[0] + steps) * columns + start[1] + steps


def strided_places(node: AtenNode, sizes: Any, strides: Any, offset: Any) -> Any:
    """Return for each element of a strided view its position in the flat memory."""
    sizes = node.static(sizes, "a view with strides")
    grids = [
        (numpy.arange(size, dtype="int64") * int(stride)).reshape([-1] + [1] * (len(sizes) - i - 1))
        for i, (size, stride) in enumerate(zip(sizes, strides))
    ]
    start = numpy.asarray(int(offset or 0), "int64")
    return numpy.broadcast_to(functools.reduce(numpy.add, grids, start), sizes)


def memory_order(node: AtenNode, name: str = "self") -> list[int]:
    """Return the axes of an argument as they lie in memory, outermost first."""
    strides = [abs(int(stride)) for stride in node.meta(name).stride()]
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])


@converter("as_strided", "as_strided_copy")
def _as_strided(node: AtenNode) -> Any:
    x = node.tensor("self")
    described = node.meta("self")
    if not _is_dense(described):
        raise node.unsupported(
            "a strided view of a tensor that does not own its memory", "call .contiguous() first"
        )
    order = memory_order(node)
    x = x if order == sorted(order) else op.permute_dims(x, order)
    flat = reshape(x, [product(shape_of(x))])
    places = strided_places(node, node["size"], node["stride"], node["storage_offset"])
    return op.take(flat, Constant(numpy.ascontiguousarray(places)), 0)


def _is_dense(described: Any) -> bool:
    expected = 1
    pairs = sorted(zip(described.stride(), described.shape))
    for stride, size in pairs:
        if size != 1 and stride != expected:
            return False
        expected *= size
    return bool(described.storage_offset() == 0)


@converter("unfold", "unfold_copy")
def _unfold(node: AtenNode) -> Any:
    """Return windows along an axis, their elements in a new last axis."""
    x = node.tensor("self")
    rank = rank_of(x)
    size, step = int(node["size"]), int(node["step"])
    if not rank:
        return reshape(x, node.shape)
    axis = node.axis("dimension", rank)
    count = node.static([node.shape[axis]], "windows")[0]
    places = numpy.arange(count)[:, None] * step + numpy.arange(size)
    taken = op.take(x, Constant(places.astype("int64")), axis)
    order = [i for i in range(rank + 1) if i != axis + 1] + [axis + 1]
    return op.permute_dims(taken, order)


@converter("tril", "triu")
def _triangle(node: AtenNode) -> Any:
    x, offset = node.tensor("self"), node.get("diagonal", 0)
    function = op.tril if "tril" in node.operator else op.triu
    if dtype_of(x).is_bool:
        return cast(function(op.astype(x, "int8"), int(offset)), "bool")
    return function(x, int(offset))


@converter("constant_pad_nd", "pad")
def _constant_pad(node: AtenNode) -> Any:
    mode = node.get("mode", "constant")
    if mode != "constant":
        return _padded(node, str(mode), "pad")
    x, value = node.tensor("self"), node.get("value", 0)
    width = pad_width(node, list(node["pad"]), rank_of(x))
    if any(isinstance(size, int) and size == 0 for size in shape_of(x)):
        return full_like_shape(node.shape, value, node.dtype)
    if dtype_of(x).is_bool:
        wide = op.nn.pad(op.astype(x, "int8"), width, int(bool(value)))
        return cast(wide, "bool")
    value = float(value) if dtype_of(x).is_float else int(value)
    return op.nn.pad(x, width, value)


def pad_width(node: AtenNode, pad: list[Any], rank: int) -> list[Any]:
    """Return torch's widths (last axis first) as before and after for each axis."""
    width: list[Any] = [0] * (2 * rank)
    for i in range(len(pad) // 2):
        axis = rank - 1 - i
        width[2 * axis : 2 * axis + 2] = pad[2 * i : 2 * i + 2]
    return node.static(width, "padding")


@converter("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflection_pad(node: AtenNode) -> Any:
    return _padded(node, "reflect", "padding")


@converter("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _replication_pad(node: AtenNode) -> Any:
    return _padded(node, "replicate", "padding")


def _padded(node: AtenNode, mode: str, name: str) -> Any:
    """Pad with elements of the tensor itself; negative widths cut elements off, afterwards."""
    x = node.tensor("self")
    rank = rank_of(x)
    width = pad_width(node, node.ints(name), rank)
    found = op.nn.pad(x, [max(0, item) for item in width], pad_mode=mode)
    cut = [axis for axis in range(rank) if min(width[2 * axis : 2 * axis + 2]) < 0]
    if not cut:
        return found
    starts = [max(0, -width[2 * axis]) for axis in cut]
    ends = [start + node.shape[axis] for start, axis in zip(starts, cut)]
    return op.strided_slice(node.emit(found), cut, starts, ends)


@converter("scalar_tensor")
def _scalar_tensor(node: AtenNode) -> Any:
    value = node["s"]
    return (
        node.as_tensor(value, node.dtype)
        if isinstance(value, PrimExpr)
        else number(value, node.dtype)
    )
