"""The gradient of each operator: ``function(orig_var, orig_call, output_grad, ctx)`` gives one
expression per argument (None where no gradient flows)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilesmith.ir import IntImm
from tilesmith.relax import op
from tilesmith.relax.expr import Call, ShapeExpr, Tuple, const, known_struct_info
from tilesmith.relax.op import grad as adjoints
from tilesmith.relax.op.common import prove_equal, sizes_of
from tilesmith.relax.op.spec import topi
from tilesmith.support.errors import UnsupportedError

Gradient = Callable[[Any, Call, Any, Any], list[Any]]


def gradient(*names: str) -> Callable[[Gradient], Gradient]:
    """Register the gradient of operators."""

    def register(function: Gradient) -> Gradient:
        for name in names:
            op.register_gradient("relax." + name, function)
        return function

    return register


def _shape(expr: Any) -> Any:
    info = known_struct_info(expr)
    sizes = sizes_of(info)
    return op.shape_of(expr) if sizes is None else ShapeExpr(sizes)


def _collapsed(value: Any, target: Any) -> Any:
    """The sum over what broadcasting of ``target`` repeated."""
    own, wanted = sizes_of(value.struct_info), sizes_of(known_struct_info(target))
    if own is not None and wanted is not None and len(own) == len(wanted):
        if all(prove_equal(a, b) for a, b in zip(own, wanted)):
            return value
    return op.collapse_sum_to(value, _shape(target))


def _number(value: float, like: Any) -> Any:
    return const(value, known_struct_info(like).dtype)


# Arithmetic


@gradient("add")
def add_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """∂(a + b)"""
    a, b = orig_call.args
    return [_collapsed(output_grad, a), _collapsed(output_grad, b)]


@gradient("subtract")
def subtract_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """∂(a - b)"""
    a, b = orig_call.args
    return [_collapsed(output_grad, a), _collapsed(op.negative(output_grad), b)]


@gradient("multiply")
def multiply_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """∂(a * b)"""
    a, b = orig_call.args
    return [
        _collapsed(op.multiply(output_grad, b), a),
        _collapsed(op.multiply(output_grad, a), b),
    ]


@gradient("divide")
def divide_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """∂(a / b)"""
    a, b = orig_call.args
    by_b = op.negative(op.divide(op.multiply(output_grad, orig_var), b))
    return [_collapsed(op.divide(output_grad, b), a), _collapsed(by_b, b)]


@gradient("power")
def power_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """∂(a ** b)"""
    a, b = orig_call.args
    lower = op.power(a, op.subtract(b, _number(1, b)))
    by_a = op.multiply(output_grad, op.multiply(b, lower))
    by_b = op.multiply(output_grad, op.multiply(op.log(a), orig_var))
    return [_collapsed(by_a, a), _collapsed(by_b, b)]


def _choice_grad(compare: Callable[[Any, Any], Any]) -> Gradient:
    def function(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
        a, b = orig_call.args
        chosen, zero = compare(a, b), op.zeros_like(output_grad)
        return [
            _collapsed(op.where(chosen, output_grad, zero), a),
            _collapsed(op.where(chosen, zero, output_grad), b),
        ]

    return function


maximum_grad = gradient("maximum")(_choice_grad(op.greater_equal))
minimum_grad = gradient("minimum")(_choice_grad(op.less_equal))


@gradient(
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
    "logical_or", "logical_xor", "logical_not", "sign", "floor", "ceil", "round", "trunc", "argmax",
    "argmin", "zeros_like", "ones_like", "full_like", "zeros", "ones", "full", "arange",
    "grad.no_grad", "shape_of", "floor_divide",
)  # fmt: skip
def no_gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Nothing flows."""
    return [None] * len(orig_call.args)


# Unary operators: the factor of the gradient by the argument x and the result y


