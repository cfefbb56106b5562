"""Defines containers under the names that users know, on top of Python's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


class ShapeTuple(tuple[int, ...]):
    """A shape as a value: a tuple of integers, equal to a list of the same ones, too."""

    __slots__ = ()

    def __new__(cls, shape: Iterable[int]) -> ShapeTuple:
        return super().__new__(cls, [int(extent) for extent in shape])

    def __eq__(self, other: object) -> bool:
        return super().__eq__(tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class String(str):
    """A string as a value of the runtime."""

    __slots__ = ()


class ADT(tuple[Any, ...]):
    """A tuple of values with a tag for its constructor."""

    _tag: int

    def __new__(cls, tag: int, fields: Iterable[Any]) -> ADT:
        made = super().__new__(cls, tuple(fields))
        made._tag = int(tag)
        return made

    @property
    def tag(self) -> int:
        """The number of the constructor."""
        return self._tag


class RefValue:
    """A place whose value programs read and replace."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"RefValue({self.value!r})"


def tuple_object(fields: Iterable[Any] | None = None) -> ADT:
    """Return a tuple of values: an ADT with the tag 0."""
    return ADT(0, fields or ())


def getitem_helper(
    obj: Any, elem_getter: Callable[[Any, int], Any], length: int, idx: int | slice
) -> Any:
    """Return the item or, for a slice, the list of items that `elem_getter(obj, index)` returns."""
    if isinstance(idx, slice):
        return [elem_getter(obj, place) for place in range(*idx.indices(length))]
    if not -length <= idx < length:
        raise IndexError(f"index {idx} is outside of a container of {length} items")
    return elem_getter(obj, idx % length)


__all__: Sequence[str] = [
    "ADT",
    "RefValue",
    "ShapeTuple",
    "String",
    "getitem_helper",
    "tuple_object",
]
