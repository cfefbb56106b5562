"""Operators that move elements, and those that make new ones."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.tf_operators import (
    gather,
    gather_nd,
    mirror_pad,
    one_hot,
    reversed_along,
    slice_by_masks,
)
from tilesmith.relay.frontend.tflite.registry import moves, operator
from tilesmith.relay.op.tensor import dtype_of
from tilesmith.relay.op.view import rank_of, sizes
from tilesmith.support.errors import OpAttributeUnImplemented

__all__: list[str] = []


def _ints(converter: Any, one: Any, number: int, purpose: str) -> list[int]:
    """Return the values of an operand that has to be known."""
    wrapper = converter.get_input_tensors(one)[number]
    found: list[int] = converter.value(wrapper, purpose).reshape(-1).tolist()
    return found


@moves("RESHAPE")
def _reshape(converter: Any, one: Any, x: Any) -> Any:
    inputs = converter.get_input_tensors(one)
    if len(inputs) > 1 and inputs[1] is not None:
        target = _ints(converter, one, 1, "the shape")
    else:
        given = converter.options(one)
        target = [int(size) for size in given.NewShapeAsNumpy] if given.NewShapeLength else []
    return op.reshape(x, tuple(target))


@moves("SQUEEZE")
def _squeeze(converter: Any, one: Any, x: Any) -> Any:
    options = converter.options(one)
    count = options.SqueezeDimsLength
    axes = [int(axis) for axis in options.SqueezeDimsAsNumpy] if count else None
    return op.squeeze(x, axes)


@moves("EXPAND_DIMS")
def _expand_dims(converter: Any, one: Any, x: Any) -> Any:
    axis = _ints(converter, one, 1, "the axis")[0]
    return op.expand_dims(x, axis if axis >= 0 else axis + rank_of(x) + 1)


@moves("TRANSPOSE")
def _transpose(converter: Any, one: Any, x: Any) -> Any:
    return op.transpose(x, _ints(converter, one, 1, "the order of axes"))


@moves("SLICE")
def _slice(converter: Any, one: Any, x: Any) -> Any:
    begin, size = _ints(converter, one, 1, "the beginning"), _ints(converter, one, 2, "the size")
    ends = [
        whole if taken == -1 else first + taken
        for first, taken, whole in zip(begin, size, sizes(x))
    ]
    return slice_by_masks(x, begin, ends, [1] * len(begin), (0, 0, 0, 0, 0))


@moves("STRIDED_SLICE")
def _strided_slice(converter: Any, one: Any, x: Any) -> Any:
    begin, end = _ints(converter, one, 1, "the beginning"), _ints(converter, one, 2, "the end")
    steps = _ints(converter, one, 3, "the steps")
    options = converter.options(one)
    if options.Offset:
        end = [first + size for first, size in zip(begin, end)]
    masks = (
        options.BeginMask, options.EndMask, options.EllipsisMask, options.NewAxisMask,
        options.ShrinkAxisMask,
    )  # fmt: skip
    return slice_by_masks(x, begin, end, steps, masks)


@moves("TILE")
def _tile(converter: Any, one: Any, x: Any) -> Any:
    return op.tile(x, _ints(converter, one, 1, "the number of copies"))


@moves("BROADCAST_TO")
def _broadcast_to(converter: Any, one: Any, x: Any) -> Any:
    return op.broadcast_to(x, tuple(_ints(converter, one, 1, "the shape")))


@moves("REVERSE_V2")
def _reverse(converter: Any, one: Any, x: Any) -> Any:
    return reversed_along(x, _ints(converter, one, 1, "the axes"))


@moves("REVERSE_SEQUENCE")
def _reverse_sequence(converter: Any, one: Any, x: Any) -> Any:
    options = converter.options(one)
    lengths = converter.get_tensor_expr(converter.get_input_tensors(one)[1])
    return op.reverse_sequence(x, lengths, options.SeqDim, options.BatchDim)


@moves("GATHER")
def _gather(converter: Any, one: Any, x: Any) -> Any:
    options = converter.options(one)
    indices = converter.get_tensor_expr(converter.get_input_tensors(one)[1])
    return gather(x, indices, options.Axis, options.BatchDims)


@moves("GATHER_ND")
def _gather_nd(converter: Any, one: Any, x: Any) -> Any:
    return gather_nd(x, converter.get_tensor_expr(converter.get_input_tensors(one)[1]))


@moves("SPACE_TO_DEPTH")
def _space_to_depth(converter: Any, one: Any, x: Any) -> Any:
    return op.nn.space_to_depth(x, int(converter.options(one).BlockSize), "NHWC")


@moves("DEPTH_TO_SPACE")
def _depth_to_space(converter: Any, one: Any, x: Any) -> Any:
    return op.nn.depth_to_space(x, int(converter.options(one).BlockSize), "NHWC", "DCR")


def _pairs(found: list[int]) -> list[tuple[int, int]]:
    return list(zip(found[::2], found[1::2]))


@moves("SPACE_TO_BATCH_ND")
def _space_to_batch(converter: Any, one: Any, x: Any) -> Any:
    block = _ints(converter, one, 1, "the block")
    pads = _pairs(_ints(converter, one, 2, "the padding"))
    source = converter.get_input_tensors(one)[0]
    zero = 0 if source.qnn_params is None else int(source.qnn_params["zero_point"][0])
    return op.nn.space_to_batch_nd(x, block, pads, zero)


@moves("BATCH_TO_SPACE_ND")
def _batch_to_space(converter: Any, one: Any, x: Any) -> Any:
    block = _ints(converter, one, 1, "the block")
    return op.nn.batch_to_space_nd(x, block, _pairs(_ints(converter, one, 2, "the crops")))


@moves("PAD", "PADV2", method="convert_pad")
def _pad(converter: Any, one: Any, x: Any) -> Any:
    inputs = converter.get_input_tensors(one)
    value: Any = 0
    if len(inputs) > 2:
        value = converter.value(inputs[2], "the padding's value").reshape(-1)[0].item()
    elif inputs[0].qnn_params is not None:
        value = int(inputs[0].qnn_params["zero_point"][0])
    return op.nn.pad(x, _pairs(_ints(converter, one, 1, "the padding")), value)


@moves("MIRROR_PAD")
def _mirror_pad(converter: Any, one: Any, x: Any) -> Any:
    pairs = _pairs(_ints(converter, one, 1, "the padding"))
    return mirror_pad(x, pairs, converter.options(one).Mode == 1)


@moves("UNPACK")
def _unpack(converter: Any, one: Any, x: Any) -> Any:
    options = converter.options(one)
    axis = int(options.Axis) % rank_of(x)
    parts = [x] if options.Num == 1 else op.split(x, int(options.Num), axis)
    return [op.squeeze(part, [axis]) for part in parts]


def _cut(x: Any, cut: Any, axis: int) -> Any:
    return [x] if cut in (1, []) else list(op.split(x, cut, axis))


@operator("SPLIT")
def _split(converter: Any, one: Any) -> Any:
    axis, source = converter.get_input_tensors(one)
    x = converter.get_tensor_expr(source)
    place = int(converter.value(axis, "the axis").reshape(-1)[0])
    found = _cut(x, int(converter.options(one).NumSplits), place)
    return converter.requantised(one, source, found)


@moves("SPLIT_V")
def _split_v(converter: Any, one: Any, x: Any) -> Any:
    given = _ints(converter, one, 1, "the sizes of the parts")
    axis = _ints(converter, one, 2, "the axis")[0] % rank_of(x)
    if -1 in given:
        given[given.index(-1)] = int(sizes(x)[axis]) - sum(given) - 1
    return _cut(x, [int(place) for place in numpy.cumsum(given)[:-1]], axis)


def _together(converter: Any, one: Any) -> list[Any]:
    """Return operands in the quantisation of the result."""
    target = converter.get_output_tensors(one)[0]
    found = []
    for wrapper in converter.get_input_tensors(one):
        x = converter.get_tensor_expr(wrapper)
        if target.qnn_params is not None and not converter.has_same_qnn_params(wrapper, target):
            x = converter.quantize(converter.dequantize(x, wrapper), target)
        found.append(x)
    return found


@operator("CONCATENATION")
def _concatenation(converter: Any, one: Any) -> Any:
    options = converter.options(one)
    found = op.concatenate(_together(converter, one), int(options.Axis))
    target = converter.get_output_tensors(one)[0]
    if target.qnn_params is None:
        kind = options.FusedActivationFunction
        return converter.convert_fused_activation_function(found, kind)
    return found


@operator("PACK")
def _pack(converter: Any, one: Any) -> Any:
    return op.stack(_together(converter, one), int(converter.options(one).Axis))


# New elements


@operator("SHAPE")
def _shape(converter: Any, one: Any) -> Any:
    whole = converter.get_tensor_shape(converter.get_input_tensors(one)[0])
    if not all(isinstance(size, int) for size in whole):
        raise OpAttributeUnImplemented(
            "a shape is only known when the model runs",
            notes=("give the inputs their shapes: shape_dict={name: (1, 224, 224, 3)}",),
        )
    return const(numpy.asarray(whole, converter.get_output_tensors(one)[0].dtype))


@operator("RANK")
def _rank(converter: Any, one: Any) -> Any:
    whole = converter.get_tensor_shape(converter.get_input_tensors(one)[0])
    return const(numpy.asarray(len(whole), "int32"))


@operator("RANGE")
def _range(converter: Any, one: Any) -> Any:
    bounds = [
        converter.value(wrapper, "the bounds of a range").reshape(-1)[0]
        for wrapper in converter.get_input_tensors(one)
    ]
    return const(numpy.arange(*bounds, dtype=converter.get_output_tensors(one)[0].dtype))


@operator("FILL")
def _fill(converter: Any, one: Any) -> Any:
    shape = _ints(converter, one, 0, "the shape")
    value = converter.get_tensor_expr(converter.get_input_tensors(one)[1])
    return op.broadcast_to(op.reshape(value, ()), tuple(shape))


@operator("ONE_HOT")
def _one_hot(converter: Any, one: Any) -> Any:
    indices, depth, on, off = converter.get_input_tensors(one)
    return one_hot(
        converter.get_tensor_expr(indices), int(converter.value(depth, "the depth").reshape(-1)[0]),
        converter.value(on, "a one-hot value"), converter.value(off, "a one-hot value"),
        converter.options(one).Axis, converter.get_output_tensors(one)[0].dtype,
    )  # fmt: skip


@operator("TOPK_V2")
def _topk(converter: Any, one: Any) -> Any:
    x = converter.get_tensor_expr(converter.get_input_tensors(one)[0])
    return list(op.topk(x, _ints(converter, one, 1, "the number of elements")[0], -1))


@operator("WHERE")
def _where(converter: Any, one: Any) -> Any:
    condition = converter.get_tensor_expr(converter.get_input_tensors(one)[0])
    return op.cast(op.argwhere(condition), converter.get_output_tensors(one)[0].dtype)


@operator("SCATTER_ND")
def _scatter_nd(converter: Any, one: Any) -> Any:
    indices, updates, _ = converter.get_input_tensors(one)
    shape = _ints(converter, one, 2, "the shape")
    places, values = converter.get_tensor_expr(indices), converter.get_tensor_expr(updates)
    rank = rank_of(places)
    zeros = op.zeros(tuple(shape), str(dtype_of(values)))
    order = [rank - 1, *range(rank - 1)]
    return op.scatter_nd(zeros, op.transpose(places, order), values, "add")


@operator("SPARSE_TO_DENSE")
def _sparse_to_dense(converter: Any, one: Any) -> Any:
    indices, _, values, default = converter.get_input_tensors(one)
    shape = _ints(converter, one, 1, "the shape")
    held = [converter.get_tensor_expr(wrapper) for wrapper in (indices, values, default)]
    return op.sparse_to_dense(held[0], tuple(shape), held[1], op.reshape(held[2], ()))


@operator("DYNAMIC_UPDATE_SLICE")
def _dynamic_update_slice(converter: Any, one: Any) -> Any:
    source, update, _ = converter.get_input_tensors(one)
    begin = _ints(converter, one, 2, "the beginning")
    x, v = converter.get_tensor_expr(source), converter.get_tensor_expr(update)
    firsts = [
        min(max(first, 0), whole - size) for first, whole, size in zip(begin, sizes(x), sizes(v))
    ]
    ends = [first + size for first, size in zip(firsts, sizes(v))]
    return op.strided_set(x, v, firsts, ends, [1] * len(firsts))
