"""What the variables of a graph function stand for while it is lowered, and their description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilesmith.driver.memory_plan import Storage
from tilesmith.ir import IntImm, PrimExpr, SizeVar, Var
from tilesmith.relax import (
    Constant,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.runtime.dtype import DataType

__all__ = [
    "ConstantTable", "ScalarValue", "ShapeValue", "TensorValue", "TupleValue", "describe_input",
    "describe_value", "leaves", "static_shape",
]  # fmt: skip


@dataclass(eq=False)
class TensorValue:
    """A tensor during a call: its memory, and how it is looked at."""

    storage: Storage
    shape: tuple[PrimExpr, ...]
    dtype: DataType


@dataclass(eq=False)
class TupleValue:
    """Several values."""

    fields: list[Any]


@dataclass(eq=False)
class ShapeValue:
    """A shape, known as expressions over symbolic sizes."""

    values: tuple[PrimExpr, ...]


@dataclass(eq=False)
class ScalarValue:
    """A number."""

    value: PrimExpr


class ConstantTable:
    """The constants of all graph functions of a module, each once, by position."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self._positions: dict[int, int] = {}
        self._kept: list[Any] = []  # so that an id stays the constant's

    def position(self, constant: Constant) -> int:
        """The position of a constant, taken in at first use."""
        found = self._positions.get(id(constant))
        if found is None:
            found = self._positions[id(constant)] = len(self._kept)
            self._kept.append(constant)
            self.arrays[f"constant_{found}"] = constant.data
        return found


def leaves(value: Any) -> list[Any]:
    """The values that are no tuples, in order."""
    if isinstance(value, TupleValue):
        return [leaf for one in value.fields for leaf in leaves(one)]
    return [value]


def static_shape(info: TensorStructInfo) -> tuple[PrimExpr, ...] | None:
    """The shape of a tensor as expressions, where it is known."""
    shape = info.shape
    if shape is None:
        return None
    values = getattr(shape, "values", None)
    if values is None:
        inner = getattr(shape, "struct_info", None)
        values = getattr(inner, "values", None)
    return None if values is None else tuple(values)


def _extent_text(extent: PrimExpr) -> int | str:
    if isinstance(extent, IntImm):
        return extent.value
    return extent.name if isinstance(extent, (Var, SizeVar)) else str(extent)


def describe_input(name: str, info: StructInfo) -> dict[str, Any]:
    """A parameter as ``runtime.signature`` wants it."""
    if isinstance(info, TupleStructInfo):
        fields = [describe_input(f"{name}_{k}", one) for k, one in enumerate(info.fields)]
        return {"name": name, "kind": "tuple", "fields": fields}
    if isinstance(info, TensorStructInfo):
        shape = [_extent_text(extent) for extent in static_shape(info) or ()]
        return {"name": name, "kind": "tensor", "shape": shape, "dtype": str(info.dtype)}
    if isinstance(info, ShapeStructInfo):
        return {
            "name": name,
            "kind": "shape",
            "shape": [_extent_text(e) for e in info.values or ()],
        }
    return {"name": name, "kind": "prim", "dtype": str(info.dtype)}


def describe_value(value: Any) -> dict[str, Any]:
    """A result as ``runtime.signature`` wants it."""
    if isinstance(value, TupleValue):
        return {"kind": "tuple", "fields": [describe_value(one) for one in value.fields]}
    if isinstance(value, ShapeValue):
        return {"kind": "shape", "shape": [_extent_text(extent) for extent in value.values]}
    if isinstance(value, ScalarValue):
        return {"kind": "prim", "dtype": str(value.value.dtype)}
    shape = [_extent_text(extent) for extent in value.shape]
    return {"kind": "tensor", "shape": shape, "dtype": str(value.dtype)}
