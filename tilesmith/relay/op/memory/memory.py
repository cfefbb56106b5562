"""``relay.op.memory.memory``: memory as values of a program, which `transform.ManifestAlloc` makes.

    let %s = memory.alloc_storage(24, 64, device)
    let %t = memory.alloc_tensor(%s, 0, [2, 3])        a tensor in that memory

Programs with them are compiled like those without: the compiler plans memory itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from tilesmith.ir import GlobalTypeVar
from tilesmith.ir.types import TupleType, Type
from tilesmith.relax.attrs import Schema, anything, dtype, optional_ints
from tilesmith.relax.expr import Constant, as_expr
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.relax.type_views import TypeStructInfo
from tilesmith.relay.expr import Tuple, TupleGetItem, const
from tilesmith.relay.op.annotation.annotation import device_field
from tilesmith.relay.op.view import effect, function, make_call
from tilesmith.relay.ty import TensorType
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.tir.unknown import Any as AnySize

__all__ = [
    "STORAGE", "alloc_storage", "alloc_tensor", "flatten_tuple_type", "from_tuple_type", "kill",
    "to_tuple_type",
]  # fmt: skip

STORAGE = GlobalTypeVar("Storage")
"""The type of memory that tensors lie in."""


def _tensor_info(call: Any) -> TensorStructInfo:
    attrs = call.attrs
    if attrs.assert_shape is not None:
        return TensorStructInfo(attrs.assert_shape, attrs.dtype)
    shape = call.args[2]
    if isinstance(shape, Constant):
        return TensorStructInfo([int(size) for size in shape.data.numpy()], attrs.dtype)
    rank = getattr(getattr(shape.struct_info, "shape", None), "values", None)
    if rank is None or not hasattr(rank[0], "value"):
        raise ShapeError("alloc_tensor: the rank of the tensor is not known")
    return TensorStructInfo([AnySize(dtype="int64") for _ in range(rank[0].value)], attrs.dtype)


effect(
    "memory.alloc_storage",
    "size alignment",
    lambda call: TypeStructInfo(STORAGE),
    schema=Schema(virtual_device=device_field(), dtype=dtype("float32")),
    description="Memory of a number of bytes on a device.",
)
effect(
    "memory.alloc_tensor",
    "storage offset shape",
    _tensor_info,
    schema=Schema(dtype=dtype("float32"), const_shape=anything(None), assert_shape=optional_ints()),
    description="A tensor in memory, at an offset.",
)
effect(
    "memory.kill",
    "data",
    lambda call: TupleStructInfo(()),
    description="State that a value is not used any more.",
)


def _scalar(value: Any, kind: str = "int64") -> Any:
    return const(value, kind) if isinstance(value, int) else as_expr(value)


@function("memory.alloc_storage")
def alloc_storage(size: Any, alignment: Any, device: Any, dtype_hint: Any = "float32") -> Any:
    """Return memory of ``size`` bytes on a device."""
    attributes = {"virtual_device": device, "dtype": dtype_hint}
    return make_call("memory.alloc_storage", [_scalar(size), _scalar(alignment)], attributes)


@function("memory.alloc_tensor")
def alloc_tensor(
    storage: Any, offset: Any, shape: Any, dtype: Any = "float32", assert_shape: Any = None
) -> Any:
    """Return a tensor of a shape (a vector, or numbers) that lies in memory, ``offset`` bytes from
    its beginning. ``assert_shape`` states a shape that is computed.
    """
    if isinstance(shape, (list, tuple)):
        shape = const(numpy.asarray(shape, "int64"))
    attributes = {"dtype": dtype, "assert_shape": assert_shape}
    return make_call("memory.alloc_tensor", [storage, _scalar(offset), shape], attributes)


@function("memory.kill")
def kill(data: Any) -> Any:
    """State that a value is not used any more."""
    return make_call("memory.kill", [data])


def _fields(type_: Type) -> Iterator[Any]:
    if isinstance(type_, TensorType):
        yield type_
    elif isinstance(type_, TupleType):
        for field in type_.fields:
            yield from _fields(field)
    else:
        raise TypeMismatchError(f"tensors and tuples of them are wanted, not {type_}")


def flatten_tuple_type(ty: Type) -> list[Any]:
    """Return the types of the tensors in a type, in order."""
    return list(_fields(ty))


def from_tuple_type(ty: Type, expr: Any) -> list[Any]:
    """Return the tensors in an expression of a type, in order."""
    if isinstance(ty, TensorType):
        return [expr]
    if not isinstance(ty, TupleType):
        raise TypeMismatchError(f"tensors and tuples of them are wanted, not {ty}")
    found: list[Any] = []
    for place, field in enumerate(ty.fields):
        found += from_tuple_type(field, TupleGetItem(expr, place))
    return found


def to_tuple_type(ty: Type, exprs: Sequence[Any]) -> Any:
    """Return an expression of a type that is made of tensors: what `from_tuple_type` gave."""
    return _packed(ty, iter(exprs))


def _packed(ty: Type, exprs: Iterator[Any]) -> Any:
    if isinstance(ty, TensorType):
        return next(exprs)
    if not isinstance(ty, TupleType):
        raise TypeMismatchError(f"tensors and tuples of them are wanted, not {ty}")
    return Tuple([_packed(field, exprs) for field in ty.fields])
