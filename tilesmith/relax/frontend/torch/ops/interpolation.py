"""Interpolates along axes whose sizes are known when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

from tilesmith import te, tir
from tilesmith.tir import const

__all__ = ["cubic_taps", "interpolated", "linear_taps"]

Taps = Callable[[Any, Any], list[tuple[Any, Any]]]
"""Of a position on the old axis and the size of that axis: the places that it is made of, which may
lie outside, with their weights."""


def interpolated(
    data: te.Tensor, axis: int, size: Any, factor: float | None, aligned: bool, taps: Taps
) -> te.Tensor:
    """Return ``data`` with one axis resized to ``size``, by ``factor`` where the user gave one.
    With ``aligned`` the first and the last elements stay where they are. Places outside are those
    at the border.
    """
    before = data.shape[axis]
    exact = "float64" if data.dtype == "float64" else "float32"  # where positions are computed

    def value(*indices: Any) -> Any:
        at = indices[axis].astype(exact)
        old, new = before.astype(exact), tir.convert(size).astype(exact)
        if aligned:
            steps = te.max(new - const(1, exact), const(1, exact))
            position = at * ((old - const(1, exact)) / steps)
        else:
            step = const(1.0 / float(factor), exact) if factor else old / new
            position = (at + const(0.5, exact)) * step - const(0.5, exact)
        terms: list[Any] = []
        for place, weight in taps(position, before):
            inside = te.max(te.min(place, before - 1), const(0, before.dtype))
            read = data(*indices[:axis], inside, *indices[axis + 1 :]).astype(exact)
            terms.append(read * weight)
        return reduce(add, terms).astype(data.dtype)

    shape = [*data.shape[:axis], size, *data.shape[axis + 1 :]]
    made: te.Tensor = te.compute(shape, value, "resized")
    return made


def linear_taps(position: Any, size: Any) -> list[tuple[Any, Any]]:
    """Return the two neighbours of a position, which is moved to the axis before."""
    exact = position.dtype
    last = (size - 1).astype(exact)
    position = te.max(te.min(position, last), const(0, exact))
    low = te.floor(position)
    part, place = position - low, low.astype(size.dtype)
    return [(place, const(1, exact) - part), (place + 1, part)]


def cubic_taps(position: Any, size: Any) -> list[tuple[Any, Any]]:
    """Return the four neighbours of a position, with the weights of cubic convolution (a = -0.75).

    R. Keys, Cubic convolution interpolation for digital image processing, 1981.
    """
    exact = position.dtype
    low = te.floor(position)
    found = []
    for offset in range(-1, 3):
        distance = te.abs(position - low - const(offset, exact))
        if offset in (0, 1):
            terms = (1.25, -2.25, 0.0, 1.0)
        else:
            terms = (-0.75, 3.75, -6.0, 3.0)
        weight = const(terms[0], exact)
        for term in terms[1:]:
            weight = weight * distance + const(term, exact)
        found.append((low.astype(size.dtype) + offset, weight))
    return found
