"""Defines how the integers of a quantised tensor stand for real numbers."""

from __future__ import annotations

from tilesmith.ir.expr import BaseExpr
from tilesmith.ir.node import ComparedByStructure, child, data
from tilesmith.runtime.dtype import DataType

__all__ = ["AffineType", "TensorAffineType", "TupleAffineType"]


class AffineType(ComparedByStructure, key="ir.AffineType"):
    """Base of the affine types."""


class TensorAffineType(AffineType, key="ir.TensorAffineType"):
    """An integer q of the dtype stands for ``scale * (q - zero_point)``; along ``axis`` each slice
    has a scale and a zero point of its own, if these are vectors.
    """

    scale: BaseExpr = child()
    zero_point: BaseExpr = child()
    dtype: DataType = data(convert=DataType)
    axis: int = data(default=-1, convert=int)


class TupleAffineType(AffineType, key="ir.TupleAffineType"):
    """The affine types of the fields of a tuple."""

    types: tuple[TensorAffineType, ...] = child()
