"""Helpers for inference: arguments as tensors, broadcasting, axes, results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.ir import IntImm, Op, PrimExpr, const
from tilesmith.relax.expr import Call, ShapeExpr, known_struct_info
from tilesmith.relax.relations import (
    describe,
    prove_equal,
    simplify_size,
    size_text,
    sizes_of,
    surely_different,
)
from tilesmith.relax.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TypeMismatchError

__all__ = [
    "argument_name", "broadcast_sizes", "check_axes", "check_axis", "check_dtypes", "check_float",
    "check_ndim", "first_info", "number_of_elements", "result", "shape_argument", "size",
    "sizes_of", "tensor", "tensor_or_scalar", "tensors", "widened",
]  # fmt: skip


def widened(array: numpy.ndarray) -> numpy.ndarray:
    """Return an array of floats of fewer than 32 bits as float32, any other unchanged."""
    is_narrow = array.dtype.kind not in "iubc" and array.dtype.itemsize < 4
    return array.astype("float32") if is_narrow else array


def argument_name(call: Call, index: int) -> str:
    """Return ``argument 'weight' of relax.nn.conv2d``."""
    spec = call.op.spec if isinstance(call.op, Op) else None
    names = [one.name for one in spec.arguments] if spec is not None else []
    name = f"'{names[index]}'" if index < len(names) else str(index)
    return f"argument {name} of {call.op.name}"


def tensor(call: Call, index: int) -> TensorStructInfo:
    """Return the struct info of an argument that has to be a tensor."""
    if index >= len(call.args):
        raise TypeMismatchError(f"{argument_name(call, index)} is missing")
    info = known_struct_info(call.args[index])
    if not isinstance(info, TensorStructInfo):
        raise TypeMismatchError(
            f"{argument_name(call, index)} must be a tensor, got {describe(info)}"
        )
    return info


def tensor_or_scalar(call: Call, index: int) -> TensorStructInfo:
    """Like ``tensor``; a scalar of the graph counts as a tensor of rank 0."""
    info = known_struct_info(call.args[index])
    if isinstance(info, PrimStructInfo):
        return TensorStructInfo((), info.dtype)
    return tensor(call, index)


def tensors(call: Call, index: int) -> list[TensorStructInfo]:
    """Return the struct infos of an argument that has to be a tuple of tensors."""
    info = known_struct_info(call.args[index])
    if not isinstance(info, TupleStructInfo):
        raise TypeMismatchError(
            f"{argument_name(call, index)} must be a tuple of tensors, got {describe(info)}"
        )
    for number, field in enumerate(info.fields):
        if not isinstance(field, TensorStructInfo):
            raise TypeMismatchError(
                f"field {number} of {argument_name(call, index)} must be a tensor, got "
                f"{describe(field)}"
            )
    return list(info.fields)


def shape_argument(call: Call, index: int) -> ShapeStructInfo:
    """Return the struct info of an argument that has to be a shape."""
    info = known_struct_info(call.args[index])
    if not isinstance(info, ShapeStructInfo):
        raise TypeMismatchError(
            f"{argument_name(call, index)} must be a shape, got {describe(info)}"
        )
    return info


def check_ndim(call: Call, index: int, info: TensorStructInfo, *ranks: int) -> None:
    """Raise ShapeError unless a tensor has one of the ranks (or its rank is unknown)."""
    if info.ndim != -1 and info.ndim not in ranks:
        wanted = " or ".join([str(rank) for rank in ranks])
        raise ShapeError(
            f"{argument_name(call, index)} must have {wanted} dimensions, got {describe(info)}"
        )


def check_float(call: Call, index: int, info: TensorStructInfo) -> None:
    """Raise TypeMismatchError for a tensor of integers."""
    if not info.dtype.is_void and not info.dtype.is_float:
        raise TypeMismatchError(
            f"{argument_name(call, index)} must be of floats, got {describe(info)}",
            notes=("convert it with relax.op.astype",),
        )


def check_dtypes(call: Call, infos: Sequence[TensorStructInfo]) -> DataType:
    """Check that tensors share a dtype and return it (void if none is known)."""
    known = [info.dtype for info in infos if not info.dtype.is_void]
    for dtype in known[1:]:
        if dtype != known[0]:
            raise TypeMismatchError(
                f"{call.op.name} needs tensors of one dtype, got {known[0]} and {dtype}",
                notes=("convert one of them with relax.op.astype",),
            )
    return known[0] if len(known) == len(infos) and known else DataType("void")


_MOST_ELEMENTS = 1 << 59
"""So many elements of 8 bytes have addresses of 63 bits: beyond, indices overflow."""


def result(sizes: Any, dtype: Any, ndim: int = -1, like: TensorStructInfo | None = None) -> Any:
    """Return the struct info of a tensor of sizes (None: unknown) and dtype; raises ShapeError if
    no memory holds so many elements.
    """
    vdevice = like.vdevice if like is not None else None
    if sizes is None:
        return TensorStructInfo(None, dtype, vdevice, ndim)
    sizes = [simplify_size(size_) for size_ in sizes]
    if math.prod([one.value for one in sizes if isinstance(one, IntImm)]) > _MOST_ELEMENTS:
        shown = ", ".join([str(one) for one in sizes])
        raise ShapeError(f"no memory holds a tensor of the shape ({shown})")
    return TensorStructInfo(sizes, dtype, vdevice)


def first_info(call: Call) -> TensorStructInfo:
    """Return the struct info of the first argument."""
    info = tensor(call, 0)
    return info


def size(value: Any) -> PrimExpr:
    """Return a size as an int64 expression."""
    return value if isinstance(value, PrimExpr) else const(int(value), "int64")


def broadcast_sizes(
    call: Call, a: Sequence[PrimExpr], b: Sequence[PrimExpr]
) -> list[PrimExpr] | None:
    """Return the broadcast sizes of two shapes by numpy's rule; None if symbolic sizes leave it
    open.
    """
    short, long = (a, b) if len(a) <= len(b) else (b, a)
    sizes = list(long[: len(long) - len(short)])
    is_open = False
    for x, y in zip(short, long[len(long) - len(short) :]):
        if isinstance(x, IntImm) and x.value == 1:
            sizes.append(y)
        elif (isinstance(y, IntImm) and y.value == 1) or prove_equal(x, y):
            sizes.append(x)
        elif surely_different(x, y):
            raise ShapeError(
                f"{call.op.name} cannot broadcast ({_shown(a)}) with ({_shown(b)}): "
                f"{size_text(x)} and {size_text(y)} differ",
                notes=("sizes fit, counted from the last one, where they are equal or one is 1",),
            )
        else:
            is_open = True  # a later pair may still be an error
    return None if is_open else sizes


def _shown(sizes: Sequence[PrimExpr]) -> str:
    return ", ".join([size_text(item) for item in sizes])


def check_axis(call: Call, axis: int, ndim: int) -> int:
    """Return an axis counted from the front; raises ShapeError if there is no such axis."""
    axis = int(axis)
    if ndim == -1:
        return axis
    if not -ndim <= axis < ndim:
        raise ShapeError(f"{call.op.name}: there is no axis {axis} in a tensor of rank {ndim}")
    return axis + ndim if axis < 0 else axis


def check_axes(call: Call, axes: Sequence[int], ndim: int) -> list[int]:
    """Return axes counted from the front; raises ShapeError if one occurs twice."""
    found = [check_axis(call, axis, ndim) for axis in axes]
    if len(set(found)) != len(found):
        raise ShapeError(f"{call.op.name}: an axis occurs twice in {tuple(axes)}")
    return found


def number_of_elements(sizes: Sequence[PrimExpr]) -> PrimExpr:
    """Return the product of sizes."""
    total: PrimExpr = const(1, "int64")
    for item in sizes:
        total = total * item
    return total


def as_shape(value: Any) -> Any:
    """Return a list of sizes as a ShapeExpr; an expression unchanged."""
    if isinstance(value, (list, tuple, int, PrimExpr)):
        return ShapeExpr(value)
    return value
