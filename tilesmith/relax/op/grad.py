"""``relax.op.grad``: markers of differentiation, and gradients that need their own operators."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
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


def _infer_like_data(rank: int) -> Any:
    wanted = "NC" + "DHW"[-rank:]

    def infer(call: Call) -> Any:
        attrs: Any = call.attrs
        op: Any = call.op
        layout = attrs.layout
        if layout != wanted:
            raise OpAttributeInvalid(f"{op.name} needs the layout {wanted}, got {layout}")
        return tensor(call, 1)

    return infer


def _places(attrs: Any, size: int, count: int, axis: int) -> Any:
    """Return for each window (rows) and element in it (columns) the index in the data; -1
    outside.
    """
    window, stride = attrs.pool_size[axis], attrs.strides[axis]
    index = numpy.arange(count)[:, None] * stride + numpy.arange(window) * attrs.dilation[axis]
    index = index - attrs.padding[axis]
    return numpy.where((index >= 0) & (index < size), index, -1)


def _windows(attrs: Any, grad: Any, data: Any) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
    """Yield each window, and along each axis the places of its elements in the data."""
    rank = data.ndim - 2
    places = [_places(attrs, data.shape[k + 2], grad.shape[k + 2], k) for k in range(rank)]
    for window in numpy.ndindex(*grad.shape[2:]):
        rows = [places[k][window[k]] for k in range(rank)]
        yield window, [row[row >= 0] for row in rows]


def _max_backward(attrs: Any, grad: Any, data: Any) -> Any:
    result = numpy.zeros(data.shape, "float64")
    for window, places in _windows(attrs, grad, data):
        if not all(map(len, places)):
            continue
        grid = numpy.ix_(*places)
        for n, c in numpy.ndindex(*data.shape[:2]):
            part = data[n, c][grid]
            best = numpy.unravel_index(numpy.argmax(part), part.shape)
            at = tuple([row[i] for row, i in zip(places, best)])
            result[(n, c, *at)] += grad[(n, c, *window)]
    return result.astype(data.dtype)


def _padded_count(attrs: Any, size: int, window: int, axis: int) -> int:
    """Return how many elements of a window lie within the padded data."""
    start = window * attrs.strides[axis] - attrs.padding[axis]
    places = start + numpy.arange(attrs.pool_size[axis]) * attrs.dilation[axis]
    after = attrs.padding[axis + len(attrs.pool_size)]
    return int((places < size + after).sum())


def _avg_backward(attrs: Any, grad: Any, data: Any) -> Any:
    result = numpy.zeros(data.shape, "float64")
    for window, places in _windows(attrs, grad, data):
        counts = [len(row) for row in places]
        if attrs.count_include_pad:
            counts = [_padded_count(attrs, data.shape[k + 2], at, k) for k, at in enumerate(window)]
        share = grad[(slice(None), slice(None), *window)] / max(math.prod(counts), 1)
        for at in itertools.product(*places):
            result[(slice(None), slice(None), *at)] += share
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


def _pool_backward(kind: str, rank: int) -> OpFunction:
    share = (
        "goes to its first largest element" if kind == "max" else "is divided among its elements"
    )
    return define(
        f"grad.{kind}_pool{rank}d_backward",
        "output_grad data",
        _infer_like_data(rank),
        description=f"The gradient of ``{kind}_pool{rank}d`` by its data: each window's {share}.",
        schema=window_schema(rank),
        compute=_pool_expression(kind),
        evaluate=_max_backward if kind == "max" else _avg_backward,
    )


max_pool2d_backward = _pool_backward("max", 2)
avg_pool2d_backward = _pool_backward("avg", 2)
max_pool3d_backward = _pool_backward("max", 3)
avg_pool3d_backward = _pool_backward("avg", 3)


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
