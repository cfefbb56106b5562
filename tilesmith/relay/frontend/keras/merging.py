"""Layers that make one tensor of several."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.relay import op
from tilesmith.relay.frontend.images import matmul
from tilesmith.relay.frontend.keras.registry import Graph, Value, plain, raw
from tilesmith.relay.op.tensor import constant_like
from tilesmith.relay.op.view import rank_of, sizes

__all__ = ["aligned"]


def aligned(values: Sequence[Value]) -> tuple[list[Any], bool]:
    """Return the expressions of values with their axes in one order, and whether that has the
    channels at axis 1.
    """
    ranks = {rank_of(value.expr) for value in values}
    if len(ranks) == 1 and any(value.moved for value in values):
        return [value.first() for value in values], True
    return [value.plain() for value in values], False


def _merge(function: Callable[[Any, Any], Any]) -> Any:
    def convert(graph: Graph, layer: Any, values: Sequence[Value]) -> Value:
        exprs, moved = aligned(values)
        if not moved:
            exprs = _same_rank(exprs)
        found = functools.reduce(function, exprs)
        if type(layer).__name__ == "Average":
            found = found / constant_like(len(exprs), found)
        return Value(found, moved)

    return convert


def _same_rank(exprs: Sequence[Any]) -> list[Any]:
    """Return expressions with axes of size 1 after the batch, as Keras merges those of fewer."""
    most = max([rank_of(expr) for expr in exprs])
    found = []
    for expr in exprs:
        missing = most - rank_of(expr)
        found.append(op.expand_dims(expr, 1, missing) if missing else expr)
    return found


raw("Add", "Average")(_merge(op.add))
raw("Multiply")(_merge(op.multiply))
raw("Subtract")(_merge(op.subtract))
raw("Maximum")(_merge(op.maximum))
raw("Minimum")(_merge(op.minimum))


@raw("Concatenate")
def _concatenate(graph: Graph, layer: Any, values: Sequence[Value]) -> Value:
    exprs, moved = aligned(values)
    return Value(op.concatenate(exprs, Value(exprs[0], moved).axis(layer.axis)), moved)


@plain("Dot")
def _dot(graph: Graph, layer: Any, pair: Sequence[Any]) -> Any:
    left, right = pair
    ranks = [rank_of(left), rank_of(right)]
    axes = [layer.axes] * 2 if isinstance(layer.axes, int) else list(layer.axes)
    places = [axis % rank for axis, rank in zip(axes, ranks)]
    if layer.normalize:
        left, right = [_unit(x, axis) for x, axis in zip((left, right), places)]
    rows, before = _matrix(left, places[0], last=True)
    columns, after = _matrix(right, places[1], last=False)
    batch = sizes(left)[0]
    found = matmul(rows, columns)
    rest = [*before, *after]
    return op.reshape(found, (batch, *(rest or [1])))


def _unit(x: Any, axis: int) -> Any:
    squares = op.sum(x * x, [axis], True)
    return x * op.rsqrt(op.maximum(squares, constant_like(1e-12, x)))


def _matrix(x: Any, axis: int, last: bool) -> tuple[Any, list[int]]:
    """Return a tensor as a matrix for each of the batch with an axis as its last or first, and the
    sizes of all others.
    """
    whole = sizes(x)
    others = [place for place in range(1, len(whole)) if place != axis]
    order = [0, *others, axis] if last else [0, axis, *others]
    rest = [int(whole[place]) for place in others]
    form = (whole[0], -1, whole[axis]) if last else (whole[0], whole[axis], -1)
    if not rest:
        form = (whole[0], 1, whole[axis]) if last else (whole[0], whole[axis], 1)
    return op.reshape(op.transpose(x, order), form), rest
