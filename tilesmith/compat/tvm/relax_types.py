"""Defines the types of graph values that stood beside their shapes: ``DynTensorType(2, "int8")``.

Here a type is struct info, so each class makes struct info, and struct info counts as its instance.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
)

__all__ = [
    "DynTensorType", "ObjectType", "PackedFuncType", "PrimExprLike", "ShapeType",
]  # fmt: skip

PrimExprLike = int | PrimExpr
"""What may stand for a size in annotations."""


class _KindOfStructInfo(type):
    """Classes whose instances are the struct infos of one kind."""

    kind: type[StructInfo]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.kind)


class DynTensorType(metaclass=_KindOfStructInfo):
    """A tensor of a rank and a dtype."""

    kind = TensorStructInfo

    def __new__(cls, ndim: int = -1, dtype: Any = "float32", span: Any = None) -> TensorStructInfo:  # type: ignore[misc]
        return TensorStructInfo(None, dtype, None, ndim, span)


class ShapeType(metaclass=_KindOfStructInfo):
    """A shape of a rank."""

    kind = ShapeStructInfo

    def __new__(cls, ndim: int = -1, span: Any = None) -> ShapeStructInfo:  # type: ignore[misc]
        return ShapeStructInfo(None, ndim, span)


class ObjectType(metaclass=_KindOfStructInfo):
    """Any value."""

    kind = ObjectStructInfo

    def __new__(cls, span: Any = None) -> ObjectStructInfo:  # type: ignore[misc]
        return ObjectStructInfo(span)


class PackedFuncType(metaclass=_KindOfStructInfo):
    """A registered function."""

    kind = FuncStructInfo

    def __new__(cls, span: Any = None) -> FuncStructInfo:  # type: ignore[misc]
        return FuncStructInfo.opaque_func(span=span)
