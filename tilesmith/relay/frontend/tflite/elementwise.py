"""Operators on single elements, and reductions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relay import op
from tilesmith.relay.expr import const
from tilesmith.relay.frontend.activations import ACTIVATIONS, elu, gelu
from tilesmith.relay.frontend.tf_operators import (
    gather,
    lrn,
    reduced,
    round_to_even,
    where_with_rank,
)
from tilesmith.relay.frontend.tflite.registry import operator, plain
from tilesmith.relay.op.tensor import constant_like, dtype_of
from tilesmith.relay.op.view import rank_of
from tilesmith.support.errors import OpAttributeUnImplemented

__all__: list[str] = []

_ONE: dict[str, Callable[[Any], Any]] = {
    "ABS": op.abs, "CEIL": op.ceil, "COS": op.cos, "ELU": elu, "EXP": op.exp, "FLOOR": op.floor,
    "HARD_SWISH": ACTIVATIONS["hard_silu"], "LOG": op.log, "LOGICAL_NOT": op.logical_not,
    "LOGISTIC": op.sigmoid, "NEG": op.negative, "RELU": op.nn.relu,
    "RELU6": lambda x: op.clip(x, 0.0, 6.0), "RELU_0_TO_1": lambda x: op.clip(x, 0.0, 1.0),
    "RELU_N1_TO_1": lambda x: op.clip(x, -1.0, 1.0), "ROUND": round_to_even,
    "RSQRT": op.rsqrt, "SIGN": op.sign,
    "SIN": op.sin, "SQRT": op.sqrt, "SQUARE": lambda x: x * x, "TANH": op.tanh,
    "ZEROS_LIKE": op.zeros_like, "LOG_SOFTMAX": lambda x: op.nn.log_softmax(x, -1),
}  # fmt: skip


def _one_of(function: Callable[[Any], Any]) -> Any:
    return lambda converter, options, x: function(x)


for _name, _function in _ONE.items():
    plain(_name)(_one_of(_function))


@plain("GELU")
def _gelu(converter: Any, options: Any, x: Any) -> Any:
    return gelu(x, bool(options.Approximate))


@plain("LEAKY_RELU")
def _leaky_relu(converter: Any, options: Any, x: Any) -> Any:
    return op.nn.leaky_relu(x, float(options.Alpha))


@plain("PRELU")
def _prelu(converter: Any, options: Any, x: Any, alpha: Any) -> Any:
    return op.nn.relu(x) - alpha * op.nn.relu(op.negative(x))


@plain("SOFTMAX")
def _softmax(converter: Any, options: Any, x: Any) -> Any:
    beta = float(options.Beta)
    return op.nn.softmax(x if beta == 1 else x * constant_like(beta, x), -1)


@plain("L2_NORMALIZATION")
def _l2_normalization(converter: Any, options: Any, x: Any) -> Any:
    squares = op.maximum(op.sum(x * x, [-1], True), constant_like(1e-12, x))
    found = x * op.rsqrt(squares)
    return converter.convert_fused_activation_function(found, options.FusedActivationFunction)


@plain("LOCAL_RESPONSE_NORMALIZATION", method="convert_lrn")
def _lrn(converter: Any, options: Any, x: Any) -> Any:
    return lrn(x, options.Radius, options.Bias, options.Alpha, options.Beta)


@operator("CAST")
def _cast(converter: Any, one: Any) -> Any:
    source = converter.get_input_tensors(one)[0]
    return op.cast(converter.get_tensor_expr(source), converter.get_output_tensors(one)[0].dtype)


@plain("FAKE_QUANT")
def _fake_quant(converter: Any, options: Any, x: Any) -> Any:
    """Round to the numbers that integers of some bits can stand for."""
    low, high, bits = float(options.Min), float(options.Max), int(options.NumBits)
    least, most = (1 if options.NarrowRange else 0), (1 << bits) - 1
    step = (high - low) / (most - least)
    zero = min(max(round(least - low / step), least), most)
    start = (least - zero) * step
    end = (most - zero) * step
    steps = op.floor((op.clip(x, start, end) - const(start, "float32")) / const(step, "float32")
                     + const(0.5, "float32"))  # fmt: skip
    return steps * const(step, "float32") + const(start, "float32")


# Two operands


def _floor_divide(a: Any, b: Any) -> Any:
    return op.floor(a / b) if dtype_of(a).is_float else op.floor_divide(a, b)


def _divide(a: Any, b: Any) -> Any:
    return a / b if dtype_of(a).is_float else op.trunc_divide(a, b)


_FUSED: dict[str, Callable[[Any, Any], Any]] = {
    "ADD": op.add, "DIV": _divide, "MUL": op.multiply, "SUB": op.subtract,
}  # fmt: skip
_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "BITWISE_XOR": op.bitwise_xor, "EQUAL": op.equal, "FLOOR_DIV": _floor_divide,
    "FLOOR_MOD": op.floor_mod, "GREATER": op.greater, "GREATER_EQUAL": op.greater_equal,
    "LESS": op.less, "LESS_EQUAL": op.less_equal, "LOGICAL_AND": op.logical_and,
    "LOGICAL_OR": op.logical_or, "MAXIMUM": op.maximum, "MINIMUM": op.minimum,
    "NOT_EQUAL": op.not_equal, "POW": op.power, "RIGHT_SHIFT": op.right_shift,
    "SQUARED_DIFFERENCE": lambda a, b: (a - b) * (a - b),
}  # fmt: skip


def _fused_of(function: Callable[[Any, Any], Any]) -> Any:
    def convert(converter: Any, options: Any, a: Any, b: Any) -> Any:
        found = function(a, b)
        kind = options.get("FusedActivationFunction")
        return converter.convert_fused_activation_function(found, kind)

    return convert


def _two_of(function: Callable[[Any, Any], Any]) -> Any:
    return lambda converter, options, a, b: function(a, b)


for _name, _both in _FUSED.items():
    plain(_name)(_fused_of(_both))
for _name, _both in _TWO.items():
    plain(_name)(_two_of(_both))


@plain("ADD_N")
def _add_n(converter: Any, options: Any, *operands: Any) -> Any:
    return functools.reduce(op.add, operands)


@plain("SELECT", "SELECT_V2", method="convert_select")
def _select(converter: Any, options: Any, condition: Any, x: Any, y: Any) -> Any:
    return where_with_rank(condition, x, y)


# Reductions


def _reduction_of(kind: str) -> Any:
    def convert(converter: Any, one: Any) -> Any:
        source, axes = converter.get_input_tensors(one)
        places = converter.value(axes, "the axes").reshape(-1).tolist()
        keep = bool(converter.options(one).get("KeepDims", False))
        found = reduced(kind, converter.number(source), places, keep)
        return converter.as_outputs(one, found)

    return convert


for _name, _kind in {
    "MEAN": "mean", "REDUCE_ALL": "all", "REDUCE_ANY": "any", "REDUCE_MAX": "max",
    "REDUCE_MIN": "min", "REDUCE_PROD": "prod", "SUM": "sum",
}.items():  # fmt: skip
    operator(_name, method=f"convert_reduce_{_kind}")(_reduction_of(_kind))


def _place_of(function: Callable[..., Any]) -> Any:
    def convert(converter: Any, one: Any) -> Any:
        source, axis = converter.get_input_tensors(one)
        place = int(converter.value(axis, "the axis").reshape(-1)[0])
        found = function(converter.get_tensor_expr(source), place)
        return op.cast(found, converter.get_output_tensors(one)[0].dtype)

    return convert


operator("ARG_MAX")(_place_of(op.argmax))
operator("ARG_MIN")(_place_of(op.argmin))


@operator("CUMSUM")
def _cumsum(converter: Any, one: Any) -> Any:
    source, axis = converter.get_input_tensors(one)
    options = converter.options(one)
    x = converter.get_tensor_expr(source)
    place = int(converter.value(axis, "the axis").reshape(-1)[0]) % rank_of(x)
    x = op.reverse(x, place) if options.Reverse else x
    found = op.cumsum(x, place, exclusive=bool(options.Exclusive))
    return op.reverse(found, place) if options.Reverse else found


@operator("SEGMENT_SUM")
def _segment_sum(converter: Any, one: Any) -> Any:
    source, ids = converter.get_input_tensors(one)
    numbers = converter.value(ids, "the numbers of the segments")
    x = converter.get_tensor_expr(source)
    return op.segment_sum(x, const(numbers.astype("int32")), int(numbers.max()) + 1)


# Integers that stand for numbers


@operator("QUANTIZE")
def _quantize(converter: Any, one: Any) -> Any:
    source, target = converter.get_input_tensors(one)[0], converter.get_output_tensors(one)[0]
    return converter.quantize(converter.number(source), target)


@operator("DEQUANTIZE")
def _dequantize(converter: Any, one: Any) -> Any:
    source = converter.get_input_tensors(one)[0]
    if source.qnn_params is None:
        return op.cast(converter.get_tensor_expr(source), "float32")
    return converter.number(source)


@plain("EMBEDDING_LOOKUP")
def _embedding_lookup(converter: Any, options: Any, indices: Any, table: Any) -> Any:
    return gather(table, indices, 0)


@operator("MATRIX_DIAG")
def _matrix_diag(converter: Any, one: Any) -> Any:
    x = converter.get_tensor_expr(converter.get_input_tensors(one)[0])
    size = converter.get_tensor_shape(converter.get_input_tensors(one)[0])[-1]
    if not isinstance(size, int):
        raise OpAttributeUnImplemented("the size of a diagonal has to be known")
    eye = numpy.eye(size, dtype=dtype_of(x).numpy())
    return op.expand_dims(x, rank_of(x)) * const(eye)


@plain("MATRIX_SET_DIAG")
def _matrix_set_diag(converter: Any, options: Any, x: Any, diagonal: Any) -> Any:
    return op.matrix_set_diag(x, diagonal)
