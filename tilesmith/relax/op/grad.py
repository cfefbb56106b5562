"""``relax.op.grad``: markers of differentiation, and the adjoints that need operators of their
own."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.relax.attrs import Schema, boolean, integer, ints, optional_integer, text
from tilesmith.relax.expr import Call, known_struct_info
from tilesmith.relax.op.common import tensor
from tilesmith.relax.op.convolution import paddings, repeat
from tilesmith.relax.op.spec import call, define, topi
from tilesmith.support.errors import OpAttributeInvalid

__all__ = [
    "avg_pool2d_backward", "end_checkpoint", "max_pool2d_backward", "nll_loss_backward", "no_grad",
    "start_checkpoint", "take_backward",
]  # fmt: skip


def _marker(name: str, meaning: str) -> Any:
    op = define(
        "grad." + name,
        "input",
        lambda call: known_struct_info(call.args[0]),
        evaluate=lambda attrs, x: x,
        legalize=lambda builder, call: call.args[0],
    )

    def function(input: Any) -> Call:
        return call(op, input)

    function.__name__ = name
    function.__doc__ = meaning
    return function


no_grad = _marker("no_grad", "The value itself, through which no gradient flows.")
start_checkpoint = _marker("start_checkpoint", "The beginning of a part that is computed again.")
end_checkpoint = _marker("end_checkpoint", "The end of a part that is computed again.")


# Pooling


def _pool_schema() -> Schema:
    return Schema(
        pool_size=ints(1, 1),
        strides=ints(1, 1),
        padding=ints(0, 0, 0, 0),
        dilation=ints(1, 1),
        ceil_mode=boolean(False),
        count_include_pad=boolean(False),
        layout=text("NCHW"),
        out_layout=text(None),
    )


def _infer_like_data(call: Call) -> Any:
    if "layout" in call.attrs and call.attrs.layout != "NCHW":
        raise OpAttributeInvalid(f"{call.op.name} needs the layout NCHW, got {call.attrs.layout}")
    return tensor(call, 1)


def _places(attrs: Any, size: int, count: int, axis: int) -> Any:
    """For each window (rows) and place in it (columns): the index in the data; -1 outside."""
    window, stride = attrs.pool_size[axis], attrs.strides[axis]
    index = numpy.arange(count)[:, None] * stride + numpy.arange(window) * attrs.dilation[axis]
    index = index - paddings(attrs.padding, 2)[axis]
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
    """How many places of a window lie within the padded data."""
    pads = paddings(attrs.padding, 2)
    start = window * attrs.strides[axis] - pads[axis]
    places = start + numpy.arange(attrs.pool_size[axis]) * attrs.dilation[axis]
    return int((places < size + pads[axis + 2]).sum())


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


def _pool_expression(pool_type: str) -> Any:
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


_MAX = define(
    "grad.max_pool2d_backward",
    "output_grad data",
    _infer_like_data,
    schema=_pool_schema(),
    compute=_pool_expression("max"),
    evaluate=_max_backward,
)
_AVG = define(
    "grad.avg_pool2d_backward",
    "output_grad data",
    _infer_like_data,
    schema=_pool_schema(),
    compute=_pool_expression("avg"),
    evaluate=_avg_backward,
)


def _pool(op: Any, output_grad: Any, data: Any, attrs: dict[str, Any]) -> Call:
    for key in ("pool_size", "strides", "dilation"):
        attrs[key] = repeat(attrs[key], 2)
    attrs["padding"] = paddings(attrs["padding"], 2)
    return call(op, output_grad, data, **attrs)


def max_pool2d_backward(
    output_grad: Any,
    data: Any,
    pool_size: Any = (1, 1),
    strides: Any = (1, 1),
    padding: Any = (0, 0, 0, 0),
    dilation: Any = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = "NCHW",
    out_layout: str | None = None,
) -> Call:
    """The gradient of ``max_pool2d`` by its data: each window's goes to its first largest
    element."""
    return _pool(
        _MAX, output_grad, data,
        {"pool_size": pool_size, "strides": strides, "padding": padding, "dilation": dilation,
         "ceil_mode": ceil_mode, "count_include_pad": count_include_pad, "layout": layout,
         "out_layout": out_layout},
    )  # fmt: skip


def avg_pool2d_backward(
    output_grad: Any,
    data: Any,
    pool_size: Any = (1, 1),
    strides: Any = (1, 1),
    padding: Any = (0, 0, 0, 0),
    dilation: Any = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = "NCHW",
    out_layout: str | None = None,
) -> Call:
    """The gradient of ``avg_pool2d`` by its data: each window's is divided among its elements."""
    return _pool(
        _AVG, output_grad, data,
        {"pool_size": pool_size, "strides": strides, "padding": padding, "dilation": dilation,
         "ceil_mode": ceil_mode, "count_include_pad": count_include_pad, "layout": layout,
         "out_layout": out_layout},
    )  # fmt: skip


# Indices


def _take_backward(attrs: Any, grad: Any, x: Any, indices: Any) -> Any:
    axis = 0 if attrs.axis is None else attrs.axis % x.ndim
    result = numpy.zeros(x.shape, "float64")
    moved = numpy.moveaxis(result, axis, 0)
    source = grad.reshape(x.shape[:axis] + (indices.size,) + x.shape[axis + 1 :])
    numpy.add.at(moved, indices.reshape(-1), numpy.moveaxis(source, axis, 0))
    return result.astype(x.dtype)


_TAKE = define(
    "grad.take_backward",
    "output_grad x indices",
    lambda call: tensor(call, 1),
    schema=Schema(axis=optional_integer()),
    compute="topi.take_grad",
    evaluate=_take_backward,
)


def take_backward(output_grad: Any, x: Any, indices: Any, axis: int | None = None) -> Call:
    """The gradient of ``take`` by its data: what was taken from one place is summed there."""
    return call(_TAKE, output_grad, x, indices, axis=axis)


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


_NLL = define(
    "grad.nll_loss_backward",
    "output_grad predictions targets weights",
    lambda call: tensor(call, 1),
    schema=Schema(reduction=text("mean"), ignore_index=integer(-100)),
    compute="topi.nn.nll_loss_grad",
    evaluate=_nll_backward,
)


def nll_loss_backward(
    output_grad: Any,
    predictions: Any,
    targets: Any,
    weights: Any = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Call:
    """The gradient of ``nll_loss`` by its predictions."""
    return call(
        _NLL,
        output_grad,
        predictions,
        targets,
        weights,
        reduction=reduction,
        ignore_index=ignore_index,
    )