def _unary(name: str, factor: Callable[[Any, Any], Any]) -> None:
    def function(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
        return [op.multiply(output_grad, factor(orig_call.args[0], orig_var))]

    function.__doc__ = f"∂{name}"
    gradient(name)(function)


_unary("abs", lambda x, y: op.where(op.less(x, _number(0, x)), _number(-1, x), _number(1, x)))
_unary("negative", lambda x, y: _number(-1, x))
_unary("cos", lambda x, y: op.negative(op.sin(x)))
_unary("sin", lambda x, y: op.cos(x))
_unary("tan", lambda x, y: op.add(op.multiply(y, y), _number(1, x)))
_unary("exp", lambda x, y: y)
_unary("log", lambda x, y: op.divide(_number(1, x), x))
_unary("sigmoid", lambda x, y: op.multiply(y, op.subtract(_number(1, x), y)))
_unary("sqrt", lambda x, y: op.divide(_number(0.5, x), y))
_unary("rsqrt", lambda x, y: op.multiply(_number(-0.5, x), op.divide(y, x)))
_unary("tanh", lambda x, y: op.subtract(_number(1, x), op.multiply(y, y)))
_unary("square", lambda x, y: op.multiply(_number(2, x), x))
_unary(
    "erf",
    lambda x, y: op.multiply(
        _number(2 / math.sqrt(math.pi), x), op.exp(op.negative(op.multiply(x, x)))
    ),
)
_unary("nn.relu", lambda x, y: op.where(op.less(x, _number(0, x)), _number(0, x), _number(1, x)))


@gradient("nn.silu")
def silu_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """∂(x σ(x)) = σ(x) + y (1 - σ(x))"""
    (x,) = orig_call.args
    s = op.sigmoid(x)
    rest = op.multiply(orig_var, op.subtract(_number(1, x), s))
    return [op.multiply(output_grad, op.add(s, rest))]


@gradient("nn.gelu")
def gelu_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """∂(x Φ(x)) = Φ(x) + x φ(x)"""
    (x,) = orig_call.args
    bell = op.add(op.erf(op.multiply(x, _number(math.sqrt(0.5), x))), _number(1, x))
    density = op.exp(op.multiply(op.multiply(x, x), _number(-0.5, x)))
    slope = op.multiply(op.multiply(x, density), _number(1 / math.sqrt(2 * math.pi), x))
    return [op.multiply(output_grad, op.add(op.multiply(bell, _number(0.5, x)), slope))]


@gradient("nn.leakyrelu")
def leakyrelu_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """1 where positive, else alpha"""
    (x,) = orig_call.args
    alpha = _number(orig_call.attrs.alpha, x)
    return [op.multiply(output_grad, op.where(op.greater(x, _number(0, x)), _number(1, x), alpha))]


@gradient("clip")
def clip_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """1 inside of the range"""
    (x,) = orig_call.args
    low = op.greater_equal(x, _number(orig_call.attrs.min, x))
    high = op.less_equal(x, _number(orig_call.attrs.max, x))
    return [op.where(op.logical_and(low, high), output_grad, op.zeros_like(output_grad))]


@gradient("nn.dropout")
def dropout_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """The identity: nothing is dropped"""
    return [op_field(output_grad, 0)]


def op_field(value: Any, index: int) -> Any:
    """A field of a tuple that may be written out."""
    return value.fields[index] if isinstance(value, Tuple) else value[index]


@gradient("astype")
def astype_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """The gradient in the dtype of the argument"""
    info = known_struct_info(orig_call.args[0])
    return [op.astype(output_grad, info.dtype) if info.dtype.is_float else None]


@gradient("where")
def where_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """To the side that was chosen"""
    condition, a, b = orig_call.args
    zero = op.zeros_like(output_grad)
    return [
        None,
        _collapsed(op.where(condition, output_grad, zero), a),
        _collapsed(op.where(condition, zero, output_grad), b),
    ]


# Reductions


def _kept(value: Any, call: Call) -> Any:
    """The gradient of a reduction with its reduced axes as size 1."""
    if call.attrs.keepdims:
        return value
    rank = known_struct_info(call.args[0]).ndim
    axes = call.attrs.axis
    axes = list(range(rank)) if axes is None else [axis % rank for axis in axes]
    return op.expand_dims(value, sorted(axes)) if axes else value


def _count(call: Call) -> Any:
    sizes = sizes_of(known_struct_info(call.args[0]))
    axes = call.attrs.axis
    axes = range(len(sizes or ())) if axes is None else [axis % len(sizes) for axis in axes]
    if sizes is None or not all(isinstance(sizes[axis], IntImm) for axis in axes):
        raise UnsupportedError(f"the gradient of {call.op.name} needs constant sizes")
    return math.prod([sizes[axis].value for axis in axes])


@gradient("sum")
def sum_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Repeated along the reduced axes"""
    x = orig_call.args[0]
    return [op.broadcast_to(_kept(output_grad, orig_call), _shape(x))]


@gradient("mean")
def mean_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Repeated and divided by the number of elements"""
    x = orig_call.args[0]
    scaled = op.divide(_kept(output_grad, orig_call), _number(_count(orig_call), x))
    return [op.broadcast_to(scaled, _shape(x))]


@gradient("variance")
def variance_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """2 (x - mean) / n"""
    x = orig_call.args[0]
    centred = op.subtract(x, op.mean(x, orig_call.attrs.axis, True))
    scaled = op.multiply(_kept(output_grad, orig_call), _number(2 / _count(orig_call), x))
    return [op.multiply(centred, scaled)]


@gradient("max", "min")
def extreme_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """To the elements that are the extreme one, in equal parts"""
    x = orig_call.args[0]
    hit = op.astype(op.equal(x, _kept(orig_var, orig_call)), known_struct_info(x).dtype)
    share = op.divide(hit, op.sum(hit, orig_call.attrs.axis, True))
    return [op.multiply(share, _kept(output_grad, orig_call))]


@gradient("cumsum")
def cumsum_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """The sums from the other end"""
    x, attrs = orig_call.args[0], orig_call.attrs
    if attrs.axis is None:
        turned = op.flip(op.cumsum(op.flip(output_grad, 0), 0, None, attrs.exclusive), 0)
        return [op.reshape(turned, _shape(x))]
    rank = known_struct_info(x).ndim
    axis = attrs.axis % rank
    return [op.flip(op.cumsum(op.flip(output_grad, axis), axis, None, attrs.exclusive), axis)]


# Moves


@gradient("reshape", "flatten", "expand_dims", "squeeze", "nn.batch_flatten")
def reshape_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """In the old shape"""
    rest = [None] * (len(orig_call.args) - 1)
    return [op.reshape(output_grad, _shape(orig_call.args[0])), *rest]


@gradient("permute_dims")
def permute_dims_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Axes back in the old order"""
    axes = orig_call.attrs.axes
    if axes is None:
        return [op.permute_dims(output_grad)]
    order = [axis % len(axes) for axis in axes]
    return [op.permute_dims(output_grad, [order.index(i) for i in range(len(order))])]


@gradient("broadcast_to")
def broadcast_to_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """The sum over what was repeated"""
    return [op.collapse_sum_to(output_grad, _shape(orig_call.args[0])), None]


@gradient("concat")
def concat_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """The parts"""
    info = known_struct_info(orig_call.args[0])
    axis = (orig_call.attrs.axis or 0) % info.fields[0].ndim
    ends, total = [], 0
    for field in info.fields[:-1]:
        size = sizes_of(field)[axis]
        if not isinstance(size, IntImm):
            raise UnsupportedError("the gradient of concat needs constant sizes")
        total += size.value
        ends.append(total)
    parts = ctx.emit(op.split(output_grad, ends, axis))
    return [Tuple([ctx.emit(parts[i]) for i in range(len(info.fields))])]


@gradient("split")
def split_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """The parts together"""
    return [op.concat(output_grad, orig_call.attrs.axis)]


@gradient("strided_slice")
def strided_slice_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Zeros around the part"""
    from tilesmith.relax.op.index import slice_arguments

    x = orig_call.args[0]
    axes, begin, _, strides = slice_arguments(orig_call)
    sizes = sizes_of(known_struct_info(x))
    if any(stride != 1 for stride in strides) or sizes is None:
        raise UnsupportedError("the gradient of strided_slice needs strides of 1")
    width = [[0, 0] for _ in sizes]
    end = slice_arguments(orig_call)[2]
    for axis, first, last in zip(axes, begin, end):
        start, count = topi.utils.slice_bounds(
            sizes[axis], first, last, 1, orig_call.attrs.assume_inbound
        )
        if not all(isinstance(item, IntImm) for item in (start, count, sizes[axis])):
            raise UnsupportedError("the gradient of strided_slice needs constant sizes")
        width[axis] = [start.value, sizes[axis].value - start.value - count.value]
    rest = [None] * (len(orig_call.args) - 1)
    return [op.nn.pad(output_grad, width), *rest]


@gradient("take")
def take_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """Back to the places that were taken from"""
    x, indices = orig_call.args
    return [adjoints.take_backward(output_grad, x, indices, orig_call.attrs.axis), None]


def _triangle_grad(function: Callable[[Any, int], Any]) -> Gradient:
    def grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
        return [function(output_grad, orig_call.attrs.k)]

    return grad


tril_grad = gradient("tril")(_triangle_grad(op.tril))
triu_grad = gradient("triu")(_triangle_grad(op.triu))


# Products


def _turned(expr: Any) -> Any:
    rank = known_struct_info(expr).ndim
    return op.permute_dims(expr, [*range(rank - 2), rank - 1, rank - 2])


@gradient("matmul")
def matmul_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """g bᵀ and aᵀ g; vectors as rows and columns"""
    a, b = orig_call.args
    rank_a, rank_b = known_struct_info(a).ndim, known_struct_info(b).ndim
    left = ctx.emit(op.expand_dims(a, 0)) if rank_a == 1 else a
    right = ctx.emit(op.expand_dims(b, 1)) if rank_b == 1 else b
    grad = output_grad
    if rank_b == 1:
        grad = op.expand_dims(grad, -1)
    if rank_a == 1:
        grad = op.expand_dims(grad, -2)
    grad = ctx.emit(grad)
    by_a = _collapsed(ctx.emit(op.matmul(grad, _turned(right))), left)
    by_b = _collapsed(ctx.emit(op.matmul(_turned(left), grad)), right)
    if rank_a == 1:
        by_a = op.reshape(by_a, _shape(a))
    if rank_b == 1:
        by_b = op.reshape(by_b, _shape(b))
    return [by_a, by_b]


@gradient("nn.dense")
def dense_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """g w and gᵀ x"""
    x, weight = orig_call.args
    if known_struct_info(x).ndim != 2:
        raise UnsupportedError("the gradient of nn.dense needs a matrix; use matmul")
    return [op.matmul(output_grad, weight), op.matmul(op.permute_dims(output_grad), x)]


# Networks


@gradient("nn.softmax")
def softmax_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """(g - Σ g y) y"""
    total = op.sum(op.multiply(output_grad, orig_var), orig_call.attrs.axis, True)
    return [op.multiply(op.subtract(output_grad, total), orig_var)]


@gradient("nn.log_softmax")
def log_softmax_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """g - softmax Σ g"""
    total = op.sum(output_grad, orig_call.attrs.axis, True)
    return [op.subtract(output_grad, op.multiply(total, op.exp(orig_var)))]


@gradient("nn.cross_entropy_with_logits")
def cross_entropy_with_logits_grad(
    orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any
) -> list[Any]:
    """-g labels / batch and -g predictions / batch"""
    predictions, labels = orig_call.args
    sizes = sizes_of(known_struct_info(predictions))
    grad = op.negative(output_grad)
    if len(sizes) > 1:
        if not isinstance(sizes[0], IntImm):
            raise UnsupportedError(
                "the gradient of cross_entropy_with_logits needs a constant batch"
            )
        grad = op.divide(grad, _number(sizes[0].value, predictions))
    return [op.multiply(grad, labels), op.multiply(grad, predictions)]


@gradient("nn.nll_loss")
def nll_loss_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """By the predictions"""
    attrs = orig_call.attrs
    by_predictions = adjoints.nll_loss_backward(
        output_grad, *orig_call.args, reduction=attrs.reduction, ignore_index=attrs.ignore_index
    )
    return [by_predictions, *[None] * (len(orig_call.args) - 1)]


@gradient("nn.conv2d")
def conv2d_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """A transposed convolution for the data, a convolution of data and gradient for the weight"""
    data, weight = orig_call.args
    attrs = orig_call.attrs
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or "NCHW")
    shapes = [known_struct_info(x).concrete_shape for x in (data, weight, orig_var)]
    if layouts != ("NCHW", "OIHW", "NCHW") or attrs.groups != 1 or None in shapes:
        raise UnsupportedError(
            "the gradient of conv2d needs NCHW, OIHW, one group and constant sizes"
        )
    sizes, kernel, out = shapes
    top, left, bottom, right = attrs.padding
    extra = [
        sizes[i + 2]
        - ((out[i + 2] - 1) * attrs.strides[i] - pads + (kernel[i + 2] - 1) * attrs.dilation[i] + 1)
        for i, pads in enumerate((top + bottom, left + right))
    ]
    by_data = op.nn.conv2d_transpose(
        output_grad,
        weight,
        strides=attrs.strides,
        padding=attrs.padding,
        output_padding=extra,
        dilation=attrs.dilation,
    )
    swapped = op.nn.conv2d(
        op.permute_dims(data, [1, 0, 2, 3]),
        op.permute_dims(output_grad, [1, 0, 2, 3]),
        strides=attrs.dilation,
        padding=attrs.padding,
        dilation=attrs.strides,
    )
    cut = op.strided_slice(swapped, [2, 3], [0, 0], [kernel[2], kernel[3]])
    return [by_data, op.permute_dims(cut, [1, 0, 2, 3])]


