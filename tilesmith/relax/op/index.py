"""Parts of tensors by index: take, gather, slices."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.relax.attrs import Schema, boolean, integer, optional_integer, text
from tilesmith.relax.expr import Call, known_struct_info
from tilesmith.relax.op.agreement import gathered_sizes, gathered_tuples
from tilesmith.relax.op.common import (
    check_axes,
    check_axis,
    result,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.declaration import define
from tilesmith.relax.op.grad import take_backward
from tilesmith.relax.op.padding import pad
from tilesmith.relax.relations import describe
from tilesmith.relax.spec import Precision, topi
from tilesmith.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import (
    OpAttributeInvalid,
    ShapeError,
    TypeMismatchError,
    UnsupportedError,
)


def _check_indices(call: Call, index: int) -> TensorStructInfo:
    info = known_struct_info(call.args[index])
    if isinstance(info, PrimStructInfo):
        return TensorStructInfo((), info.dtype)
    info = tensor(call, index)
    if not info.dtype.is_void and not info.dtype.is_integer:
        raise TypeMismatchError(f"{call.op.name}: indices are integers, got {describe(info)}")
    return info


def _infer_take(call: Call) -> Any:
    data, indices = tensor(call, 0), _check_indices(call, 1)
    axis = call.attrs.axis
    if axis is None:
        if data.ndim not in (-1, 1):
            raise OpAttributeInvalid(f"take of {describe(data)} needs an axis")
        axis = 0
    axis = check_axis(call, axis, data.ndim)
    a, b = sizes_of(data), sizes_of(indices)
    if a is None or b is None:
        unknown = -1 in (data.ndim, indices.ndim)
        return result(None, data.dtype, -1 if unknown else data.ndim + indices.ndim - 1)
    return result([*a[:axis], *b, *a[axis + 1 :]], data.dtype)


def _take(attrs: Any, x: Any, indices: Any) -> Any:
    axis = 0 if attrs.axis is None else attrs.axis
    if attrs.mode == "clip":  # negative indices count from the end, as in the compute
        indices = numpy.where(indices < 0, indices + x.shape[axis], indices)
    mode: Any = {"wrap": "wrap", "clip": "clip"}.get(attrs.mode, "raise")
    return numpy.take(x, indices, axis, mode=mode)


def _take_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the gradient scattered back to the positions that were taken."""
    x, indices = orig_call.args
    return [take_backward(output_grad, x, indices, orig_call.attrs.axis), None]


take = define(
    "take",
    "x indices",
    _infer_take,
    description=(
        "The parts of ``x`` at ``indices`` along an axis. Negative indices count from the end; one "
        'that is out of range is an error when the program runs, unless ``mode`` is "clip" or '
        '"wrap".'
    ),
    schema=Schema(axis=optional_integer(), mode=text("fast")),
    compute="topi.take",
    gradient=_take_gradient,
    precision=Precision.FOLLOW,
    evaluate=_take,
)


def _infer_gather_elements(call: Call) -> Any:
    data, indices = tensor(call, 0), _check_indices(call, 1)
    check_axis(call, call.attrs.axis, data.ndim)
    if -1 not in (data.ndim, indices.ndim) and data.ndim != indices.ndim:
        raise ShapeError(
            f"gather_elements: {describe(data)} and {describe(indices)} differ in rank"
        )
    return result(sizes_of(indices), data.dtype, indices.ndim)


def _gather_elements(attrs: Any, data: Any, indices: Any) -> Any:
    axis = attrs.axis % data.ndim
    places = list(numpy.indices(indices.shape))
    places[axis] = numpy.where(indices < 0, indices + data.shape[axis], indices)
    return data[tuple(places)]


gather_elements = define(
    "gather_elements",
    "data indices",
    _infer_gather_elements,
    description=(
        "For each place of ``indices`` the element of ``data`` whose index along ``axis`` stands "
        "there."
    ),
    schema=Schema(axis=integer(0)),
    agreeing=gathered_sizes,
    compute=lambda attrs, data, indices: topi.gather(data, attrs.axis, indices),
    evaluate=_gather_elements,
)


def _infer_gather_nd(call: Call) -> Any:
    data, indices = tensor(call, 0), _check_indices(call, 1)
    a, b = sizes_of(data), sizes_of(indices)
    batch = call.attrs.batch_dims
    if a is None or b is None or not isinstance(b[-1], IntImm):
        return result(None, data.dtype)
    depth = b[-1].value
    if batch + depth > len(a):
        raise ShapeError(f"gather_nd: {depth} indices for {describe(data)}")
    return result([*b[:-1], *a[batch + depth :]], data.dtype)


def _gather_nd(attrs: Any, data: Any, indices: Any) -> Any:
    batch = attrs.batch_dims
    places = list(numpy.moveaxis(indices, -1, 0))
    grid = numpy.indices(indices.shape[:-1])[:batch]
    return data[(*grid, *places)]


def index_tuples_first(indices: Any) -> Any:
    """Return indices of `gather_nd` as topi takes them: their tuples along the first axis."""
    last = len(indices.shape) - 1
    return topi.transpose(indices, [last, *range(last)])


def _gather_nd_expression(attrs: Any, data: Any, indices: Any) -> Any:
    return topi.gather_nd(data, index_tuples_first(indices), attrs.batch_dims)


gather_nd = define(
    "gather_nd",
    "data indices",
    _infer_gather_nd,
    description=("The parts of ``data`` at places whose indices are the last axis of ``indices``."),
    schema=Schema(batch_dims=integer(0)),
    agreeing=gathered_tuples,
    compute=_gather_nd_expression,
    evaluate=_gather_nd,
)


# Slices


