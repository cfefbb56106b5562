"""Values that the variables of a graph function have during lowering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilesmith.driver.memory_plan import Storage
from tilesmith.ir import PrimExpr
from tilesmith.ir.structural import structural_equal
from tilesmith.relax import Constant, TensorStructInfo
from tilesmith.runtime.dtype import DataType

__all__ = [
    "ConstantTable", "ScalarValue", "ShapeValue", "TensorValue", "TupleValue", "leaves",
    "same_sizes", "static_shape",
]  # fmt: skip


@dataclass(eq=False)
class TensorValue:
    """A tensor during lowering: its storage, shape and dtype."""

    storage: Storage
    shape: tuple[PrimExpr, ...]
    dtype: DataType


@dataclass(eq=False)
class TupleValue:
    """A tuple of values."""

    fields: list[Any]


@dataclass(eq=False)
class ShapeValue:
    """A shape, as expressions over symbolic sizes."""

    values: tuple[PrimExpr, ...]


@dataclass(eq=False)
class ScalarValue:
    """A scalar."""

    value: PrimExpr


class ConstantTable:
    """The distinct constants of all graph functions of a module, by position; they are called
    ``prefix`` and their number.
    """

    def __init__(self, prefix: str = "constant_") -> None:
        self.prefix = prefix
        self.arrays: dict[str, Any] = {}
        self._positions: dict[int, int] = {}
        self._kept: list[Any] = []  # kept alive, so that no other object gets the same id

    def position(self, constant: Constant) -> int:
        """Return the position of a constant; the first use adds it."""
        found = self._positions.get(id(constant))
        if found is None:
            found = self._positions[id(constant)] = len(self._kept)
            self._kept.append(constant)
            self.arrays[f"{self.prefix}{found}"] = constant.data
        return found


def leaves(value: Any) -> list[Any]:
    """Return the leaves of a nested value in order; they are not tuples."""
    if isinstance(value, TupleValue):
        return [leaf for one in value.fields for leaf in leaves(one)]
    return [value]


def same_sizes(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    """Return whether two shapes consist of the same sizes."""
    return len(a) == len(b) and all(structural_equal(x, y) for x, y in zip(a, b))


def static_shape(info: TensorStructInfo) -> tuple[PrimExpr, ...] | None:
    """Return the shape of a tensor as expressions, where it is known."""
    shape = info.shape
    if shape is None:
        return None
    values = getattr(shape, "values", None)
    if values is None:
        inner = getattr(shape, "struct_info", None)
        values = getattr(inner, "values", None)
    return None if values is None else tuple(values)
