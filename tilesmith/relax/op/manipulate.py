"""Operators that move, repeat, join or split tensors."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir.operators import minimum
from tilesmith.relax.attrs import (
    Schema,
    anything,
    integer,
    integer_or_ints,
    ints,
    optional_integer,
    optional_ints,
)
from tilesmith.relax.expr import Call, PrimValue, Tuple, known_struct_info
from tilesmith.relax.op.agreement import concatenated_sizes
from tilesmith.relax.op.common import (
    broadcast_sizes,
    check_axes,
    check_axis,
    check_dtypes,
    check_ndim,
    number_of_elements,
    result,
    shape_argument,
    simplify_size,
    size,
    sizes_of,
    surely_different,
    tensor,
    tensors,
)
from tilesmith.relax.op.declaration import call, define, function_of
from tilesmith.relax.op.scatter import collapse_sum_to, shape_like
from tilesmith.relax.relations import describe
from tilesmith.relax.spec import Execution, Precision, topi
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError

_FOLLOW = Precision.FOLLOW

# Order of axes, and what broadcasting repeats


def _infer_permute(call: Call) -> Any:
    data, axes = tensor(call, 0), call.attrs.axes
    if axes is not None:
        if data.ndim not in (-1, len(axes)):
            raise ShapeError(f"permute_dims: {len(axes)} axes for {describe(data)}")
        axes = check_axes(call, axes, len(axes))
    sizes = sizes_of(data)
    if sizes is None:
        return result(None, data.dtype, data.ndim if axes is None else len(axes), data)
    order = axes if axes is not None else range(len(sizes) - 1, -1, -1)
    return result([sizes[axis] for axis in order], data.dtype, data.ndim, data)


def _permute_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the gradient with its axes in the old order."""
    axes = orig_call.attrs.axes
    if axes is None:
        return [permute_dims(output_grad)]
    order = [axis % len(axes) for axis in axes]
    return [permute_dims(output_grad, [order.index(i) for i in range(len(order))])]


permute_dims = define(
    "permute_dims",
    "x",
    _infer_permute,
    description="``x`` with its axes in another order (reversed unless ``axes`` is given).",
    schema=Schema(axes=optional_ints()),
    compute="topi.transpose",
    gradient=_permute_gradient,
    precision=_FOLLOW,
    evaluate=lambda attrs, x: numpy.transpose(x, attrs.axes),
)


def _infer_broadcast_to(call: Call) -> Any:
    data, shape = tensor(call, 0), shape_argument(call, 1)
    sizes = sizes_of(data)
    if shape.values is None:
        return TensorStructInfo(None, data.dtype, data.vdevice, shape.ndim)
    if sizes is not None:
        if len(sizes) > len(shape.values):
            raise ShapeError(f"broadcast_to: {describe(data)} has more axes than {describe(shape)}")
        both = broadcast_sizes(call, sizes, shape.values)
        for found, wanted in zip(both or (), shape.values):
            if surely_different(found, wanted):
                raise ShapeError(f"{describe(data)} cannot be broadcast to {describe(shape)}")
    return result(shape.values, data.dtype, -1, data)


