"""Arithmetic, comparison, logic, bits and activations, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilesmith import te, tir
from tilesmith.relax import op
from tilesmith.relax.expr import ShapeExpr
from tilesmith.relax.frontend.torch.node import (
    AtenNode,
    cast,
    dtype_of,
    number,
    rank_of,
    scalar,
    shape_of,
)
from tilesmith.relax.frontend.torch.registry import add_converter, converter
from tilesmith.runtime.dtype import DataType

# One operand

_FLOAT_UNARY: dict[str, Callable[[Any], Any]] = {
    "acos": op.acos,
    "acosh": op.acosh,
    "asin": op.asin,
    "asinh": op.asinh,
    "atan": op.atan,
    "atanh": op.atanh,
    "cos": op.cos,
    "cosh": op.cosh,
    "erf": op.erf,
    "exp": op.exp,
    "log": op.log,
    "rsqrt": op.rsqrt,
    "sigmoid": op.sigmoid,
    "sin": op.sin,
    "sinh": op.sinh,
    "sqrt": op.sqrt,
    "tan": op.tan,
    "tanh": op.tanh,
}
"""Integers become floats first."""
_UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": op.abs,
    "neg": op.negative,
    "relu": op.nn.relu,
    "silu": op.nn.silu,
}
_ROUNDING: dict[str, Callable[[Any], Any]] = {
    "ceil": op.ceil,
    "floor": op.floor,
    "trunc": op.trunc,
}
"""Integers stay as they are."""


def _unary(function: Callable[[Any], Any]) -> Callable[[AtenNode], Any]:
    return lambda node: function(node.tensor("self", node.dtype))


def _rounding(function: Callable[[Any], Any]) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        x = node.tensor("self")
        return function(x) if dtype_of(x).is_float else x

    return convert


for _name, _function in {**_FLOAT_UNARY, **_UNARY}.items():
    add_converter(_name, _unary(_function))
for _name, _function in _ROUNDING.items():
    add_converter(_name, _rounding(_function))
add_converter("fix", _rounding(op.trunc))


def by_kernel(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function of graph tensors of one shape that computes with a scalar function."""

    def call(node: AtenNode, *tensors: Any) -> Any:
        def kernel(*given: Any) -> Any:
            return te.compute(
                given[0].shape, lambda *i: function(*[tensor(*i) for tensor in given]), name=name
            )

        return node.call_te(kernel, *tensors, primfunc_name_hint=name)

    return call


_log1p = by_kernel(tir.log1p, "log1p")
_atan2 = by_kernel(tir.atan2, "atan2")


@converter("log1p")
def log1p(node: AtenNode) -> Any:
    """Convert log(1 + x), exact near 0."""
    return _log1p(node, node.tensor("self", node.dtype))


@converter("expm1")
def _expm1(node: AtenNode) -> Any:
    """exp(x) - 1 as tanh(x/2) * (exp(x) + 1), which keeps the digits of a small x."""
    x = node.emit(node.tensor("self", node.dtype))
    exp = node.emit(op.exp(x))
    small = op.multiply(op.tanh(op.multiply(x, number(0.5, node.dtype))), op.add(exp, _one(node)))
    near = op.less(op.abs(x), number(0.5, node.dtype))
    return op.where(near, small, op.subtract(exp, _one(node)))


def _one(node: AtenNode) -> Any:
    return number(1, node.dtype)


@converter("log2")
def _log2(node: AtenNode) -> Any:
    x = op.log(node.tensor("self", node.dtype))
    return op.multiply(x, number(1 / math.log(2), node.dtype))


@converter("log10")
def _log10(node: AtenNode) -> Any:
    x = op.log(node.tensor("self", node.dtype))
    return op.multiply(x, number(1 / math.log(10), node.dtype))


@converter("round")
def _round(node: AtenNode) -> Any:
    x = node.tensor("self")
    if not dtype_of(x).is_float:
        return x
    decimals = int(node.get("decimals", 0))
    if not decimals:
        return op.round(x)
    power = number(10.0 ** abs(decimals), node.dtype)
    if decimals > 0:
        return op.divide(op.round(op.multiply(x, power)), power)
    return op.multiply(op.round(op.divide(x, power)), power)


@converter("reciprocal")
def _reciprocal(node: AtenNode) -> Any:
    return op.divide(_one(node), node.tensor("self", node.dtype))


@converter("square")
def _square(node: AtenNode) -> Any:
    x = node.emit(node.tensor("self", node.dtype))
    return op.multiply(x, x)


@converter("sign", "sgn")
def _sign(node: AtenNode) -> Any:
    """Zero for what is not a number."""
    x = node.tensor("self")
    dtype = dtype_of(x)
    if dtype.is_bool:
        return x
    x = node.emit(x)
    zero = number(0, dtype)
    return op.subtract(op.astype(op.greater(x, zero), dtype), op.astype(op.less(x, zero), dtype))


