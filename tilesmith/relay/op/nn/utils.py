"""``relay.op.nn.utils``: padding in the forms that operators take."""

from __future__ import annotations

from typing import Any

from tilesmith.support.errors import OpAttributeInvalid

__all__ = ["get_pad_tuple1d", "get_pad_tuple2d", "get_pad_tuple3d"]


def _both_sides(padding: Any, dims: int) -> tuple[int, ...]:
    values = tuple(padding) if isinstance(padding, (list, tuple)) else (padding,)
    if len(values) not in (1, dims, 2 * dims):
        raise OpAttributeInvalid(
            f"padding of {dims} axes is 1, {dims} or {2 * dims} numbers, got {padding!r}"
        )
    return values * (2 * dims // len(values))


def get_pad_tuple1d(padding: Any) -> tuple[int, ...]:
    """Return padding before and after one axis."""
    return _both_sides(padding, 1)


def get_pad_tuple2d(padding: Any) -> tuple[int, ...]:
    """Return padding at the top, left, bottom and right."""
    return _both_sides(padding, 2)


def get_pad_tuple3d(padding: Any) -> tuple[int, ...]:
    """Return padding at the front, top, left, back, bottom and right."""
    return _both_sides(padding, 3)
