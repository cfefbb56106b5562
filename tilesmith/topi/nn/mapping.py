"""Scales and shifts of channels, and buffers of what came last."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.tir import if_then_else
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import normalize_axes, same_size
from tilesmith.topi.variants import variant

__all__ = ["fifo_buffer", "scale_shift_nchw", "scale_shift_nchwc", "scale_shift_nhwc"]


def _scale_shift(axes: tuple[int, ...], Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    def element(*i: Any) -> PrimExpr:
        channel = [i[axis] for axis in axes]
        scaled: PrimExpr = Input(*i) * Scale(*channel)
        return scaled + Shift(*channel)

    return compute(Input.shape, element, name="ScaleShift", tag=tag.BROADCAST)


scale_shift_nchw = variant(
    "scale_shift_nchw",
    _scale_shift,
    (1,),
    "Return ``Input * Scale + Shift`` for each channel of NCHW data.",
)
scale_shift_nhwc = variant(
    "scale_shift_nhwc",
    _scale_shift,
    (3,),
    "Return ``Input * Scale + Shift`` for each channel of NHWC data.",
)
scale_shift_nchwc = variant(
    "scale_shift_nchwc",
    _scale_shift,
    (1, 4),
    "Return ``Input * Scale + Shift`` for each channel of NCHW data whose channels are blocked.",
)


def fifo_buffer(data: Tensor, buffer: Tensor, axis: int) -> Tensor:
    """Return the last elements of ``buffer`` followed by ``data`` along an axis, as many as the
    buffer has.
    """
    (axis,) = normalize_axes(axis, len(buffer.shape))
    if len(data.shape) != len(buffer.shape) or not all(
        same_size(one, other)
        for k, (one, other) in enumerate(zip(data.shape, buffer.shape))
        if k != axis
    ):
        raise ShapeError("fifo_buffer: data and buffer differ in another axis than the given one")
    new, kept = data.shape[axis], buffer.shape[axis] - data.shape[axis]

    def element(*i: Any) -> PrimExpr:
        place = i[axis]
        old = buffer(*i[:axis], place + new, *i[axis + 1 :])
        latest = data(*i[:axis], place - kept, *i[axis + 1 :])
        return if_then_else(place < kept, old, latest)

    return compute(buffer.shape, element, name="new_buffer", tag=tag.INJECTIVE)
