"""Containers of the runtime under the names that users know; Python's own do the work."""

from __future__ import annotations

from collections.abc import Iterable


class ShapeTuple(tuple):
    """A shape as a value: a tuple of integers."""

    __slots__ = ()

    def __new__(cls, shape: Iterable[int]) -> ShapeTuple:
        return super().__new__(cls, [int(extent) for extent in shape])


class String(str):
    """A string as a value of the runtime."""

    __slots__ = ()
