"""Layouts of tensors: ``NCHW``, ``OIHW``, ``NCHW16c`` (the channels split, the inner part last).

A capital letter is an axis; a number and a small letter is the inner part of the axis of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import tir
from tilesmith.ir import PrimExpr, const
from tilesmith.support.errors import OpAttributeInvalid, ShapeError

__all__ = ["from_primal", "parse_layout", "to_primal"]


def parse_layout(layout: str, primal: str) -> list[tuple[str, int]]:
    """Return the axes of a layout in order: (letter, 1) or (letter, size of the inner part).

    Raises OpAttributeInvalid unless it has the axes of ``primal``.
    """
    try:
        parsed = tir.layout(layout)
    except ShapeError as error:
        raise OpAttributeInvalid(
            f"'{layout}' is not a layout such as '{primal}': {error.message}"
        ) from None
    axes = [(letter.upper(), size or 1) for letter, size in parsed.axes]
    if sorted([axis for axis, factor in axes if factor == 1]) != sorted(primal):
        raise OpAttributeInvalid(f"the layout '{layout}' does not have the axes of '{primal}'")
    return axes


def to_primal(sizes: Sequence[PrimExpr], layout: str, primal: str) -> list[PrimExpr]:
    """Return the sizes along the axes of ``primal`` of a tensor in ``layout``; split axes are
    joined.
    """
    if layout == primal:
        return list(sizes)
    found: dict[str, Any] = {}
    for (axis, _), size in zip(parse_layout(layout, primal), sizes):
        found[axis] = found[axis] * size if axis in found else size
    return [found[axis] for axis in primal]


def from_primal(sizes: Sequence[PrimExpr], layout: str, primal: str) -> list[PrimExpr]:
    """Return the sizes in ``layout`` of a tensor with these sizes along the axes of ``primal``."""
    if layout == primal:
        return list(sizes)
    by_axis = dict(zip(primal, sizes))
    axes = parse_layout(layout, primal)
    inner = {axis: factor for axis, factor in axes if factor != 1}
    return [
        const(factor, "int64")
        if factor != 1
        else (by_axis[axis] // inner[axis] if axis in inner else by_axis[axis])
        for axis, factor in axes
    ]
