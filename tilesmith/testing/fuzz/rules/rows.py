"""Draws reductions over any axes and chains of them: softmax, normalisations, argmax, sums."""

from __future__ import annotations

from typing import Any

from tilesmith import te, topi
from tilesmith.te import Tensor
from tilesmith.testing.fuzz.rules.maker import Maker, form

__all__: list[str] = []


def _shape(make: Maker, most: int = 300) -> list[Any]:
    return make.sizes(make.among([2, 2, 3, 3, 4, 1]), most)


def _axes(make: Maker, rank: int) -> list[int]:
    """Return some of the axes, mostly the last ones."""
    if make.chance(0.6):
        return list(range(rank - make.number(1, rank), rank))
    return sorted(make.shuffled(range(rank))[: make.number(1, rank)])


@form("reduction", 4)
def reduction(make: Maker) -> list[Tensor]:
    """Reduce any axes by a sum, a product, a maximum, a mean, or to a place."""
    shape = _shape(make)
    axes = _axes(make, len(shape))
    name = make.among(["sum", "max", "min", "argmax", "argmin", "mean", "prod", "norm"])
    dtype = make.dtype("int8", "uint8")
    keep = make.chance(0.3)
    if name == "prod":
        return [topi.prod(make.input(shape, dtype, 1, 1), axes, keep)]
    if name in ("argmax", "argmin"):
        data = make.source(shape, dtype)
        axis = make.among([None, *range(-1, len(shape) - 1)])
        empty = any(make.least(size) == 0 for size in shape)
        if empty:
            return [topi.max(data, axes, keep)]
        return [getattr(topi, name)(data, axis, keep, make.chance(0.3))]
    if name in ("mean", "norm"):
        data = make.source(shape)
        make.inexact()
        if name == "mean":
            return make.epilogue(topi.mean(data, axes, True))
        return make.epilogue(topi.divide(data, topi.sqrt(topi.add(_squares(data, axes), 1.0))))
    made = getattr(topi, name)(make.source(shape, dtype), axes, keep)
    return make.epilogue(made) if made.shape and dtype not in ("int8", "uint8") else [made]


def _squares(data: Tensor, axes: list[int]) -> Tensor:
    return topi.sum(topi.multiply(data, data), axes, True)


@form("softmax", 3)
def softmax(make: Maker) -> list[Tensor]:
    """Apply softmax, or its logarithm, along an axis; scaled and masked at times."""
    shape = _shape(make)
    data = make.source(shape, make.among(["float32"] * 4 + ["float16", "bfloat16", "float64"]))
    axis = make.among([-1, -1, *range(len(shape))])
    make.inexact(3)
    if make.chance(0.3):
        data = topi.add(data, make.input(shape[-1:], str(data.dtype)))
    function = make.among([topi.nn.softmax, topi.nn.softmax, topi.nn.log_softmax])
    return make.epilogue(function(data, axis))


@form("normalisation", 3)
def normalisation(make: Maker) -> list[Tensor]:
    """Normalise over the last axes, channels, groups, or a batch."""
    kind = make.among(["layer", "layer", "rms", "instance", "group", "batch"])
    shape = _shape(make)
    axes = list(range(len(shape) - make.number(1, min(2, len(shape))), len(shape)))
    data = make.source(shape)
    make.inexact(30)
    if kind in ("layer", "rms"):
        inner = [shape[axis] for axis in axes]
        if kind == "rms":
            return make.epilogue(topi.nn.rms_norm(data, make.input(inner), axes))
        if make.chance(0.2):
            return make.epilogue(topi.nn.layer_norm(data, None, None, axes))
        made = topi.nn.layer_norm(data, make.input(inner), make.input(inner), axes)
        return make.epilogue(made)
    if len(shape) < 3:
        return make.epilogue(_centred(data))
    channels = (shape[1],)
    if kind == "batch":
        four = [make.input(channels, low=1, high=3) for _ in range(4)]
        batch_norm: Any = topi.nn.batch_norm
        return make.epilogue(batch_norm(data, *four)[0])
    rest = list(range(2, len(shape)))
    if kind == "instance":
        made = topi.nn.instance_norm(data, make.input(channels), make.input(channels), rest)
        return make.epilogue(made)
    groups = make.among([1, 2, 3, 4])
    shape = [shape[0], groups * make.count(5), *shape[2:]]
    data = make.input(shape)
    gamma, beta = make.input((shape[1],)), make.input((shape[1],))
    return make.epilogue(topi.nn.group_norm(data, gamma, beta, groups, 1, rest))


def _centred(data: Tensor) -> Any:
    """Subtract the mean of the last axis, and divide by the largest distance from it."""
    moved = topi.subtract(data, topi.mean(data, -1, True))
    most = topi.max(topi.abs(moved), -1, True)
    return topi.divide(moved, topi.add(most, 1.0))


@form("two reductions", 1)
def two_reductions(make: Maker) -> list[Tensor]:
    """Let a row be reduced in two ways, or a sum be reduced again."""
    shape = _shape(make)
    data = make.source(shape)
    kind = make.among(["both", "again", "weighted"])
    if kind == "both":
        first, second = topi.sum(data, -1, True), topi.max(data, -1, True)
        return make.epilogue(topi.add(topi.multiply(data, second), first))
    if kind == "again":
        first = topi.sum(data, -1)
        return [topi.max(first, None)] if first.shape else [first]
    k = te.reduce_axis((0, shape[-1]), name="k")
    weights = make.input(shape[-1:])
    made = te.compute(
        tuple(shape[:-1]), lambda *i: te.sum(data(*i, k) * weights(k), axis=k), name="weighted"
    )
    return make.epilogue(made) if made.shape else [made]


@form("cumulative sum", 0.5)
def cumulative_sum(make: Maker) -> list[Tensor]:
    """Sum up along an axis."""
    shape = _shape(make, 60)
    dtype = make.among(["float32", "int32"])
    return [topi.cumsum(make.source(shape, dtype), make.number(0, len(shape) - 1))]