@converter("signbit")
def _signbit(node: AtenNode) -> Any:
    x = node.tensor("self")
    if not dtype_of(x).is_float:
        return op.less(cast(x, "int64"), number(0, "int64"))
    one = op.ones_like(x)
    copied = by_kernel(tir.copysign, "copysign")(node, one, x)
    return op.less(copied, number(0, dtype_of(x)))


@converter("bitwise_not")
def _bitwise_not(node: AtenNode) -> Any:
    x = node.tensor("self")
    return op.logical_not(x) if dtype_of(x).is_bool else op.bitwise_not(x)


@converter("logical_not")
def _logical_not(node: AtenNode) -> Any:
    return op.logical_not(node.tensor("self", "bool"))


def _float_test(function: Callable[[Any], Any], otherwise: bool) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        x = node.tensor("self")
        if dtype_of(x).is_float:
            return function(x)
        return op.full_like(x, number(otherwise, "bool"), "bool")

    return convert


add_converter("isnan", _float_test(op.isnan, False))
add_converter("isinf", _float_test(op.isinf, False))
add_converter("isfinite", _float_test(op.isfinite, True))


def _copy(node: AtenNode) -> Any:
    return node.tensor("self")


for _name in ("alias", "clone", "contiguous", "detach", "lift_fresh_copy", "lift_fresh"):
    add_converter(_name, _copy)


@converter("_to_copy", "to", "type_as", "_conj", "conj", "resolve_conj", "resolve_neg", "positive")
def _to_copy(node: AtenNode) -> Any:
    return cast(node.tensor("self"), node.dtype)


# Two operands


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        a, b = node.tensor("self", node.dtype), node.tensor("other", node.dtype)
        if not DataType(node.dtype).is_bool:
            return function(a, b)
        wide = function(op.astype(a, "int32"), op.astype(b, "int32"))
        return op.not_equal(wide, number(0, "int32"))

    return convert


for _name, _combine in {
    "mul": op.multiply, "maximum": op.maximum, "minimum": op.minimum,
}.items():  # fmt: skip
    add_converter(_name, _binary(_combine))


def _scaled(node: AtenNode, function: Callable[[Any, Any], Any], first: str, second: str) -> Any:
    a, b = node.tensor(first, node.dtype), node.tensor(second, node.dtype)
    alpha = node.get("alpha", 1)
    if DataType(node.dtype).is_bool:
        return op.logical_or(a, b) if alpha else a
    if alpha != 1:
        b = op.multiply(b, node.as_tensor(alpha, node.dtype))
    return function(a, b)


@converter("add")
def _add(node: AtenNode) -> Any:
    return _scaled(node, op.add, "self", "other")


@converter("sub")
def _sub(node: AtenNode) -> Any:
    return _scaled(node, op.subtract, "self", "other")


@converter("rsub")
def _rsub(node: AtenNode) -> Any:
    return _scaled(node, op.subtract, "other", "self")


def _comparison(function: Callable[[Any, Any], Any]) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        dtype = node.promoted("self", "other")
        a, b = node.tensor("self", dtype), node.tensor("other", dtype)
        if dtype == "bool":
            a, b = op.astype(a, "int32"), op.astype(b, "int32")
        return function(a, b)

    return convert


for _name, _combine in {
    "eq": op.equal, "ne": op.not_equal, "lt": op.less, "le": op.less_equal, "gt": op.greater,
    "ge": op.greater_equal,
}.items():  # fmt: skip
    add_converter(_name, _comparison(_combine))


def _logical(function: Callable[[Any, Any], Any]) -> Callable[[AtenNode], Any]:
    return lambda node: function(node.tensor("self", "bool"), node.tensor("other", "bool"))


for _name in ("and", "or", "xor"):
    add_converter(f"logical_{_name}", _logical(getattr(op, f"logical_{_name}")))


def _bitwise(name: str) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        a, b = node.tensor("self", node.dtype), node.tensor("other", node.dtype)
        kind = "logical" if node.dtype == "bool" else "bitwise"
        return getattr(op, f"{kind}_{name}")(a, b)

    return convert


for _name in ("and", "or", "xor"):
    add_converter(f"bitwise_{_name}", _bitwise(_name))


def _shift(function: Callable[[Any, Any], Any]) -> Callable[[AtenNode], Any]:
    return lambda node: function(node.tensor("self", node.dtype), node.tensor("other", node.dtype))


for _name, _combine in {"left": op.left_shift, "right": op.right_shift}.items():
    add_converter(f"bitwise_{_name}_shift", _shift(_combine))
    add_converter(f"__{_name[0]}shift__", _shift(_combine))


