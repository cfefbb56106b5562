"""Operators on single elements, and reductions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.activations import ACTIVATIONS, elu
from tilesmith.relay.frontend.tensorflow.registry import Operands, operator
from tilesmith.relay.frontend.tf_operators import reduced, round_to_even, where_with_rank
from tilesmith.relay.op.tensor import constant_like, dtype_of
from tilesmith.relay.op.view import rank_of, sizes

__all__: list[str] = []


def _log1p(x: Any) -> Any:
    return op.log(x + constant_like(1, x))


_ONE: dict[str, Callable[[Any], Any]] = {
    "Abs": op.abs, "Acos": op.acos, "Acosh": op.acosh, "Asin": op.asin, "Asinh": op.asinh,
    "Atan": op.atan, "Atanh": op.atanh, "Ceil": op.ceil, "CheckNumerics": lambda x: x,
    "Cos": op.cos, "Cosh": op.cosh, "Elu": elu, "EnsureShape": lambda x: x, "Erf": op.erf,
    "Erfc": lambda x: constant_like(1, x) - op.erf(x),
    "Exp": op.exp, "Expm1": lambda x: op.exp(x) - constant_like(1, x), "Floor": op.floor,
    "Identity": lambda x: x, "Inv": lambda x: constant_like(1, x) / x, "Invert": op.bitwise_not,
    "IsFinite": op.isfinite, "IsInf": op.isinf, "IsNan": op.isnan, "Log": op.log, "Log1p": _log1p,
    "LogicalNot": op.logical_not, "Neg": op.negative, "OnesLike": op.ones_like,
    "PlaceholderWithDefault": lambda x: x, "PreventGradient": lambda x: x,
    "Reciprocal": lambda x: constant_like(1, x) / x, "Relu": op.nn.relu,
    "Relu6": ACTIVATIONS["relu6"], "Rint": round_to_even, "Round": round_to_even,
    "Rsqrt": op.rsqrt, "Selu": ACTIVATIONS["selu"], "Sigmoid": op.sigmoid, "Sign": op.sign,
    "Sin": op.sin, "Sinh": op.sinh, "Snapshot": lambda x: x,
    "Softplus": ACTIVATIONS["softplus"], "Softsign": ACTIVATIONS["softsign"], "Sqrt": op.sqrt,
    "Square": lambda x: x * x, "StopGradient": lambda x: x, "Tan": op.tan, "Tanh": op.tanh,
    "ZerosLike": op.zeros_like, "Softmax": lambda x: op.nn.softmax(x, -1),
    "LogSoftmax": lambda x: op.nn.log_softmax(x, -1),
}  # fmt: skip


def _one_of(function: Callable[[Any], Any]) -> Callable[[Operands], Any]:
    return lambda one: function(one.exprs[0])


for _name, _function in _ONE.items():
    operator(_name)(_one_of(_function))


@operator("IdentityN")
def _identity_n(one: Operands) -> Any:
    return list(one.exprs)


@operator("Cast")
def _cast(one: Operands) -> Any:
    return op.cast(one.exprs[0], one.node.get("DstT"))


@operator("LeakyRelu")
def _leaky_relu(one: Operands) -> Any:
    return op.nn.leaky_relu(one.exprs[0], float(one.node.get("alpha", 0.2)))


@operator("ClipByValue")
def _clip_by_value(one: Operands) -> Any:
    x, low, high = one.exprs
    return op.minimum(op.maximum(x, low), high)


@operator("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxArgs")
def _fake_quant(one: Operands) -> Any:
    """Round to the numbers that integers of some bits can stand for."""
    x, node = one.exprs[0], one.node
    if len(one.exprs) > 1:
        low, high = (float(one.value(place, "a bound").reshape(())) for place in (1, 2))
    else:
        low, high = float(node.get("min", -6.0)), float(node.get("max", 6.0))
    least = 1 if node.get("narrow_range", False) else 0
    most = (1 << int(node.get("num_bits", 8))) - 1
    step = (high - low) / (most - least)
    zero = min(max(round(least - low / step), least), most)
    start, end = (least - zero) * step, (most - zero) * step
    clipped = op.clip(x, start, end) - const(start, "float32")
    steps = op.floor(clipped / const(step, "float32") + const(0.5, "float32"))
    return steps * const(step, "float32") + const(start, "float32")


# Two operands


def _divide(a: Any, b: Any) -> Any:
    return a / b if dtype_of(a).is_float else op.trunc_divide(a, b)


def _floor_divide(a: Any, b: Any) -> Any:
    return op.floor(a / b) if dtype_of(a).is_float else op.floor_divide(a, b)


def _divide_no_nan(a: Any, b: Any) -> Any:
    is_zero = op.equal(b, op.zeros_like(b))
    quotient = a / op.where(is_zero, op.ones_like(b), b)
    return op.where(op.equal(b + op.zeros_like(a), op.zeros_like(quotient)),
                    op.zeros_like(quotient), quotient)  # fmt: skip


_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "Add": op.add, "AddV2": op.add, "BitwiseAnd": op.bitwise_and, "BitwiseOr": op.bitwise_or,
    "BitwiseXor": op.bitwise_xor, "Div": _divide, "DivNoNan": _divide_no_nan, "Equal": op.equal,
    "FloorDiv": _floor_divide, "FloorMod": op.floor_mod, "Greater": op.greater,
    "GreaterEqual": op.greater_equal, "LeftShift": op.left_shift, "Less": op.less,
    "LessEqual": op.less_equal, "LogicalAnd": op.logical_and, "LogicalOr": op.logical_or,
    "Maximum": op.maximum, "Minimum": op.minimum, "Mod": op.trunc_mod, "Mul": op.multiply,
    "NotEqual": op.not_equal, "Pow": op.power, "RealDiv": op.divide, "RightShift": op.right_shift,
    "SquaredDifference": lambda a, b: (a - b) * (a - b), "Sub": op.subtract,
    "TruncateDiv": _divide, "TruncateMod": op.trunc_mod,
}  # fmt: skip


def _two_of(function: Callable[[Any, Any], Any]) -> Callable[[Operands], Any]:
    return lambda one: function(one.exprs[0], one.exprs[1])


for _name, _both in _TWO.items():
    operator(_name)(_two_of(_both))


@operator("AddN")
def _add_n(one: Operands) -> Any:
    return functools.reduce(op.add, one.exprs)


@operator("BiasAdd", "BiasAddV1")
def _bias_add(one: Operands) -> Any:
    first = one.node.get("data_format", "NHWC").startswith("NC")
    return op.nn.bias_add(one.exprs[0], one.exprs[1], 1 if first else -1)


@operator("Select", "SelectV2")
def _select(one: Operands) -> Any:
    condition, x, y = one.exprs
    return where_with_rank(condition, x, y) if one.node.op == "Select" else op.where(*one.exprs)


# Reductions


def _reduction_of(kind: str) -> Callable[[Operands], Any]:
    def convert(one: Operands) -> Any:
        return reduced(
            kind, one.exprs[0], one.ints(1, "the axes"), one.node.get("keep_dims", False)
        )

    return convert


for _name in ("All", "Any", "Max", "Mean", "Min", "Prod", "Sum"):
    operator(_name)(_reduction_of(_name.lower()))


@operator("EuclideanNorm")
def _euclidean_norm(one: Operands) -> Any:
    x = one.exprs[0]
    axes = one.ints(1, "the axes")
    return op.sqrt(reduced("sum", x * x, axes, one.node.get("keep_dims", False)))


@operator("L2Loss")
def _l2_loss(one: Operands) -> Any:
    x = one.exprs[0]
    return op.sum(x * x) * constant_like(0.5, x)


def _place_of(function: Callable[..., Any]) -> Callable[[Operands], Any]:
    def convert(one: Operands) -> Any:
        found = function(one.exprs[0], one.ints(1, "the axis")[0])
        return op.cast(found, one.node.get("output_type", "int64"))

    return convert


operator("ArgMax")(_place_of(op.argmax))
operator("ArgMin")(_place_of(op.argmin))


def _running_of(function: Callable[..., Any]) -> Callable[[Operands], Any]:
    def convert(one: Operands) -> Any:
        x, axis = one.exprs[0], one.ints(1, "the axis")[0] % rank_of(one.exprs[0])
        backwards = one.node.get("reverse", False)
        x = op.reverse(x, axis) if backwards else x
        found = function(x, axis, exclusive=bool(one.node.get("exclusive", False)))
        return op.reverse(found, axis) if backwards else found

    return convert


operator("Cumsum")(_running_of(op.cumsum))
operator("Cumprod")(_running_of(op.cumprod))


@operator("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag(one: Operands) -> Any:
    x = one.exprs[0]
    eye = numpy.eye(int(sizes(x)[-1]), dtype=dtype_of(x).numpy())
    return op.expand_dims(x, rank_of(x)) * const(eye)
