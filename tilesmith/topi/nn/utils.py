"""Windows of convolutions and pooling: padding, strides, and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tilesmith.ir import IntImm, PrimExpr, convert
from tilesmith.ir.windows import window_count
from tilesmith.support.errors import OpAttributeInvalid, ShapeError, UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.utils import Shape, get_const_int, simplify

__all__ = [
    "get_pad_tuple", "get_pad_tuple1d", "get_pad_tuple3d", "get_pad_tuple_generic", "infer_pad",
    "infer_pad3d", "infer_stride",
]  # fmt: skip

Numbers: TypeAlias = int | Sequence[int]
"""One number for all spatial axes, or one for each."""
Padding: TypeAlias = int | Sequence[int] | str
"""One number, one for each spatial axis, those before and then those after, "VALID" or "SAME"."""

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def per_axis(value: Numbers, rank: int, what: str, least: int = 1) -> list[int]:
    """Return one number, of at least ``least``, for each of ``rank`` spatial axes."""
    given = [value] if isinstance(value, (int, IntImm)) else value
    numbers = [int(item) for item in given]
    if len(numbers) not in (1, rank):
        raise ShapeError(f"{what} is 1 or {rank} numbers, got {len(numbers)}")
    if min(numbers) < least:
        raise OpAttributeInvalid(f"{what} is at least {least}, got {value}")
    return numbers if len(numbers) == rank else numbers * rank


def windows_within(
    size: PrimExpr, kernel: int | PrimExpr, stride: int, dilation: int = 1
) -> PrimExpr:
    """Return how many windows lie in ``size`` elements (with their padding) along one axis; refuse
    a window that is larger.
    """
    size = convert(size)
    count: PrimExpr = simplify(window_count(size, kernel, stride, dilation))
    is_empty = isinstance(size, IntImm) and size.value == 0
    if isinstance(count, IntImm) and (count.value < 0 or (count.value == 0 and not is_empty)):
        dilated = f", {dilation} apart," if dilation != 1 else ""
        raise ShapeError(
            f"a window of {kernel} elements{dilated} is larger than the {size} elements of the "
            "padded data",
            notes=("pad the data, or make the window smaller",),
        )
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
    if min(numbers, default=0) < 0:
        raise OpAttributeInvalid(
            f"padding is at least 0, got {padding}",
            notes=("topi.strided_slice takes rows away",),
        )
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


def infer_pad(data: Tensor, data_pad: Tensor | None) -> tuple[int, int]:
    """Return by how many rows and columns NCHW data was padded on each side; None stands for data
    that was not.
    """
    if data_pad is None:
        return 0, 0
    height, width = _added(data, data_pad, "NCHW", "HW")
    return height // 2, width // 2


def infer_pad3d(data: Tensor, data_pad: Tensor | None, layout: str) -> tuple[int, int, int]:
    """Return how many elements the padding added in depth, height and width, both sides together;
    ``layout`` is NCDHW or NDHWC.
    """
    if layout not in ("NCDHW", "NDHWC"):
        raise UnsupportedError(f"infer_pad3d: layout '{layout}' is neither NCDHW nor NDHWC")
    if data_pad is None:
        return 0, 0, 0
    depth, height, width = _added(data, data_pad, layout, "DHW")
    return depth, height, width


def _added(data: Tensor, padded: Tensor, layout: str, letters: str) -> list[int]:
    axes = [layout.index(letter) for letter in letters]
    return [get_const_int(padded.shape[axis] - data.shape[axis]) for axis in axes]


def infer_stride(data: Tensor, kernel: Tensor, out: Tensor) -> tuple[int, int]:
    """Return the strides with which an OIHW kernel made NCHW ``out`` of padded NCHW data; 1 along
    an axis with a single result.
    """
    strides = []
    for axis in (2, 3):
        size, window, count = [get_const_int(one.shape[axis]) for one in (data, kernel, out)]
        strides.append((size - window) // (count - 1) if count > 1 else 1)
    return strides[0], strides[1]


def check_plain_layout(layout: str, primal: str) -> str:
    """Return a layout that has each axis of ``primal`` once; raises UnsupportedError for others."""
    if sorted(layout) != sorted(primal):
        raise UnsupportedError(
            f"no compute for a convolution in the layout '{layout}': it is not an order of the axes"
            f" {primal}",
            notes=("convert it with layout_transform",),
        )
    return layout