@converter("div")
def _div(node: AtenNode) -> Any:
    mode = node.get("rounding_mode")
    dtype = node.dtype
    a, b = node.tensor("self", dtype), node.tensor("other", dtype)
    if mode == "floor":
        return _floor_division(node, a, b)
    if mode == "trunc" and DataType(dtype).is_float:
        return op.trunc(op.divide(a, b))
    return op.divide(a, b)


@converter("true_divide")
def _true_divide(node: AtenNode) -> Any:
    return op.divide(node.tensor("self", node.dtype), node.tensor("other", node.dtype))


@converter("floor_divide")
def _floor_divide(node: AtenNode) -> Any:
    return _floor_division(node, node.tensor("self", node.dtype), node.tensor("other", node.dtype))


def _floor_division(node: AtenNode, a: Any, b: Any) -> Any:
    """Divide and round down; for floats from the exact remainder, as Python does."""
    if not DataType(node.dtype).is_float:
        return op.floor_divide(a, b)
    a, b = node.emit(a), node.emit(b)
    rest = node.emit(_signed_remainder(node, a, b))
    quotient = node.emit(op.divide(op.subtract(a, rest), b))
    down = node.emit(op.floor(quotient))
    far = op.greater(op.subtract(quotient, down), number(0.5, node.dtype))
    found = op.where(far, op.add(down, _one(node)), down)
    plain = op.logical_and(op.isfinite(rest), op.not_equal(b, number(0, node.dtype)))
    return op.where(plain, found, op.where(op.isfinite(a), op.floor(op.divide(a, b)), rest))


def _signed_remainder(node: AtenNode, a: Any, b: Any) -> Any:
    """Return the remainder with the sign of the divisor, from the one with the dividend's."""
    rest = node.emit(op.mod(a, b))
    zero = number(0, dtype_of(a))
    turned = op.not_equal(
        op.astype(op.less(rest, zero), "int32"), op.astype(op.less(b, zero), "int32")
    )
    wrong = op.logical_and(op.not_equal(rest, zero), turned)
    return op.where(wrong, op.add(rest, b), rest)


@converter("remainder")
def _remainder(node: AtenNode) -> Any:
    a, b = node.tensor("self", node.dtype), node.tensor("other", node.dtype)
    if not DataType(node.dtype).is_float:
        return op.floor_mod(a, b)
    return _signed_remainder(node, node.emit(a), node.emit(b))


@converter("fmod")
def _fmod(node: AtenNode) -> Any:
    return op.mod(node.tensor("self", node.dtype), node.tensor("other", node.dtype))


@converter("atan2")
def _arc_tangent_of_two(node: AtenNode) -> Any:
    shape = ShapeExpr(node.shape)
    a, b = node.tensor("self", node.dtype), node.tensor("other", node.dtype)
    return _atan2(node, op.broadcast_to(a, shape), op.broadcast_to(b, shape))


@converter("pow")
def _pow(node: AtenNode) -> Any:
    dtype, exponent = node.dtype, node["exponent"]
    x = node.tensor("self", dtype)
    if isinstance(exponent, (int, float)):
        if exponent == 1:
            return x
        if exponent == 0:
            return op.ones_like(x)
        if exponent in (2, 3):
            x = node.emit(x)
            square = op.multiply(x, x)
            return square if exponent == 2 else op.multiply(square, x)
        if exponent == 0.5 and DataType(dtype).is_float:
            return op.sqrt(x)
    power = node.as_tensor(exponent, dtype)
    return integer_power(node, x, power) if not DataType(dtype).is_float else op.power(x, power)


def integer_power(node: AtenNode, x: Any, power: Any) -> Any:
    """Return integers to the power of integers, by squaring; 1/x rounded toward 0 if negative."""
    dtype = dtype_of(x)
    if dtype.is_bool:
        return op.logical_or(x, op.logical_not(power))
    shape = ShapeExpr(node.shape)
    x = node.emit(op.broadcast_to(x, shape) if rank_of(x) != len(node.shape) else x)
    power = node.emit(power)
    one, zero, two = number(1, dtype), number(0, dtype), number(2, dtype)
    result, base, left = one, x, op.maximum(power, zero)
    for _ in range(6):  # a larger exponent overflows unless |x| <= 1, where only its parity counts
        left = node.emit(left)
        odd = op.not_equal(op.floor_mod(left, two), zero)
        result = node.emit(op.multiply(result, op.where(odd, base, one)))
        base = node.emit(op.multiply(base, base))
        left = op.floor_divide(left, two)
    parity = op.not_equal(op.floor_mod(power, two), zero)
    minus = op.equal(x, number(-1, dtype)) if not dtype.is_uint else op.not_equal(x, x)
    unit = op.where(op.logical_and(minus, parity), number(-1, dtype), one)
    is_unit = node.emit(op.logical_or(op.equal(x, one), minus))
    negative = op.where(is_unit, unit, zero)
    return op.where(op.less(power, zero), negative, op.where(is_unit, unit, result))


