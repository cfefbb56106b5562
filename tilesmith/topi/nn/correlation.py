"""Correlation of two images."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import rounded, widened
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.utils import Padding, get_pad_tuple
from tilesmith.topi.utils import get_const_int, same_size, simplify

__all__ = ["correlation_nchw"]


def correlation_nchw(
    data1: Tensor,
    data2: Tensor,
    kernel_size: int,
    max_displacement: int,
    stride1: int,
    stride2: int,
    padding: Padding,
    is_multiply: bool,
) -> Tensor:
    """Compare the neighbourhoods of NCHW images: a channel for each displacement of the second one
    (in steps of ``stride2``, up to ``max_displacement``, row by row) has the mean product, or the
    mean absolute difference, over windows of ``kernel_size`` and all channels.
    """
    if kernel_size % 2 == 0 or min(kernel_size, stride1, stride2) < 1 or max_displacement < 0:
        raise OpAttributeInvalid("correlation: the kernel is odd, the strides are at least 1")
    if not all(same_size(one, other) for one, other in zip(data1.shape, data2.shape)):
        raise ShapeError("correlation: the two images have one shape")
    top, left, bottom, right = get_pad_tuple(padding, (kernel_size, kernel_size))
    low, high = [0, 0, top, left], [0, 0, bottom, right]
    first, second = [pad(data, low, high, 0.0, name="pad_temp") for data in (data1, data2)]
    border = kernel_size // 2 + max_displacement
    radius = max_displacement // stride2
    grid = 2 * radius + 1
    batch, channels, height, width = first.shape

    def count(size: PrimExpr) -> PrimExpr:
        found: PrimExpr = simplify(op.floordiv(size - 2 * border + stride1 - 1, stride1))
        if op.is_const(found) and int(found) < 1:
            raise ShapeError("correlation: the displaced windows are larger than the image")
        return found

    shape = (batch, grid * grid, count(height), count(width))
    rc = te.reduce_axis((0, channels), name="rc")
    ry = te.reduce_axis((0, kernel_size), name="ry")
    rx = te.reduce_axis((0, kernel_size), name="rx")

    def element(n: Any, q: Any, i: Any, j: Any) -> PrimExpr:
        y, x = i * stride1 + max_displacement, j * stride1 + max_displacement
        down = (op.floordiv(q, grid) - radius) * stride2
        across = (op.floormod(q, grid) - radius) * stride2
        left_value = widened(first(n, rc, y + ry, x + rx))
        right_value = widened(second(n, rc, y + down + ry, x + across + rx))
        if is_multiply:
            return te.sum(left_value * right_value, axis=[rc, ry, rx])
        return te.sum(tir.abs(left_value - right_value), axis=[rc, ry, rx])

    total = compute(shape, element, name="correlation", tag="correlation_nchw")
    values = get_const_int(channels) * kernel_size * kernel_size
    mean = compute(
        shape, lambda *i: total(*i) / const(values, total.dtype), name="correlation_mean"
    )
    return rounded(mean, data1.dtype)