def _broadcast_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the sum over repeated elements."""
    return [collapse_sum_to(output_grad, shape_like(orig_call.args[0])), None]


broadcast_to = define(
    "broadcast_to",
    "x shape:shape",
    _infer_broadcast_to,
    description="``x`` repeated along axes of size 1 until it has the shape.",
    compute="topi.broadcast_to",
    gradient=_broadcast_gradient,
    precision=_FOLLOW,
    evaluate=lambda attrs, x, shape: numpy.broadcast_to(x, shape),
)


# Parts and wholes


def _infer_concat(call: Call) -> Any:
    infos = tensors(call, 0)
    if not infos:
        raise ShapeError("concat needs at least one tensor")
    out = check_dtypes(call, infos)
    ranks = {info.ndim for info in infos if info.ndim != -1}
    if len(ranks) > 1:
        shown = ", ".join([describe(info) for info in infos])
        raise ShapeError(f"concat needs tensors of one rank, got {shown}")
    if not ranks:
        return result(None, out)
    ndim = ranks.pop()
    given = call.attrs.axis
    if given is None and ndim != 1:
        raise ShapeError(f"concat needs an axis for tensors of rank {ndim}")
    axis = check_axis(call, given or 0, ndim)
    shapes = [sizes_of(info) for info in infos]
    if any(shape is None for shape in shapes):
        return result(None, out, ndim)
    sizes = list(shapes[0])
    for shape in shapes[1:]:
        for i, (a, b) in enumerate(zip(sizes, shape)):
            if i != axis and surely_different(a, b):
                shown = ", ".join([describe(info) for info in infos])
                raise ShapeError(f"concat along axis {axis}: sizes along axis {i} differ: {shown}")
    total = sizes[axis]
    for shape in shapes[1:]:
        total = total + shape[axis]
    sizes[axis] = total
    return result(sizes, out, ndim, infos[0])


def _concat_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the parts of the gradient."""
    info = known_struct_info(orig_call.args[0])
    axis = (orig_call.attrs.axis or 0) % info.fields[0].ndim
    ends, total = [], 0
    for field in info.fields[:-1]:
        size = sizes_of(field)[axis]
        if not isinstance(size, IntImm):
            raise UnsupportedError("the gradient of concat needs constant sizes")
        total += size.value
        ends.append(total)
    parts = ctx.emit(split(output_grad, ends, axis))
    return [Tuple([ctx.emit(parts[i]) for i in range(len(info.fields))])]


concat = define(
    "concat",
    "tensors",
    _infer_concat,
    description="Tensors one after the other along an axis.",
    agreeing=concatenated_sizes,
    schema=Schema(axis=optional_integer(0)),
    compute=lambda attrs, tensors: topi.concatenate(tensors, attrs.axis or 0),
    gradient=_concat_gradient,
    precision=_FOLLOW,
    evaluate=lambda attrs, tensors: numpy.concatenate(tensors, attrs.axis or 0),
)


def _infer_append(call: Call) -> Any:
    data, row = tensor(call, 0), tensor(call, 1)
    out = check_dtypes(call, [data, row])
    if -1 not in (data.ndim, row.ndim) and data.ndim != row.ndim + 1:
        raise ShapeError(f"append: {describe(row)} is not an element of {describe(data)}")
    sizes, own = sizes_of(data), sizes_of(row)
    if sizes is None:
        return result(None, out, data.ndim, data)
    for whole, part in zip(sizes[1:], own or ()):
        if surely_different(whole, part):
            raise ShapeError(f"append: {describe(row)} is not an element of {describe(data)}")
    return result([sizes[0] + 1, *sizes[1:]], out, data.ndim, data)


append = define(
    "append",
    "data row",
    _infer_append,
    description="A tensor with one more element along its first axis. A loop that carries it does"
    " not copy what is there already.",
    precision=_FOLLOW,
    execution=Execution.APPEND,
    evaluate=lambda attrs, data, row: numpy.concatenate([data, row[None]]),
)


def _infer_stack(call: Call) -> Any:
    infos = tensors(call, 0)
    out = check_dtypes(call, infos)
    sizes = sizes_of(infos[0])
    ndim = infos[0].ndim
    axis = check_axis(call, call.attrs.axis, -1 if ndim == -1 else ndim + 1)
    if sizes is None:
        return result(None, out, -1 if ndim == -1 else ndim + 1)
    for info in infos[1:]:
        own = sizes_of(info)
        if own is not None and (
            len(own) != ndim or any(surely_different(a, b) for a, b in zip(sizes, own))
        ):
            raise ShapeError(f"stack: {describe(infos[0])} and {describe(info)} differ")
    return result([*sizes[:axis], size(len(infos)), *sizes[axis:]], out)