# Choice and limits


@converter("where")
def _where(node: AtenNode) -> Any:
    condition = node.tensor("condition", "bool")
    return op.where(condition, node.tensor("self", node.dtype), node.tensor("other", node.dtype))


@converter("masked_fill")
def _masked_fill(node: AtenNode) -> Any:
    value = node.tensor("value", node.dtype)
    return op.where(node.tensor("mask", "bool"), value, node.tensor("self", node.dtype))


def limited(node: AtenNode, x: Any, low: Any, high: Any) -> Any:
    """Limit a tensor by numbers or tensors, either of which may be None."""
    dtype = dtype_of(x)
    plain = all(isinstance(bound, (int, float)) for bound in (low, high))
    if plain and dtype.is_float and low <= high:
        return op.clip(x, float(low), float(high))
    if low is not None:
        x = op.maximum(x, node.as_tensor(low, dtype))
    return x if high is None else op.minimum(x, node.as_tensor(high, dtype))


@converter("clamp", "clip")
def _clamp(node: AtenNode) -> Any:
    return limited(node, node.tensor("self", node.dtype), node["min"], node["max"])


@converter("clamp_min")
def _clamp_min(node: AtenNode) -> Any:
    return limited(node, node.tensor("self", node.dtype), node["min"], None)


@converter("clamp_max")
def _clamp_max(node: AtenNode) -> Any:
    return limited(node, node.tensor("self", node.dtype), None, node["max"])


# Activations


@converter("hardtanh")
def _hardtanh(node: AtenNode) -> Any:
    return limited(node, node.tensor("self"), node["min_val"], node["max_val"])


@converter("relu6")
def _relu6(node: AtenNode) -> Any:
    return op.clip(node.tensor("self"), 0.0, 6.0)


@converter("gelu")
def _gelu(node: AtenNode) -> Any:
    approximate = node.get("approximate", "none") == "tanh"
    return (op.nn.gelu_tanh if approximate else op.nn.gelu)(node.tensor("self"))


@converter("leaky_relu")
def _leaky_relu(node: AtenNode) -> Any:
    slope = float(node.get("negative_slope", 0.01))
    x = node.tensor("self")
    if 0 <= slope <= 1:
        return op.nn.leakyrelu(x, slope)
    x = node.emit(x)
    zero = number(0, node.dtype)
    return op.where(op.greater(x, zero), x, op.multiply(x, number(slope, node.dtype)))


@converter("elu")
def _elu(node: AtenNode) -> Any:
    x = node.emit(node.tensor("self"))
    dtype = node.dtype
    alpha, scale, inner = [
        number(float(node.get(name, 1)), dtype) for name in ("alpha", "scale", "input_scale")
    ]
    bent = op.subtract(op.exp(op.multiply(op.minimum(x, number(0, dtype)), inner)), _one(node))
    negative = op.multiply(bent, op.multiply(alpha, scale))
    return op.where(op.greater(x, number(0, dtype)), op.multiply(x, scale), negative)


@converter("hardsigmoid")
def _hardsigmoid(node: AtenNode) -> Any:
    return hard_sigmoid(node, node.tensor("self"))


@converter("hardswish")
def _hardswish(node: AtenNode) -> Any:
    x = node.emit(node.tensor("self"))
    return op.multiply(x, hard_sigmoid(node, x))


def hard_sigmoid(node: AtenNode, x: Any) -> Any:
    """Return relu6(x + 3) / 6."""
    return op.divide(op.clip(op.add(x, number(3, node.dtype)), 0.0, 6.0), number(6, node.dtype))


@converter("_prelu_kernel")
def _prelu(node: AtenNode) -> Any:
    x = node.emit(node.tensor("self"))
    bent = op.multiply(x, node.tensor("weight"))
    return op.where(op.greater(x, number(0, node.dtype)), x, bent)


@converter("fill")
def _fill(node: AtenNode) -> Any:
    value = node["value"]
    x = node.tensor("self")
    if isinstance(value, (int, float)):
        return op.full(ShapeExpr(shape_of(x)), number(value, node.dtype), node.dtype)
    return op.broadcast_to(node.as_tensor(value, node.dtype), ShapeExpr(shape_of(x)))


@converter("copy")
def _copy_from(node: AtenNode) -> Any:
    return op.broadcast_to(node.tensor("src", node.dtype), ShapeExpr(node.shape))


@converter("erfc")
def _erfc(node: AtenNode) -> Any:
    return op.subtract(scalar(1, node.dtype), op.erf(node.tensor("self", node.dtype)))
