"""Types, under the name of the module that users know."""

from tilesmith.ir.types import FuncType, PointerType, PrimType, TupleType, Type, VoidType

__all__ = ["FuncType", "PointerType", "PrimType", "TupleType", "Type", "VoidType"]
