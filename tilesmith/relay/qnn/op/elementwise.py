"""Sums, products and functions of quantised tensors, element by element.

A function of 8-bit integers with constant parameters is a table of 256 results; with others the
numbers are computed as floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

from tilesmith.relax import op as relax
from tilesmith.relax.attrs import Schema, integer, number
from tilesmith.relax.expr import Constant, RelaxExpr
from tilesmith.relay.op.view import define, make_call
from tilesmith.relay.qnn.op.parameters import (
    SCALE,
    ZERO_POINT,
    centred,
    check_dtype,
    check_parameters,
    constant_of,
    info_of,
    number_of,
    parameter,
    raw,
    saturated,
    sizes_along,
)
from tilesmith.relay.qnn.op.requantize import ratio, rescaled

__all__ = [
    "FUNCTIONS", "abs", "add", "erf", "exp", "hardswish", "leaky_relu", "log", "lookup", "mul",
    "rsqrt", "sigmoid", "sqrt", "subtract", "table_of", "tanh",
]  # fmt: skip

_BYTES = ("int8", "uint8")
_DTYPES = (*_BYTES, "int16", "int32")
_PLAIN = "output_scale output_zero_point"


# Two tensors


def _same(one: Any, other: Any) -> bool:
    a, b = constant_of(one), constant_of(other)
    if a is None or b is None:
        return one is other
    return a.size == b.size and bool((a.reshape(-1) == b.reshape(-1)).all())


def _moved(data: Any, scale: Any, point: Any, axis: int, out_scale: Any, out_point: Any) -> Any:
    """Return a tensor as int32 with the scale and zero point of the result."""
    if _same(scale, out_scale) and _same(point, out_point):
        return relax.astype(data, "int32")
    return rescaled(data, ratio(scale, out_scale), point, out_point, axis=axis)


def _checked(name: str, attrs: Any, lhs: Any, rhs: Any, given: Any) -> None:
    for what, expr in (("lhs", lhs), ("rhs", rhs)):
        check_dtype(name, what, expr, *_DTYPES)
    check_dtype(name, "rhs", rhs, str(info_of(lhs).dtype))
    left, right = sizes_along(lhs, attrs.lhs_axis), sizes_along(rhs, attrs.rhs_axis)
    check_parameters(name, left, lhs_scale=given[0], lhs_zero_point=given[1])
    check_parameters(name, right, rhs_scale=given[2], rhs_zero_point=given[3])
    check_parameters(name, None, output_scale=given[4], output_zero_point=given[5])


def _is_zero(point: Any) -> bool:
    return number_of(point) == 0


def _sum(name: str, combine: Any, correct: Any) -> Callable[..., Any]:
    def translate(attrs: Any, lhs: Any, rhs: Any, *given: Any) -> Any:
        _checked(name, attrs, lhs, rhs, given)
        out_scale, out_point = given[4:]
        left = _moved(lhs, given[0], given[1], attrs.lhs_axis, out_scale, out_point)
        right = _moved(rhs, given[2], given[3], attrs.rhs_axis, out_scale, out_point)
        total = combine(left, right)
        if not _is_zero(out_point):
            total = correct(
                total, relax.reshape(out_point, []) if sizes_along(out_point, 0) else out_point
            )
        return saturated(total, info_of(lhs).dtype)

    return translate


def _product(attrs: Any, lhs: Any, rhs: Any, *given: Any) -> Any:
    _checked("qnn.mul", attrs, lhs, rhs, given)
    left = centred(lhs, given[1], attrs.lhs_axis)
    right = centred(rhs, given[3], attrs.rhs_axis)
    factors = [_spread(given[0], lhs, attrs.lhs_axis), _spread(given[2], rhs, attrs.rhs_axis)]
    axis = -1
    if not all(isinstance(factor, RelaxExpr) for factor in factors):
        shapes = [factor for factor in factors if not isinstance(factor, RelaxExpr)]
        if any(one.size > 1 for one in shapes):
            axis = attrs.lhs_axis if shapes[0].size > 1 else attrs.rhs_axis
    if any(isinstance(factor, RelaxExpr) for factor in factors):
        wide = [relax.astype(one, "float64") for one in (given[0], given[2])]
        scale: Any = ratio(relax.multiply(*wide), given[4])
    else:
        scale = factors[0] * factors[1] / float(constant_of(given[4]).reshape(()))
    out = info_of(lhs).dtype
    return rescaled(
        relax.multiply(left, right),
        scale,
        raw(numpy.int32(0)),
        given[5],
        axis=axis,
        out_dtype=str(out),
    )


def _spread(scale: Any, data: Any, axis: int) -> Any:
    value = constant_of(scale)
    return scale if value is None else value.astype("float64").reshape(-1)


_BINARY = "lhs rhs lhs_scale lhs_zero_point rhs_scale rhs_zero_point " + _PLAIN
_AXES: dict[str, Any] = {"lhs_axis": integer(-1), "rhs_axis": integer(-1)}
_TRANSLATIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "add": (_sum("qnn.add", relax.add, relax.subtract), "The sum of quantised tensors."),
    "subtract": (
        _sum("qnn.subtract", relax.subtract, relax.add),
        "The difference of quantised tensors.",
    ),
    "mul": (_product, "The product of quantised tensors, element by element."),
}
for _name, (_translate, _what) in _TRANSLATIONS.items():
    define("qnn." + _name, _BINARY, _translate, level=11, schema=Schema(**_AXES), description=_what)


def _binary(name: str, what: str) -> Callable[..., Any]:
    def made(
        lhs: Any,
        rhs: Any,
        lhs_scale: Any,
        lhs_zero_point: Any,
        rhs_scale: Any,
        rhs_zero_point: Any,
        output_scale: Any,
        output_zero_point: Any,
        lhs_axis: int = -1,
        rhs_axis: int = -1,
    ) -> Any:
        scales = [parameter(one, SCALE) for one in (lhs_scale, rhs_scale, output_scale)]
        points = [
            parameter(one, ZERO_POINT)
            for one in (lhs_zero_point, rhs_zero_point, output_zero_point)
        ]
        pairs = [one for pair in zip(scales, points) for one in pair]
        attributes = {"lhs_axis": lhs_axis, "rhs_axis": rhs_axis}
        return make_call("qnn." + name, [lhs, rhs, *pairs], attributes)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = what
    return made


add = _binary("add", "Add quantised tensors: each is brought to the scale of the result first.")
subtract = _binary("subtract", "Subtract quantised tensors, as `add` adds them.")
mul = _binary("mul", "Multiply quantised tensors element by element.")


# Functions


def _hardswish(x: Any) -> Any:
    return x * numpy.clip(x + 3.0, 0.0, 6.0) / 6.0


def _relaxed_hardswish(x: Any) -> Any:
    inner = relax.clip(relax.add(x, raw(numpy.float32(3))), 0.0, 6.0)
    return relax.multiply(x, relax.multiply(inner, raw(numpy.float32(1 / 6))))


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "tanh": (numpy.tanh, relax.tanh),
    "exp": (numpy.exp, relax.exp),
    "sqrt": (numpy.sqrt, relax.sqrt),
    "rsqrt": (lambda x: 1.0 / numpy.sqrt(x), relax.rsqrt),
    "erf": (numpy.vectorize(math.erf, otypes=["float64"]), relax.erf),
    "abs": (numpy.abs, relax.abs),
    "sigmoid": (lambda x: 1.0 / (1.0 + numpy.exp(-x)), relax.sigmoid),
    "hardswish": (_hardswish, _relaxed_hardswish),
    "log": (numpy.log, relax.log),
}
"""Name → the function of numpy's arrays (for tables), and of expressions of floats."""


