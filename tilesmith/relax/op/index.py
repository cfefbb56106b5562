"""Parts of tensors by index: take, gather, slices."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.relax.attrs import Schema, boolean, integer, optional_integer, text
from tilesmith.relax.expr import Call, PrimValue, Tuple, known_struct_info
from tilesmith.relax.op.common import (
    check_axes,
    check_axis,
    result,
    size,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.spec import FusionKind, call, define, topi
from tilesmith.relax.relations import describe
from tilesmith.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, TypeMismatchError

_INJECTIVE = FusionKind.INJECTIVE


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
    return numpy.take(x, indices, axis, mode="wrap" if attrs.mode == "wrap" else "clip")


_TAKE = define(
    "take",
    "x indices",
    _infer_take,
    schema=Schema(axis=optional_integer(), mode=text("fast")),
    compute="topi.take",
    kind=_INJECTIVE,
    evaluate=_take,
)


def take(x: Any, indices: Any, axis: int | None = None, mode: str = "fast") -> Call:
    """The parts of ``x`` at ``indices`` along an axis. Indices must be in range unless ``mode`` is
    "clip" or "wrap"."""
    return call(_TAKE, x, indices, axis=axis, mode=mode)


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


_GATHER_ELEMENTS = define(
    "gather_elements",
    "data indices",
    _infer_gather_elements,
    schema=Schema(axis=integer(0)),
    compute=lambda attrs, data, indices: topi.gather(data, attrs.axis, indices),
    kind=_INJECTIVE,
    evaluate=_gather_elements,
)


def gather_elements(data: Any, indices: Any, axis: int = 0) -> Call:
    """For each place of ``indices`` the element of ``data`` whose index along ``axis`` stands
    there."""
    return call(_GATHER_ELEMENTS, data, indices, axis=axis)


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
    """Indices of `gather_nd` as topi takes them: their tuples along the first axis."""
    last = len(indices.shape) - 1
    return topi.transpose(indices, [last, *range(last)])


def _gather_nd_expression(attrs: Any, data: Any, indices: Any) -> Any:
    return topi.gather_nd(data, index_tuples_first(indices), attrs.batch_dims)


_GATHER_ND = define(
    "gather_nd",
    "data indices",
    _infer_gather_nd,
    schema=Schema(batch_dims=integer(0)),
    compute=_gather_nd_expression,
    kind=_INJECTIVE,
    evaluate=_gather_nd,
)


def gather_nd(data: Any, indices: Any, batch_dims: int = 0) -> Call:
    """The parts of ``data`` at places whose indices are the last axis of ``indices``."""
    return call(_GATHER_ND, data, indices, batch_dims=batch_dims)


# Slices


def _scalars(call: Call, index: int) -> list[PrimExpr]:
    """An argument that is a tuple of known scalars."""
    arg = call.args[index]
    info = known_struct_info(arg)
    if isinstance(info, TupleStructInfo):
        values = [
            field.value if isinstance(field, PrimStructInfo) else None for field in info.fields
        ]
        if all(value is not None for value in values):
            return values
    raise TypeMismatchError(
        f"{call.op.name}: '{call.op.spec.arguments[index]}' must be a tuple of integers, got "
        f"{describe(info)}"
    )


def slice_arguments(call: Call) -> tuple[list[int], list[Any], list[Any], list[int]]:
    """Axes, begins, ends and strides of a strided_slice."""
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


def _strided_slice_expression(
    attrs: Any, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None
) -> Any:
    return topi.strided_slice(x, begin, end, strides, axes, assume_inbound=attrs.assume_inbound)


_STRIDED_SLICE = define(
    "strided_slice",
    "x axes begin end strides",
    _infer_strided_slice,
    schema=Schema(assume_inbound=boolean(False)),
    compute=_strided_slice_expression,
    kind=_INJECTIVE,
    evaluate=_strided_slice,
)


def _tuple(values: Any) -> Any:
    if values is None or isinstance(values, (Tuple, Call)) or hasattr(values, "struct_info"):
        return values
    if isinstance(values, (int, PrimExpr)):
        values = (values,)
    return Tuple(
        [value if isinstance(value, PrimValue) else PrimValue(size(value)) for value in values]
    )


def strided_slice(
    x: Any, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False
) -> Call:
    """A part of ``x``: along each of ``axes`` from ``begin`` to before ``end``, by Python's rules.

    Bounds may be symbolic. ``assume_inbound``: they are within the sizes and not negative.
    """
    return call(
        _STRIDED_SLICE,
        x,
        _tuple(axes),
        _tuple(begin),
        _tuple(end),
        _tuple(strides),
        assume_inbound=assume_inbound,
    )


def _infer_dynamic_slice(call: Call) -> Any:
    data = tensor(call, 0)
    for index in (1, 2, 3):
        _check_indices(call, index)
    return result(None, data.dtype, data.ndim)


def _dynamic_slice(attrs: Any, x: Any, begin: Any, end: Any, strides: Any) -> Any:
    axes = range(x.ndim)
    return _strided_slice(attrs, x, axes, begin, end, strides)


_DYNAMIC_SLICE = define(
    "dynamic_strided_slice",
    "x begin end strides",
    _infer_dynamic_slice,
    compute=None,
    evaluate=_dynamic_slice,
)


def dynamic_strided_slice(x: Any, begin: Any, end: Any, strides: Any) -> Call:
    """Like ``strided_slice`` over all axes, with bounds that are tensors."""
    return call(_DYNAMIC_SLICE, x, begin, end, strides)
