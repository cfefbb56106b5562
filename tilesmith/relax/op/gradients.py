"""Gradients of operators that need operators declared after them."""

from __future__ import annotations

import math
import string
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import IntImm, Op
from tilesmith.relax.expr import Constant, Tuple, TupleGetItem, known_struct_info
from tilesmith.relax.op import (  # noqa: F401 - they declare the operators
    activation,
    normalization,
    pooling,
    qdq,
    search,
)
from tilesmith.relax.op.backward import composed
from tilesmith.relax.op.common import shape_argument
from tilesmith.relax.op.convolution import SPATIAL
from tilesmith.relax.op.convolution_gradients import convolution_gradient, transposed_gradient
from tilesmith.relax.op.create import ones_like, zeros, zeros_like
from tilesmith.relax.op.elementwise import (
    astype,
    cosh,
    equal,
    floor_divide,
    less,
    logical_and,
    multiply,
    negative,
    power,
    rsqrt,
    sinh,
    sqrt,
    tanh,
    trunc,
    where,
)
from tilesmith.relax.op.index import gather_elements, gather_nd, slice_arguments, strided_slice
from tilesmith.relax.op.linear_algebra import einsum, einsum_terms
from tilesmith.relax.op.linear_maps import (
    channel_sums,
    constant_sizes,
    largest_parts,
    mean_parts,
    moved_back,
    resized,
)
from tilesmith.relax.op.manipulate import broadcast_to, flip, permute_dims, split
from tilesmith.relax.op.padding import pad
from tilesmith.relax.op.scatter import collapsed, scatter_elements, scatter_nd, shape_like
from tilesmith.relax.op.search import argsort, topk
from tilesmith.relax.op.statistical import cumprod, cumsum, mean, prod, reduced_axes, sum
from tilesmith.relax.op.statistical import max as greatest
from tilesmith.relax.op.views import expand_dims, reshape, squeeze
from tilesmith.relax.spec import Gradient, no_gradient, topi
from tilesmith.support.errors import UnsupportedError

__all__ = ["set_gradient"]


def _info(expr: Any) -> Any:
    """Return what is known about a value; the caller knows of which kind it is."""
    return known_struct_info(expr)


def set_gradient(name: str, gradient: Gradient) -> None:
    """Let the operator ``relax.<name>`` have a gradient."""
    op = Op.get("relax." + name)
    op.spec.gradient = gradient
    op.set_attr("FPrimalGradient", gradient)


def _unary(name: str, derived: Callable[[Any, Any], Any]) -> None:
    """Set the gradient of an operator of one tensor by ``derived(g, x)``."""
    set_gradient(name, lambda var, call, grad, ctx: [derived(grad, call.args[0])])


set_gradient("layout_transform", lambda var, call, grad, ctx: [moved_back(call, grad)])
_unary("acos", lambda g, x: -g / sqrt(1 - x * x))
_unary("asin", lambda g, x: g / sqrt(1 - x * x))
_unary("atan", lambda g, x: g / (x * x + 1))
_unary("acosh", lambda g, x: g / sqrt(x * x - 1))
_unary("asinh", lambda g, x: g / sqrt(x * x + 1))
_unary("atanh", lambda g, x: g / (1 - x * x))
_unary("cosh", lambda g, x: g * sinh(x))
_unary("sinh", lambda g, x: g * cosh(x))

for _name in (
    "bitwise_not isfinite isinf isnan bitwise_and bitwise_or bitwise_xor left_shift right_shift "
    "one_hot argsort quantize fixed_point_requantize"
).split():
    set_gradient(_name, no_gradient)


