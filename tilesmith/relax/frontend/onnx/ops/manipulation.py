"""Shapes and the order of elements: reshape, transpose, concat, split, pad, tile, …"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import const
from tilesmith.ir.expr import Select
from tilesmith.ir.operators import equal
from tilesmith.relax import op
from tilesmith.relax.expr import ShapeExpr, TupleGetItem
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis, stack_sizes
from tilesmith.relax.frontend.onnx.ops.run_time import (
    RunTimeAxes,
    long_vector,
    pad_at_run_time,
    size_vector,
    spread,
)
from tilesmith.relax.frontend.onnx.registry import converter
from tilesmith.relax.frontend.onnx.symbolic import as_value
from tilesmith.relax.frontend.onnx.values import (
    Size,
    as_size,
    dtype_of,
    integer,
    product,
    rank_of,
    scalar,
    shape_of,
    vector,
)
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

# Shapes as values


@converter("Shape")
def _shape(node: OnnxNode) -> Any:
    sizes = shape_of(node[0])
    start, end = node.attribute("start", 0), node.attribute("end", len(sizes))
    return stack_sizes(sizes[slice(int(start), int(end))])


@converter("Size")
def _size(node: OnnxNode) -> Any:
    array = numpy.empty((), object)
    array[()] = product(shape_of(node[0]))
    return as_value(array)


# Reshaping


@converter("Reshape")
def _reshape(node: OnnxNode) -> Any:
    x = node[0]
    keep_zero = node.flag("allowzero")
    given = node.attribute("shape")  # before opset 5
    if given is None:
        if node.known(1) is None:
            return _reshape_at_run_time(node, x, keep_zero)
        given = node.integers(1, "shape")
    return reshape(x, list(given), keep_zero)


def reshape(x: Any, wanted: list[Size], keep_zero: bool = False) -> Any:
    """Reshape ``x``; 0 copies a size and one -1 stands for the remaining elements."""
    old = shape_of(x)
    sizes: list[Any] = []
    for i, size in enumerate(wanted):
        if isinstance(size, int) and size == 0 and not keep_zero:
            if i >= len(old):
                raise ShapeError(
                    f"size {i} of the new shape is 0, but the tensor has rank {len(old)}"
                )
            size = old[i]
        sizes.append(size)
    open_places = [i for i, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    if len(open_places) > 1:
        raise ShapeError(f"the new shape has more than one -1: {wanted}")
    if open_places:
        sizes[open_places[0]] = _what_is_left(old, sizes, open_places[0])
    if all(isinstance(size, int) for size in (*sizes, *old)):
        if product(sizes) != product(old):
            raise ShapeError(f"{product(old)} elements do not fit the new shape {tuple(sizes)}")
    if len(sizes) == len(old) and all(_is_same(a, b) for a, b in zip(sizes, old)):
        return x
    return op.reshape(x, ShapeExpr(sizes))


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def _what_is_left(old: list[Any], sizes: list[Any], place: int) -> Size:
    others = [size for i, size in enumerate(sizes) if i != place]
    rest = list(old)
    for other in list(others):  # sizes that occur on both sides need no division
        for i, size in enumerate(rest):
            if _is_same(size, other):
                del rest[i]
                others.remove(other)
                break
    total, known = product(rest), product(others)
    if isinstance(known, int) and isinstance(total, int):
        if known == 0:
            if total == 0 or 0 in old:
                return 0
            raise ShapeError("-1 beside a size of 0 is not determined")
        if total % known:
            raise ShapeError(f"{total} elements cannot be divided by {known} (for -1)")
        return total // known
    return integer(total // known)


def _reshape_at_run_time(node: OnnxNode, x: Any, keep_zero: bool) -> Any:
    """Reshape by a shape computed at run time, where 0 and -1 are replaced."""
    wanted = node[1]
    count = shape_of(wanted)[0]
    if not isinstance(count, int):
        raise node.unsupported(
            "a shape whose number of elements is not constant",
            f"say how many: input_shapes={{{node.proto.input[1]!r}: (3,)}}, if it is an input",
        )
    old = shape_of(x)
    wanted = op.astype(wanted, "int64") if dtype_of(wanted) != "int64" else wanted
    if not keep_zero:
        same = [old[i] if i < len(old) else 1 for i in range(count)]
        own = node.importer.tensor(stack_sizes(same))
        wanted = op.where(op.equal(wanted, scalar(0, "int64")), own, wanted)
    wanted = node.emit(wanted)
    is_open = node.emit(op.equal(wanted, scalar(-1, "int64")))
    known = op.prod(op.where(is_open, scalar(1, "int64"), wanted))
    total = node.importer.tensor(stack_sizes([product(old)]))
    rest = op.floor_divide(total, op.maximum(known, scalar(1, "int64")))
    sizes = node.run_time_sizes(node.emit(op.where(is_open, rest, wanted)), "size")
    return op.reshape(x, ShapeExpr(sizes))


@converter("Flatten")
def _flatten(node: OnnxNode) -> Any:
    x = node[0]
    shape = shape_of(x)
    axis = int(node.attribute("axis", 1))
    axis += len(shape) if axis < 0 else 0
    if not 0 <= axis <= len(shape):
        raise ShapeError(f"there is no axis {axis} in a tensor of rank {len(shape)}")
    return reshape(x, [product(shape[:axis]), product(shape[axis:])], True)


@converter("Squeeze")
def _squeeze(node: OnnxNode) -> Any:
    if node.attribute("axes") is None and node.has(1) and node.known(1) is None:
        plan = RunTimeAxes(node, node[1], rank_of(node[0]))
        sizes = plan.rest(size_vector(node, shape_of(node[0])))
        return op.reshape(node[0], ShapeExpr(sizes))
    axes = node.axes(1, rank_of(node[0]))
    if axes is None:
        axes = [
            i for i, size in enumerate(shape_of(node[0])) if isinstance(size, int) and size == 1
        ]
    return op.squeeze(node[0], axes) if axes else node[0]


@converter("Unsqueeze")
def _unsqueeze(node: OnnxNode) -> Any:
    axes = node.attribute("axes")
    if axes is None and node.has(1) and node.known(1) is None:
        return _unsqueeze_at_run_time(node)
    if axes is None:
        axes = [int(axis) for axis in node.constant(1, "axes").ravel()]
    rank = rank_of(node[0]) + len(axes)
    axes = sorted([normal_axis(axis, rank) for axis in axes])
    if len(set(axes)) != len(axes):
        raise OpAttributeInvalid(f"an axis occurs twice in {axes}")
    return op.expand_dims(node[0], axes) if axes else node[0]


def _unsqueeze_at_run_time(node: OnnxNode) -> Any:
    given = shape_of(node[1])
    count = given[0] if given else 1
    if not isinstance(count, int):
        raise node.unsupported("a list of axes that is computed and has no fixed length")
    plan = RunTimeAxes(node, node[1], rank_of(node[0]) + count)
    sizes = plan.inserted(size_vector(node, shape_of(node[0])))
    return op.reshape(node[0], ShapeExpr(sizes))


@converter("Transpose")
def _transpose(node: OnnxNode) -> Any:
    rank = rank_of(node[0])
    axes = node.attribute("perm") or list(range(rank - 1, -1, -1))
    axes = [normal_axis(axis, rank) for axis in axes]
    return node[0] if axes == list(range(rank)) else op.permute_dims(node[0], axes)


def broadcast_shape(shape: list[Size], wanted: list[Size]) -> list[Size]:
    """Return the sizes that two shapes give by numpy's rule; symbolic ones are taken as equal."""
    count = max(len(shape), len(wanted))
    found: list[Size] = []
    for a, b in zip([1] * (count - len(shape)) + shape, [1] * (count - len(wanted)) + wanted):
        if isinstance(a, int) and a == 1:
            found.append(b)
        elif isinstance(b, int) and b != 1 and isinstance(a, int) and a != b:
            raise ShapeError(f"({_shown(shape)}) cannot be broadcast to ({_shown(wanted)})")
        else:
            found.append(a if isinstance(a, int) or (isinstance(b, int) and b == 1) else b)
    return found


