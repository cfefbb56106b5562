"""Defines the types of variables and functions.

Functions may have types among their parameters: `TypeVar`, bound by `FuncType.type_params`. Types
of data that a module defines are named by `GlobalTypeVar` (see `ir/adt.py`). While types are being
inferred, `IncompleteType` stands for one that is not known yet.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from tilesmith.ir.node import ComparedByStructure, child, data, defines, note
from tilesmith.runtime.dtype import DataType

__all__ = [
    "FuncType", "GlobalTypeVar", "IncompleteType", "PointerType", "PrimType", "RelayRefType",
    "TupleType", "Type", "TypeCall", "TypeConstraint", "TypeKind", "TypeVar", "VoidType",
]  # fmt: skip


class TypeKind(IntEnum):
    """What a type that is not known yet can become."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


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


class TypeVar(Type, key="ir.TypeVar"):
    """A type that a function or a definition of data takes as parameter."""

    is_variable = True

    name_hint: str = note()
    kind: TypeKind = data(default=TypeKind.Type, convert=TypeKind)

    def __call__(self, *args: Any) -> TypeCall:
        """Apply this type to types."""
        return TypeCall(self, args)


class GlobalTypeVar(Type, key="ir.GlobalTypeVar"):
    """The name of a type of data that a module defines."""

    name_hint: str = data()
    kind: TypeKind = data(default=TypeKind.AdtHandle, convert=TypeKind)

    def __call__(self, *args: Any) -> TypeCall:
        """Apply this type to types: ``List(TensorType((3,)))``."""
        return TypeCall(self, args)


class TypeCall(Type, key="ir.TypeCall"):
    """A type with types for its parameters: ``List[float32]``."""

    func: Type = child()
    args: tuple[Type, ...] = child()


class TypeConstraint(Type, key="ir.TypeConstraint"):
    """Base of what the types of a function have to fulfil."""


class FuncType(Type, key="ir.FuncType"):
    """A function from argument types to a type, for all types ``type_params`` that fulfil the
    constraints.
    """

    arg_types: tuple[Type, ...] = child()
    ret_type: Type = child()
    type_params: tuple[TypeVar, ...] = defines(
        default=(), convert=lambda variables: tuple(variables or ())
    )
    type_constraints: tuple[TypeConstraint, ...] = child(
        default=(), convert=lambda constraints: tuple(constraints or ())
    )


class IncompleteType(Type, key="ir.IncompleteType"):
    """A type that is not known yet."""

    kind: TypeKind = data(default=TypeKind.Type, convert=TypeKind)


class RelayRefType(Type, key="ir.RelayRefType"):
    """A reference to a value of a type, which may be replaced."""

    value: Type = child()


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
