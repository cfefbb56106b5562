"""Reductions and scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, boolean, dtype, optional_integer, optional_ints
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import (
    check_axes,
    check_axis,
    number_of_elements,
    result,
    size,
    sizes_of,
    tensor,
)
from tilesmith.relax.op.spec import FusionKind, call, define


def infer_reduction(call: Call, out_dtype: Any = None) -> Any:
    """The sizes without the reduced axes (1 in their place with keepdims)."""
    data, axes = tensor(call, 0), call.attrs.axis
    out = data.dtype if out_dtype is None else out_dtype
    if isinstance(axes, int):
        axes = (axes,)
    if axes is not None:
        axes = check_axes(call, axes, data.ndim)
    sizes = sizes_of(data)
    if sizes is None:
        if call.attrs.keepdims:
            return result(None, out, data.ndim)
        if axes is None:
            return result([], out)
        return result(None, out, -1 if data.ndim == -1 else data.ndim - len(axes))
    reduced = range(len(sizes)) if axes is None else axes
    if call.attrs.keepdims:
        return result([size(1) if i in reduced else s for i, s in enumerate(sizes)], out)
    return result([s for i, s in enumerate(sizes) if i not in reduced], out)


def _axes(attrs: Any) -> Any:
    return None if attrs.axis is None else tuple(attrs.axis)


def _reduction(name: str, evaluate: Callable[..., Any], meaning: str) -> Callable[..., Call]:
    op = define(
        name,
        "x",
        infer_reduction,
        schema=Schema(axis=optional_ints(), keepdims=boolean(False)),
        compute="topi." + name,
        kind=FusionKind.COMM_REDUCE,
        evaluate=lambda attrs, x: evaluate(x, axis=_axes(attrs), keepdims=attrs.keepdims),
    )

    def function(x: Any, axis: Any = None, keepdims: bool = False) -> Call:
        return call(op, x, axis=axis, keepdims=keepdims)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{meaning} over ``axis`` (an axis, several, or all of them)."
    return function


def _wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Narrow floats are summed in float64, so that the reference is the precise one."""

    def evaluate(x: Any, axis: Any, keepdims: bool) -> Any:
        wide = x.astype("float64") if x.dtype.kind not in "iub" else x
        return numpy.asarray(function(wide, axis=axis, keepdims=keepdims))

    return evaluate


sum = _reduction("sum", _wide(numpy.sum), "The sum")
prod = _reduction("prod", _wide(numpy.prod), "The product")
mean = _reduction("mean", _wide(numpy.mean), "The mean")
variance = _reduction("variance", _wide(numpy.var), "The variance")
std = _reduction("std", _wide(numpy.std), "The standard deviation")
max = _reduction("max", numpy.max, "The largest value")
min = _reduction("min", numpy.min, "The smallest value")
all = _reduction("all", numpy.all, "Whether all hold")
any = _reduction("any", numpy.any, "Whether any holds")


def _infer_scan(call: Call) -> Any:
    data, axis = tensor(call, 0), call.attrs.axis
    out = call.attrs.dtype or data.dtype
    sizes = sizes_of(data)
    if axis is None:
        return result(None if sizes is None else [number_of_elements(sizes)], out, 1)
    check_axis(call, axis, data.ndim)
    return result(sizes, out, data.ndim)


def _scan(name: str, evaluate: Any, identity: int, meaning: str) -> Callable[..., Call]:
    def scan(attrs: Any, x: Any) -> Any:
        x = x if attrs.dtype is None else x.astype(attrs.dtype.numpy())
        axis = attrs.axis
        if axis is None:
            x, axis = x.reshape(-1), 0
        out = evaluate(x, axis=axis, dtype=x.dtype)
        if attrs.exclusive:
            out = numpy.roll(out, 1, axis)
            first = [slice(None)] * out.ndim
            first[axis] = slice(0, 1)
            out[tuple(first)] = identity
        return out

    op = define(
        name,
        "data",
        _infer_scan,
        schema=Schema(axis=optional_integer(), dtype=dtype(), exclusive=boolean(False)),
        compute="topi." + name,
        evaluate=scan,
    )

    def function(data: Any, axis: Any = None, dtype: Any = None, exclusive: bool = False) -> Call:
        return call(op, data, axis=axis, dtype=dtype, exclusive=bool(exclusive))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{meaning} of the elements up to each one along an axis (of all in a row without "
        f"``axis``).\n\n"
        "    ``exclusive``: without the element itself."
    )
    return function


cumsum = _scan("cumsum", numpy.cumsum, 0, "The sum")
cumprod = _scan("cumprod", numpy.cumprod, 1, "The product")
