"""Scans: each element of the result combines the elements up to its own place, in order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tilesmith import te
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.te import Tensor
from tilesmith.tir import Buffer, Stmt, ir_builder
from tilesmith.topi.accumulation import accumulator
from tilesmith.topi.procedure import loops, pointers, rows_along
from tilesmith.topi.transform import reshape
from tilesmith.topi.utils import DType, normalize_axes, product

__all__ = ["cumprod", "cumsum", "scanop"]


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
    if axis is None:
        data, axis = reshape(data, [product(data.shape)]), 0
    (first,) = normalize_axes(axis, len(data.shape))
    dtype = DataType(data.dtype if dtype is None or dtype == "" else dtype)
    wide = accumulator(dtype)
    identity = const(identity_value, wide)
    rest = data.shape[first + 1 :]

    def body(inputs: list[Buffer], outputs: list[Buffer]) -> Stmt:
        builder = ir_builder.create()
        source, out, totals = pointers(builder, [*inputs, *outputs])
        with rows_along(builder, data.shape, first, len(data.shape) - 1) as row:
            with ExitStack() as stack:
                inner = loops(builder, stack, rest, "i")
                totals[[*row.outer, *inner]] = identity
            with ExitStack() as stack:
                k = stack.enter_context(builder.for_range(0, data.shape[first], "k"))
                inner = loops(builder, stack, rest, "i")
                at, total = row(k, *inner), totals[[*row.outer, *inner]]
                value = binop(total, op.cast(wide, source[at]))
                if exclusive:
                    out[at] = op.cast(dtype, total)
                totals[[*row.outer, *inner]] = value
                if not exclusive:
                    out[at] = op.cast(dtype, total)
        return builder.get()

    made: list[Tensor] = te.extern(
        [data.shape, [*data.shape[:first], *rest]], [data], body, op_name, [dtype, wide]
    )
    return made[0]


def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: DType | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """Return the sums of the elements up to each one; parameters as in `scanop`."""
    return scanop(data, lambda a, b: a + b, 0, "cumsum", axis, dtype, exclusive)


def cumprod(
    data: Tensor,
    axis: int | None = None,
    dtype: DType | None = None,
    exclusive: bool | None = None,
) -> Tensor:
    """Return the products of the elements up to each one; parameters as in `scanop`."""
    return scanop(data, lambda a, b: a * b, 1, "cumprod", axis, dtype, exclusive)