stack = define(
    "stack",
    "tensors",
    _infer_stack,
    description="Tensors of one shape along a new axis.",
    schema=Schema(axis=integer(0)),
    agreeing=concatenated_sizes,
    compute="topi.stack",
    precision=_FOLLOW,
    evaluate=lambda attrs, tensors: numpy.stack(tensors, attrs.axis),
)


def _infer_split(call: Call) -> Any:
    data = tensor(call, 0)
    axis = check_axis(call, call.attrs.axis, data.ndim)
    sections, sizes = call.attrs.indices_or_sections, sizes_of(data)
    count = sections if isinstance(sections, int) else len(sections) + 1
    if count < 1:
        raise ShapeError(f"split makes at least one part, not {count}")
    if sizes is None:
        part = result(None, data.dtype, data.ndim, data)
        return TupleStructInfo((part,) * count)
    if not isinstance(sections, int) and any(a > b for a, b in zip((0, *sections), sections)):
        raise ShapeError(f"split: the indices {sections} do not increase")
    bounds = _bounds(sections, sizes[axis])
    parts = []
    for begin, end in zip(bounds, bounds[1:]):
        extent = simplify_size(end - begin)
        parts.append(result([*sizes[:axis], extent, *sizes[axis + 1 :]], data.dtype, -1, data))
    return TupleStructInfo(tuple(parts))


