"""Activations and softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, integer, number
from tilesmith.relax.expr import Call
from tilesmith.relax.op.agreement import vectors_along
from tilesmith.relax.op.common import check_axis, check_float, check_ndim, tensor
from tilesmith.relax.op.declaration import define, function
from tilesmith.relax.op.elementwise import erf, exp, infer_float, sigmoid, tanh, unary, where
from tilesmith.relax.op.statistical import sum
from tilesmith.relax.spec import Precision, topi

_erf = numpy.vectorize(math.erf, otypes=["float64"])


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)).astype(x.dtype))


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _gelu_gradient(g: Any, x: Any, y: Any) -> Any:
    """Return Φ(x) + x φ(x)."""
    distribution = (erf(x * math.sqrt(0.5)) + 1) * 0.5
    density = exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * (distribution + x * density)


def _gelu_tanh_gradient(g: Any, x: Any, y: Any) -> Any:
    """Return the derivative of x (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3), times g."""
    factor = math.sqrt(2 / math.pi)
    curve = tanh(factor * (x + 0.044715 * x * x * x))
    slope = factor * (1 + 3 * 0.044715 * x * x)
    return g * (0.5 * (1 + curve) + 0.5 * x * (1 - curve * curve) * slope)


relu = unary(
    "nn.relu", lambda x: numpy.maximum(x, 0), "topi.nn.relu", "max(x, 0)",
    argument="data",
    gradient=lambda g, x, y: where(x < 0, 0, g), precision=Precision.FOLLOW,
)  # fmt: skip
function("relu")(relu)
gelu = unary(
    "nn.gelu", _gelu, "topi.nn.gelu", "x times the normal distribution at x", infer_float,
    argument="data", gradient=_gelu_gradient,
)  # fmt: skip
gelu_tanh = unary(
    "nn.gelu_tanh",
    _gelu_tanh,
    lambda attrs, x: topi.nn.gelu(x, True),
    "gelu approximated with tanh",
    infer_float,
    argument="data",
    gradient=_gelu_tanh_gradient,
)
silu = unary(
    "nn.silu", lambda x: x / (1 + numpy.exp(-x)), "topi.nn.silu", "x * sigmoid(x)", infer_float,
    argument="data", gradient=lambda g, x, y: g * (sigmoid(x) + y * (1 - sigmoid(x))),
)  # fmt: skip
leakyrelu = unary(
    "nn.leakyrelu",
    lambda x, alpha: numpy.where(x > 0, x, x * x.dtype.type(alpha)),
    "topi.nn.leaky_relu",
    "``data`` where positive, else ``alpha * data``",
    argument="data",
    schema=Schema(alpha=number(0.01)),
    gradient=lambda g, x, y, alpha: where(x > 0, g, g * alpha),
    precision=Precision.FOLLOW,
)


def _infer_prelu(call: Call) -> Any:
    data, alpha = tensor(call, 0), tensor(call, 1)
    check_ndim(call, 1, alpha, 1)
    check_axis(call, call.attrs.axis, data.ndim)
    return data


def _prelu(attrs: Any, data: Any, alpha: Any) -> Any:
    shape = [1] * data.ndim
    shape[attrs.axis] = -1
    return numpy.where(data > 0, data, data * alpha.reshape(shape))


prelu = define(
    "nn.prelu",
    "data alpha",
    _infer_prelu,
    description="``data`` where positive, else times ``alpha``, a vector along ``axis``.",
    schema=Schema(axis=integer(1)),
    agreeing=vectors_along(lambda attrs: [attrs.axis]),
    compute="topi.nn.prelu",
    evaluate=_prelu,
)


# Softmax


def _infer_softmax(call: Call) -> Any:
    info = tensor(call, 0)
    check_float(call, 0, info)
    check_axis(call, call.attrs.axis, info.ndim)
    return info


def _softmax(attrs: Any, x: Any) -> Any:
    exponentials = numpy.exp(x - x.max(axis=attrs.axis, keepdims=True))
    return exponentials / exponentials.sum(axis=attrs.axis, keepdims=True)


def _log_softmax(attrs: Any, x: Any) -> Any:
    shifted = x - x.max(axis=attrs.axis, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=attrs.axis, keepdims=True))


def _softmax_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return (g - Σ g y) y."""
    total = sum(output_grad * orig_var, orig_call.attrs.axis, True)
    return [(output_grad - total) * orig_var]


def _log_softmax_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Return g - softmax Σ g."""
    total = sum(output_grad, orig_call.attrs.axis, True)
    return [output_grad - total * exp(orig_var)]


softmax = define(
    "nn.softmax",
    "data",
    _infer_softmax,
    description="``exp(data)`` divided by its sum along ``axis``.",
    schema=Schema(axis=integer(-1)),
    compute="topi.nn.softmax",
    evaluate=_softmax,
    gradient=_softmax_gradient,
)
log_softmax = define(
    "nn.log_softmax",
    "data",
    _infer_softmax,
    description="The logarithm of ``softmax``.",
    schema=Schema(axis=integer(-1)),
    compute="topi.nn.log_softmax",
    evaluate=_log_softmax,
    gradient=_log_softmax_gradient,
)
