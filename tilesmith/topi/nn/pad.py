"""Padding."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir import const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.utils import simplify

__all__ = ["get_pad_tuple", "mirror_pad", "pad"]


def get_pad_tuple(padding: Any, kernel: Any) -> tuple[int, int, int, int]:
    """Top, left, bottom, right: from one number, two, four, "VALID" or "SAME"."""
    if isinstance(padding, (list, tuple)):
        values = [int(value) for value in padding]
        if len(values) == 1:
            return values[0], values[0], values[0], values[0]
        if len(values) == 2:
            return values[0], values[1], values[0], values[1]
        if len(values) == 4:
            return values[0], values[1], values[2], values[3]
        raise ShapeError(f"padding has 1, 2 or 4 numbers, got {len(values)}")
    if padding == "VALID":
        return 0, 0, 0, 0
    if padding == "SAME":
        height, width = int(kernel[0]) - 1, int(kernel[1]) - 1
        return (
            (height + 1) // 2 if height % 2 else height // 2,
            width // 2,
            height - height // 2,
            width - width // 2,
        )
    number = int(padding)
    return number, number, number, number


def pad(
    data: Tensor,
    pad_before: Any,
    pad_after: Any = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Any = None,
) -> Tensor:
    """``data`` with ``pad_value`` around it; nothing is made where no axis is padded."""
    before = [convert(value) for value in pad_before]
    after = before if pad_after is None else [convert(value) for value in pad_after]
    if len(before) != len(data.shape) or len(after) != len(data.shape):
        raise ShapeError(f"pad needs {len(data.shape)} numbers, got {len(before)} and {len(after)}")
    if all(op.is_const(amount, 0) for amount in (*before, *after)):
        return data
    shape = [simplify(size + low + high) for size, low, high in zip(data.shape, before, after)]
    value = pad_value if isinstance(pad_value, te.Tensor) else const(pad_value, data.dtype)

    def element(*indices: Any) -> Any:
        own, inside = [], []
        for index, size, low, high in zip(indices, data.shape, before, after):
            own.append(index - low)
            if not op.is_const(low, 0):
                inside.append(op.greater_equal(index, low))
            if not op.is_const(high, 0):
                inside.append(op.less(index, size + low))
        return tir.if_then_else(tir.all(*inside), data(*own), value)

    return te.compute(shape, element, name=name, tag="injective,pad", attrs=attrs)


def mirror_pad(
    data: Tensor,
    pad_before: Any,
    pad_after: Any = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """``data`` with its own mirror image around it; "REFLECT" leaves the border element out."""
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise UnsupportedError(f"mirror_pad: mode '{mode}' is neither SYMMETRIC nor REFLECT")
    before = [int(value) for value in pad_before]
    after = before if pad_after is None else [int(value) for value in pad_after]
    shift = 1 if mode == "REFLECT" else 0
    shape = [simplify(size + low + high) for size, low, high in zip(data.shape, before, after)]

    def element(*indices: Any) -> Any:
        own = []
        for index, size, low in zip(indices, data.shape, before):
            place = index - low
            mirrored = tir.Select(place < 0, -place - 1 + shift, place)
            own.append(tir.Select(mirrored >= size, size * 2 - mirrored - 1 - shift, mirrored))
        return data(*own)

    return te.compute(shape, element, name=name, tag=tag.INJECTIVE)
