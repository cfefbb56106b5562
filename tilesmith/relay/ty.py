"""Types of the functional door: tensors, functions, tuples, references, types of data.

    TensorType((1, Any(), n), "float32")

What the type checker finds is read from an expression as ``checked_type``.
"""

from __future__ import annotations

from typing import Any as Anything

from tilesmith.ir import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    IntImm,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeKind,
    TypeVar,
)
from tilesmith.ir.tensor_type import TensorType
from tilesmith.ir.type_relation import TypeRelation
from tilesmith.ir.types import RelayRefType
from tilesmith.tir.unknown import Any

__all__ = [
    "Any", "FuncType", "GlobalTypeVar", "IncompleteType", "RefType", "RelayRefType", "ShapeVar",
    "TensorType", "TupleType", "Type", "TypeCall", "TypeConstraint", "TypeKind", "TypeRelation",
    "TypeVar", "is_dynamic", "scalar_type",
]  # fmt: skip

RefType = RelayRefType


def scalar_type(dtype: Anything) -> TensorType:
    """Return the type of a tensor without dimensions."""
    return TensorType((), dtype)


def ShapeVar(name: str) -> TypeVar:
    """Make a type variable that stands for a shape."""
    return TypeVar(name, TypeKind.ShapeVar)


def is_dynamic(tensor_type: Type) -> bool:
    """Return whether a type has sizes that are known only when the program runs."""
    stack = [tensor_type]
    while stack:
        type_ = stack.pop()
        if isinstance(type_, TensorType):
            if any(not isinstance(size, IntImm) for size in type_.shape):
                return True
        else:
            type_.for_each_child(stack.append)
    return False