def _remainder(rounded: Callable[[Any, Any], Any]) -> Gradient:
    def gradient(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
        a, b = orig_call.args
        by_b = ctx.emit(negative(multiply(output_grad, rounded(a, b))))
        return [collapsed(output_grad, a), collapsed(by_b, b)]

    return gradient


set_gradient("mod", _remainder(lambda a, b: trunc(a / b)))
set_gradient("floor_mod", _remainder(floor_divide))
set_gradient("ewise_fma", composed(lambda attrs, a, b, c: a * b + c))


def _gelu_tanh(attrs: Any, x: Any) -> Any:
    return x * 0.5 * (tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1)


set_gradient("nn.gelu_tanh", composed(_gelu_tanh))


# Normalisations: what they compute, step by step


def _along(vector: Any, axes: Any, rank: int) -> Any:
    """Return a tensor whose axes are ``axes`` of a rank in a shape that broadcasts."""
    places = [axis % rank for axis in axes]
    return expand_dims(vector, [axis for axis in range(rank) if axis not in places])


def _centred(x: Any, axes: Any, epsilon: float) -> Any:
    centred = x - mean(x, axes, True)
    return centred * rsqrt(mean(centred * centred, axes, True) + epsilon)


def _batch_norm(attrs: Any, x: Any, gamma: Any, beta: Any, average: Any, variance: Any) -> Any:
    rank, axes = _info(x).ndim, [attrs.axis]
    moving = average, variance
    if attrs.training:
        average, variance, moving = _batch_statistics(attrs, x, moving)
    found = (x - _along(average, axes, rank)) * _along(rsqrt(variance + attrs.epsilon), axes, rank)
    if attrs.scale:
        found = found * _along(gamma, axes, rank)
    if attrs.center:
        found = found + _along(beta, axes, rank)
    return Tuple([found, *moving])


def _batch_statistics(attrs: Any, x: Any, moving: tuple[Any, Any]) -> tuple[Any, Any, Any]:
    """Return the mean and the variance of a batch, and the moving ones that come nearer to them."""
    sizes = constant_sizes(x, "nn.batch_norm in training")
    others = [axis for axis in range(len(sizes)) if axis != attrs.axis % len(sizes)]
    count = math.prod([sizes[axis] for axis in others])
    average = mean(x, others)
    centred = x - mean(x, others, True)
    spread = mean(centred * centred, others)
    unbiased = spread * (count / (count - 1) if count > 1 else math.nan)
    share = attrs.momentum
    nearer = [old * (1 - share) + new * share for old, new in zip(moving, (average, unbiased))]
    return average, spread, nearer


def _layer_norm(attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    rank = _info(x).ndim
    found = _centred(x, list(attrs.axes), attrs.epsilon)
    if attrs.scale:
        found = found * _along(gamma, attrs.axes, rank)
    return found + _along(beta, attrs.axes, rank) if attrs.center else found


def _group_norm(attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    sizes = constant_sizes(x, "group_norm")
    rank = len(sizes)
    axis = attrs.channel_axis % rank
    shape = [*sizes[:axis], attrs.num_groups, sizes[axis] // attrs.num_groups, *sizes[axis + 1 :]]
    axes = [axis + 1] + [one % rank + (one % rank > axis) for one in attrs.axes]
    found = reshape(_centred(reshape(x, shape), axes, attrs.epsilon), sizes)
    if attrs.scale:
        found = found * _along(gamma, [axis], rank)
    return found + _along(beta, [axis], rank) if attrs.center else found


def _instance_norm(attrs: Any, x: Any, gamma: Any, beta: Any) -> Any:
    rank, axes = _info(x).ndim, [attrs.channel_axis]
    found = _centred(x, list(attrs.axes), attrs.epsilon)
    return found * _along(gamma, axes, rank) + _along(beta, axes, rank)


def _rms_norm(attrs: Any, x: Any, weight: Any) -> Any:
    axes = list(attrs.axes)
    found = x * rsqrt(mean(x * x, axes, True) + attrs.epsilon)
    return found * _along(weight, axes, _info(x).ndim)


def _prelu(attrs: Any, x: Any, alpha: Any) -> Any:
    return where(x > 0, x, x * _along(alpha, [attrs.axis], _info(x).ndim))


set_gradient("nn.batch_norm", composed(_batch_norm))
set_gradient("nn.layer_norm", composed(_layer_norm))
set_gradient("nn.group_norm", composed(_group_norm))
set_gradient("nn.instance_norm", composed(_instance_norm))
set_gradient("nn.rms_norm", composed(_rms_norm))
set_gradient("nn.prelu", composed(_prelu))


def _dequantize(attrs: Any, x: Any, scale: Any, zero_point: Any) -> Any:
    def along(vector: Any) -> Any:
        kept = astype(vector, attrs.out_dtype)
        return _along(kept, [attrs.axis], _info(x).ndim) if _info(vector).ndim else kept

    return (astype(x, attrs.out_dtype) - along(zero_point)) * along(scale)


set_gradient("dequantize", composed(_dequantize))


# Reductions


def _prod(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the gradient: for each element the product of the others, without dividing by zero."""
    x, axes = orig_call.args[0], orig_call.attrs.axis
    is_zero = equal(x, zeros_like(x))
    others = where(is_zero, ones_like(x), x)
    product = prod(others, axes, True)
    zeros_there = sum(where(is_zero, ones_like(x), zeros_like(x)), axes, True)
    at_zero = where(zeros_there < 1.5, product, zeros_like(product))  # of two zeros one is left
    elsewhere = where(zeros_there < 0.5, product / others, zeros_like(x))
    return [reshape(output_grad, _kept_sizes(orig_call)) * where(is_zero, at_zero, elsewhere)]


def _std(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    x, kept = orig_call.args[0], _kept_sizes(orig_call)
    sizes = constant_sizes(x, "std")
    count = math.prod([sizes[axis] for axis in reduced_axes(orig_call)])
    centred = x - mean(x, orig_call.attrs.axis, True)
    return [centred * (reshape(output_grad, kept) / (reshape(orig_var, kept) * float(count)))]


def _kept_sizes(call: Any) -> list[int]:
    axes = reduced_axes(call)
    sizes = constant_sizes(call.args[0], call.op.name)
    return [1 if axis in axes else size for axis, size in enumerate(sizes)]


set_gradient("prod", _prod)
set_gradient("std", _std)


# Order and repetition


def _stack(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    count = len(_info(orig_call.args[0]).fields)
    axis = orig_call.attrs.axis
    if count == 1:
        return [Tuple([squeeze(output_grad, [axis])])]
    parts = ctx.emit(split(output_grad, count, axis))
    return [Tuple([squeeze(TupleGetItem(parts, place), [axis]) for place in range(count)])]


def _tile(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    sizes, repeats = constant_sizes(orig_call.args[0], "tile"), list(orig_call.attrs.repeats)
    rank = max(len(sizes), len(repeats))
    padded = [1] * (rank - len(sizes)) + sizes
    repeats = [1] * (rank - len(repeats)) + repeats
    apart = [one for pair in zip(repeats, padded) for one in pair]
    total = sum(reshape(output_grad, apart), list(range(0, 2 * rank, 2)))
    return [reshape(total, sizes)]


def _repeat(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    sizes, axis = constant_sizes(orig_call.args[0], "repeat"), orig_call.attrs.axis
    if axis is None:
        apart = [math.prod(sizes), orig_call.attrs.repeats]
        return [reshape(sum(reshape(output_grad, apart), [1]), sizes)]
    axis %= len(sizes)
    apart = [*sizes[: axis + 1], orig_call.attrs.repeats, *sizes[axis + 1 :]]
    return [sum(reshape(output_grad, apart), [axis + 1])]


def _pad(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    attrs = orig_call.attrs
    if attrs.pad_mode != "constant":
        raise UnsupportedError("the gradient of nn.pad needs the mode 'constant'")
    return [pad(output_grad, [-one for one in attrs.pad_width])]


set_gradient("stack", _stack)
set_gradient("tile", _tile)
set_gradient("repeat", _repeat)
set_gradient("nn.pad", _pad)
set_gradient("flip", lambda var, call, grad, ctx: [flip(grad, call.attrs.axis)])


def _collapse_sum(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    return [broadcast_to(output_grad, shape_like(orig_call.args[0])), None]


set_gradient("collapse_sum_to", _collapse_sum)
set_gradient("collapse_sum_like", _collapse_sum)


# Choice of elements


def _gather_elements(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    data, indices = orig_call.args
    axis = orig_call.attrs.axis
    return [scatter_elements(zeros_like(data), indices, output_grad, axis, "add"), None]


def _gather_nd(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    data, indices = orig_call.args
    if orig_call.attrs.batch_dims:
        raise UnsupportedError("the gradient of gather_nd needs batch_dims of 0")
    return [scatter_nd(zeros_like(data), indices, output_grad, "add"), None]


def _scattered(gathered: Callable[..., Any], scattered: Callable[..., Any]) -> Gradient:
    def gradient(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
        _, indices, updates = orig_call.args
        attrs = orig_call.attrs
        if attrs.reduction == "add":
            return [output_grad, None, gathered(attrs, output_grad, indices)]
        if attrs.reduction not in ("update", "none"):
            raise UnsupportedError(
                f"{orig_call.op.name} with the reduction '{attrs.reduction}' has no gradient"
            )
        kept = scattered(attrs, output_grad, indices, zeros_like(updates))
        return [kept, None, gathered(attrs, output_grad, indices)]

    return gradient


set_gradient("gather_elements", _gather_elements)
set_gradient("gather_nd", _gather_nd)
set_gradient(
    "scatter_elements",
    _scattered(
        lambda attrs, data, indices: gather_elements(data, indices, attrs.axis),
        lambda attrs, data, indices, new: scatter_elements(data, indices, new, attrs.axis),
    ),
)
set_gradient(
    "scatter_nd",
    _scattered(
        lambda attrs, data, indices: gather_nd(data, indices),
        lambda attrs, data, indices, new: scatter_nd(data, indices, new, attrs.reduction),
    ),
)


def _strided_slice(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the gradient with zeros between and around what was taken."""
    axes, begin, end, strides = slice_arguments(orig_call)
    sizes = constant_sizes(orig_call.args[0], "strided_slice")
    rest = [None] * (len(orig_call.args) - 1)
    found, assumed = output_grad, orig_call.attrs.assume_inbound
    width = [[0, 0] for _ in sizes]
    for axis, first, last, stride in zip(axes, begin, end, strides):
        step = int(stride)
        start, count = topi.utils.slice_bounds(IntImm("int64", sizes[axis]), first, last, step,
                                               assumed)  # fmt: skip
        lowest, taken = int(start), int(count)
        if taken == 0:
            return [zeros(sizes, _info(output_grad).dtype), *rest]
        if step < 0:
            found = flip(found, axis)
            lowest += (taken - 1) * step
        found = _apart(ctx.emit(found), axis, abs(step))
        used = (taken - 1) * abs(step) + 1
        width[axis] = [lowest, sizes[axis] - lowest - used]
    return [pad(found, width), *rest]


def _apart(grad: Any, axis: int, step: int) -> Any:
    """Return a tensor with zeros between its elements along an axis."""
    if step == 1:
        return grad
    sizes = [int(one) for one in _info(grad).concrete_shape]
    rank, count = len(sizes), sizes[axis]
    split_axis = expand_dims(grad, axis + 1)
    width = [[0, step - 1] if place == axis + 1 else [0, 0] for place in range(rank + 1)]
    spread = reshape(pad(split_axis, width), [*sizes[:axis], count * step, *sizes[axis + 1 :]])
    return strided_slice(spread, [axis], [0], [(count - 1) * step + 1])


set_gradient("strided_slice", _strided_slice)


# Windows


def _convolutions() -> None:
    for rank in SPATIAL:
        set_gradient(f"nn.conv{rank}d", convolution_gradient(rank))
        set_gradient(f"nn.conv{rank}d_transpose", transposed_gradient(rank))


_convolutions()


def _turned_pool(kind: str, rank: int) -> Gradient:
    """Return the gradient of pools over several axes: other layouts by turning the axes."""
    function = getattr(pooling, f"{kind}_pool{rank}d")
    plain, primal = function.op.spec.gradient, "NC" + SPATIAL[rank]

    def turned(attrs: Any, x: Any) -> Any:
        order = [attrs.layout.index(axis) for axis in primal]
        out = attrs.out_layout or attrs.layout
        given = {**dict(attrs.items()), "layout": primal, "out_layout": None}
        found = function(permute_dims(x, order), **given)
        return permute_dims(found, [primal.index(axis) for axis in out])

    other = composed(turned)

    def gradient(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
        attrs = orig_call.attrs
        is_plain = attrs.layout == primal and attrs.out_layout in (None, primal)
        return (plain if is_plain else other)(orig_var, orig_call, output_grad, ctx)

    return gradient


def _narrow_pool(kind: str) -> Gradient:
    """Return the gradient of pools along one axis: windows of one row."""
    function = getattr(pooling, f"{kind}_pool2d")

    def wide(attrs: Any, x: Any) -> Any:
        order = [attrs.layout.index(axis) for axis in "NCW"]
        before, after = attrs.padding
        given = dict(attrs.items())
        out = given.pop("out_layout") or attrs.layout
        for name in ("pool_size", "strides", "dilation"):
            given[name] = [1, *given[name]]
        given |= {"layout": "NCHW", "padding": [0, before, 0, after]}
        found = squeeze(function(expand_dims(permute_dims(x, order), 2), **given), [2])
        return permute_dims(found, ["NCW".index(axis) for axis in out])

    return composed(wide)


def _adaptive_pool(kind: str, rank: int) -> Gradient:
    """Return the gradient of pools of the whole image, of windows side by side, or of parts of
    different sizes.
    """
    whole = mean if kind == "avg" else greatest
    of_parts = mean_parts if kind == "avg" else largest_parts

    def meaning(attrs: Any, x: Any) -> Any:
        axes = [attrs.layout.index(axis) for axis in SPATIAL[rank]]
        sizes = constant_sizes(x, "an adaptive pool")
        counts = list(attrs.output_size or [sizes[axis] for axis in axes])
        apart: list[int] = []
        for place, axis in enumerate(axes):
            if sizes[axis] % counts[place]:
                x = of_parts(x, axis, counts[place])
                sizes[axis] = counts[place]
        for axis, size in enumerate(sizes):
            count = counts[axes.index(axis)] if axis in axes else size
            apart += [count, size // count]
        found = whole(reshape(x, apart), list(range(1, 2 * len(sizes), 2)))
        out = attrs.out_layout or attrs.layout
        return permute_dims(found, [attrs.layout.index(axis) for axis in out])

    return composed(meaning)


for _kind in ("max", "avg"):
    set_gradient(f"nn.{_kind}_pool2d", _turned_pool(_kind, 2))
    set_gradient(f"nn.{_kind}_pool3d", _turned_pool(_kind, 3))
    set_gradient(f"nn.{_kind}_pool1d", _narrow_pool(_kind))
    for _rank in SPATIAL:
        set_gradient(f"nn.adaptive_{_kind}_pool{_rank}d", _adaptive_pool(_kind, _rank))


# Resizing, and normalisation by what is around


def _resize2d(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    size = shape_argument(orig_call, 1)
    given = [one.value for one in size.values or () if isinstance(one, IntImm)]
    if len(given) != 2:
        raise UnsupportedError("the gradient of image.resize2d needs a constant size")
    gradient = composed(lambda attrs, x, _: resized(attrs, x, given, "HW"))
    return [gradient(orig_var, orig_call, output_grad, ctx)[0], None]


def _lrn(attrs: Any, x: Any) -> Any:
    around = channel_sums(x * x, attrs.axis % _info(x).ndim, attrs.size)
    return x * power(around * (attrs.alpha / attrs.size) + attrs.bias, -attrs.beta)


set_gradient("image.resize2d", _resize2d)
set_gradient("nn.lrn", composed(_lrn))


# Order, products


def _sort(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    x, attrs = orig_call.args[0], orig_call.attrs
    order = argsort(x, axis=attrs.axis, descending=attrs.descending, dtype="int64")
    return [scatter_elements(zeros_like(x), order, output_grad, attrs.axis, "add")]


def _topk(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    x, attrs = orig_call.args[0], orig_call.attrs
    if attrs.ret_type == "indices":
        return [None]
    places: Any = TupleGetItem(orig_var, 1)
    if attrs.ret_type == "both":
        output_grad = TupleGetItem(output_grad, 0)
    else:
        places = topk(x, attrs.k, attrs.axis, "indices", attrs.largest, attrs.dtype)
    places = astype(places, "int64")
    return [scatter_elements(zeros_like(x), places, output_grad, attrs.axis, "add")]


def _cumprod(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    """Return the gradient without dividing by zero: before the first zero along the axis, each
    element has the sum of what it is a factor of, divided by it; the first zero is left out.
    """
    given, attrs = orig_call.args[0], orig_call.attrs
    kind, own = _info(output_grad).dtype, _info(given).dtype
    x = given if own == kind else astype(given, kind)
    sizes = constant_sizes(given, "cumprod")
    axis = 0 if attrs.axis is None else attrs.axis % len(sizes)
    x = reshape(x, [-1]) if attrs.axis is None else x
    is_zero = equal(x, zeros_like(x))
    zeros_so_far = cumsum(where(is_zero, ones_like(x), zeros_like(x)), axis)
    is_before = less(zeros_so_far, ones_like(x))
    is_first = logical_and(is_zero, less(zeros_so_far, ones_like(x) * 1.5))

    def after(products: Any) -> Any:
        turned = cumsum(flip(output_grad * products, axis), axis, None, attrs.exclusive)
        return flip(turned, axis)

    without = cumprod(where(is_first, ones_like(x), x), axis, None, attrs.exclusive)
    others = after(orig_var) / where(is_zero, ones_like(x), x)
    found = where(is_before, others, where(is_first, after(without), zeros_like(x)))
    found = reshape(found, sizes) if attrs.axis is None else found
    return [found if own == kind else astype(found, own)]


def _fields(value: Any, ctx: Any) -> list[Any]:
    if isinstance(value, Tuple):
        return list(value.fields)
    return [ctx.emit(TupleGetItem(value, place)) for place in range(len(_info(value).fields))]


def _einsum(orig_var: Any, orig_call: Any, output_grad: Any, ctx: Any) -> list[Any]:
    """Return for each operand the sum over the axes of the others. An axis that only it has is
    repeated; of one that it has twice the diagonal counts.
    """
    operands = _fields(orig_call.args[0], ctx)
    terms, output = einsum_terms(orig_call.attrs.subscripts)
    kind = _info(output_grad).dtype.numpy()
    unused = [one for one in string.ascii_letters if one not in "".join(terms)]
    found = []
    for place, term in enumerate(terms):
        sizes = constant_sizes(operands[place], "einsum")
        parts = [output_grad, *[one for at, one in enumerate(operands) if at != place]]
        words = [output, *[one for at, one in enumerate(terms) if at != place]]
        known, wanted, fresh = set("".join(words)), "", list(unused)
        for letter, size in zip(term, sizes):
            name = fresh.pop() if letter in wanted else letter
            if name != letter:
                parts.append(Constant(numpy.eye(size, dtype=kind)))
                words.append(letter + name)
            elif letter not in known:
                parts.append(Constant(numpy.ones(size, kind)))
                words.append(letter)
            wanted += name
        found.append(einsum(Tuple(parts), subscripts=f"{','.join(words)}->{wanted}"))
    return [Tuple(found)]


set_gradient("sort", _sort)
set_gradient("topk", _topk)
set_gradient("cumprod", _cumprod)
set_gradient("einsum", _einsum)
