"""Reductions and scans."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IntImm
from tilesmith.relax.attrs import Schema, boolean, dtype, optional_integer, optional_ints
from tilesmith.relax.expr import Call, known_struct_info
from tilesmith.relax.op.common import (
    check_axes,
    check_axis,
    number_of_elements,
    result,
    size,
    sizes_of,
    tensor,
    widened,
)
from tilesmith.relax.op.declaration import OpFunction, define
from tilesmith.relax.op.elementwise import astype, equal
from tilesmith.relax.op.manipulate import broadcast_to, flip
from tilesmith.relax.op.scatter import shape_like
from tilesmith.relax.op.views import expand_dims, reshape
from tilesmith.relax.spec import Compute, Gradient, no_gradient, topi
from tilesmith.support.errors import UnsupportedError


def infer_reduction(call: Call, out_dtype: Any = None) -> Any:
    """Infer the sizes without the reduced axes (1 in their place with keepdims)."""
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


def _kept(value: Any, call: Call) -> Any:
    """Return a result of a reduction, or its gradient, with the reduced axes as size 1."""
    if call.attrs.keepdims:
        return value
    axes = reduced_axes(call)
    return expand_dims(value, sorted(axes)) if axes else value


def reduced_axes(call: Call) -> list[int]:
    """Return the axes that a reduction of a tensor of known rank reduces."""
    rank, axes = known_struct_info(call.args[0]).ndim, call.attrs.axis
    return list(range(rank)) if axes is None else [axis % rank for axis in axes]


def _count(call: Call) -> int:
    """Return how many elements are reduced to one."""
    sizes = sizes_of(known_struct_info(call.args[0]))
    reduced = [sizes[axis] for axis in reduced_axes(call)] if sizes is not None else [None]
    known = [size_.value for size_ in reduced if isinstance(size_, IntImm)]
    if len(known) != len(reduced):
        raise UnsupportedError(f"the gradient of {call.op.name} needs constant sizes")
    return math.prod(known)


def reduction(
    name: str,
    evaluate: Callable[..., Any],
    compute: Compute,
    meaning: str,
    *,
    gradient: Callable[..., Any] | None = None,
) -> OpFunction:
    """Declare a reduction over ``axis``, ``y = f(x)``.

    ``evaluate(x, axis=…, keepdims=…)`` is its meaning in numpy; ``gradient(g, x, y, call)`` gives
    the gradient of ``x``, or what repeated along the reduced axes is it; ``g`` and ``y`` have the
    reduced axes as size 1.
    """

    def backward(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
        assert gradient is not None
        x = orig_call.args[0]
        g, y = _kept(output_grad, orig_call), _kept(orig_var, orig_call)
        return [broadcast_to(gradient(g, x, y, orig_call), shape_like(x))]

    return define(
        name,
        "x",
        infer_reduction,
        description=f"{meaning} over ``axis`` (an axis, several, or all of them).",
        schema=Schema(axis=optional_ints(), keepdims=boolean(False)),
        compute=compute,
        evaluate=lambda attrs, x: evaluate(x, axis=_axes(attrs), keepdims=attrs.keepdims),
        gradient=backward if gradient is not None else None,
    )


def _wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert narrow floats to float64 for sums, so that the reference is precise."""

    def evaluate(x: Any, axis: Any, keepdims: bool) -> Any:
        wide = x.astype("float64") if x.dtype.kind not in "iub" else x
        return numpy.asarray(function(wide, axis=axis, keepdims=keepdims))

    return evaluate


def _extreme_gradient(g: Any, x: Any, y: Any, call: Call) -> Any:
    """Return the gradient divided equally among the elements that are the extreme one."""
    hit = astype(equal(x, y), known_struct_info(x).dtype)
    return hit / sum(hit, call.attrs.axis, True) * g