def _stretched(shape: list[Size], wanted: list[Size]) -> list[Size]:
    """Return the sizes that a shape and one computed at run time give: each one that is not 1."""
    count = max(len(shape), len(wanted))
    pairs = zip([1] * (count - len(shape)) + shape, [1] * (count - len(wanted)) + wanted)
    return [_other_if_one(size, other) for size, other in pairs]


def _other_if_one(size: Size, other: Size) -> Size:
    if isinstance(size, int):
        return other if size == 1 else size
    return Select(equal(size, const(1, size.dtype)), as_size(other), size)


def _shown(sizes: list[Size]) -> str:
    return ", ".join([str(size) for size in sizes])


@converter("Expand")
def _expand(node: OnnxNode) -> Any:
    x = node[0]
    shape = shape_of(x)
    wanted = node.integers(1, "shape")
    sizes = broadcast_shape(shape, wanted)
    if node.known(1) is None:
        sizes = _stretched(shape, wanted)
    if len(sizes) == len(shape) and all(_is_same(a, b) for a, b in zip(sizes, shape)):
        return x
    return op.broadcast_to(x, ShapeExpr(sizes))


@converter("Tile", since=6)
def _tile(node: OnnxNode) -> Any:
    x = node[0]
    repeats = node.integers(1, "repeats")
    if all(isinstance(count, int) for count in repeats):
        return op.tile(x, repeats)
    # A symbolic count: a new axis before each one, broadcast, and joined with it.
    shape, wide, joined = shape_of(x), [], []
    for count, size in zip(repeats, shape):
        wide += [count, size]
        joined.append(count * size)
    x = op.reshape(x, [item for size in shape for item in (1, size)])
    return op.reshape(op.broadcast_to(x, ShapeExpr(wide)), ShapeExpr(joined))


