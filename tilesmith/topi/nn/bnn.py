"""Products of binary values, 32 of which are packed into an integer."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import get_const_int, normalize_axes, same_size

__all__ = ["binarize_pack", "binary_dense"]

_BITS = 32


def binarize_pack(data: Tensor, axis: int | None = None, name: str = "PackedInput") -> Tensor:
    """Pack signs along an axis (the last one by default) into uint32: a bit is 1 where the value is
    not negative, and the first of 32 values is the highest bit.
    """
    (axis,) = normalize_axes(-1 if axis is None else axis, len(data.shape))
    size = get_const_int(data.shape[axis])
    if size % _BITS:
        raise ShapeError(f"binarize_pack: an axis of {size} elements is not a multiple of {_BITS}")
    shape = list(data.shape)
    shape[axis] = const(size // _BITS, data.shape[axis].dtype)

    def element(*i: Any) -> PrimExpr:
        packed: PrimExpr = const(0, "uint32")
        for bit in range(_BITS):
            value = data(*i[:axis], i[axis] * _BITS + bit, *i[axis + 1 :])
            sign = op.cast("uint32", value >= const(0, data.dtype))
            packed = op.bitwise_or(packed, op.shift_left(sign, const(_BITS - 1 - bit, "uint32")))
        return packed

    return compute(shape, element, name=name, tag="binarize_pack")


def binary_dense(data: Tensor, weight: Tensor) -> Tensor:
    """Return the product of packed signs (batch, K) with packed weights (N, K), as float32: each
    bit stands for 1 or -1.
    """
    if not same_size(data.shape[1], weight.shape[1]):
        raise ShapeError(f"binary_dense: the inner sizes {data.shape[1]} and {weight.shape[1]}")
    k = te.reduce_axis((0, data.shape[1]), name="k")
    total = op.cast("int32", data.shape[1]) * _BITS

    def differing(i: Any, j: Any) -> PrimExpr:
        bits = tir.popcount(op.bitwise_xor(data(i, k), weight(j, k)))
        return te.sum(op.cast("int32", bits), axis=k)

    count = compute(
        (data.shape[0], weight.shape[0]), differing, name="T_differing", tag="binary_dense"
    )
    return compute(
        count.shape, lambda i, j: op.cast("float32", total - count(i, j) * 2), name="binary_dense"
    )
