"""Rules of FakeQuantizationToInteger: how calls of real numbers become calls of integers.

A rule takes a call whose arguments are integers already and a map from expressions to their
quantisations, and gives the integer expression and its quantisation. ``type_map[expr]`` of the
call itself is the quantisation that is wanted in the end. A rule raises NoIntegerFormError where
there is no integer form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

from tilesmith.ir import TensorAffineType, TupleAffineType, register_op_attr
from tilesmith.relax.expr import Constant, Tuple
from tilesmith.relay.expr import const
from tilesmith.relay.op.view import axis_of, find_function, make_call
from tilesmith.relay.qnn.op import qnn
from tilesmith.relay.qnn.op.parameters import along
from tilesmith.relay.transform.integer_values import (
    NoIntegerFormError,
    approx_equal,
    as_integers,
    dtype_of,
    fold_constant,
    get_zeros,
    has_one_scale,
    infer_shape,
    moved_to,
    quantised_constant,
    same_type,
    scaled_type,
    tensor_type,
    value_of,
)

__all__ = [
    "adaptive_avgpool1d", "approx_equal", "avgpool2d", "batch_matmul", "bias_add", "broadcast_to",
    "clip", "concat", "conv2d", "conv2d_transpose", "dense", "dequantize", "fold_constant",
    "get_binary_types", "get_zeros", "global_avgpool2d", "infer_shape", "leaky_relu",
    "maxpool2d", "mean", "multiply", "pad",
    "quantize", "register_binary_identity", "register_binary_qnn", "register_unary_identity",
    "register_unary_qnn", "relu", "softmax", "split", "take", "topk",
]  # fmt: skip

RULE, OPTIONAL_RULE = "FTVMFakeQuantizationToInteger", "FTVMOptionalFakeQuantizationToInteger"
"""The attributes of operators that have the rules; the second for those that are asked for."""


Rule = Callable[[Any, Any], list[Any]]


def register(op_name: str, level: int = 10, key: str = RULE) -> Callable[[Rule], Rule]:
    """Register the decorated rule of an operator."""

    def publish(rule: Rule) -> Rule:
        register_op_attr(op_name, key, rule, level)
        return rule

    return publish


def _attributes(expr: Any, *without: str) -> dict[str, Any]:
    given = {} if expr.attrs is None else dict(expr.attrs.items())
    return {key: value for key, value in given.items() if key not in without and value is not None}


def _again(expr: Any, *args: Any) -> Any:
    """Return the same call of other arguments."""
    return make_call(expr.op, args, _attributes(expr))


def _type(expr: Any, type_map: Any) -> Any:
    if expr not in type_map:
        raise NoIntegerFormError("an operand is not quantised")
    return type_map[expr]


def _single(expr: Any, type_map: Any) -> TensorAffineType:
    """Return the quantisation of an operand that has one scale."""
    found: TensorAffineType = _type(expr, type_map)
    if not has_one_scale(found):
        raise NoIntegerFormError("an operand has several scales")
    return found


# Where integers begin and end


@register("qnn.dequantize")
def dequantize(expr: Any, type_map: Any) -> list[Any]:
    """Return the integers."""
    return [expr.args[0], type_map[expr]]


@register("qnn.quantize")
def quantize(expr: Any, type_map: Any) -> list[Any]:
    """Return the integers in the quantisation that is wanted."""
    data, wanted = expr.args[0], type_map[expr]
    if data not in type_map:
        return [_again(expr, *expr.args), wanted]
    return [moved_to(data, type_map[data], wanted, wanted.dtype), wanted]


# The same operator of integers


def register_unary_identity(op_name: str) -> Any:
    """Register that an operator moves or chooses elements: it works on integers as it is."""

    def identity(expr: Any, type_map: Any) -> list[Any]:
        given = _single(expr.args[0], type_map)
        return [_again(expr, *expr.args), given]

    return register(op_name)(identity)


for _name in (
    "reshape", "squeeze", "strided_slice", "transpose", "expand_dims", "nn.batch_flatten",
    "nn.depth_to_space", "nn.space_to_depth", "max", "min", "reverse", "tile", "repeat",
    "layout_transform", "copy", "nn.dropout",
):  # fmt: skip
    register_unary_identity(_name)


@register("nn.max_pool2d")
def maxpool2d(expr: Any, type_map: Any) -> list[Any]:
    """Return the greatest integers: scales are positive."""
    return [_again(expr, expr.args[0]), _type(expr.args[0], type_map)]


@register("broadcast_to")
def broadcast_to(expr: Any, type_map: Any) -> list[Any]:
    """Return repeated integers."""
    return [_again(expr, expr.args[0]), _single(expr.args[0], type_map)]


@register("take")
def take(expr: Any, type_map: Any) -> list[Any]:
    """Return the integers at indices."""
    return [_again(expr, *expr.args), _single(expr.args[0], type_map)]


@register("topk")
def topk(expr: Any, type_map: Any) -> list[Any]:
    """Return the greatest integers; only the values are numbers of a quantisation."""
    if expr.attrs.ret_type != "values":
        raise NoIntegerFormError("topk gives indices, too")
    return [_again(expr, expr.args[0]), _single(expr.args[0], type_map)]


@register("split")
def split(expr: Any, type_map: Any) -> list[Any]:
    """Return parts of the integers."""
    given = _single(expr.args[0], type_map)
    parts = expr.attrs.indices_or_sections
    count = parts if isinstance(parts, int) else len(parts) + 1
    return [_again(expr, expr.args[0]), TupleAffineType([given] * count)]


@register("nn.pad")
def pad(expr: Any, type_map: Any) -> list[Any]:
    """Return integers padded with the one that stands for the value."""
    data, value = expr.args
    given = _single(data, type_map)
    if value in type_map:
        padding = moved_to(value, type_map[value], given, given.dtype)
    else:
        padding = as_integers(value_of(value, "the value"), given, dtype_of(data), 0)
    return [_again(expr, data, fold_constant(padding)), given]


@register("clip")
def clip(expr: Any, type_map: Any) -> list[Any]:
    """Return integers within the integers of the limits."""
    data = expr.args[0]
    given = _single(data, type_map)
    limits = [expr.attrs.a_min, expr.attrs.a_max]
    low, high = [
        float(value_of(as_integers(one, given, dtype_of(data), 0), "a limit")) for one in limits
    ]
    return [make_call("clip", [data], {"a_min": low, "a_max": high}), given]


@register("nn.relu")
def relu(expr: Any, type_map: Any) -> list[Any]:
    """Return integers that are no less than the zero point."""
    data = expr.args[0]
    given = _type(data, type_map)
    single = has_one_scale(given) or not value_of(given.zero_point, "a zero point").any()
    plain = tensor_type(1.0, given.zero_point if has_one_scale(given) else 0, given.dtype)
    rank = 0 if single else len(infer_shape(data))
    zero = as_integers(0.0, plain if single else given, dtype_of(data), rank)
    return [make_call("maximum", [data, zero]), given]


# Means: sums of integers, with a smaller scale


def _mean_of(data: Any, given: Any, axes: list[int], keepdims: bool) -> list[Any]:
    shape = infer_shape(data)
    count = math.prod([shape[axis] for axis in axes])
    if not isinstance(count, int) or count > 1 << 22:
        raise NoIntegerFormError("the number of elements is not known, or too large for int32")
    wide = make_call("cast", [data], {"dtype": "int32"})
    point = value_of(given.zero_point, "a zero point")
    if point.any():
        wide = make_call("subtract", [wide, const(point.reshape(()).astype("int32"))])
    total = make_call("sum", [wide], {"axis": axes, "keepdims": keepdims})
    return [total, scaled_type(given, 1.0 / count, "int32")]


@register("mean")
def mean(expr: Any, type_map: Any) -> list[Any]:
    """Return the sum, exactly; the division is one of the scale."""
    data, attrs = expr.args[0], expr.attrs
    rank = len(infer_shape(data))
    chosen = range(rank) if attrs.axis is None else [axis_of(axis, rank) for axis in attrs.axis]
    axes = [axis for axis in range(rank) if (axis in chosen) != bool(attrs.exclude)]
    return _mean_of(data, _single(data, type_map), axes, bool(attrs.keepdims))


@register("nn.global_avg_pool2d")
def global_avgpool2d(expr: Any, type_map: Any) -> list[Any]:
    """Return the sum of each image, exactly; the division is one of the scale."""
    layout = expr.attrs.layout
    axes = [layout.index("H"), layout.index("W")]
    return _mean_of(expr.args[0], _single(expr.args[0], type_map), axes, True)


@register("nn.adaptive_avg_pool1d")
def adaptive_avgpool1d(expr: Any, type_map: Any) -> list[Any]:
    """Return the sum of each row, if one element is left of it."""
    if tuple(expr.attrs.output_size or ()) != (1,):
        raise NoIntegerFormError("adaptive_avg_pool1d leaves more than one element")
    axis = expr.attrs.layout.index("W")
    return _mean_of(expr.args[0], _single(expr.args[0], type_map), [axis], True)


@register("nn.avg_pool2d")
def avgpool2d(expr: Any, type_map: Any) -> list[Any]:
    """Return the mean of windows, rounded once."""
    data = expr.args[0]
    given, wanted = _single(data, type_map), type_map[expr]
    chosen = wanted if wanted.dtype == given.dtype and has_one_scale(wanted) else given
    parameters = [given.scale, given.zero_point, chosen.scale, chosen.zero_point]
    attributes = _attributes(expr, "out_layout")
    made = make_call("qnn.avg_pool2d", [data, *parameters], attributes)
    return [made, tensor_type(chosen.scale, chosen.zero_point, given.dtype)]


# Products


def _product_type(x: TensorAffineType, w: TensorAffineType, axis: int) -> TensorAffineType:
    scales = [value_of(one.scale, "a scale").astype("float64") for one in (x, w)]
    scale = (scales[0].reshape(()) * scales[1]).astype("float32")
    return TensorAffineType(const(scale), get_zeros(const(scale)), "int32", axis)


def _small(*exprs: Any) -> None:
    if any(dtype_of(one) not in ("int8", "uint8", "int16") for one in exprs):
        raise NoIntegerFormError("a product of sums in int32 would need more bits")


def _convolution(expr: Any, type_map: Any, channel: str) -> list[Any]:
    x, weight = expr.args
    given, kernel = _single(x, type_map), _type(weight, type_map)
    _small(x, weight)
    place = expr.attrs.kernel_layout.index(channel)
    if not has_one_scale(kernel) and axis_of(kernel.axis, 4) != place:
        raise NoIntegerFormError("the kernel's scales are not those of its output channels")
    parameters = [given.zero_point, kernel.zero_point, given.scale, kernel.scale]
    made = make_call(
        "qnn." + expr.op.name.removeprefix("nn."), [x, weight, *parameters],
        {**_attributes(expr, "out_dtype"), "out_dtype": "int32"},
    )  # fmt: skip
    layout = expr.attrs.out_layout or expr.attrs.data_layout
    return [made, _product_type(given, kernel, layout.index("C"))]


@register("nn.conv2d")
def conv2d(expr: Any, type_map: Any) -> list[Any]:
    """Return the convolution of integers, as sums in int32."""
    return _convolution(expr, type_map, "O")


@register("nn.conv2d_transpose")
def conv2d_transpose(expr: Any, type_map: Any) -> list[Any]:
    """Return the transposed convolution of integers, as sums in int32."""
    return _convolution(expr, type_map, "O")


@register("nn.dense")
def dense(expr: Any, type_map: Any) -> list[Any]:
    """Return the product of integers, as sums in int32."""
    x, weight = expr.args
    given, kernel = _single(x, type_map), _type(weight, type_map)
    _small(x, weight)
    if not has_one_scale(kernel) and axis_of(kernel.axis, 2) != 0:
        raise NoIntegerFormError("the weight's scales are not those of its rows")
    parameters = [given.zero_point, kernel.zero_point, given.scale, kernel.scale]
    attributes = {"units": expr.attrs.units, "out_dtype": "int32"}
    made = make_call("qnn.dense", [x, weight, *parameters], attributes)
    return [made, _product_type(given, kernel, len(infer_shape(x)) - 1)]


@register("nn.batch_matmul")
def batch_matmul(expr: Any, type_map: Any) -> list[Any]:
    """Return the products of integers, as sums in int32."""
    x, y = expr.args
    left, right = _single(x, type_map), _single(y, type_map)
    _small(x, y)
    if expr.attrs.transpose_a:
        x = make_call("transpose", [x], {"axes": [0, 2, 1]})
    if not expr.attrs.transpose_b:
        y = make_call("transpose", [y], {"axes": [0, 2, 1]})
    parameters = [left.zero_point, right.zero_point, left.scale, right.scale]
    made = make_call("qnn.batch_matmul", [x, y, *parameters], {"out_dtype": "int32"})
    return [made, _product_type(left, right, -1)]


@register("nn.bias_add")
def bias_add(expr: Any, type_map: Any) -> list[Any]:
    """Return the sum with a bias, which is brought to the scale of the data."""
    data, bias = expr.args
    given = _type(data, type_map)
    dtype = dtype_of(data)
    if dtype != "int32":
        data = make_call("cast", [data], {"dtype": "int32"})
    own = TensorAffineType(given.scale, get_zeros(given.scale), "int32", 0)
    if bias in type_map:
        bias = _in_scale(bias, type_map[bias], own)
    else:
        bias = as_integers(value_of(bias, "the bias"), own, "int32", 1)
    made = make_call("nn.bias_add", [data, bias], _attributes(expr))
    return [made, TensorAffineType(given.scale, given.zero_point, "int32", given.axis)]


def _in_scale(expr: Any, own: TensorAffineType, other: TensorAffineType) -> Any:
    """Return integers as int32 in the scale of another quantisation, with several scales, too."""
    if approx_equal(own.scale, other.scale) and approx_equal(own.zero_point, other.zero_point):
        is_wide = dtype_of(expr) == "int32"
        return expr if is_wide else make_call("cast", [expr], {"dtype": "int32"})
    if has_one_scale(other):
        return moved_to(expr, own, other, "int32")
    known = value_of(expr, "the bias").astype("float64")
    points = value_of(own.zero_point, "a zero point")
    return as_integers((known - points) * value_of(own.scale, "a scale"), other, "int32", 1)


# Two tensors


def get_binary_types(expr: Any, type_map: Any) -> tuple[Any, ...]:
    """Return both operands of a call as integers, their quantisations, and the one that is wanted.
    A constant of floats is quantised for its own range.
    """
    operands, types = list(expr.args), []
    known = [one for one in operands if one in type_map]
    if not known:
        raise NoIntegerFormError("no operand is quantised")
    for place, one in enumerate(operands):
        if one in type_map:
            types.append(type_map[one])
            continue
        operands[place], found = quantised_constant(value_of(one, "an operand"), dtype_of(known[0]))
        types.append(found)
    return (*operands, *types, type_map[expr])


def _sum_of_sums(expr: Any, type_map: Any) -> list[Any] | None:
    """Return the sum of int32 and what can be brought to the same scale exactly or as a constant;
    None where both have to be brought to another scale.
    """
    for first, second in (expr.args, expr.args[::-1]):
        if first not in type_map or dtype_of(first) != "int32":
            continue
        given = type_map[first]
        if second not in type_map:
            whole = TensorAffineType(given.scale, get_zeros(given.scale), "int32", given.axis)
            rank = len(infer_shape(first))
            other: Any = as_integers(value_of(second, "an operand"), whole, "int32", rank)
        elif same_type(given, type_map[second]) and not value_of(given.zero_point, "").any():
            other = make_call("cast", [second], {"dtype": "int32"})
        else:
            continue
        args = [other if one is second else one for one in expr.args]
        return [make_call(expr.op, args), given]
    return None


def register_binary_qnn(op_name: str, op: Callable[..., Any]) -> Any:
    """Register ``op`` of the dialect (`qnn.op.add`, …) as the integer form of an operator."""

    def binary(expr: Any, type_map: Any) -> list[Any]:
        if op_name in ("add", "subtract"):
            exact = _sum_of_sums(expr, type_map)
            if exact is not None:
                return exact
        left, right, left_t, right_t, out_t = get_binary_types(expr, type_map)
        if not has_one_scale(out_t):
            raise NoIntegerFormError("the result has several scales")
        if not left_t.dtype == right_t.dtype == out_t.dtype:
            return _wide(op_name, left, right, left_t, right_t, out_t)
        parameters = [left_t.scale, left_t.zero_point, right_t.scale, right_t.zero_point]
        axes = {"lhs_axis": left_t.axis, "rhs_axis": right_t.axis}
        made = op(left, right, *parameters, out_t.scale, out_t.zero_point, **axes)
        return [made, out_t]

    return register(op_name)(binary)


_FINER = 256  # a sum of int32 has so many steps for each one of the result: it is rounded once


def _wide(op_name: str, left: Any, right: Any, left_t: Any, right_t: Any, out_t: Any) -> list[Any]:
    """Return a sum in int32, in a finer scale than the one that is wanted: operands of several
    dtypes.
    """
    if op_name not in ("add", "subtract"):
        raise NoIntegerFormError(f"the operands of {op_name} differ in dtype")
    scale = value_of(out_t.scale, "a scale").astype("float64") / _FINER
    finer = tensor_type(scale.astype("float32").reshape(()), 0, "int32")
    moved = [moved_to(left, left_t, finer, "int32"), moved_to(right, right_t, finer, "int32")]
    return [make_call(op_name, moved), finer]


def register_binary_identity(op_name: str, op: Callable[..., Any]) -> Any:
    """Register that an operator of two tensors works on integers of one quantisation."""

    def binary(expr: Any, type_map: Any) -> list[Any]:
        left, right, left_t, right_t, out_t = get_binary_types(expr, type_map)
        if left_t.dtype == right_t.dtype and same_type(left_t, right_t):
            return [op(left, right), left_t]
        if not has_one_scale(out_t):
            raise NoIntegerFormError("the result has several scales")
        moved = [moved_to(left, left_t, out_t, "int32"), moved_to(right, right_t, out_t, "int32")]
        return [op(*moved), tensor_type(out_t.scale, out_t.zero_point, "int32")]

    return register(op_name)(binary)


for _name in ("add", "subtract"):
    register_binary_qnn(_name, getattr(qnn, _name))
for _name in ("maximum", "minimum"):
    register_binary_identity(_name, find_function(_name))
_multiply = register_binary_qnn("multiply", qnn.mul)


def _axis_of_factors(factors: numpy.ndarray, rank: int) -> int | None:
    """Return the axis along which factors that broadcast with a tensor vary; None if there are
    several.
    """
    axes = [rank - factors.ndim + axis for axis, size in enumerate(factors.shape) if size > 1]
    return axes[0] if len(axes) == 1 else (rank - 1 if not axes else None)


def _times(data: Any, given: TensorAffineType, factors: numpy.ndarray) -> list[Any]:
    """Return integers times constants: the same integers (of other signs) in other scales."""
    rank = len(infer_shape(data))
    axis = _axis_of_factors(factors, rank)
    is_other = not has_one_scale(given) and axis_of(given.axis, rank) != axis
    if axis is None or (is_other and factors.size > 1):
        raise NoIntegerFormError("the scales would vary along two axes")
    axis = axis_of(given.axis, rank) if factors.size == 1 and is_other else axis
    sizes = numpy.abs(factors.reshape(-1).astype("float64"))
    known = value_of(given.scale, "a scale").astype("float64").reshape(-1)
    scale = known * numpy.where(sizes > 0, sizes, 1.0)
    scale = scale.reshape(()) if scale.size == 1 else scale
    if factors.size == 1 and float(factors.reshape(())) > 0:
        found = TensorAffineType(
            const(scale.astype("float32")), given.zero_point, given.dtype, given.axis
        )
        return [make_call("copy", [data]), found]
    wide = make_call("cast", [data], {"dtype": "int32"})
    point = value_of(given.zero_point, "a zero point")
    if point.any():
        wide = make_call("subtract", [wide, const(_spread(point, rank, axis).astype("int32"))])
    signs = numpy.sign(factors).astype("int32")
    if (signs != 1).any():
        wide = make_call("multiply", [wide, const(signs)])
    found_scale = const(scale.astype("float32"))
    return [wide, TensorAffineType(found_scale, get_zeros(found_scale), "int32", axis)]


def _spread(values: numpy.ndarray, rank: int, axis: int) -> numpy.ndarray:
    return numpy.asarray(along(values, rank, axis))


@register("multiply", level=11)
def multiply(expr: Any, type_map: Any) -> list[Any]:
    """Return the product; one with constants is only another scale."""
    for data, factor in (expr.args, expr.args[::-1]):
        if factor in type_map or not isinstance(factor, Constant) or data not in type_map:
            continue
        return _times(data, type_map[data], value_of(factor, "the factor"))
    found: list[Any] = _multiply(expr, type_map)
    return found


@register("concatenate")
def concat(expr: Any, type_map: Any) -> list[Any]:
    """Return joined integers, brought to one scale where they differ."""
    data = expr.args[0]
    types, wanted = _type(data, type_map).types, type_map[expr]
    if not all(has_one_scale(one) for one in (*types, wanted)):
        raise NoIntegerFormError("an operand has several scales")
    first = types[0]
    if all(one.dtype == first.dtype and same_type(one, first) for one in types):
        return [_again(expr, data), first]
    if not isinstance(data, Tuple):
        raise NoIntegerFormError("the operands are not listed")
    if all(one.dtype == wanted.dtype for one in types):
        scales, points = [one.scale for one in types], [one.zero_point for one in types]
        end = (wanted.scale, wanted.zero_point)
        made = qnn.concatenate(data, scales, points, end[0], end[1], expr.attrs.axis)
        return [made, wanted]
    fields = [moved_to(one, own, wanted, wanted.dtype) for one, own in zip(data.fields, types)]
    return [_again(expr, Tuple(fields)), wanted]


# Functions


def register_unary_qnn(op_name: str, op: Callable[..., Any]) -> Any:
    """Register ``op`` of the dialect (`qnn.op.tanh`, …) as the integer form of a function."""

    def unary(expr: Any, type_map: Any) -> list[Any]:
        return _function(expr, type_map, op)

    return register(op_name)(unary)


def _function(expr: Any, type_map: Any, op: Callable[..., Any]) -> list[Any]:
    data = expr.args[0]
    given, wanted = _type(data, type_map), type_map[expr]
    if not has_one_scale(wanted):
        raise NoIntegerFormError("the result has several scales")
    if not has_one_scale(given):  # sums of a convolution: in the finest of their scales
        finest = tensor_type(value_of(given.scale, "a scale").min(), 0, "int32")
        data, given = moved_to(data, given, finest, "int32"), finest
    dtype = given.dtype
    if dtype != wanted.dtype:  # results in int32, which the end brings to the dtype
        data, dtype = make_call("cast", [data], {"dtype": "int32"}), "int32"
    made = op(data, given.scale, given.zero_point, wanted.scale, wanted.zero_point)
    return [made, tensor_type(wanted.scale, wanted.zero_point, dtype)]


for _name in ("sqrt", "rsqrt", "exp", "erf", "sigmoid", "tanh", "log", "abs"):
    register_unary_qnn(_name, getattr(qnn, _name))


@register("nn.leaky_relu")
def leaky_relu(expr: Any, type_map: Any) -> list[Any]:
    """Return the function by a table."""

    def op(data: Any, *parameters: Any) -> Any:
        return qnn.leaky_relu(data, expr.attrs.alpha, *parameters)

    return _function(expr, type_map, op)


@register("nn.softmax", key=OPTIONAL_RULE)
def softmax(expr: Any, type_map: Any) -> list[Any]:
    """Return the softmax of a quantised tensor; where asked by ``optional_qnn_ops``."""

    return _function(expr, type_map, partial(qnn.softmax, axis=expr.attrs.axis))
