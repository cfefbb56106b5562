"""Types of the functional door as views of struct info, and back.

    struct_info_of(TensorType((1, 8), "float32"))    # TensorStructInfo([1, 8], "float32")
    type_of(x.struct_info)                           # TensorType((1, 8), "float32")

One piece of knowledge about a value is held once, as struct info. A type that struct info has no
word for (a type variable, a reference, a type of data, a function with type parameters) is held by
`TypeStructInfo`. Sizes of types are int32 unless written otherwise, those of struct info int64: a
size ``n`` of int32 becomes ``int64(n)`` and comes back as ``n``. Each ``Any`` becomes a size of its
own, which is equal to no other one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from tilesmith.ir import (
    Cast,
    FuncType,
    IncompleteType,
    IntImm,
    PrimExpr,
    TupleType,
    Type,
    child,
    const,
)
from tilesmith.ir.queries import any_node
from tilesmith.ir.tensor_type import TensorType
from tilesmith.relax.base import VIEWS, StructInfo
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeExpr,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.unknown import Any

if TYPE_CHECKING:
    from tilesmith.ir.node import Node

__all__ = ["TypeStructInfo", "struct_info_of", "type_of"]


class TypeStructInfo(StructInfo, key="relax.TypeStructInfo"):
    """A value of a type that the other kinds of struct info cannot describe."""

    type: Type = child()


def struct_info_of(type_: Type) -> StructInfo:
    """Return what a type says about a value."""
    if isinstance(type_, TensorType):
        known = _constant_sizes(type_.shape)
        if known is not None:
            return _tensor_info(known, type_.dtype)
        return TensorStructInfo([_wide(size) for size in type_.shape], type_.dtype)
    if isinstance(type_, TupleType):
        return TupleStructInfo(tuple([struct_info_of(field) for field in type_.fields]))
    if isinstance(type_, FuncType) and not type_.type_params and not type_.type_constraints:
        params = [struct_info_of(argument) for argument in type_.arg_types]
        return FuncStructInfo(params, struct_info_of(type_.ret_type))
    return TypeStructInfo(type_)


def _constant_sizes(sizes: Iterable[PrimExpr]) -> tuple[int, ...] | None:
    found = []
    for size in sizes:
        if size.__class__ is not IntImm:
            return None
        found.append(size.value)
    return tuple(found)


@lru_cache(maxsize=4096)
def _tensor_info(sizes: tuple[int, ...], dtype: DataType) -> StructInfo:
    """Return the one struct info of tensors of these sizes: nodes are immutable, and programs have
    few shapes.
    """
    return TensorStructInfo([const(size, "int64") for size in sizes], dtype)


@lru_cache(maxsize=4096)
def _tensor_type(sizes: tuple[int, ...], dtype: DataType) -> Type:
    return TensorType([_narrow(const(size, "int64")) for size in sizes], dtype)


def _wide(size: PrimExpr) -> PrimExpr:
    if isinstance(size, Any):
        return Any(size.name, "int64")
    if size.dtype == "int64":
        return size
    return const(size.value, "int64") if isinstance(size, IntImm) else Cast("int64", size)


def _is_unknown(node: Node) -> bool:
    return isinstance(node, Any)


def _narrow(size: PrimExpr) -> PrimExpr:
    if isinstance(size, IntImm):
        return const(size.value, "int32") if size.value < 1 << 31 else size
    if isinstance(size, Cast) and size.value.dtype == "int32":
        return size.value
    return Any() if any_node(size, _is_unknown) else size


@VIEWS.register("type")
def type_of(info: StructInfo | Type | None) -> Type:
    """Return the type of the values that a struct info describes; IncompleteType where it says too
    little for one.
    """
    if isinstance(info, Type):
        return info
    if isinstance(info, TypeStructInfo):
        return info.type
    if isinstance(info, TensorStructInfo):
        if isinstance(info.shape, ShapeExpr):
            known = _constant_sizes(info.shape.values)
            if known is not None:
                return _tensor_type(known, info.dtype)
            return TensorType([_narrow(size) for size in info.shape.values], info.dtype)
        if info.ndim < 0:
            return IncompleteType()
        return TensorType([Any() for _ in range(info.ndim)], info.dtype)
    if isinstance(info, TupleStructInfo):
        return TupleType(tuple([type_of(field) for field in info.fields]))
    if isinstance(info, FuncStructInfo) and info.params is not None:
        return FuncType(tuple([type_of(one) for one in info.params]), type_of(info.ret))
    if isinstance(info, PrimStructInfo):
        return TensorType((), info.dtype)
    if isinstance(info, ShapeStructInfo) and info.ndim >= 0:
        return TensorType((info.ndim,), "int64")
    return IncompleteType()
