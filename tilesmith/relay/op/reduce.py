"""``relay.op.reduce``: reductions over axes: all by default, all others with ``exclude``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, boolean, optional_ints
from tilesmith.relax.expr import Tuple
from tilesmith.relax.spec import topi
from tilesmith.relay.op.tensor import constant_like
from tilesmith.relay.op.view import (
    axis_of,
    computed,
    define,
    find_function,
    function,
    functions,
    make_call,
    rank_of,
    sizes,
)
from tilesmith.support.errors import OpAttributeInvalid


def _axes(attrs: Any, data: Any) -> list[int] | None:
    """Return the axes that are reduced, None for all."""
    if attrs.axis is None:
        if attrs.exclude:
            raise OpAttributeInvalid("exclude=True needs the axes that are kept: axis=...")
        return None
    if not attrs.exclude:
        return list(attrs.axis)
    rank = rank_of(data)
    kept = {axis_of(axis, rank) for axis in attrs.axis}
    return [axis for axis in range(rank) if axis not in kept]


def _schema(**more: Any) -> Schema:
    return Schema(axis=optional_ints(), keepdims=boolean(False), exclude=boolean(False), **more)


def _define_reduction(name: str) -> None:
    reduction = getattr(relax, name)

    def translate(attrs: Any, data: Any) -> Any:
        axes = _axes(attrs, data)
        return data if axes == [] else reduction(data, axes, attrs.keepdims)

    define(name, "data", translate, level=4, schema=_schema(), record=reduction.op.spec)


for _name in "sum all any max min mean prod".split():
    _define_reduction(_name)


def _place(name: str) -> Any:
    def compute(attrs: Any, data: Any) -> Any:
        axes = attrs.axis
        if attrs.exclude and axes is not None:
            rank = len(data.shape)
            kept = {axis_of(axis, rank) for axis in axes}
            axes = [axis for axis in range(rank) if axis not in kept]
        places = getattr(topi, name)(data, axes, attrs.keepdims, attrs.select_last_index)
        return topi.cast(places, "int32")

    return compute


def _find_place(find: Callable[..., Any]) -> Any:
    """Return what finds the place of an extremum among all elements along the axes, in numpy."""

    def evaluate(attrs: Any, data: Any) -> Any:
        chosen = attrs.axis
        axes = [
            axis_of(axis, data.ndim) for axis in (range(data.ndim) if chosen is None else chosen)
        ]
        if attrs.exclude and chosen is not None:
            axes = [axis for axis in range(data.ndim) if axis not in axes]
        kept = [axis for axis in range(data.ndim) if axis not in axes]
        rows = data.transpose([*kept, *axes]).reshape([*[data.shape[axis] for axis in kept], -1])
        if attrs.select_last_index:
            found = rows.shape[-1] - 1 - find(rows[..., ::-1], axis=-1)
        else:
            found = find(rows, axis=-1)
        if attrs.keepdims:
            found = numpy.expand_dims(found, tuple(sorted(axes)))
        return numpy.asarray(found, "int32")

    return evaluate


for _name, _what, _find in (
    ("argmax", "greatest", numpy.argmax),
    ("argmin", "least", numpy.argmin),
):
    computed(
        _name,
        "data",
        _place(_name),
        level=4,
        evaluate=_find_place(_find),
        schema=_schema(select_last_index=boolean(False)),
        description=f"The places (int32) of the {_what} elements along the axes.",
    )


def _variance(attrs: Any, data: Any, mean: Any) -> Any:
    axes = _axes(attrs, data)
    difference = relax.subtract(data, mean)
    square = relax.multiply(difference, difference)
    if not attrs.unbiased:
        return relax.mean(square, axes, attrs.keepdims)
    shape = sizes(data)
    counted = range(len(shape)) if axes is None else axes
    count = int(numpy.prod([shape[axis] for axis in counted]))
    total = relax.sum(square, axes, attrs.keepdims)
    return relax.divide(total, constant_like(count - 1, data))


define(
    "variance",
    "data mean",
    _variance,
    level=4,
    schema=_schema(unbiased=boolean(False)),
    description="The variance along axes, around a mean that is given (with its axes kept).",
)


@function("variance")
def variance(
    data: Any,
    axis: Any = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Any = None,
) -> Any:
    """Return the variance along axes; ``with_mean`` is the mean with the axes kept, if known."""
    if with_mean is None:
        with_mean = find_function("mean")(data, axis, True, exclude)
    attributes = {"axis": axis, "keepdims": keepdims, "exclude": exclude, "unbiased": unbiased}
    return make_call("variance", [data, with_mean], attributes)


@function("std")
def std(
    data: Any,
    axis: Any = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Any:
    """Return the standard deviation along axes."""
    return find_function("sqrt")(variance(data, axis, keepdims, exclude, unbiased))


@function("mean_variance")
def mean_variance(
    data: Any,
    axis: Any = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Tuple:
    """Return mean and variance along axes."""
    mean = find_function("mean")(data, axis, True, exclude)
    spread = variance(data, axis, keepdims, exclude, unbiased, mean)
    return Tuple([mean if keepdims else find_function("mean")(data, axis, False, exclude), spread])


@function("mean_std")
def mean_std(data: Any, axis: Any = None, keepdims: bool = False, exclude: bool = False) -> Tuple:
    """Return mean and standard deviation along axes."""
    mean, spread = mean_variance(data, axis, keepdims, exclude).fields
    return Tuple([mean, find_function("sqrt")(spread)])


@function("logsumexp")
def logsumexp(data: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return ``log(sum(exp(data)))`` along axes, without overflow."""
    greatest = find_function("max")(data, axis, True)
    shifted = find_function("exp")(find_function("subtract")(data, greatest))
    total = find_function("log")(find_function("sum")(shifted, axis, True))
    found = find_function("add")(total, greatest)
    return found if keepdims else find_function("squeeze")(found, _dropped(data, axis))


def _dropped(data: Any, axis: Any) -> Any:
    return list(range(rank_of(data))) if axis is None else axis


globals().update(functions())
