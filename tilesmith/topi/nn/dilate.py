"""Values between the elements of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import simplify

__all__ = ["dilate"]


def dilate(
    data: Tensor,
    strides: Sequence[int],
    dilation_value: float = 0.0,
    name: str = "DilatedInput",
) -> Tensor:
    """Put ``strides - 1`` elements of ``dilation_value`` between neighbours along each axis."""
    steps = [int(stride) for stride in strides]
    if len(steps) != len(data.shape):
        raise ShapeError(f"dilate needs {len(data.shape)} strides, got {len(steps)}")
    if min(steps, default=1) < 1:
        raise OpAttributeInvalid(f"dilate: strides are at least 1, got {steps}")
    shape = [simplify((size - 1) * step + 1) for size, step in zip(data.shape, steps)]

    def element(*i: Any) -> PrimExpr:
        places, kept = [], []
        for index, step in zip(i, steps):
            places.append(index if step == 1 else op.floordiv(index, step))
            if step != 1:
                kept.append(op.equal(op.floormod(index, step), const(0, index.dtype)))
        if not kept:
            return data(*places)
        value = const(dilation_value, data.dtype)
        return tir.if_then_else(tir.all(*kept), data(*places), value)

    return compute(shape, element, name=name, tag=tag.INJECTIVE)
