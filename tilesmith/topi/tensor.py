"""Tensors of one value, and sums of several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import DType, Number, Shape

__all__ = ["elemwise_sum", "full", "full_like"]


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """Return the sum of tensors of one shape and dtype."""

    def function(*indices: Any) -> PrimExpr:
        total = xs[0](*indices)
        for x in xs[1:]:
            total = total + x(*indices)
        return total

    return compute(xs[0].shape, function, name="T_elemwise_sum", tag=tag.ELEMWISE)


def full(shape: Shape, dtype: DType, fill_value: Number) -> Tensor:
    """Return a tensor of one value, which is converted to ``dtype``."""
    value = fill_value if isinstance(fill_value, PrimExpr) else const(fill_value, dtype)
    value = op.cast(dtype, value)
    return compute(shape, lambda *i: value, name="T_full", tag=tag.ELEMWISE)


def full_like(x: Tensor, fill_value: Number) -> Tensor:
    """Return a tensor of one value with the shape and dtype of another."""
    return full(x.shape, x.dtype, fill_value)
