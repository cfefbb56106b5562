"""Operators that move elements, and those that make new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.tensorflow.registry import Operands, operator
from tilesmith.relay.frontend.tf_operators import (
    gather,
    gather_nd,
    mirror_pad,
    one_hot,
    reversed_along,
    slice_by_masks,
)
from tilesmith.relay.op.tensor import dtype_of
from tilesmith.relay.op.view import rank_of, sizes
from tilesmith.support.errors import OpAttributeUnImplemented

__all__: list[str] = []


@operator("Reshape")
def _reshape(one: Operands) -> Any:
    return op.reshape(one.exprs[0], tuple(one.ints(1, "the shape")))


@operator("Squeeze")
def _squeeze(one: Operands) -> Any:
    axes = one.node.get("squeeze_dims") or one.node.get("axis")
    return op.squeeze(one.exprs[0], [int(axis) for axis in axes] if axes else None)


@operator("ExpandDims")
def _expand_dims(one: Operands) -> Any:
    axis = one.ints(1, "the axis")[0]
    return op.expand_dims(one.exprs[0], axis if axis >= 0 else axis + rank_of(one.exprs[0]) + 1)


@operator("Transpose")
def _transpose(one: Operands) -> Any:
    return op.transpose(one.exprs[0], one.ints(1, "the order of axes"))


@operator("ConcatV2")
def _concat(one: Operands) -> Any:
    axis = one.ints(len(one.exprs) - 1, "the axis")[0]
    return op.concatenate(one.exprs[:-1], axis)


@operator("Concat")
def _concat_first(one: Operands) -> Any:
    return op.concatenate(one.exprs[1:], one.ints(0, "the axis")[0])


@operator("Pack")
def _pack(one: Operands) -> Any:
    return op.stack(one.exprs, int(one.node.get("axis", 0)))


@operator("Unpack")
def _unpack(one: Operands) -> Any:
    x, axis = one.exprs[0], int(one.node.get("axis", 0)) % rank_of(one.exprs[0])
    count = int(one.node.get("num", sizes(x)[axis]))
    parts = [x] if count == 1 else op.split(x, count, axis)
    return [op.squeeze(part, [axis]) for part in parts]


@operator("Split")
def _split(one: Operands) -> Any:
    axis, count = one.ints(0, "the axis")[0], int(one.node.get("num_split"))
    return [one.exprs[1]] if count == 1 else list(op.split(one.exprs[1], count, axis))


@operator("SplitV")
def _split_v(one: Operands) -> Any:
    x, given = one.exprs[0], one.ints(1, "the sizes of the parts")
    axis = one.ints(2, "the axis")[0] % rank_of(x)
    if -1 in given:
        given[given.index(-1)] = int(sizes(x)[axis]) - sum(given) - 1
    cuts = [int(place) for place in numpy.cumsum(given)[:-1]]
    return list(op.split(x, cuts, axis)) if cuts else [x]


@operator("Slice")
def _slice(one: Operands) -> Any:
    x, begin, size = one.exprs[0], one.ints(1, "the beginning"), one.ints(2, "the size")
    ends = [
        whole if taken == -1 else first + taken
        for first, taken, whole in zip(begin, size, sizes(x))
    ]
    return slice_by_masks(x, begin, ends, [1] * len(begin), (0, 0, 0, 0, 0))


@operator("StridedSlice")
def _strided_slice(one: Operands) -> Any:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return slice_by_masks(
        one.exprs[0], one.ints(1, "the beginning"), one.ints(2, "the end"),
        one.ints(3, "the steps"), [int(one.node.get(name, 0)) for name in names],
    )  # fmt: skip


@operator("Gather", "GatherV2", "ResourceGather")
def _gather(one: Operands) -> Any:
    axis = one.ints(2, "the axis")[0] if len(one.exprs) > 2 else 0
    return gather(one.exprs[0], one.exprs[1], axis, int(one.node.get("batch_dims", 0)))


@operator("GatherNd")
def _gather_nd(one: Operands) -> Any:
    return gather_nd(one.exprs[0], one.exprs[1])


@operator("Tile")
def _tile(one: Operands) -> Any:
    return op.tile(one.exprs[0], one.ints(1, "the number of copies"))


def _pairs(found: list[int]) -> list[tuple[int, int]]:
    return list(zip(found[::2], found[1::2]))


@operator("Pad", "PadV2")
def _pad(one: Operands) -> Any:
    value: Any = 0
    if len(one.exprs) > 2:
        value = one.value(2, "the padding's value").reshape(()).item()
    return op.nn.pad(one.exprs[0], _pairs(one.ints(1, "the padding")), value)


@operator("MirrorPad")
def _mirror_pad(one: Operands) -> Any:
    pairs = _pairs(one.ints(1, "the padding"))
    return mirror_pad(one.exprs[0], pairs, one.node.get("mode") == "SYMMETRIC")


@operator("ReverseV2")
def _reverse(one: Operands) -> Any:
    return reversed_along(one.exprs[0], one.ints(1, "the axes"))


@operator("ReverseSequence")
def _reverse_sequence(one: Operands) -> Any:
    return op.reverse_sequence(
        one.exprs[0], one.exprs[1], int(one.node.get("seq_dim")), int(one.node.get("batch_dim", 0))
    )


@operator("BroadcastTo")
def _broadcast_to(one: Operands) -> Any:
    return op.broadcast_to(one.exprs[0], tuple(one.ints(1, "the shape")))


@operator("SpaceToDepth")
def _space_to_depth(one: Operands) -> Any:
    layout = one.node.get("data_format", "NHWC")
    return op.nn.space_to_depth(one.exprs[0], int(one.node.get("block_size")), layout)


@operator("DepthToSpace")
def _depth_to_space(one: Operands) -> Any:
    layout = one.node.get("data_format", "NHWC")
    return op.nn.depth_to_space(one.exprs[0], int(one.node.get("block_size")), layout, "DCR")


@operator("SpaceToBatchND")
def _space_to_batch(one: Operands) -> Any:
    pads = _pairs(one.ints(2, "the padding"))
    return op.nn.space_to_batch_nd(one.exprs[0], one.ints(1, "the block"), pads)


@operator("BatchToSpaceND")
def _batch_to_space(one: Operands) -> Any:
    crops = _pairs(one.ints(2, "the crops"))
    return op.nn.batch_to_space_nd(one.exprs[0], one.ints(1, "the block"), crops)


# New elements


def _known_sizes(one: Operands) -> list[int]:
    whole = sizes(one.exprs[0])
    if not all(isinstance(size, int) for size in whole):
        raise OpAttributeUnImplemented("a shape is only known when the model runs")
    return list(whole)


def _about_shape(function: Callable[[list[int]], Any]) -> Callable[[Operands], Any]:
    def convert(one: Operands) -> Any:
        found = numpy.asarray(function(_known_sizes(one)), one.node.get("out_type", "int32"))
        return const(found, str(found.dtype))

    return convert


operator("Shape")(_about_shape(lambda whole: whole))
operator("Size")(_about_shape(lambda whole: int(numpy.prod(whole))))
operator("Rank")(_about_shape(len))


@operator("Range")
def _range(one: Operands) -> Any:
    first, last, step = [one.value(place, "the bounds of a range").item() for place in range(3)]
    return const(numpy.arange(first, last, step, dtype=dtype_of(one.exprs[0]).numpy()))


@operator("LinSpace")
def _linspace(one: Operands) -> Any:
    first, last, count = [one.value(place, "the bounds of a range").item() for place in range(3)]
    return const(numpy.linspace(first, last, int(count), dtype=dtype_of(one.exprs[0]).numpy()))


@operator("Fill")
def _fill(one: Operands) -> Any:
    return op.broadcast_to(op.reshape(one.exprs[1], ()), tuple(one.ints(0, "the shape")))


@operator("OneHot")
def _one_hot(one: Operands) -> Any:
    on, off = one.value(2, "a one-hot value"), one.value(3, "a one-hot value")
    depth, axis = one.ints(1, "the depth")[0], int(one.node.get("axis", -1))
    return one_hot(one.exprs[0], depth, on, off, axis, str(on.dtype))


@operator("TopKV2", "TopK")
def _topk(one: Operands) -> Any:
    count = one.ints(1, "the number of elements")[0] if len(one.exprs) > 1 else one.node.get("k")
    return list(op.topk(one.exprs[0], int(count), -1))


@operator("Where")
def _where(one: Operands) -> Any:
    return op.cast(op.argwhere(one.exprs[0]), "int64")


@operator("ScatterNd")
def _scatter_nd(one: Operands) -> Any:
    places, values = one.exprs[:2]
    rank = rank_of(places)
    zeros = op.zeros(tuple(one.ints(2, "the shape")), str(dtype_of(values)))
    order = [rank - 1, *range(rank - 1)]
    return op.scatter_nd(zeros, op.transpose(places, order), values, "add")


@operator("InvertPermutation")
def _invert_permutation(one: Operands) -> Any:
    return op.invert_permutation(one.exprs[0])
