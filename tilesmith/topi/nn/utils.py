"""Windows of convolutions and pooling: padding, strides, and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tilesmith.ir import IntImm, PrimExpr
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.topi.utils import Shape, get_const_int, simplify

__all__ = ["get_pad_tuple", "get_pad_tuple1d", "get_pad_tuple3d", "get_pad_tuple_generic"]

Numbers: TypeAlias = int | Sequence[int]
"""One number for all spatial axes, or one for each."""
Padding: TypeAlias = int | Sequence[int] | str
"""One number, one for each spatial axis, those before and then those after, "VALID" or "SAME"."""

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def per_axis(value: Numbers, rank: int, what: str) -> list[int]:
    """Return one number for each of ``rank`` spatial axes."""
    if isinstance(value, (int, IntImm)):
        return [int(value)] * rank
    numbers = [int(item) for item in value]
    if len(numbers) not in (1, rank):
        raise ShapeError(f"{what} is 1 or {rank} numbers, got {len(numbers)}")
    return numbers if len(numbers) == rank else numbers * rank


def window_count(
    size: PrimExpr, kernel: int | PrimExpr, stride: int, dilation: int = 1
) -> PrimExpr:
    """Return how many windows lie in ``size`` elements (with their padding) along one axis."""
    reach = (kernel - 1) * dilation
    count: PrimExpr = simplify(op.floordiv(size - reach - 1, stride) + 1)
    return count


def get_pad_tuple_generic(padding: Padding, kernel: Shape) -> tuple[list[int], list[int]]:
    """Return the padding before and after each spatial axis of a window of sizes ``kernel``.

    "SAME" keeps the size at a stride of 1; where the two sides differ, more stands before.
    """
    rank = len(kernel)
    if isinstance(padding, str):
        if padding == "VALID":
            return [0] * rank, [0] * rank
        if padding != "SAME":
            raise UnsupportedError(f"padding '{padding}' is neither VALID nor SAME")
        totals = [get_const_int(size) - 1 for size in kernel]
        before = [(total + 1) // 2 for total in totals]
        return before, [total - low for total, low in zip(totals, before)]
    numbers = [int(padding)] if isinstance(padding, (int, IntImm)) else [int(p) for p in padding]
    if len(numbers) == 1:
        numbers = numbers * rank
    if len(numbers) == rank:
        return numbers, list(numbers)
    if len(numbers) != 2 * rank:
        raise ShapeError(f"padding is 1, {rank} or {2 * rank} numbers, got {len(numbers)}")
    return numbers[:rank], numbers[rank:]


def get_pad_tuple(padding: Padding, kernel: Shape) -> tuple[int, int, int, int]:
    """Return top, left, bottom and right padding of a window (height, width)."""
    (top, left), (bottom, right) = get_pad_tuple_generic(padding, kernel)
    return top, left, bottom, right


def get_pad_tuple1d(padding: Padding, kernel: Shape) -> tuple[int, int]:
    """Return the padding before and after a window of one axis."""
    (before,), (after,) = get_pad_tuple_generic(padding, kernel)
    return before, after


def get_pad_tuple3d(padding: Padding, kernel: Shape) -> tuple[int, int, int, int, int, int]:
    """Return front, top, left, back, bottom and right padding of a window (depth, height,
    width).
    """
    (front, top, left), (back, bottom, right) = get_pad_tuple_generic(padding, kernel)
    return front, top, left, back, bottom, right


def check_plain_layout(layout: str, primal: str) -> str:
    """Return a layout that has each axis of ``primal`` once; raises UnsupportedError for others."""
    if sorted(layout) != sorted(primal):
        raise UnsupportedError(
            f"no compute for a convolution in the layout '{layout}': it is not an order of the axes"
            f" {primal}",
            notes=("convert it with layout_transform",),
        )
    return layout