def table_of(
    function: Callable[..., Any],
    in_scale: float,
    in_point: int,
    out_scale: float,
    out_point: int,
    in_dtype: Any,
    out_dtype: Any,
) -> numpy.ndarray:
    """Return the quantised results of a function for all 8-bit integers, from the least one on.

    What is no number becomes the zero point.
    """
    limits = numpy.iinfo(str(in_dtype))
    numbers = numpy.arange(limits.min, int(limits.max) + 1, dtype="float64")
    with numpy.errstate(all="ignore"):
        found = numpy.asarray(function((numbers - in_point) * in_scale), "float64") / out_scale
    found = numpy.rint(numpy.nan_to_num(found, nan=0.0, posinf=1e9, neginf=-1e9)) + out_point
    ends = numpy.iinfo(str(out_dtype))
    return numpy.clip(found, ends.min, ends.max).astype(str(out_dtype))


def lookup(table: numpy.ndarray, data: Any) -> Any:
    """Return the elements of a table at 8-bit integers, the least of which is the first place."""
    least = numpy.iinfo(info_of(data).dtype.numpy()).min
    place = relax.astype(data, "int32")
    if least:
        place = relax.subtract(place, raw(numpy.int32(least)))
    return relax.take(raw(table), place, axis=0, mode="clip")


