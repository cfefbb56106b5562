"""``relax.inspect``: what a tensor says of itself when the program runs.

``x.shape[0]``, ``x.ndim``, ``x.dtype.bits`` of an expression make calls of these operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.relax.expr import Call, Expr, PrimValue, as_expr, known_struct_info
from tilesmith.relax.op.common import sizes_of
from tilesmith.relax.op.declaration import OpFunction, define, find_function, functions
from tilesmith.relax.relations import describe
from tilesmith.relax.spec import Execution, no_gradient
from tilesmith.relax.struct_info import ObjectStructInfo, PrimStructInfo, TensorStructInfo
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnknownMemberError

__all__ = ["parts_of"]


def _checked(call: Call) -> Any:
    info = known_struct_info(call.args[0])
    if not isinstance(info, (TensorStructInfo, ObjectStructInfo)):
        raise TypeMismatchError(f"{call.op.name} needs a tensor, got {describe(info)}")
    return info


def _axis(call: Call, info: Any) -> int | None:
    """Return the axis that is asked for, if it is known."""
    value = known_struct_info(call.args[1])
    number = getattr(value, "value", None)
    if not isinstance(number, IntImm):
        return None
    axis, rank = int(number.value), getattr(info, "ndim", -1)
    if axis < 0 or (rank != -1 and axis >= rank):
        raise ShapeError(f"{call.op.name}: a tensor of rank {rank} has no axis {axis}")
    return axis


def _part(
    name: str,
    dtype: str,
    known: Callable[[Any, int | None], Any],
    evaluate: Callable[..., int],
    meaning: str,
    of_axis: bool = False,
) -> OpFunction:
    """Declare an operator; ``known`` gives its value where the struct info of the tensor (and the
    axis) tells it.
    """

    def infer(call: Call) -> Any:
        info = _checked(call)
        axis = _axis(call, info) if of_axis else None
        value = known(info, axis) if isinstance(info, TensorStructInfo) else None
        if isinstance(value, PrimExpr) and value.dtype == dtype:
            return PrimStructInfo(value=value)
        return PrimStructInfo(dtype, value if isinstance(value, int) else None)

    return define(
        f"inspect.{name}",
        "tensor axis:scalar" if of_axis else "tensor",
        infer,
        description=meaning,
        evaluate=lambda attrs, *values: evaluate(*values),
        gradient=no_gradient,
        execution=Execution.HOST,
        host=name,
    )


def _size(info: Any, axis: int | None) -> Any:
    sizes = sizes_of(info)
    return None if sizes is None or axis is None else sizes[axis]


def _stride(info: Any, axis: int | None) -> Any:
    sizes = sizes_of(info)
    if sizes is None or axis is None:
        return None
    stride = 1
    for size in sizes[axis + 1 :]:
        if not isinstance(size, IntImm):
            return None
        stride *= int(size.value)
    return stride


def _of_dtype(read: Callable[[DataType], int]) -> Callable[[Any, int | None], Any]:
    return lambda info, axis: None if info.dtype.is_void else read(info.dtype)


def _contiguous_stride(tensor: Any, axis: int) -> int:
    return int(numpy.prod(tensor.shape[axis + 1 :], dtype="int64"))


_NDIM = _part(
    "tensor_ndim", "int32", lambda info, axis: None if info.ndim < 0 else info.ndim,
    lambda tensor: tensor.ndim, "The rank of a tensor.",
)  # fmt: skip
_SHAPE = _part(
    "tensor_shape_i", "int64", _size, lambda tensor, axis: tensor.shape[axis],
    "The size of a tensor along an axis.", True,
)  # fmt: skip
_STRIDE = _part(
    "tensor_stride_i", "int64", _stride, _contiguous_stride,
    "The distance of neighbours along an axis, in elements.", True,
)  # fmt: skip
_BYTE_OFFSET = _part(
    "tensor_byte_offset", "uint64", lambda info, axis: None, lambda tensor: 0,
    "Where a tensor begins in its memory, in bytes.",
)  # fmt: skip
_ELEM_OFFSET = _part(
    "tensor_elem_offset", "uint64", lambda info, axis: None, lambda tensor: 0,
    "Where a tensor begins in its memory, in elements.",
)  # fmt: skip
_CODE = _part(
    "tensor_dtype_code", "uint8", _of_dtype(lambda dtype: int(dtype.type_code)),
    lambda tensor: int(DataType(str(tensor.dtype)).type_code), "The code of a tensor's dtype.",
)  # fmt: skip
_BITS = _part(
    "tensor_dtype_bits", "uint8", _of_dtype(lambda dtype: dtype.bits),
    lambda tensor: DataType(str(tensor.dtype)).bits, "The bits of a tensor's dtype.",
)  # fmt: skip
_LANES = _part(
    "tensor_dtype_lanes", "uint16", _of_dtype(lambda dtype: dtype.lanes),
    lambda tensor: DataType(str(tensor.dtype)).lanes, "The lanes of a tensor's dtype.",
)  # fmt: skip


class _DtypeParts:
    """``x.dtype``: code, bits and lanes, which the program reads when it runs."""

    def __init__(self, tensor: Expr) -> None:
        self.tensor = tensor

    @property
    def code(self) -> Call:
        """The code of the dtype."""
        return _CODE(self.tensor)

    @property
    def bits(self) -> Call:
        """The bits of an element."""
        return _BITS(self.tensor)

    @property
    def lanes(self) -> Call:
        """The lanes of an element."""
        return _LANES(self.tensor)


class _AxisParts:
    """``x.shape`` or ``x.strides``: one number for each axis."""

    def __init__(self, tensor: Expr, read: OpFunction) -> None:
        self.tensor, self.read = tensor, read

    def __getitem__(self, axis: Any) -> Call:
        return self.read(self.tensor, as_expr(axis) if isinstance(axis, PrimValue) else axis)


_PARTS: dict[str, Callable[[Any], Any]] = {
    "dtype": _DtypeParts,
    "ndim": _NDIM,
    "shape": lambda tensor: _AxisParts(tensor, _SHAPE),
    "strides": lambda tensor: _AxisParts(tensor, _STRIDE),
    "byte_offset": _BYTE_OFFSET,
    "elem_offset": _ELEM_OFFSET,
}


def parts_of(tensor: Any, name: str) -> Any:
    """Return what an attribute of a tensor's expression means: a call, or a place to ask further.

    Raises UnknownMemberError for expressions that are no tensors, and under the functional door.
    """
    info = tensor.struct_info
    is_tensor = info is None or isinstance(info, (TensorStructInfo, ObjectStructInfo))
    if tensor.dialect == "relay" or not is_tensor:
        kind = type(tensor).__name__
        raise UnknownMemberError(f"'{kind}' object has no attribute '{name}'")
    return _PARTS[name](tensor)


globals().update(functions("inspect."))


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("inspect." + name)
