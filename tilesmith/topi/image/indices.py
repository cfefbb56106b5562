"""Where the pixels of a resized image lie in the old one, and how an image of some layout is read.

Users' own computes of images call these; `resize` is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import tir
from tilesmith.ir import IntImm, PrimExpr, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.helpers import nchw_pack_layout, nchw_xc_layout, ncw_pack_layout, ncw_xc_layout
from tilesmith.topi.utils import Number, equal_const_int

__all__ = [
    "COORDINATES", "ROUNDINGS", "can_convert_multiply_to_intdiv", "get_1d_indices", "get_1d_pixel",
    "get_2d_indices", "get_2d_pixel", "get_3d_indices", "get_3d_pixel", "get_closest_index",
    "get_inx", "rounded",
]  # fmt: skip

COORDINATES = (
    "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip
"""The rules for where a new pixel lies in the old image."""
ROUNDINGS = ("round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
"""The rules for which old pixel is nearest to a place."""


def _real(value: Number) -> PrimExpr:
    return op.cast("float32", convert(value))


def _known(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UnsupportedError(f"resize: {what} '{value}' is not one of {', '.join(known)}")


def can_convert_multiply_to_intdiv(
    origin_size: int | PrimExpr, scaled_size: int | PrimExpr
) -> bool:
    """Return whether the new size is a known multiple of the old one, so that old indices are
    quotients of new ones and integers.
    """
    sizes = [convert(size) for size in (origin_size, scaled_size)]
    if not all(isinstance(size, IntImm) and size.value > 0 for size in sizes):
        return False
    before, after = [int(size) for size in sizes]
    return after % before == 0


def get_inx(
    x: PrimExpr,
    image_width: int | PrimExpr,
    target_width: int | PrimExpr,
    coordinate_transformation_mode: str,
    start_x: Number = 0,
    end_x: Number = -1,
    use_int_div: bool = False,
) -> PrimExpr:
    """Return the place in the old image, as float32, of the new pixel ``x`` along an axis.

    ``start_x`` and ``end_x`` are the region, from 0 to 1, that "tf_crop_and_resize" spreads out.
    With ``use_int_div`` (see `can_convert_multiply_to_intdiv`) the place is an integer.
    """
    mode = coordinate_transformation_mode
    _known("coordinate_transformation_mode", mode, COORDINATES)
    before, after = convert(image_width), convert(target_width)
    if use_int_div:
        return op.floordiv(x, op.floordiv(after, before))
    half, is_one_pixel = const(0.5, "float32"), equal_const_int(after, 1)
    if mode == "tf_crop_and_resize":
        start, end, last = _real(start_x), _real(end_x), _real(before - 1)
        if is_one_pixel:
            return half * (start + end) * last
        return start * last + _real(x) * ((end - start) * last / _real(after - 1))
    if mode == "align_corners":
        zero = const(0.0, "float32")
        return zero if is_one_pixel else _real(x) * (_real(before - 1) / _real(after - 1))
    ratio = _real(before) / _real(after)
    if mode == "asymmetric":
        return _real(x) * ratio
    if mode == "pytorch_half_pixel" and is_one_pixel:
        return const(0.0, "float32")
    place = (_real(x) + half) * ratio
    return place if mode == "tf_half_pixel_for_nn" else place - half


def rounded(place: PrimExpr, rounding: str) -> PrimExpr:
    """Round a place by a rule to a whole number, which is a float; "round" rounds halves down."""
    _known("rounding_method", rounding, ROUNDINGS)
    half = const(0.5, place.dtype)
    made: PrimExpr
    if rounding in ("round", "round_prefer_floor"):
        made = tir.ceil(place - half)
    elif rounding == "round_prefer_ceil":
        made = tir.floor(place + half)
    else:
        made = tir.floor(place) if rounding == "floor" else tir.ceil(place)
    return made


def get_closest_index(
    in_x: PrimExpr, rounding_method: str, boxes: Any, use_int_div: bool = False
) -> PrimExpr:
    """Return the old pixel, as int32, at a place of the old image.

    ``boxes``: what the places come from where images are cropped, in which case halves are rounded
    away from 0; else None. With ``use_int_div`` the place is a whole number already.
    """
    if use_int_div:
        return op.cast("int32", in_x)
    if boxes is not None:
        return op.cast("int32", tir.round(in_x))
    return op.cast("int32", rounded(in_x, rounding_method))


_Indices = Sequence[PrimExpr]
_ZERO = const(0, "int32")


def _is_packed(layout: str, width: int) -> bool:
    return ncw_pack_layout(layout) if width == 1 else nchw_pack_layout(layout)


def _is_blocked(layout: str, letters: str) -> bool:
    if letters == "W":
        return ncw_xc_layout(layout)
    if letters == "HW":
        return nchw_xc_layout(layout)
    rest = layout.removeprefix("NCDHW")
    return rest != layout and rest.endswith("c") and rest[:-1].isnumeric()


def _order(layout: str, letters: str) -> list[int]:
    """Return the places of N, C, the axes of the image, then c, the outer and the inner batch."""
    width = len(letters)
    if layout == "N" + letters + "C":
        return [0, width + 1, *range(1, width + 1)]
    if layout == "NC" + letters:
        return list(range(width + 2))
    if width < 3 and _is_packed(layout, width):
        # NCHWnc: the blocks of the batch and of the channels come last.
        return [*range(width + 2), -1, width + 2, width + 3]
    if _is_blocked(layout, letters):
        return list(range(width + 3))
    raise UnsupportedError(f"the layout '{layout}' is not supported for images with axes {letters}")


def _split_indices(
    indices: _Indices, layout: str, letters: str, count: int
) -> tuple[PrimExpr, ...]:
    order = _order(layout, letters)
    found = [indices[place] if place >= 0 else _ZERO for place in order]
    return (*found, *[_ZERO] * (count - len(found)))


def get_1d_indices(indices: _Indices, layout: str = "NCW") -> tuple[PrimExpr, ...]:
    """Return n, c, x, and the places in blocks (of channels; of the batch and of channels in packed
    layouts) of an element; 0 for those that the layout does not have.
    """
    return _split_indices(indices, layout, "W", 6)


def get_2d_indices(indices: _Indices, layout: str = "NCHW") -> tuple[PrimExpr, ...]:
    """Return n, c, y, x, and the places in blocks of an element; see `get_1d_indices`."""
    return _split_indices(indices, layout, "HW", 7)


def get_3d_indices(indices: _Indices, layout: str = "NCDHW") -> tuple[PrimExpr, ...]:
    """Return n, c, z, y, x, and the place in a block of channels of an element."""
    return _split_indices(indices, layout, "DHW", 6)


def _pixel(
    data: Tensor, layout: str, letters: str, sizes: _Indices, places: _Indices, rest: _Indices
) -> PrimExpr:
    """Read an element at the nearest place inside of an image; ``rest``: n, c, then blocks."""
    inside = [
        op.maximum(op.minimum(place, op.cast(convert(place).dtype, convert(size) - 1)), 0)
        for place, size in zip(places, sizes)
    ]
    order = _order(layout, letters)
    values = [*rest[:2], *inside, *rest[2:]]
    at: list[Any] = [None] * len([place for place in order if place >= 0])
    for value, place in zip(values, order):
        if place >= 0:
            at[place] = value
    return op.cast("float32", data(*at))


def get_1d_pixel(
    data: Tensor, layout: str, image_width: Any, n: Any, c: Any, x: Any, cc: Any, ib: Any, ic: Any
) -> PrimExpr:
    """Return an element of a signal as float32; outside of it that of the nearer end."""
    return _pixel(data, layout, "W", [image_width], [x], [n, c, cc, ib, ic])


def get_2d_pixel(
    data: Tensor, layout: str, image_height: Any, image_width: Any, n: Any, c: Any, y: Any, x: Any,
    cc: Any, ib: Any, ic: Any,
) -> PrimExpr:  # fmt: skip
    """Return a pixel of an image as float32; outside of it the nearest one."""
    sizes = [image_height, image_width]
    return _pixel(data, layout, "HW", sizes, [y, x], [n, c, cc, ib, ic])


def get_3d_pixel(
    data: Tensor, layout: str, image_depth: Any, image_height: Any, image_width: Any, n: Any,
    c: Any, z: Any, y: Any, x: Any, cc: Any,
) -> PrimExpr:  # fmt: skip
    """Return a voxel of a volume as float32; outside of it the nearest one."""
    sizes = [image_depth, image_height, image_width]
    return _pixel(data, layout, "DHW", sizes, [z, y, x], [n, c, cc])
