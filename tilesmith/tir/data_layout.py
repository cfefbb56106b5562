"""Layouts of arrays by the letters of their axes: ``NCHW``, ``OIHW16i4o``.

A capital letter is an axis; a number with a small letter is the inner part of the axis of that
letter, of that size. ``bijective_layout`` takes shapes and indices from one layout to another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tilesmith.arith import Analyzer
from tilesmith.ir import Node, PrimExpr, const, convert, data
from tilesmith.ir.operators import floordiv, floormod
from tilesmith.support.errors import ShapeError

__all__ = ["BijectiveLayout", "Layout", "bijective_layout", "layout"]

_PIECE = re.compile(r"([A-Z])|(\d+)([a-z])")


class Layout(Node, key="tir.Layout"):
    """The axes of an array in order; made by ``layout("NCHW16c")``.

    Its length is the number of axes, its items are the letters, ``"c" in layout`` tests for one.
    """

    name: str = data()
    index_dtype: str = data(default="int32")

    @property
    def axes(self) -> list[tuple[str, int]]:
        """Letters with sizes: ("C", 0) for an axis, ("c", 16) for an inner part."""
        found, position = [], 0
        while position < len(self.name):
            match = _PIECE.match(self.name, position)
            assert match is not None  # checked when the layout was made
            found.append((match[1], 0) if match[1] else (match[3], int(match[2])))
            position = match.end()
        return found

    def index_of(self, axis: str) -> int:
        """Return the position of an axis, or -1."""
        letters = [letter for letter, _ in self.axes]
        return letters.index(axis) if axis in letters else -1

    def factor_of(self, axis: str) -> int:
        """Return the size of an inner part; for an axis, the product of its inner parts (1 if it
        has none); -1 for an axis that is not in the layout."""
        if self.index_of(axis) < 0:
            return -1
        product = 1
        for letter, size in self.axes:
            if size and letter == axis.lower():
                product *= size
        return product

    def __len__(self) -> int:
        return len(self.axes)

    def __contains__(self, axis: object) -> bool:
        return any(letter == axis for letter, _ in self.axes)

    def __getitem__(self, index: int) -> str:
        return self.axes[index][0]

    def __iter__(self) -> Iterator[str]:
        return iter([letter for letter, _ in self.axes])

    def __str__(self) -> str:
        return self.name


class BijectiveLayout(Node, key="tir.BijectiveLayout"):
    """A conversion between two layouts with the same axes; made by ``bijective_layout``."""

    src_layout: Layout = data()
    dst_layout: Layout = data()

    def forward_index(self, index: Any) -> list[PrimExpr]:
        """Return the index in the destination layout of an element of the source layout."""
        return _map_index(self.src_layout, self.dst_layout, index)

    def backward_index(self, index: Any) -> list[PrimExpr]:
        """Return the index in the source layout of an element of the destination layout."""
        return _map_index(self.dst_layout, self.src_layout, index)

    def forward_shape(self, shape: Any) -> list[PrimExpr]:
        """Return the shape in the destination layout; an axis that is not divided evenly is rounded
        up."""
        return _map_shape(self.src_layout, self.dst_layout, shape)

    def backward_shape(self, shape: Any) -> list[PrimExpr]:
        """Return the shape in the source layout."""
        return _map_shape(self.dst_layout, self.src_layout, shape)


def layout(layout_str: str, dtype: str = "int32") -> Layout:
    """Parse the text of a layout; ``dtype`` is that of its indices.

    Raises ShapeError for texts that are not a layout: unknown signs, an axis twice, an inner part
    without its axis or size.
    """
    if isinstance(layout_str, Layout):
        return layout_str
    seen: set[str] = set()
    position = 0
    while position < len(layout_str):
        match = _PIECE.match(layout_str, position)
        if match is None:
            raise ShapeError(
                f"'{layout_str[position]}' has no meaning in layout '{layout_str}'",
                notes=("write axes as capitals and inner parts as 16c: NCHW16c",),
            )
        letter = match[1] or match[3]
        if letter in seen:
            raise ShapeError(f"layout '{layout_str}' has the axis '{letter}' twice")
        if match[2] is not None and int(match[2]) < 1:
            raise ShapeError(f"the inner part '{match[0]}' of layout '{layout_str}' is empty")
        seen.add(letter)
        position = match.end()
    for letter in sorted(seen):
        if letter.islower() and letter.upper() not in seen:
            raise ShapeError(
                f"layout '{layout_str}' has the inner part '{letter}' and no axis "
                f"'{letter.upper()}'"
            )
    return Layout(layout_str, dtype)


def bijective_layout(src_layout: Any, dst_layout: Any) -> BijectiveLayout:
    """Return the conversion from one layout to another. Raises ShapeError if their axes differ."""
    source, target = layout(src_layout), layout(dst_layout)
    if _primal(source) != _primal(target):
        raise ShapeError(f"layouts '{source}' and '{target}' have different axes")
    return BijectiveLayout(source, target)


def _primal(of: Iterable[str]) -> set[str]:
    return {letter for letter in of if letter.isupper()}


def _each(values: Any, of: Layout, what: str) -> list[PrimExpr]:
    found = [convert(value) for value in values]
    if len(found) != len(of):
        raise ShapeError(f"layout '{of}' has {len(of)} axes, the {what} {len(found)}")
    return found


def _whole(of: Layout, values: Sequence[PrimExpr]) -> dict[str, Any]:
    """Return for the letter of each axis its index (or size) over all its parts."""
    whole: dict[str, Any] = {}
    for (letter, size), value in zip(of.axes, values):
        term = value if size else value * of.factor_of(letter)
        axis = letter.upper()
        whole[axis] = whole[axis] + term if axis in whole else term
    return whole


def _map_index(source: Layout, target: Layout, index: Any) -> list[PrimExpr]:
    whole = _whole(source, _each(index, source, "index"))
    simplify = Analyzer().simplify
    return [
        simplify(floormod(whole[letter.upper()], size))
        if size
        else simplify(floordiv(whole[letter], target.factor_of(letter)))
        for letter, size in target.axes
    ]


def _map_shape(source: Layout, target: Layout, shape: Any) -> list[PrimExpr]:
    sizes = _each(shape, source, "shape")
    simplify: Callable[[PrimExpr], PrimExpr] = Analyzer().simplify
    whole = {
        letter: size * source.factor_of(letter)
        for (letter, part), size in zip(source.axes, sizes)
        if not part
    }
    made = []
    for letter, part in target.axes:
        if part:
            made.append(const(part, sizes[0].dtype))
        else:
            factor = target.factor_of(letter)
            made.append(simplify(floordiv(whole[letter] + (factor - 1), factor)))
    return made
