"""Scans: each element of the result combines the elements up to its own place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.topi.transform import reshape
from tilesmith.topi.utils import DType, normalize_axes, product

__all__ = ["cumprod", "cumsum", "scanop"]


def _scan(
    data: Tensor,
    reducer: Callable[..., Any],
    identity_value: int | float,
    op_name: str,
    axis: int | None,
    dtype: DType | None,
    exclusive: bool | None,
) -> Tensor:
    dtype = data.dtype if dtype is None or dtype == "" else dtype
    if axis is None:
        data, axis = reshape(data, [product(data.shape)]), 0
    (axis,) = normalize_axes(axis, len(data.shape))
    k = te.reduce_axis((0, data.shape[axis]), name="k")
    identity = const(identity_value, dtype)

    def element(*i: Any) -> PrimExpr:
        # Each element reduces over those before it: quadratic work, but no order between elements.
        counts = k < i[axis] if exclusive else k <= i[axis]
        value = op.cast(dtype, data(*i[:axis], k, *i[axis + 1 :]))
        return reducer(tir.Select(counts, value, identity), axis=k)

    return te.compute(data.shape, element, name=op_name)


def scanop(
    data: Tensor,
    binop: Callable[[PrimExpr, PrimExpr], PrimExpr],
    identity_value: int | float,
    op_name: str,
    axis: int | None = None,
    dtype: DType | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """Combine the elements up to each one with ``binop``, along an axis (of the flattened tensor
    for None).

    ``binop`` is associative, ``identity_value`` its neutral value; ``dtype`` is the one of the
    result (by default that of ``data``); ``exclusive`` leaves the element itself out.
    """
    reducer = tir.comm_reducer(binop, lambda kind: const(identity_value, kind), name=op_name)
    return _scan(data, reducer, identity_value, op_name, axis, dtype, exclusive)


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: DType | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """Return the sums of the elements up to each one; parameters as in `scanop`."""
    return _scan(data, te.sum, 0, "cumsum", axis, dtype, exclusive)


def cumprod(
    data: Tensor,
    axis: int | None = None,
    dtype: DType | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """Return the products of the elements up to each one; parameters as in `scanop`."""
    return scanop(data, lambda a, b: a * b, 1, "cumprod", axis, dtype, exclusive)
