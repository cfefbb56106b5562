"""Loops of stages: sizes of vectors and tiles, and the choice of the axis that vectors go along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.te import ComputeOp, Stage
from tilesmith.tir.expr import IterVar
from tilesmith.topi.schedules.program import Read, extent

__all__ = ["divisor", "fused", "vector_axis", "vector_width", "vectorize_last"]


def divisor(count: int, most: int) -> int:
    """Return the largest divisor of a number of iterations up to a limit."""
    return next(number for number in range(max(1, min(count, most)), 0, -1) if count % number == 0)


def vector_width(count: int, lanes: int) -> int:
    """Return how many iterations of a loop become one vector.

    All of a short loop; of a longer one a full vector, of which the last one may have a condition;
    half a vector where that divides a loop of a few vectors.
    """
    if count <= lanes or count % lanes == 0:
        return min(count, lanes)
    half = lanes // 2
    return half if half >= 4 and count % half == 0 and count < 3 * lanes else lanes


def fused(stage: Stage, axes: Sequence[IterVar]) -> IterVar:
    """Fuse loops that follow each other; without any, make a loop of one iteration."""
    return axes[0] if len(axes) == 1 else stage.fuse(*axes)


def vectorize_last(stage: Stage, axis: IterVar, lanes: int) -> list[IterVar]:
    """Vectorise an innermost loop by whole vectors; return the loops that it became."""
    width = vector_width(extent(axis), lanes)
    if width == 1:
        return [axis]
    if width == extent(axis):
        stage.vectorize(axis)
        return [axis]
    outer, inner = stage.split(axis, factor=width)
    stage.vectorize(inner)
    return [outer, inner]


def vector_axis(op: ComputeOp, reads: Sequence[Read], shortest: int) -> IterVar | None:
    """Return the axis along which a reduction goes by vectors, the last spatial one or a reduced
    one; None if vectors do not help.

    Along a good axis each operand is read from place to place (or stays), and is not scattered.
    """
    candidates: list[tuple[float, int, IterVar]] = []
    spatial = [axis for axis in op.axis if extent(axis) > 1]
    axes = [*spatial[-1:], *reversed(op.reduce_axis)]
    for number, axis in enumerate(axes):
        is_spatial = number < len(spatial[-1:])
        if extent(axis) < (2 if is_spatial else shortest):
            continue
        steps = [read.step(axis) for read in reads]
        if not is_spatial and not any(step == 1 for step in steps):
            continue
        scattered = sum(_cost(step) for step in steps)
        filled = min(1.0, extent(axis) / shortest)
        # A vector of partial results has to be added up in the end.
        candidates.append(((scattered + (0 if is_spatial else 0.5)) / filled, number, axis))
    return min(candidates, key=lambda one: one[:2])[2] if candidates else None


def _cost(step: Any) -> float:
    if step in (0, 1):
        return 0.25
    return 1.0 if step in (2, -1) else 4.0