def _pool_grad(backward: Callable[..., Any]) -> Gradient:
    def function(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
        return [backward(output_grad, orig_call.args[0], **dict(orig_call.attrs.items()))]

    return function


max_pool2d_grad = gradient("nn.max_pool2d")(_pool_grad(adjoints.max_pool2d_backward))
avg_pool2d_grad = gradient("nn.avg_pool2d")(_pool_grad(adjoints.avg_pool2d_backward))


@gradient("nn.layer_norm")
def layer_norm_grad(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
    """By data, factor and summand"""
    x, gamma, beta = orig_call.args
    attrs = orig_call.attrs
    rank = known_struct_info(x).ndim
    axes = sorted([axis % rank for axis in attrs.axes])
    if axes != list(range(rank - len(axes), rank)):
        raise UnsupportedError("the gradient of layer_norm needs the last axes")
    centred = ctx.emit(op.subtract(x, op.mean(x, axes, True)))
    variance = op.mean(op.multiply(centred, centred), axes, True)
    scale = ctx.emit(op.rsqrt(op.add(variance, _number(attrs.epsilon, x))))
    normal = ctx.emit(op.multiply(centred, scale))
    inner = ctx.emit(op.multiply(output_grad, gamma) if attrs.scale else output_grad)
    along = op.mean(op.multiply(inner, normal), axes, True)
    rest = op.subtract(op.subtract(inner, op.mean(inner, axes, True)), op.multiply(normal, along))
    by_gamma = _collapsed(ctx.emit(op.multiply(output_grad, normal)), gamma)
    return [
        op.multiply(scale, rest),
        by_gamma if attrs.scale else None,
        _collapsed(output_grad, beta) if attrs.center else None,
    ]
