"""Padding that follows from sizes, strides and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.relay import op
from tilesmith.relay.op.view import sizes as sizes_of
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

__all__ = ["autopad"]


def autopad(
    data: Any,
    strides: Sequence[int],
    kernel_shape: Sequence[int],
    dilations: Sequence[int] = (1, 1),
    pad_type: str = "constant",
    deconv: bool = False,
    mode: str = "SAME_UPPER",
    pad_value: float = 0.0,
) -> Any:
    """Pad the last axes of an image such that a window in steps gives ``ceil(size / stride)``
    results along each.

    An odd element lies at the end (``mode="SAME_UPPER"``) or the beginning ("SAME_LOWER").
    ``pad_type`` is that of ``nn.pad``; with ``deconv`` the padding is that of the convolution which
    the transposed one undoes.
    """
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise OpAttributeInvalid(f"autopad: mode is SAME_UPPER or SAME_LOWER, not '{mode}'")
    whole = list(sizes_of(data))
    count = len(kernel_shape)
    steps = list(dilations) if len(dilations) == count else [dilations[0]] * count
    pairs: list[tuple[int, int]] = [(0, 0)] * (len(whole) - count)
    for axis, (stride, window, step) in enumerate(zip(strides, kernel_shape, steps)):
        size = whole[len(whole) - count + axis]
        if not isinstance(size, int):
            raise ShapeError(
                f"autopad: the size of axis {len(whole) - count + axis} is not known",
                notes=("give the input its shape: shape={name: (1, 3, 224, 224)}",),
            )
        reach = (window - 1) * step + 1
        rest = size % stride
        total = max(reach - (rest or stride), 0)
        if deconv:
            total = reach - 1 - total
        less = total // 2
        pairs.append((less, total - less) if mode == "SAME_UPPER" else (total - less, less))
    return op.nn.pad(data, pairs, pad_value, pad_type)
