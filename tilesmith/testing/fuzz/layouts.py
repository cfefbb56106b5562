"""Draws parameters that are not dense in memory: strides, offsets, alignments (``match_buffer``).

A tensor of a recipe may have a ``layout``: ``order`` (its dimensions as they lie in memory, the
fastest last), ``step`` (elements between neighbours), ``gaps`` (elements left free after each row),
``named`` (strides are variables that the call binds), ``align`` and ``factor`` (of the offset).
"""

from __future__ import annotations

import random
from typing import Any

import numpy

from tilesmith.ir import PrimExpr, Var, const

__all__ = ["LAID_OUT", "array_in_gaps", "copied", "declaration", "draw_layout", "whole"]

LAID_OUT = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool")
"""Dtypes that numpy shares with compiled functions when there are gaps between elements."""

_ALIGNMENT = 64


def draw_layout(rng: random.Random, rank: int) -> dict[str, Any]:
    """Return a random layout of a tensor."""
    order = list(range(rank))
    if rng.random() < 0.4:
        rng.shuffle(order)
    return {
        "order": order, "step": rng.choice([1, 1, 1, 2]),
        "gaps": [rng.choice([0, 0, 1, 3]) for _ in order],
        "dense": rng.random() < 0.2, "named": rng.random() < 0.5,
        "align": rng.choice([-1, 4, 8, 16, 64, 64]), "factor": rng.choice([0, 0, 1, 4]),
    }  # fmt: skip


def _strides(layout: dict[str, Any], shape: list[Any], one: Any) -> list[Any]:
    """Return strides in elements, numbers or expressions like the shape's, and the total size."""
    strides: list[Any] = [one] * len(shape)
    now = one * layout["step"]
    for dimension, gap in zip(reversed(layout["order"]), layout["gaps"]):
        strides[dimension] = now
        now = now * shape[dimension] + gap
    return [*strides, now]


def declaration(
    name: str, layout: dict[str, Any], shape: list[PrimExpr], index: str
) -> dict[str, Any]:
    """Return the arguments of ``decl_buffer`` that declare a parameter."""
    more: dict[str, Any] = {"data_alignment": layout["align"], "offset_factor": layout["factor"]}
    if layout["dense"]:
        return more
    if layout["named"]:
        more["strides"] = [Var(f"{name}_s{k}", index) for k in range(len(shape))]
    else:
        more["strides"] = _strides(layout, shape, const(1, index))[:-1]
    return more


def array_in_gaps(array: numpy.ndarray, layout: dict[str, Any]) -> numpy.ndarray:
    """Return the same numbers in memory of that layout; the gaps are filled with 77."""
    if layout["dense"] or array.size == 0:
        return array
    *strides, size = _strides(layout, list(array.shape), 1)
    flat = _aligned(int(size), array.dtype)
    flat[...] = numpy.asarray(77).astype(array.dtype)
    made = _laid(flat, array.shape, strides)
    made[...] = array
    return made


def _aligned(count: int, dtype: Any) -> numpy.ndarray:
    raw = numpy.zeros(count * dtype.itemsize + _ALIGNMENT, numpy.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + count * dtype.itemsize].view(dtype)


class _Laid(numpy.ndarray):
    """A view with access to all of the memory around it."""

    memory: numpy.ndarray | None = None


def _laid(flat: numpy.ndarray, shape: Any, strides: list[int]) -> numpy.ndarray:
    steps = [stride * flat.dtype.itemsize for stride in strides]
    made = _Laid(shape, flat.dtype, buffer=flat, strides=steps)
    made.memory = flat
    return made


def copied(array: numpy.ndarray) -> numpy.ndarray:
    """Return a copy in its own memory, laid out in the same way."""
    memory = getattr(array, "memory", None)
    if memory is None:
        return array.copy()
    flat = _aligned(memory.size, memory.dtype)
    flat[...] = memory
    return _laid(flat, array.shape, [s // flat.dtype.itemsize for s in array.strides])


def whole(array: numpy.ndarray) -> numpy.ndarray:
    """Return all of the memory of an array, with its gaps, which must not change either."""
    memory = getattr(array, "memory", None)
    return array if memory is None else memory