@converter("Tile", since=1)
def _tile_axis(node: OnnxNode) -> Any:
    repeats = [1] * rank_of(node[0])
    repeats[int(node.number(2, "axis"))] = int(node.number(1, "tiles"))
    return op.tile(node[0], repeats)


# Parts and wholes


@converter("Concat")
def _concat(node: OnnxNode) -> Any:
    tensors = node.tensors()
    axis = node.axis(1, rank_of(tensors[0]))
    return tensors[0] if len(tensors) == 1 else op.concat(tensors, axis)


@converter("Split")
def _split(node: OnnxNode) -> Any:
    x = node[0]
    axis = node.axis(0, rank_of(x))
    size = shape_of(x)[axis]
    parts = node.attribute("split")
    if parts is None and node.has(1):
        parts = node.integers(1, "split")
    if parts is None:
        return equal_parts(node, x, axis, size)
    return parts_of(node, x, axis, list(parts), size)


def equal_parts(node: OnnxNode, x: Any, axis: int, size: Size) -> Any:
    """Split into as many parts as the node has outputs; the last one may be smaller."""
    count = int(node.attribute("num_outputs", len(node.proto.output)))
    if count < len(node.proto.output):
        raise OpAttributeInvalid(
            f"its attribute 'num_outputs' is {count}, it has {len(node.proto.output)} outputs"
        )
    if isinstance(size, int):
        step = -(-size // count)
        return parts_of(
            node, x, axis, [min(step, max(0, size - step * i)) for i in range(count)], size
        )
    return _fields(node, op.split(x, count, axis), count)


def parts_of(node: OnnxNode, x: Any, axis: int, parts: list[Any], size: Size) -> Any:
    """Return parts of these sizes along an axis, as a tuple of tensors."""
    if (
        isinstance(size, int)
        and all(isinstance(part, int) for part in parts)
        and sum(parts) != size
    ):
        raise ShapeError(f"parts of the sizes {parts} do not make up axis {axis} of size {size}")
    if len(parts) == 1:
        return (x,)
    if all(isinstance(part, int) for part in parts):
        places = [int(place) for place in numpy.cumsum(parts)[:-1]]
        return _fields(node, op.split(x, places, axis), len(parts))
    found, begin = [], 0
    for part in parts:
        end = begin + part
        found.append(op.strided_slice(x, [axis], [begin], [end], [1], True))
        begin = end
    return tuple(found)


def _fields(node: OnnxNode, tuple_value: Any, count: int) -> tuple[Any, ...]:
    tuple_value = node.emit(tuple_value)
    if not hasattr(tuple_value, "name_hint"):
        return tuple(tuple_value.fields)  # computed at import
    return tuple([TupleGetItem(tuple_value, i) for i in range(count)])


# Padding

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@converter("Pad", since=11)
def _pad(node: OnnxNode) -> Any:
    x = node[0]
    rank = rank_of(x)
    if node.known(1) is None or (node.has(3) and node.known(3) is None):
        return _pad_by_tensors(node, x)
    if node.known(1).dtype == object:
        return _pad_by_tensors(node, x)
    pads = [int(value) for value in node.constant(1, "pads").ravel()]
    axes = list(range(rank))
    if node.has(3):
        axes = [normal_axis(axis, rank) for axis in node.constant(3, "axes").ravel()]
    value: Any = 0
    if node.has(2):
        if node.known(2) is None:
            return _pad_with_tensor(node, x, _width(pads, axes, rank), node[2])
        value = node.number(2, "constant_value")
    return pad(x, _width(pads, axes, rank), value, node.choice("mode", "constant", *_MODES))


def _width(pads: list[int], axes: list[int], rank: int) -> list[int]:
    """Return (before, after) for each axis from ONNX's order: all before, then all after."""
    if len(pads) != 2 * len(axes):
        raise OpAttributeInvalid(f"{len(pads)} paddings for {len(axes)} axes")
    width = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        width[2 * axis], width[2 * axis + 1] = pads[place], pads[place + len(axes)]
    return width


def pad(x: Any, width: list[int], value: Any = 0, mode: str = "constant") -> Any:
    """Pad ``x`` before and after each axis; negative numbers cut elements off."""
    if not any(width):
        return x
    dtype = dtype_of(x)
    if dtype.is_bool:
        return op.astype(op.nn.pad(op.astype(x, "int8"), width, int(value), _MODES[mode]), "bool")
    return op.nn.pad(x, width, value, _MODES[mode])


def _pad_with_tensor(node: OnnxNode, x: Any, width: list[int], value: Any) -> Any:
    """Pad by amounts computed at run time."""
    sizes = shape_of(x)
    inside = pad(op.ones(ShapeExpr(sizes), "int8"), width)
    padded = pad(x, width)
    value = op.reshape(value, [])
    return op.where(op.astype(inside, "bool"), padded, op.astype(value, dtype_of(x)))


def _pad_by_tensors(node: OnnxNode, x: Any) -> Any:
    """Pad by amounts (or along axes) that are computed when the model runs."""
    rank, pads = rank_of(x), long_vector(node, node[1])
    total = shape_of(pads)[0]
    if not isinstance(total, int):
        raise node.unsupported("paddings whose number is not constant")
    half = total // 2
    parts = [op.strided_slice(pads, [0], [0], [half]), op.strided_slice(pads, [0], [half], [total])]
    before, after = [node.emit(part) for part in parts]
    if node.has(3):
        before, after = [spread(node, part, node[3], rank, 0) for part in (before, after)]
    elif half != rank:
        raise OpAttributeInvalid(f"{total} paddings for {rank} axes")
    value: Any = scalar(0, dtype_of(x))
    if node.has(2):
        value = op.reshape(node[2], [])
        value = value if dtype_of(value) == dtype_of(x) else op.astype(value, dtype_of(x))
    mode = node.choice("mode", "constant", *_MODES)
    return pad_at_run_time(node, x, before, after, value, mode)


@converter("Pad", since=1)
def _pad_by_attributes(node: OnnxNode) -> Any:
    rank = rank_of(node[0])
    pads = node.attribute("pads") or node.attribute("paddings") or [0] * (2 * rank)
    width = _width([int(value) for value in pads], list(range(rank)), rank)
    return pad(
        node[0], width, node.attribute("value", 0.0), node.choice("mode", "constant", *_MODES)
    )


@converter("CenterCropPad")
def _center_crop_pad(node: OnnxNode) -> Any:
    x = node[0]
    rank, sizes = rank_of(x), shape_of(x)
    axes = node.axes(None, rank) or list(range(rank))
    if node.known(1) is None or not all(isinstance(sizes[axis], int) for axis in axes):
        return _center_at_run_time(node, x, axes)
    width = [0] * (2 * rank)
    for axis, wanted in zip(axes, node.constant(1, "shape").ravel()):
        size: Any = sizes[axis]
        missing = int(wanted) - size
        # Cropping removes one more element at the end, padding adds one more there.
        before = missing // 2 if missing >= 0 else -(-missing // 2)
        width[2 * axis], width[2 * axis + 1] = before, missing - before
    return pad(x, width)


def _center_at_run_time(node: OnnxNode, x: Any, axes: list[int]) -> Any:
    rank, sizes = rank_of(x), shape_of(x)
    given = long_vector(node, node[1])
    missing = op.subtract(given, size_vector(node, [sizes[axis] for axis in axes]))
    missing = spread(node, node.emit(missing), vector(axes), rank, 0)
    two, zero = scalar(2, "int64"), scalar(0, "int64")
    down = op.floor_divide(missing, two)
    up = op.negative(op.floor_divide(op.negative(missing), two))
    before = node.emit(op.where(op.less(missing, zero), up, down))
    after = node.emit(op.subtract(missing, before))
    return pad_at_run_time(node, x, before, after, scalar(0, dtype_of(x)), "constant")


# Blocks


def _block_size(node: OnnxNode) -> int:
    """Return how many rows and columns a block has, for an image (N, C, H, W)."""
    if rank_of(node[0]) != 4:
        raise ShapeError(f"it needs a tensor of rank 4, got rank {rank_of(node[0])}")
    block = int(node.required("blocksize"))
    if block < 1:
        raise OpAttributeInvalid(f"its attribute 'blocksize' is {block}, expected at least 1")
    return block


@converter("DepthToSpace")
def _depth_to_space(node: OnnxNode) -> Any:
    x, block = node[0], _block_size(node)
    n, c, h, w = shape_of(x, 4)
    if isinstance(c, int) and c % (block * block):
        raise ShapeError(f"{c} channels cannot be divided by {block} * {block}")
    depth = c // (block * block)
    if node.choice("mode", "DCR", "DCR", "CRD") == "DCR":
        split, order = [n, block, block, depth, h, w], [0, 3, 4, 1, 5, 2]
    else:
        split, order = [n, depth, block, block, h, w], [0, 1, 4, 2, 5, 3]
    moved = op.permute_dims(op.reshape(x, split), order)
    return op.reshape(moved, [n, depth, h * block, w * block])


@converter("SpaceToDepth")
def _space_to_depth(node: OnnxNode) -> Any:
    x, block = node[0], _block_size(node)
    n, c, h, w = shape_of(x, 4)
    if any(isinstance(size, int) and size % block for size in (h, w)):
        raise ShapeError(f"{h} rows and {w} columns cannot be divided into blocks of {block}")
    rows, columns = h // block, w // block
    split = op.reshape(x, [n, c, rows, block, columns, block])
    is_dcr = node.choice("mode", "DCR", "DCR", "CRD") == "DCR"
    order = [0, 3, 5, 1, 2, 4] if is_dcr else [0, 1, 3, 5, 2, 4]
    return op.reshape(op.permute_dims(split, order), [n, c * block * block, rows, columns])


@converter("ReverseSequence")
def _reverse_sequence(node: OnnxNode) -> Any:
    """Reverse the first elements of each sequence, as many as its length."""
    x, lengths = node[0], node[1]
    rank, sizes = rank_of(x), shape_of(x)
    time, batch = (
        node.axis(0, rank, "time_axis"),
        normal_axis(node.attribute("batch_axis", 1), rank),
    )
    size = sizes[time]
    steps = op.arange(0, size, 1, "int64")
    steps = node.emit(op.reshape(steps, [size if i == time else 1 for i in range(rank)]))
    lengths = op.astype(lengths, "int64") if dtype_of(lengths) != "int64" else lengths
    lengths = node.emit(op.checked_lengths(lengths, [size]))
    lengths = op.reshape(lengths, [sizes[batch] if i == batch else 1 for i in range(rank)])
    lengths = node.emit(lengths)
    turned = op.subtract(op.subtract(lengths, scalar(1, "int64")), steps)
    places = op.where(op.less(steps, lengths), turned, steps)
    return op.gather_elements(x, op.broadcast_to(places, ShapeExpr(sizes)), time)
