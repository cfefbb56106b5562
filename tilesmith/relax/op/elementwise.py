"""Elementwise operators: unary, binary, comparisons, logic, conversion, choice.

`unary` and `binary` declare the operators of their families; `activation.py` uses them, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relax.attrs import REQUIRED, Schema, scalar
from tilesmith.relax.attrs import dtype as dtype_attribute
from tilesmith.relax.expr import Call, known_struct_info
from tilesmith.relax.op.common import (
    broadcast_sizes,
    check_dtypes,
    check_float,
    result,
    sizes_of,
    tensor,
    tensor_or_scalar,
)
from tilesmith.relax.op.declaration import OpFunction, call, define, function, function_of, operand
from tilesmith.relax.op.scatter import collapsed
from tilesmith.relax.spec import Compute, Gradient, Layout, Precision, no_gradient, topi
from tilesmith.relax.struct_info import TensorStructInfo
from tilesmith.support.errors import DivisionByZeroError, TypeMismatchError

_FOLLOW = Precision.FOLLOW


def infer_same(call: Call) -> Any:
    """Infer the struct info of the first argument."""
    return tensor(call, 0)


def infer_float(call: Call) -> Any:
    """Infer the struct info of the first argument, which has to be a float tensor."""
    info = tensor(call, 0)
    check_float(call, 0, info)
    return info


def infer_predicate(call: Call) -> Any:
    """Infer booleans in the shape of the first argument."""
    info = tensor(call, 0)
    return result(sizes_of(info), "bool", info.ndim, info)


def unary(
    name: str,
    evaluate: Callable[..., Any],
    compute: Compute,
    meaning: str,
    infer: Callable[[Call], Any] = infer_same,
    *,
    argument: str = "x",
    schema: Schema | None = None,
    gradient: Callable[..., Any] | Gradient | None = None,
    precision: Precision = Precision.NEVER,
) -> OpFunction:
    """Declare an operator of one tensor, ``y = f(x, *attributes)``.

    ``evaluate(x, *attributes)`` is its meaning in numpy; ``gradient(g, x, y, *attributes)`` gives
    the gradient of ``x`` from the gradient ``g`` of ``y``.
    """

    def backward(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
        assert gradient is not None
        return [gradient(output_grad, *orig_call.args, orig_var, *_values(orig_call.attrs))]

    return define(
        name,
        argument,
        infer,
        description=f"{meaning}, elementwise.",
        schema=schema,
        compute=compute,
        evaluate=lambda attrs, x: evaluate(x, *_values(attrs)),
        gradient=gradient if gradient in (None, no_gradient) else backward,
        precision=precision,
        layout=Layout.ELEMENTWISE,
    )


def _values(attrs: Any) -> list[Any]:
    return [] if attrs is None else [attrs[name] for name in attrs]


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
    """Infer the broadcast shape and the dtype of both operands."""
    return _infer_binary(call, None)


def infer_comparison(call: Call) -> Any:
    """Infer booleans in the broadcast shape."""
    return _infer_binary(call, "bool")


def binary(
    name: str,
    evaluate: Callable[[Any, Any], Any],
    compute: Compute,
    meaning: str,
    infer: Callable[[Call], Any] = infer_arithmetic,
    *,
    gradient: Callable[..., Any] | Gradient | None = None,
    precision: Precision = Precision.NEVER,
) -> OpFunction:
    """Declare an operator of two tensors that broadcast, ``y = f(x1, x2)``.

    ``gradient(g, x1, x2, y)`` gives the gradients of both operands in the shape of ``y``.
    """

    def backward(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
        assert gradient is not None
        found = gradient(output_grad, *orig_call.args, orig_var)
        return [collapsed(grad, x) for grad, x in zip(found, orig_call.args)]

    return define(
        name,
        "x1:number x2:number",
        infer,
        description=f"{meaning}, elementwise with broadcasting.",
        compute=compute,
        evaluate=lambda attrs, x1, x2: evaluate(x1, x2),
        gradient=gradient if gradient in (None, no_gradient) else backward,
        precision=precision,
        layout=Layout.ELEMENTWISE,
    )


def comparison(
    name: str, evaluate: Callable[[Any, Any], Any], compute: Compute, meaning: str
) -> OpFunction:
    """Declare an operator of two tensors that gives booleans."""
    return binary(name, evaluate, compute, meaning, infer_comparison, gradient=no_gradient)


# Conversion and choice: the gradients below need them


def _infer_astype(call: Call) -> Any:
    info = tensor(call, 0)
    return TensorStructInfo(info.shape, call.attrs.dtype, info.vdevice, info.ndim)


def _infer_reinterpret(call: Call) -> Any:
    found = _infer_astype(call)
    source = tensor(call, 0).dtype
    if not source.is_void and source.bits != found.dtype.bits:
        raise TypeMismatchError(
            f"reinterpret: {source} and {found.dtype} are not of one size",
            notes=("astype converts values",),
        )
    return found


def _astype(x: Any, dtype: Any) -> Any:
    return x.astype(dtype.numpy())


def _astype_gradient(g: Any, x: Any, y: Any, dtype: Any) -> Any:
    source = known_struct_info(x).dtype
    return astype(g, source) if source.is_float else None


astype = unary(
    "astype",
    _astype,
    "topi.cast",
    "``x`` converted to a dtype (floats become integers by truncation)",
    _infer_astype,
    schema=Schema(dtype=dtype_attribute(REQUIRED)),
    gradient=_astype_gradient,
    precision=Precision.ANY,
)
reinterpret = unary(
    "reinterpret",
    lambda x, dtype: numpy.ascontiguousarray(x).view(dtype.numpy()).reshape(x.shape),
    "topi.reinterpret",
    "The bits of ``x``, read as another dtype of the same size",
    _infer_reinterpret,
    schema=Schema(dtype=dtype_attribute(REQUIRED)),
)
wrap_param = unary(
    "wrap_param",
    _astype,
    "topi.cast",
    "A parameter of the model converted to a dtype",
    _infer_astype,
    argument="data",
    schema=Schema(dtype=dtype_attribute("float32")),
)


def _infer_where(call: Call) -> Any:
    condition, a, b = (tensor(call, index) for index in range(3))
    if not condition.dtype.is_void and not condition.dtype.is_bool:
        raise TypeMismatchError(
            f"where needs a condition of booleans, got {condition.dtype}",
            notes=("compare it first, or convert it with astype",),
        )
    out = check_dtypes(call, (a, b))
    infos = (condition, a, b)
    ndim = -1 if -1 in [info.ndim for info in infos] else max([info.ndim for info in infos])
    shapes = [sizes_of(info) for info in infos]
    if any(shape is None for shape in shapes):
        return result(None, out, ndim)
    both = broadcast_sizes(call, shapes[1], shapes[2])
    sizes = None if both is None else broadcast_sizes(call, shapes[0], both)
    return result(sizes, out, ndim)


def _where_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    condition, a, b = orig_call.args
    to_a, to_b = where(condition, output_grad, 0), where(condition, 0, output_grad)
    return [None, collapsed(to_a, a), collapsed(to_b, b)]


_where = define(
    "where",
    "condition x1:number x2:number",
    _infer_where,
    compute="topi.where",
    evaluate=lambda attrs, condition, a, b: numpy.where(condition, a, b),
    gradient=_where_gradient,
    precision=_FOLLOW,
    layout=Layout.ELEMENTWISE,
)


@function_of(_where)
def where(condition: Any, x1: Any, x2: Any) -> Call:
    """Return ``x1`` where the condition holds, else ``x2``, elementwise with broadcasting."""
    return call(_where.op, condition, operand(x1, x2), operand(x2, x1))


@function("masked_fill")
def masked_fill(x: Any, mask: Any, value: Any) -> Call:
    """Return ``value`` where the mask holds, else ``x``."""
    return where(mask, operand(value, x), x)


# One operand


def _erf(x: Any) -> Any:
    flat = [math.erf(value) for value in numpy.asarray(x, "float64").ravel()]
    return numpy.asarray(flat).reshape(numpy.shape(x))


abs = unary(
    "abs", numpy.abs, "topi.abs", "|x|",
    gradient=lambda g, x, y: where(x < 0, -g, g), precision=_FOLLOW,
)  # fmt: skip
acos = unary("acos", numpy.arccos, "topi.acos", "arc cosine", infer_float)
acosh = unary("acosh", numpy.arccosh, "topi.acosh", "inverse hyperbolic cosine", infer_float)
asin = unary("asin", numpy.arcsin, "topi.asin", "arc sine", infer_float)
asinh = unary("asinh", numpy.arcsinh, "topi.asinh", "inverse hyperbolic sine", infer_float)
atan = unary("atan", numpy.arctan, "topi.atan", "arc tangent", infer_float)
atanh = unary("atanh", numpy.arctanh, "topi.atanh", "inverse hyperbolic tangent", infer_float)
bitwise_not = unary("bitwise_not", numpy.invert, "topi.bitwise_not", "~x")
ceil = unary("ceil", numpy.ceil, "topi.ceil", "the least integer not below x", gradient=no_gradient)
cos = unary(
    "cos", numpy.cos, "topi.cos", "cosine", infer_float, gradient=lambda g, x, y: -g * sin(x)
)
cosh = unary("cosh", numpy.cosh, "topi.cosh", "hyperbolic cosine", infer_float)
erf = unary(
    "erf", _erf, "topi.erf", "the error function", infer_float,
    gradient=lambda g, x, y: g * exp(-(x * x)) * (2 / math.sqrt(math.pi)),
)  # fmt: skip
exp = unary(
    "exp", numpy.exp, "topi.exp", "e to the power x", infer_float, gradient=lambda g, x, y: g * y
)
floor = unary(
    "floor", numpy.floor, "topi.floor", "the greatest integer not above x", gradient=no_gradient
)
log = unary(
    "log", numpy.log, "topi.log", "natural logarithm", infer_float, gradient=lambda g, x, y: g / x
)
logical_not = unary(
    "logical_not", numpy.logical_not, "topi.logical_not", "not x", gradient=no_gradient
)
negative = unary(
    "negative", numpy.negative, "topi.negative", "-x",
    gradient=lambda g, x, y: -g, precision=_FOLLOW,
)  # fmt: skip
round = unary(
    "round", numpy.round, "topi.round", "the nearest integer, halves to even",
    gradient=no_gradient,
)  # fmt: skip
rsqrt = unary(
    "rsqrt", lambda x: 1 / numpy.sqrt(x), "topi.rsqrt", "1 / sqrt(x)", infer_float,
    gradient=lambda g, x, y: g * -0.5 * (y / x),
)  # fmt: skip
sigmoid = unary(
    "sigmoid", lambda x: 1 / (1 + numpy.exp(-x)), "topi.sigmoid", "1 / (1 + exp(-x))", infer_float,
    gradient=lambda g, x, y: g * y * (1 - y),
)  # fmt: skip
sign = unary("sign", numpy.sign, "topi.sign", "-1, 0 or 1 by the sign of x", gradient=no_gradient)
sin = unary("sin", numpy.sin, "topi.sin", "sine", infer_float, gradient=lambda g, x, y: g * cos(x))
sinh = unary("sinh", numpy.sinh, "topi.sinh", "hyperbolic sine", infer_float)
sqrt = unary(
    "sqrt", numpy.sqrt, "topi.sqrt", "square root", infer_float,
    gradient=lambda g, x, y: g * 0.5 / y,
)  # fmt: skip
square = unary(
    "square",
    lambda x: x * x,
    lambda attrs, x: topi.multiply(x, x),
    "x * x",
    gradient=lambda g, x, y: g * x * 2,
)
tan = unary(
    "tan", numpy.tan, "topi.tan", "tangent", infer_float, gradient=lambda g, x, y: g * (y * y + 1)
)
tanh = unary(
    "tanh", numpy.tanh, "topi.tanh", "hyperbolic tangent", infer_float,
    gradient=lambda g, x, y: g * (1 - y * y),
)  # fmt: skip
trunc = unary("trunc", numpy.trunc, "topi.trunc", "x rounded toward zero", gradient=no_gradient)
isfinite = unary("isfinite", numpy.isfinite, "topi.isfinite", "x is finite", infer_predicate)
isinf = unary("isinf", numpy.isinf, "topi.isinf", "x is infinite", infer_predicate)
isnan = unary("isnan", numpy.isnan, "topi.isnan", "x is not a number", infer_predicate)

clip = unary(
    "clip",
    numpy.clip,
    lambda attrs, x: topi.clip(x, attrs.min, attrs.max),
    "``x`` limited to the range from ``min`` to ``max``",
    schema=Schema(min=scalar(), max=scalar()),
    gradient=lambda g, x, y, min, max: where(logical_and(x >= min, x <= max), g, 0),
    precision=_FOLLOW,
)


# Two operands


def _by_divisors(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a division that raises DivisionByZeroError where integers are divided by zero, as
    compiled code does.
    """

    def evaluate(a: Any, b: Any) -> Any:
        divisors = numpy.asarray(b)
        if divisors.dtype.kind in "iu" and numpy.size(a) and not divisors.all():
            raise DivisionByZeroError("integer division by zero")
        return compute(a, b)

    return evaluate


