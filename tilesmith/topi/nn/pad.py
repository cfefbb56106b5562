"""Padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import IntImm, PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import nonempty, simplify

__all__ = ["circular_pad", "mirror_pad", "pad", "reflect_pad", "replicate_pad"]


def pad(
    data: Tensor,
    pad_before: Any,
    pad_after: Any = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Any = None,
) -> Tensor:
    """Pad ``data`` with ``pad_value``; returned unchanged if no axis is padded."""
    before = [convert(value) for value in pad_before]
    after = before if pad_after is None else [convert(value) for value in pad_after]
    if len(before) != len(data.shape) or len(after) != len(data.shape):
        raise ShapeError(f"pad needs {len(data.shape)} numbers, got {len(before)} and {len(after)}")
    if all(op.is_const(amount, 0) for amount in (*before, *after)):
        return data
    shape = [simplify(size + low + high) for size, low, high in zip(data.shape, before, after)]
    value = pad_value() if isinstance(pad_value, te.Tensor) else const(pad_value, data.dtype)

    def element(*indices: Any) -> Any:
        own, inside = [], []
        for index, size, low, high in zip(indices, data.shape, before, after):
            own.append(index - low)
            if not op.is_const(low, 0):
                inside.append(op.greater_equal(index, low))
            if not op.is_const(high, 0):
                inside.append(op.less(index, size + low))
        return tir.if_then_else(tir.all(*inside), data(*own), value)

    return compute(shape, element, name=name, tag="injective,pad", attrs=attrs)


def _padded(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None,
    place: Callable[[PrimExpr, PrimExpr], PrimExpr],
    name: str,
    reach: int | None = None,
) -> Tensor:
    """Pad ``data`` with elements of its own.

    ``place(index, size)`` is the element at an index of an axis, counted from its first element: it
    is negative before it, and not below the size behind the last one. An axis gets at most ``size -
    reach`` elements at each end, any number if that is None. Negative paddings cut elements off
    before anything is padded.
    """
    before = [int(value) for value in pad_before]
    after = before if pad_after is None else [int(value) for value in pad_after]
    if len(before) != len(data.shape) or len(after) != len(data.shape):
        raise ShapeError(f"pad needs {len(data.shape)} numbers, got {len(before)} and {len(after)}")
    shape = [simplify(size + low + high) for size, low, high in zip(data.shape, before, after)]

    cut = [
        simplify(size + min(low, 0) + min(high, 0))
        for size, low, high in zip(data.shape, before, after)
    ]
    widths = [max(low, high, 0) for low, high in zip(before, after)]

    def checked_size(size: PrimExpr, width: int) -> PrimExpr:
        if reach is None:
            return nonempty(size, size, name)
        text = f"ShapeError: {name}: a padding of {width} does not fit an axis of size "
        made: PrimExpr = tir.checked(size, op.greater_equal(size, width + reach), text, size)
        return made

    def element(*indices: Any) -> PrimExpr:
        own = []
        for index, size, low, width in zip(indices, cut, before, widths):
            if width:
                index = place(index - max(low, 0), checked_size(size, width))
            own.append(index - min(low, 0))
        return data(*own)

    for size, width in zip(cut, widths):
        if reach is not None and width and isinstance(size, IntImm) and width > size.value - reach:
            raise ShapeError(
                f"{name}: a padding of {width} does not fit an axis of size {size.value}",
                notes=(f"an axis gets at most {max(0, size.value - reach)} elements at an end",),
            )
    return compute(shape, element, name=name, tag=tag.INJECTIVE)


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """Pad ``data`` with its mirror image; "REFLECT" leaves the border element out.

    Nothing is mirrored twice: an axis gets at most as many elements at an end as it has, in
    "REFLECT" one less. More are an error, at run time for an axis of symbolic size.
    """
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise UnsupportedError(f"mirror_pad: mode '{mode}' is neither SYMMETRIC nor REFLECT")
    shift = 1 if mode == "REFLECT" else 0

    def place(index: PrimExpr, size: PrimExpr) -> PrimExpr:
        index = tir.Select(op.less(index, 0), shift - 1 - index, index)
        return tir.Select(op.less(index, size), index, size * 2 - (1 + shift) - index)

    return _padded(data, pad_before, pad_after, place, name, shift)


def reflect_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    name: str = "ReflectPadInput",
) -> Tensor:
    """Pad ``data`` with its mirror image without the border elements: 3 2 (1 2 3) 2 1."""
    return mirror_pad(data, pad_before, pad_after, "REFLECT", name)


def replicate_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    name: str = "ReplicatePadInput",
) -> Tensor:
    """Pad ``data`` with its border elements: 1 1 (1 2 3) 3 3."""

    def place(index: PrimExpr, size: PrimExpr) -> PrimExpr:
        return op.maximum(op.minimum(index, size - 1), const(0, index.dtype))

    return _padded(data, pad_before, pad_after, place, name)


def circular_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    name: str = "CircularPadInput",
) -> Tensor:
    """Pad ``data`` with copies of itself: 2 3 (1 2 3) 1 2."""
    return _padded(data, pad_before, pad_after, op.floormod, name)
