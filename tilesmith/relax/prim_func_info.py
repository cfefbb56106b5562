"""Describes tensor functions to the graph: the struct info of a PrimFunc."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimType, Type, Var
from tilesmith.ir.operators import cast
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.tir.analysis import is_pure_function
from tilesmith.tir.function import SIGNATURES, PrimFunc

__all__ = ["struct_info_of_prim_func"]


@SIGNATURES.register("struct info")
def struct_info_of_prim_func(func: PrimFunc) -> FuncStructInfo:
    """Return buffers as tensors, with their symbolic sizes, and numbers as scalars.

    The function is pure if it writes to none of its buffers.
    """
    params = [_parameter(func, param) for param in func.params]
    return FuncStructInfo(params, _of_type(func.ret_type), is_pure_function(func))


def _parameter(func: PrimFunc, param: Var) -> StructInfo:
    buffer: Any = func.buffer_map.get(param)
    if buffer is None:
        return _of_type(param.type_annotation)
    return TensorStructInfo([cast("int64", size) for size in buffer.shape], buffer.dtype)


def _of_type(type_: Type) -> StructInfo:
    fields = getattr(type_, "fields", None)
    if fields is not None:
        return TupleStructInfo([_of_type(field) for field in fields])
    if isinstance(type_, PrimType) and not type_.dtype.is_handle:
        return PrimStructInfo(type_.dtype)
    return ObjectStructInfo()