sum = reduction("sum", _wide(numpy.sum), "topi.sum", "The sum", gradient=lambda g, x, y, call: g)
prod = reduction("prod", _wide(numpy.prod), "topi.prod", "The product")
mean = reduction(
    "mean", _wide(numpy.mean), "topi.mean", "The mean",
    gradient=lambda g, x, y, call: g / _count(call),
)  # fmt: skip
variance = reduction(
    "variance", _wide(numpy.var), "topi.variance", "The variance",
    gradient=lambda g, x, y, call: (x - mean(x, call.attrs.axis, True)) * (g * (2 / _count(call))),
)  # fmt: skip
std = reduction("std", _wide(numpy.std), "topi.std", "The standard deviation")
max = reduction("max", numpy.max, "topi.max", "The largest value", gradient=_extreme_gradient)
min = reduction("min", numpy.min, "topi.min", "The smallest value", gradient=_extreme_gradient)
all = reduction("all", numpy.all, "topi.all", "Whether all hold")
any = reduction("any", numpy.any, "topi.any", "Whether any holds")


# Places of extreme values


def _arg_reduction(name: str, evaluate: Callable[..., Any], word: str) -> OpFunction:
    def expression(attrs: Any, x: Any) -> Any:
        found = getattr(topi, name)(x, attrs.axis, attrs.keepdims)
        return found if found.dtype == "int64" else topi.cast(found, "int64")

    def arg(attrs: Any, x: Any) -> Any:
        if attrs.axis is None:
            found = evaluate(x)
            return numpy.reshape(found, (1,) * x.ndim) if attrs.keepdims else found
        return evaluate(x, axis=attrs.axis, keepdims=attrs.keepdims)

    return define(
        name,
        "x",
        lambda call: infer_reduction(call, "int64"),
        description=(
            f"The index (int64) of the {word} value along an axis, the first if there are several."
        ),
        schema=Schema(axis=optional_integer(), keepdims=boolean(False)),
        compute=expression,
        evaluate=arg,
        gradient=no_gradient,
    )


argmax = _arg_reduction("argmax", numpy.argmax, "largest")
argmin = _arg_reduction("argmin", numpy.argmin, "smallest")


# Scans


def _infer_scan(call: Call) -> Any:
    data, axis = tensor(call, 0), call.attrs.axis
    out = call.attrs.dtype or data.dtype
    sizes = sizes_of(data)
    if axis is None:
        return result(None if sizes is None else [number_of_elements(sizes)], out, 1)
    check_axis(call, axis, data.ndim)
    return result(sizes, out, data.ndim)


def _cumsum_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the cumulative sums from the other end."""
    x, attrs = orig_call.args[0], orig_call.attrs
    if attrs.axis is None:
        turned = flip(cumsum(flip(output_grad, 0), 0, None, attrs.exclusive), 0)
        return [reshape(turned, shape_like(x))]
    axis = attrs.axis % known_struct_info(x).ndim
    return [flip(cumsum(flip(output_grad, axis), axis, None, attrs.exclusive), axis)]


def _scan(
    name: str,
    evaluate: Callable[..., Any],
    compute: Compute,
    identity: int,
    meaning: str,
    gradient: Gradient | None = None,
) -> OpFunction:
    def scan(attrs: Any, x: Any) -> Any:
        x = x if attrs.dtype is None else x.astype(attrs.dtype.numpy())
        axis = attrs.axis
        if axis is None:
            x, axis = x.reshape(-1), 0
        wide = widened(x)
        out = evaluate(wide, axis=axis, dtype=wide.dtype).astype(x.dtype)
        if attrs.exclusive:
            out = numpy.roll(out, 1, axis)
            first = [slice(None)] * out.ndim
            first[axis] = slice(0, 1)
            out[tuple(first)] = identity
        return out

    return define(
        name,
        "data",
        _infer_scan,
        description=(
            f"{meaning} of the elements up to each one along an axis (of all in a row without "
            f"``axis``).\n\n"
            "    ``exclusive``: without the element itself."
        ),
        schema=Schema(axis=optional_integer(), dtype=dtype(), exclusive=boolean(False)),
        compute=compute,
        evaluate=scan,
        gradient=gradient,
    )


cumsum = _scan("cumsum", numpy.cumsum, "topi.cumsum", 0, "The sum", _cumsum_gradient)
cumprod = _scan("cumprod", numpy.cumprod, "topi.cumprod", 1, "The product")