def apply(
    name: str,
    of_arrays: Callable[..., Any] | None,
    of_floats: Callable[..., Any],
    x: Any,
    *given: Any,
) -> Any:
    """Return the quantised function of a quantised tensor: by a table of what the function of
    arrays gives where that is possible, else by the function of expressions of floats.
    """
    in_scale, in_point, out_scale, out_point = given
    check_dtype(name, "x", x, *_DTYPES)
    check_parameters(
        name, None, scale=in_scale, zero_point=in_point, output_scale=out_scale,
        output_zero_point=out_point,
    )  # fmt: skip
    dtype = info_of(x).dtype
    numbers: list[Any] = [number_of(one) for one in given]
    is_constant = all(one is not None for one in numbers)
    if of_arrays is not None and str(dtype) in _BYTES and is_constant:
        scale, point, new_scale, new_point = numbers
        table = table_of(of_arrays, scale, point, new_scale, new_point, dtype, dtype)
        return lookup(table, x)
    floats = relax.dequantize(x, _scalar(in_scale), _scalar(in_point))
    result = of_floats(floats)
    return relax.quantize(result, _scalar(out_scale), _scalar(out_point), out_dtype=dtype)


def _scalar(value: Any) -> Any:
    if isinstance(value, Constant):
        return raw(constant_of(value).reshape(()))
    return relax.reshape(value, []) if sizes_along(value, 0) is not None else value


def _unary(name: str) -> Callable[..., Any]:
    functions = FUNCTIONS[name]
    define(
        "qnn." + name,
        "x scale zero_point " + _PLAIN,
        lambda attrs, x, *given: apply("qnn." + name, *functions, x, *given),
        level=11,
        description=f"The {name} of a quantised tensor.",
    )

    def made(x: Any, scale: Any, zero_point: Any, output_scale: Any, output_zero_point: Any) -> Any:
        operands = [
            x,
            parameter(scale, SCALE),
            parameter(zero_point, ZERO_POINT),
            parameter(output_scale, SCALE),
            parameter(output_zero_point, ZERO_POINT),
        ]
        return make_call("qnn." + name, operands)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"Return the {name} of a quantised tensor, rounded to the nearest integer."
    return made


tanh, exp, sqrt, rsqrt, erf = [_unary(one) for one in ("tanh", "exp", "sqrt", "rsqrt", "erf")]
abs, sigmoid, hardswish, log = [_unary(one) for one in ("abs", "sigmoid", "hardswish", "log")]


def _leaky_relu(attrs: Any, x: Any, *given: Any) -> Any:
    def of_arrays(value: Any) -> Any:
        return numpy.where(value > 0, value, value * attrs.alpha)

    of_floats = partial(relax.nn.leakyrelu, alpha=attrs.alpha)
    return apply("qnn.leaky_relu", of_arrays, of_floats, x, *given)


define(
    "qnn.leaky_relu",
    "x input_scale input_zero_point " + _PLAIN,
    _leaky_relu,
    level=11,
    schema=Schema(alpha=number()),
    description="A quantised tensor where positive, else times alpha.",
)


def leaky_relu(
    x: Any,
    alpha: float,
    input_scale: Any,
    input_zero_point: Any,
    output_scale: Any,
    output_zero_point: Any,
) -> Any:
    """Return a quantised tensor where positive, else times ``alpha``."""
    operands = [
        x,
        parameter(input_scale, SCALE),
        parameter(input_zero_point, ZERO_POINT),
        parameter(output_scale, SCALE),
        parameter(output_zero_point, ZERO_POINT),
    ]
    return make_call("qnn.leaky_relu", operands, {"alpha": alpha})