def _bounds(sections: Any, whole: PrimExpr) -> list[PrimExpr]:
    """Return where the parts of an axis begin and end; indices beyond its end leave empty parts."""
    if isinstance(sections, int):
        # The last part is smaller where the sections do not divide the size.
        step = simplify_size((whole + (sections - 1)) // sections)
        inner = [step * i if i == 1 else minimum(step * i, whole) for i in range(1, sections)]
    else:
        inner = [minimum(size(item), whole) for item in sections]
    return [size(0), *[simplify_size(one) for one in inner], whole]


def _split(attrs: Any, x: Any) -> Any:
    sections = attrs.indices_or_sections
    if isinstance(sections, int):
        step = -(-x.shape[attrs.axis] // sections)
        sections = [step * i for i in range(1, sections)]
    return tuple(numpy.split(x, sections, attrs.axis))


def _split_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the concatenated gradients of the parts."""
    return [concat(output_grad, orig_call.attrs.axis)]


def _split_expression(attrs: Any, x: Any) -> Any:
    axis = attrs.axis % len(x.shape)
    bounds = _bounds(attrs.indices_or_sections, x.shape[axis])
    return topi.split(x, bounds[1:-1], axis)


split = define(
    "split",
    "x",
    _infer_split,
    description="A tuple of parts along an axis: so many, or divided at these indices.",
    schema=Schema(indices_or_sections=integer_or_ints(), axis=integer(0)),
    compute=_split_expression,
    gradient=_split_gradient,
    precision=_FOLLOW,
    evaluate=_split,
)


# Repetition and order


def _infer_repeat(call: Call) -> Any:
    data, axis = tensor(call, 0), call.attrs.axis
    repeats, sizes = call.attrs.repeats, sizes_of(data)
    if axis is None:
        total = None if sizes is None else [number_of_elements(sizes) * repeats]
        return result(total, data.dtype, 1, data)
    axis = check_axis(call, axis, data.ndim)
    if sizes is None:
        return result(None, data.dtype, data.ndim, data)
    repeated = [s * repeats if i == axis else s for i, s in enumerate(sizes)]
    return result(repeated, data.dtype, -1, data)


repeat = define(
    "repeat",
    "data",
    _infer_repeat,
    description=(
        "Each element so many times along an axis (of the flattened tensor without ``axis``)."
    ),
    schema=Schema(repeats=integer(), axis=optional_integer()),
    compute="topi.repeat",
    precision=_FOLLOW,
    evaluate=lambda attrs, x: numpy.repeat(x, attrs.repeats, attrs.axis),
)


def _infer_tile(call: Call) -> Any:
    data, repeats = tensor(call, 0), call.attrs.repeats
    if data.ndim == -1:
        return result(None, data.dtype, -1, data)
    ndim = max(data.ndim, len(repeats))
    sizes = sizes_of(data)
    if sizes is None:
        return result(None, data.dtype, ndim, data)
    sizes = [size(1)] * (ndim - len(sizes)) + list(sizes)
    factors = [1] * (ndim - len(repeats)) + list(repeats)
    return result([s * factor for s, factor in zip(sizes, factors)], data.dtype, -1, data)


tile = define(
    "tile",
    "data",
    _infer_tile,
    description="The whole tensor so many times along each axis.",
    schema=Schema(repeats=ints()),
    compute=lambda attrs, x: topi.tile(x, attrs.repeats),
    precision=_FOLLOW,
    evaluate=lambda attrs, x: numpy.tile(x, attrs.repeats),
)


def _infer_flip(call: Call) -> Any:
    data = tensor(call, 0)
    check_axis(call, call.attrs.axis, data.ndim)
    return data


flip = define(
    "flip",
    "data",
    _infer_flip,
    description="The elements along an axis in reverse order.",
    schema=Schema(axis=integer()),
    compute="topi.flip",
    precision=_FOLLOW,
    evaluate=lambda attrs, x: numpy.flip(x, attrs.axis),
)


# Layout


def _infer_layout_transform(call: Call) -> Any:
    data, index_map = tensor(call, 0), call.attrs.index_map
    sizes = sizes_of(data)
    if sizes is None:
        return result(None, data.dtype, len(index_map.final_indices), data)
    check_ndim(call, 0, data, len(index_map.initial_indices))
    return result(index_map.map_shape(list(sizes)), data.dtype, -1, data)


def _layout_transform(attrs: Any, x: Any) -> Any:
    index_map = attrs.index_map
    shape = [int(extent) for extent in index_map.map_shape(list(x.shape))]
    fill = attrs.pad_value if attrs.pad_value is not None else 0
    out = numpy.full(shape, fill, x.dtype)
    for index in numpy.ndindex(*x.shape):
        place = tuple([int(i) for i in index_map.map_indices(list(index))])
        out[place] = x[index]
    return out


_layout_transform_call = define(
    "layout_transform",
    "x",
    _infer_layout_transform,
    schema=Schema(
        index_map=anything(),
        pad_value=anything(),
        axis_separators=anything(),
        input_axis_separators=anything(),
    ),
    compute=lambda attrs, x: topi.index_map_transform(x, attrs.index_map, attrs.pad_value),
    evaluate=_layout_transform,
)


@function_of(_layout_transform_call)
def layout_transform(
    x: Any,
    index_map: Any,
    pad_value: Any = None,
    axis_separators: Any = None,
    input_axis_separators: Any = None,
) -> Call:
    """Move the elements of ``x`` by an index map: ``layout_transform(x, lambda i, j: (j, i))``."""
    if callable(index_map) and not hasattr(index_map, "map_shape"):
        from tilesmith.tir.index_map import IndexMap

        index_map = IndexMap.from_func(index_map, index_dtype="int64")
    if isinstance(pad_value, PrimValue):
        pad_value = pad_value.value
    known = getattr(getattr(x, "struct_info", None), "dtype", None)
    if isinstance(pad_value, PrimExpr) and known is not None and pad_value.dtype != known:
        raise TypeMismatchError(
            f"layout_transform pads a tensor of {known} with a value of {pad_value.dtype}"
        )
    pad_value = getattr(pad_value, "value", pad_value)
    return call(
        _layout_transform_call.op,
        x,
        index_map=index_map,
        pad_value=pad_value,
        axis_separators=axis_separators or None,
        input_axis_separators=input_axis_separators or None,
    )