def _divide(a: Any, b: Any) -> Any:
    if numpy.issubdtype(numpy.asarray(a).dtype, numpy.integer):
        quotient, rest = numpy.floor_divide(a, b), numpy.mod(a, b)
        return quotient + ((rest != 0) & (numpy.less(a, 0) != numpy.less(b, 0)))
    return numpy.divide(a, b)


def _choice(g: Any, is_first: Any) -> list[Any]:
    """Return the gradients of a choice: the chosen operand takes all."""
    return [where(is_first, g, 0), where(is_first, 0, g)]


add = binary(
    "add", numpy.add, "topi.add", "x1 + x2", gradient=lambda g, a, b, y: [g, g], precision=_FOLLOW
)
subtract = binary(
    "subtract", numpy.subtract, "topi.subtract", "x1 - x2",
    gradient=lambda g, a, b, y: [g, -g], precision=_FOLLOW,
)  # fmt: skip
multiply = binary(
    "multiply", numpy.multiply, "topi.multiply", "x1 * x2",
    gradient=lambda g, a, b, y: [g * b, g * a], precision=_FOLLOW,
)  # fmt: skip
divide = binary(
    "divide", _by_divisors(_divide), "topi.divide", "x1 / x2 (integers round toward zero)",
    gradient=lambda g, a, b, y: [g / b, -(g * y / b)],
)  # fmt: skip
floor_divide = binary(
    "floor_divide", _by_divisors(numpy.floor_divide), "topi.floor_divide", "x1 / x2 rounded down",
    gradient=no_gradient,
)  # fmt: skip
mod = binary("mod", _by_divisors(numpy.fmod), "topi.mod", "remainder with the sign of x1")
floor_mod = binary(
    "floor_mod", _by_divisors(numpy.mod), "topi.floor_mod", "remainder with the sign of x2"
)
power = binary(
    "power", numpy.power, "topi.power", "x1 to the power x2",
    gradient=lambda g, a, b, y: [g * (b * power(a, b - 1)), g * (log(a) * y)],
)  # fmt: skip
maximum = binary(
    "maximum", numpy.maximum, "topi.maximum", "the larger one",
    gradient=lambda g, a, b, y: _choice(g, greater_equal(a, b)), precision=_FOLLOW,
)  # fmt: skip
minimum = binary(
    "minimum", numpy.minimum, "topi.minimum", "the smaller one",
    gradient=lambda g, a, b, y: _choice(g, less_equal(a, b)), precision=_FOLLOW,
)  # fmt: skip
logical_and = binary(
    "logical_and", numpy.logical_and, "topi.logical_and", "x1 and x2", gradient=no_gradient
)
logical_or = binary(
    "logical_or", numpy.logical_or, "topi.logical_or", "x1 or x2", gradient=no_gradient
)
logical_xor = binary(
    "logical_xor", numpy.logical_xor, "topi.logical_xor", "x1 or x2, not both",
    gradient=no_gradient,
)  # fmt: skip
bitwise_and = binary("bitwise_and", numpy.bitwise_and, "topi.bitwise_and", "x1 & x2")
bitwise_or = binary("bitwise_or", numpy.bitwise_or, "topi.bitwise_or", "x1 | x2")
bitwise_xor = binary("bitwise_xor", numpy.bitwise_xor, "topi.bitwise_xor", "x1 ^ x2")
left_shift = binary("left_shift", numpy.left_shift, "topi.left_shift", "x1 << x2")
right_shift = binary("right_shift", numpy.right_shift, "topi.right_shift", "x1 >> x2")
equal = comparison("equal", numpy.equal, "topi.equal", "x1 == x2")
not_equal = comparison("not_equal", numpy.not_equal, "topi.not_equal", "x1 != x2")
greater = comparison("greater", numpy.greater, "topi.greater", "x1 > x2")
greater_equal = comparison("greater_equal", numpy.greater_equal, "topi.greater_equal", "x1 >= x2")
less = comparison("less", numpy.less, "topi.less", "x1 < x2")
less_equal = comparison("less_equal", numpy.less_equal, "topi.less_equal", "x1 <= x2")


# Three operands


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


ewise_fma = define(
    "ewise_fma",
    "x1 x2 x3",
    _infer_fma,
    description="``x1 * x2 + x3``, elementwise.",
    compute=lambda attrs, a, b, c: topi.add(topi.multiply(a, b), c),
    evaluate=lambda attrs, a, b, c: a * b + c,
    layout=Layout.ELEMENTWISE,
)
