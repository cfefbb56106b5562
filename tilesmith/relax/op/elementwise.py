"""Elementwise operators: unary, binary, comparisons, logic, and three operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, scalar
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import (
    broadcast_sizes,
    check_dtypes,
    check_float,
    result,
    sizes_of,
    tensor,
    tensor_or_scalar,
)
from tilesmith.relax.op.spec import Compute, FusionKind, call, define, operand, topi

Elementwise = Callable[..., Call]


def infer_same(call: Call) -> Any:
    """The result is like the first argument."""
    return tensor(call, 0)


def infer_float(call: Call) -> Any:
    """The result is like the first argument, which is of floats."""
    info = tensor(call, 0)
    check_float(call, 0, info)
    return info


def infer_predicate(call: Call) -> Any:
    """Booleans in the shape of the first argument."""
    info = tensor(call, 0)
    return result(sizes_of(info), "bool", info.ndim, info)


def unary(
    name: str,
    evaluate: Callable[[Any], Any],
    compute: Compute,
    meaning: str,
    infer: Any = infer_same,
) -> Elementwise:
    """Register an operator of one tensor and give its function."""
    op = define(
        name,
        "x",
        infer,
        compute=compute,
        kind=FusionKind.ELEMWISE,
        evaluate=lambda attrs, x: evaluate(x),
    )

    def function(x: Any) -> Call:
        return call(op, x)

    function.__name__ = function.__qualname__ = name.rsplit(".", 1)[-1]
    function.__doc__ = f"{meaning}, elementwise."
    return function


def _infer_binary(call: Call, dtype: Any) -> Any:
    a, b = tensor_or_scalar(call, 0), tensor_or_scalar(call, 1)
    common = check_dtypes(call, (a, b))
    dtype = common if dtype is None else dtype
    left, right = sizes_of(a), sizes_of(b)
    ndim = -1 if -1 in (a.ndim, b.ndim) else max(a.ndim, b.ndim)
    if left is None or right is None:
        return result(None, dtype, ndim)
    return result(broadcast_sizes(call, left, right), dtype, ndim, a)


def infer_arithmetic(call: Call) -> Any:
    """Broadcast; the dtype of both operands."""
    return _infer_binary(call, None)


def infer_comparison(call: Call) -> Any:
    """Broadcast; booleans."""
    return _infer_binary(call, "bool")


def binary(
    name: str,
    evaluate: Callable[[Any, Any], Any],
    compute: Compute,
    meaning: str,
    infer: Any = infer_arithmetic,
) -> Elementwise:
    """Register an operator of two tensors that broadcast and give its function."""
    op = define(
        name,
        "x1 x2",
        infer,
        compute=compute,
        kind=FusionKind.BROADCAST,
        evaluate=lambda attrs, x1, x2: evaluate(x1, x2),
    )

    def function(x1: Any, x2: Any) -> Call:
        return call(op, operand(x1, x2), operand(x2, x1))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{meaning}, elementwise with broadcasting."
    return function


def _erf(x: Any) -> Any:
    flat = [math.erf(value) for value in numpy.asarray(x, "float64").ravel()]
    return numpy.asarray(flat).reshape(numpy.shape(x))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + numpy.exp(-x))


def _divide(a: Any, b: Any) -> Any:
    if numpy.issubdtype(numpy.asarray(a).dtype, numpy.integer):
        return numpy.trunc(numpy.divide(a, b))
    return numpy.divide(a, b)


def _square(x: Any) -> Any:
    return x * x


abs = unary("abs", numpy.abs, "topi.abs", "|x|")
acos = unary("acos", numpy.arccos, "topi.acos", "arc cosine", infer_float)
acosh = unary("acosh", numpy.arccosh, "topi.acosh", "inverse hyperbolic cosine", infer_float)
asin = unary("asin", numpy.arcsin, "topi.asin", "arc sine", infer_float)
asinh = unary("asinh", numpy.arcsinh, "topi.asinh", "inverse hyperbolic sine", infer_float)
atan = unary("atan", numpy.arctan, "topi.atan", "arc tangent", infer_float)
atanh = unary("atanh", numpy.arctanh, "topi.atanh", "inverse hyperbolic tangent", infer_float)
bitwise_not = unary("bitwise_not", numpy.invert, "topi.bitwise_not", "~x")
ceil = unary("ceil", numpy.ceil, "topi.ceil", "the least integer not below x")
cos = unary("cos", numpy.cos, "topi.cos", "cosine", infer_float)
cosh = unary("cosh", numpy.cosh, "topi.cosh", "hyperbolic cosine", infer_float)
erf = unary("erf", _erf, "topi.erf", "the error function", infer_float)
exp = unary("exp", numpy.exp, "topi.exp", "e to the power x", infer_float)
floor = unary("floor", numpy.floor, "topi.floor", "the greatest integer not above x")
log = unary("log", numpy.log, "topi.log", "natural logarithm", infer_float)
logical_not = unary("logical_not", numpy.logical_not, "topi.logical_not", "not x")
negative = unary("negative", numpy.negative, "topi.negative", "-x")
round = unary("round", numpy.round, "topi.round", "the nearest integer, halves to even")
rsqrt = unary("rsqrt", lambda x: 1 / numpy.sqrt(x), "topi.rsqrt", "1 / sqrt(x)", infer_float)
sigmoid = unary("sigmoid", _sigmoid, "topi.sigmoid", "1 / (1 + exp(-x))", infer_float)
sign = unary("sign", numpy.sign, "topi.sign", "-1, 0 or 1 by the sign of x")
sin = unary("sin", numpy.sin, "topi.sin", "sine", infer_float)
sinh = unary("sinh", numpy.sinh, "topi.sinh", "hyperbolic sine", infer_float)
sqrt = unary("sqrt", numpy.sqrt, "topi.sqrt", "square root", infer_float)
square = unary("square", _square, lambda attrs, x: topi.multiply(x, x), "x * x")
tan = unary("tan", numpy.tan, "topi.tan", "tangent", infer_float)
tanh = unary("tanh", numpy.tanh, "topi.tanh", "hyperbolic tangent", infer_float)
trunc = unary("trunc", numpy.trunc, "topi.trunc", "x rounded toward zero")
isfinite = unary("isfinite", numpy.isfinite, "topi.isfinite", "x is finite", infer_predicate)
isinf = unary("isinf", numpy.isinf, "topi.isinf", "x is infinite", infer_predicate)
isnan = unary("isnan", numpy.isnan, "topi.isnan", "x is not a number", infer_predicate)

add = binary("add", numpy.add, "topi.add", "x1 + x2")
subtract = binary("subtract", numpy.subtract, "topi.subtract", "x1 - x2")
multiply = binary("multiply", numpy.multiply, "topi.multiply", "x1 * x2")
divide = binary("divide", _divide, "topi.divide", "x1 / x2 (integers round toward zero)")
floor_divide = binary(
    "floor_divide", numpy.floor_divide, "topi.floor_divide", "x1 / x2 rounded down"
)
mod = binary("mod", numpy.fmod, "topi.mod", "remainder with the sign of x1")
floor_mod = binary("floor_mod", numpy.mod, "topi.floor_mod", "remainder with the sign of x2")
power = binary("power", numpy.power, "topi.power", "x1 to the power x2")
maximum = binary("maximum", numpy.maximum, "topi.maximum", "the larger one")
minimum = binary("minimum", numpy.minimum, "topi.minimum", "the smaller one")
logical_and = binary("logical_and", numpy.logical_and, "topi.logical_and", "x1 and x2")
logical_or = binary("logical_or", numpy.logical_or, "topi.logical_or", "x1 or x2")
logical_xor = binary("logical_xor", numpy.logical_xor, "topi.logical_xor", "x1 or x2, not both")
bitwise_and = binary("bitwise_and", numpy.bitwise_and, "topi.bitwise_and", "x1 & x2")
bitwise_or = binary("bitwise_or", numpy.bitwise_or, "topi.bitwise_or", "x1 | x2")
bitwise_xor = binary("bitwise_xor", numpy.bitwise_xor, "topi.bitwise_xor", "x1 ^ x2")
left_shift = binary("left_shift", numpy.left_shift, "topi.left_shift", "x1 << x2")
right_shift = binary("right_shift", numpy.right_shift, "topi.right_shift", "x1 >> x2")
equal = binary("equal", numpy.equal, "topi.equal", "x1 == x2", infer_comparison)
not_equal = binary("not_equal", numpy.not_equal, "topi.not_equal", "x1 != x2", infer_comparison)
greater = binary("greater", numpy.greater, "topi.greater", "x1 > x2", infer_comparison)
greater_equal = binary(
    "greater_equal", numpy.greater_equal, "topi.greater_equal", "x1 >= x2", infer_comparison
)
less = binary("less", numpy.less, "topi.less", "x1 < x2", infer_comparison)
less_equal = binary("less_equal", numpy.less_equal, "topi.less_equal", "x1 <= x2", infer_comparison)


_CLIP = define(
    "clip",
    "x",
    infer_same,
    schema=Schema(min=scalar(), max=scalar()),
    compute=lambda attrs, x: topi.clip(x, attrs.min, attrs.max),
    kind=FusionKind.ELEMWISE,
    evaluate=lambda attrs, x: numpy.clip(x, attrs.min, attrs.max),
)


def clip(x: Any, min: Any, max: Any) -> Call:
    """``x`` limited to the range from ``min`` to ``max``, elementwise."""
    return call(_CLIP, x, min=_number(min), max=_number(max))


def _number(value: Any) -> float:
    value = getattr(value, "value", value)  # PrimValue, then the constant in it
    return getattr(value, "value", value)


def _infer_fma(call: Call) -> Any:
    infos = [tensor(call, index) for index in range(3)]
    check_dtypes(call, infos)
    sizes = sizes_of(infos[0])
    for info in infos[1:]:
        other = sizes_of(info)
        if sizes is not None and other is not None:
            sizes = broadcast_sizes(call, sizes, other)
        else:
            sizes = None
    return result(sizes, infos[0].dtype, infos[0].ndim)


_FMA = define(
    "ewise_fma",
    "x1 x2 x3",
    _infer_fma,
    compute=lambda attrs, a, b, c: topi.add(topi.multiply(a, b), c),
    kind=FusionKind.ELEMWISE,
    evaluate=lambda attrs, a, b, c: a * b + c,
)


def ewise_fma(x1: Any, x2: Any, x3: Any) -> Call:
    """``x1 * x2 + x3``, elementwise."""
    return call(_FMA, x1, x2, x3)
