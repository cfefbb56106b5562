"""Defines the types of variables and functions."""

from __future__ import annotations

from typing import Any

from tilesmith.ir.node import ComparedByStructure, child, data
from tilesmith.runtime.dtype import DataType

__all__ = ["FuncType", "PointerType", "PrimType", "TupleType", "Type", "VoidType"]


class Type(ComparedByStructure, key="ir.Type"):
    """Base of all types."""


class PrimType(Type, key="ir.PrimType"):
    """A scalar or vector of a dtype."""

    dtype: DataType = data(convert=DataType)


class PointerType(Type, key="ir.PointerType"):
    """A pointer to elements of a type in a storage scope (``"global"``, ``"shared"``, ...).

    The empty scope is the global one.
    """

    element_type: Type = child()
    storage_scope: str = data(default="global", convert=lambda scope: scope or "global")


class TupleType(Type, key="ir.TupleType"):
    """A tuple; the empty one is the type of functions without a result."""

    fields: tuple[Type, ...] = child(default=())


class FuncType(Type, key="ir.FuncType"):
    """A function from argument types to a type."""

    arg_types: tuple[Type, ...] = child()
    ret_type: Type = child()


def VoidType() -> TupleType:
    """Return the type of a function without a result: the empty tuple."""
    return TupleType(())


_PRIM_TYPES: dict[str, PrimType] = {}


def prim_type(dtype: Any) -> PrimType:
    """Return the one PrimType of a dtype."""
    found = _PRIM_TYPES.get(dtype)
    if found is None:
        found = _PRIM_TYPES[dtype] = PrimType(dtype)
    return found