def _scalars(call: Call, index: int) -> list[PrimExpr]:
    """Return an argument that is a tuple of known scalars."""
    arg = call.args[index]
    info = known_struct_info(arg)
    if isinstance(info, TupleStructInfo):
        values = [
            field.value if isinstance(field, PrimStructInfo) else None for field in info.fields
        ]
        if all(value is not None for value in values):
            return values
    raise TypeMismatchError(
        f"{call.op.name}: '{call.op.spec.arguments[index].name}' must be a tuple of integers, got "
        f"{describe(info)}"
    )


def slice_arguments(call: Call) -> tuple[list[int], list[Any], list[Any], list[int]]:
    """Return axes, begins, ends and strides of a strided_slice."""
    axes = [int(value) for value in _scalars(call, 1)]  # type: ignore[call-overload]
    begin, end = _scalars(call, 2), _scalars(call, 3)
    if len(call.args) > 4:
        strides = []
        for stride in _scalars(call, 4):
            if not isinstance(stride, IntImm) or stride.value == 0:
                raise OpAttributeInvalid(f"strided_slice: a stride is a constant other than 0")  # noqa: F541
            strides.append(stride.value)
    else:
        strides = [1] * len(axes)
    if not len(axes) == len(begin) == len(end) == len(strides):
        raise OpAttributeInvalid("strided_slice needs as many begins, ends and strides as axes")
    return axes, begin, end, strides


def _infer_strided_slice(call: Call) -> Any:
    data = tensor(call, 0)
    axes, begin, end, strides = slice_arguments(call)
    axes = check_axes(call, axes, data.ndim)
    sizes = sizes_of(data)
    if sizes is None:
        return result(None, data.dtype, data.ndim)
    sizes = list(sizes)
    for axis, first, last, stride in zip(axes, begin, end, strides):
        sizes[axis] = topi.utils.slice_bounds(
            sizes[axis], first, last, stride, call.attrs.assume_inbound
        )[1]
    return result(sizes, data.dtype, data.ndim, data)


def _strided_slice(attrs: Any, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
    parts = [slice(None)] * x.ndim
    strides = [1] * len(axes) if strides is None else strides
    for axis, first, last, stride in zip(axes, begin, end, strides):
        axis, first, last, stride = int(axis), int(first), int(last), int(stride)
        extent = x.shape[axis]
        if stride < 0 and last < -extent:
            parts[axis] = slice(first, None, stride)
        else:
            parts[axis] = slice(first, last, stride)
    return x[tuple(parts)]


def _strided_slice_gradient(
    orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any
) -> list[Any]:
    """Return the gradient with zeros around the slice."""
    x = orig_call.args[0]
    axes, begin, end, strides = slice_arguments(orig_call)
    sizes = sizes_of(known_struct_info(x))
    if any(stride != 1 for stride in strides) or sizes is None:
        raise UnsupportedError("the gradient of strided_slice needs strides of 1")
    width = [[0, 0] for _ in sizes]
    for axis, first, last in zip(axes, begin, end):
        start, count = topi.utils.slice_bounds(
            sizes[axis], first, last, 1, orig_call.attrs.assume_inbound
        )
        if not all(isinstance(item, IntImm) for item in (start, count, sizes[axis])):
            raise UnsupportedError("the gradient of strided_slice needs constant sizes")
        width[axis] = [start.value, sizes[axis].value - start.value - count.value]
    rest = [None] * (len(orig_call.args) - 1)
    return [pad(output_grad, width), *rest]


def _strided_slice_expression(
    attrs: Any, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None
) -> Any:
    return topi.strided_slice(x, begin, end, strides, axes, assume_inbound=attrs.assume_inbound)


strided_slice = define(
    "strided_slice",
    "x axes:scalars begin:scalars end:scalars strides:scalars?",
    _infer_strided_slice,
    description="""The part of ``x`` from ``begin`` to before ``end`` along each of ``axes``.

    The rules are Python's. Bounds may be symbolic. ``assume_inbound``: they are within the sizes
    and not negative.
    """,
    schema=Schema(assume_inbound=boolean(False)),
    compute=_strided_slice_expression,
    gradient=_strided_slice_gradient,
    precision=Precision.FOLLOW,
    evaluate=_strided_slice,
)


def _infer_dynamic_slice(call: Call) -> Any:
    data = tensor(call, 0)
    for index in (1, 2, 3):
        _check_indices(call, index)
    return result(None, data.dtype, data.ndim)


def _dynamic_slice(attrs: Any, x: Any, begin: Any, end: Any, strides: Any) -> Any:
    axes = range(x.ndim)
    return _strided_slice(attrs, x, axes, begin, end, strides)


dynamic_strided_slice = define(
    "dynamic_strided_slice",
    "x begin end strides",
    _infer_dynamic_slice,
    description="Like ``strided_slice`` over all axes, with bounds that are tensors.",
    counts=lambda attrs, *inputs: topi.slice_sizes(*inputs),
    compute=lambda attrs, sizes, *inputs: topi.slice_at_run_time(sizes, *inputs),
    evaluate=_dynamic_slice,
)


# Lengths of sequences


def _infer_checked_lengths(call: Call) -> Any:
    return _check_indices(call, 0)


def _checked_lengths(attrs: Any, lengths: Any, size: Any) -> Any:
    wrong = lengths[(lengths < 0) | (lengths > size[0])]
    if wrong.size:
        raise IndexError(f"the length {wrong[0]} is not between 0 and {size[0]}")
    return lengths


checked_lengths = define(
    "checked_lengths",
    "lengths size:shape",
    _infer_checked_lengths,
    description="""The lengths of sequences in a tensor that has room for ``size`` elements of each
    (a shape of one size); a length below 0 or above is an error.""",
    compute="topi.checked_lengths",
    evaluate=_checked_lengths,
)
