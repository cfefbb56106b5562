"""Defines the type of tensors in the functional graph IR."""

from __future__ import annotations

from typing import Any

from tilesmith.ir.expr import IntImm, PrimExpr, convert
from tilesmith.ir.node import child, data
from tilesmith.ir.types import Type
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import TypeMismatchError

__all__ = ["TensorType"]


def _shape(extents: Any) -> tuple[PrimExpr, ...]:
    shape = convert(tuple(extents))
    for extent in shape:
        if not isinstance(extent, PrimExpr) or not extent.dtype.is_int:
            raise TypeMismatchError(f"a size of a tensor is an integer, not {extent}")
    return tuple(shape)


class TensorType(Type, key="ir.TensorType"):
    """A tensor of a shape and a dtype; without extents a scalar."""

    shape: tuple[PrimExpr, ...] = child(convert=_shape)
    dtype: DataType = data(default="float32", convert=DataType)

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape as integers. Raises TypeMismatchError for a size that is not a number."""
        sizes = [extent.value for extent in self.shape if isinstance(extent, IntImm)]
        if len(sizes) < len(self.shape):
            raise TypeMismatchError(f"{self} has sizes that are known only when it runs")
        return tuple(sizes)
