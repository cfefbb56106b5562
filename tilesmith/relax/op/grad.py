"""``relax.op.grad``: markers of differentiation, and gradients that need their own operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relax.attrs import (
    Schema,
    boolean,
    integer,
    optional_integer,
    paddings,
    repeated,
    text,
)
from tilesmith.relax.expr import Call, known_struct_info
from tilesmith.relax.op.agreement import loss_sizes
from tilesmith.relax.op.common import tensor
from tilesmith.relax.op.declaration import OpFunction, define, find_function
from tilesmith.relax.spec import Gradient, no_gradient, topi
from tilesmith.support.errors import OpAttributeInvalid


def _marker(name: str, meaning: str, gradient: Gradient | None = None) -> OpFunction:
    return define(
        "grad." + name,
        "input",
        lambda call: known_struct_info(call.args[0]),
        description=meaning,
        gradient=gradient,
        is_identity=True,
    )


no_grad = _marker("no_grad", "The value itself, through which no gradient flows.", no_gradient)
start_checkpoint = _marker("start_checkpoint", "The beginning of a part that is computed again.")
end_checkpoint = _marker("end_checkpoint", "The end of a part that is computed again.")


# Pooling


def window_schema(rank: int) -> Schema:
    """Return the attributes of a pooling over ``rank`` spatial axes."""
    return Schema(
        pool_size=repeated(rank, least=1),
        strides=repeated(rank, least=1),
        padding=paddings(rank),
        dilation=repeated(rank, least=1),
        ceil_mode=boolean(False),
        count_include_pad=boolean(False),
        layout=text("NC" + "DHW"[-rank:]),
        out_layout=text(None),
    )


def _infer_like_data(call: Call) -> Any:
    if "layout" in call.attrs and call.attrs.layout != "NCHW":
        raise OpAttributeInvalid(f"{call.op.name} needs the layout NCHW, got {call.attrs.layout}")
    return tensor(call, 1)


def _places(attrs: Any, size: int, count: int, axis: int) -> Any:
    """Return for each window (rows) and element in it (columns) the index in the data; -1
    outside.
    """
    window, stride = attrs.pool_size[axis], attrs.strides[axis]
    index = numpy.arange(count)[:, None] * stride + numpy.arange(window) * attrs.dilation[axis]
    index = index - attrs.padding[axis]
    return numpy.where((index >= 0) & (index < size), index, -1)


def _windows(attrs: Any, grad: Any, data: Any) -> Any:
    rows = _places(attrs, data.shape[2], grad.shape[2], 0)
    columns = _places(attrs, data.shape[3], grad.shape[3], 1)
    return rows, columns


def _max_backward(attrs: Any, grad: Any, data: Any) -> Any:
    rows, columns = _windows(attrs, grad, data)
    result = numpy.zeros(data.shape, "float64")
    for n, c, y, x in numpy.ndindex(*grad.shape):
        best, place = -numpy.inf, None
        for i in rows[y]:
            for j in columns[x]:
                if i >= 0 and j >= 0 and (place is None or data[n, c, i, j] > best):
                    best, place = data[n, c, i, j], (i, j)
        if place is not None:
            result[n, c, place[0], place[1]] += grad[n, c, y, x]
    return result.astype(data.dtype)


def _padded_count(attrs: Any, size: int, window: int, axis: int) -> int:
    """Return how many elements of a window lie within the padded data."""
    start = window * attrs.strides[axis] - attrs.padding[axis]
    places = start + numpy.arange(attrs.pool_size[axis]) * attrs.dilation[axis]
    return int((places < size + attrs.padding[axis + 2]).sum())


def _avg_backward(attrs: Any, grad: Any, data: Any) -> Any:
    rows, columns = _windows(attrs, grad, data)
    result = numpy.zeros(data.shape, "float64")
    for y, x in numpy.ndindex(*grad.shape[2:]):
        own_rows, own_columns = rows[y][rows[y] >= 0], columns[x][columns[x] >= 0]
        count = len(own_rows) * len(own_columns)
        if attrs.count_include_pad:
            count = _padded_count(attrs, data.shape[2], y, 0)
            count *= _padded_count(attrs, data.shape[3], x, 1)
        for i in own_rows:
            for j in own_columns:
                result[:, :, i, j] += grad[:, :, y, x] / max(count, 1)
    return result.astype(data.dtype)


def _pool_expression(pool_type: str) -> Callable[..., Any]:
    def expression(attrs: Any, grad: Any, data: Any) -> Any:
        return topi.nn.pool_grad(
            grad,
            data,
            attrs.pool_size,
            attrs.strides,
            attrs.padding,
            pool_type,
            attrs.ceil_mode,
            attrs.count_include_pad,
            attrs.layout,
            attrs.dilation,
        )

    return expression


max_pool2d_backward = define(
    "grad.max_pool2d_backward",
    "output_grad data",
    _infer_like_data,
    description=(
        "The gradient of ``max_pool2d`` by its data: each window's goes to its first largest "
        "element."
    ),
    schema=window_schema(2),
    compute=_pool_expression("max"),
    evaluate=_max_backward,
)
avg_pool2d_backward = define(
    "grad.avg_pool2d_backward",
    "output_grad data",
    _infer_like_data,
    description=(
        "The gradient of ``avg_pool2d`` by its data: each window's is divided among its elements."
    ),
    schema=window_schema(2),
    compute=_pool_expression("avg"),
    evaluate=_avg_backward,
)


# Indices


def _take_backward(attrs: Any, grad: Any, x: Any, indices: Any) -> Any:
    axis = 0 if attrs.axis is None else attrs.axis % x.ndim
    result = numpy.zeros(x.shape, "float64")
    moved = numpy.moveaxis(result, axis, 0)
    source = grad.reshape(x.shape[:axis] + (indices.size,) + x.shape[axis + 1 :])
    numpy.add.at(moved, indices.reshape(-1), numpy.moveaxis(source, axis, 0))
    return result.astype(x.dtype)


take_backward = define(
    "grad.take_backward",
    "output_grad x indices",
    lambda call: tensor(call, 1),
    description=(
        "The gradient of ``take`` by its data: what was taken from one place is summed there."
    ),
    schema=Schema(axis=optional_integer()),
    compute="topi.take_grad",
    evaluate=_take_backward,
)


def _nll_backward(
    attrs: Any, grad: Any, predictions: Any, targets: Any, weights: Any = None
) -> Any:
    axis = 1 if predictions.ndim > 1 else 0
    classes = predictions.shape[axis]
    weights = numpy.ones(classes, predictions.dtype) if weights is None else weights
    used = targets != attrs.ignore_index
    chosen = numpy.where(used, targets, 0)
    factor = numpy.where(used, weights[chosen], 0)
    scale = grad if attrs.reduction != "mean" else grad / factor.sum()
    spread = numpy.expand_dims(factor * scale, axis)
    shape = [1] * predictions.ndim
    shape[axis] = -1
    hit = numpy.expand_dims(chosen, axis) == numpy.arange(classes).reshape(shape)
    return numpy.where(hit, -spread, 0).astype(predictions.dtype)


nll_loss_backward = define(
    "grad.nll_loss_backward",
    "output_grad predictions targets weights?",
    lambda call: tensor(call, 1),
    description="The gradient of ``nll_loss`` by its predictions.",
    schema=Schema(reduction=text("mean"), ignore_index=integer(-100)),
    agreeing=loss_sizes(1),
    compute="topi.nn.nll_loss_grad",
    evaluate=_nll_backward,
)


def __getattr__(name: str) -> Any:
    """Find operators that were declared later, by programs."""
    return find_function("grad." + name)
