"""Pooling: the largest or mean value of windows, and of equal parts of the whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir.windows import window_count
from tilesmith.relax.attrs import Schema, optional, repeated, text
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import check_ndim, result, size, sizes_of, tensor
from tilesmith.relax.op.convolution import (
    SPATIAL,
    check_windows,
    from_primal_array,
    to_primal_array,
)
from tilesmith.relax.op.declaration import OpFunction, define
from tilesmith.relax.op.grad import (
    avg_pool2d_backward,
    avg_pool3d_backward,
    max_pool2d_backward,
    max_pool3d_backward,
    window_schema,
)
from tilesmith.relax.op.layouts import from_primal, parse_layout, to_primal
from tilesmith.relax.spec import Gradient, Layout, Precision, topi
from tilesmith.support.errors import UnsupportedError


def _infer_pool(rank: int) -> Any:
    primal = "NC" + SPATIAL[rank]

    def infer(call: Call) -> Any:
        data, attrs = tensor(call, 0), call.attrs
        out_layout = attrs.out_layout or attrs.layout
        check_ndim(call, 0, data, len(parse_layout(attrs.layout, primal)))
        sizes = sizes_of(data)
        if sizes is None:
            return result(None, data.dtype, len(parse_layout(out_layout, primal)))
        sizes = to_primal(sizes, attrs.layout, primal)
        window, strides, dilation, padding = _window(attrs)
        spatial = []
        for i in range(rank):
            padded = sizes[i + 2] + (padding[i] + padding[i + rank])
            spatial.append(
                window_count(padded, window[i], strides[i], dilation[i], attrs.ceil_mode)
            )
        check_windows(call, "window", sizes[2:], spatial)
        return result(from_primal([*sizes[:2], *spatial], out_layout, primal), data.dtype)

    return infer


def _window(attrs: Any) -> Any:
    return attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding


def _windows(data: Any, attrs: Any, rank: int, fill: Any) -> list[Any]:
    """Return, for each position in the window, the data of all windows there; ``fill`` outside."""
    window, strides, dilation, padding = _window(attrs)
    extents, width = [], []
    for i in range(rank):
        size = data.shape[i + 2]
        whole = size + padding[i] + padding[i + rank]
        extents.append(window_count(whole, window[i], strides[i], dilation[i], attrs.ceil_mode))
        needed = (extents[i] - 1) * strides[i] + (window[i] - 1) * dilation[i] + 1
        width.append((padding[i], max(padding[i + rank], needed - size - padding[i])))
    padded = numpy.pad(data, [(0, 0), (0, 0), *width], constant_values=fill)
    found = []
    for offset in itertools.product(*[range(k) for k in window]):
        part = [
            slice(o * d, o * d + (n - 1) * s + 1, s)
            for o, d, n, s in zip(offset, dilation, extents, strides)
        ]
        found.append(padded[(slice(None), slice(None), *part)])
    return found


def _evaluate_max(rank: int) -> Any:
    primal = "NC" + SPATIAL[rank]

    def evaluate(attrs: Any, data: Any) -> Any:
        data = to_primal_array(data, attrs.layout, primal)
        lowest = -numpy.inf if data.dtype.kind not in "iu" else numpy.iinfo(data.dtype).min
        out = numpy.maximum.reduce(_windows(data, attrs, rank, lowest))
        return from_primal_array(out, attrs.out_layout or attrs.layout, primal)

    return evaluate


def _evaluate_avg(rank: int) -> Any:
    primal = "NC" + SPATIAL[rank]

    def evaluate(attrs: Any, data: Any) -> Any:
        data = to_primal_array(data, attrs.layout, primal)
        total = numpy.add.reduce(
            [part.astype("float64") for part in _windows(data, attrs, rank, 0)]
        )
        # With count_include_pad, requested padding counts; elements that ceil_mode
        # adds do not.
        counted, inner = numpy.ones(data.shape, "float64"), attrs
        if attrs.count_include_pad:
            padding = attrs.padding
            width = [(padding[i], padding[i + rank]) for i in range(rank)]
            counted = numpy.pad(counted, [(0, 0), (0, 0), *width], constant_values=1)
            inner = _WithoutPadding(attrs, rank)
        count = numpy.add.reduce(_windows(counted, inner, rank, 0))
        out = (total / numpy.maximum(count, 1)).astype(data.dtype)
        return from_primal_array(out, attrs.out_layout or attrs.layout, primal)

    return evaluate


class _WithoutPadding:
    """The attributes of a pooling of data that is padded already."""

    def __init__(self, attrs: Any, rank: int) -> None:
        self.pool_size, self.strides, self.dilation = attrs.pool_size, attrs.strides, attrs.dilation
        self.padding, self.ceil_mode = (0,) * (2 * rank), attrs.ceil_mode


def _check_layout_stays(attrs: Any) -> None:
    if attrs.out_layout not in (None, attrs.layout):
        raise UnsupportedError("a pooling that changes the layout has no compute")


def _expression(kind: str, rank: int) -> Callable[..., Any]:
    def expression(attrs: Any, data: Any) -> Any:
        _check_layout_stays(attrs)
        return getattr(topi.nn, f"pool{rank}d")(
            data,
            attrs.pool_size,
            attrs.strides,
            attrs.dilation,
            attrs.padding,
            kind,
            attrs.ceil_mode,
            attrs.layout,
            attrs.count_include_pad,
        )

    return expression


def _pool(
    kind: str, rank: int, precision: Precision = Precision.NEVER, gradient: Gradient | None = None
) -> OpFunction:
    word = "largest" if kind == "max" else "mean"
    return define(
        f"nn.{kind}_pool{rank}d",
        "data",
        _infer_pool(rank),
        description=(
            f"The {word} value of each window over {rank} spatial "
            f"dimension{'s' if rank > 1 else ''}.\n\n"
            "    ``ceil_mode`` keeps windows that reach over the end; ``count_include_pad`` counts "
            "padding\n"
            "    in a mean."
        ),
        schema=window_schema(rank),
        compute=_expression(kind, rank),
        evaluate=(_evaluate_max if kind == "max" else _evaluate_avg)(rank),
        gradient=gradient,
        precision=precision,
        layout=Layout.NAMED,
    )


def _gradient(backward: OpFunction) -> Gradient:
    def gradient(orig_var: Any, orig_call: Call, output_grad: Any, ctx: Any) -> list[Any]:
        return [backward(output_grad, orig_call.args[0], **dict(orig_call.attrs.items()))]

    return gradient


max_pool1d = _pool("max", 1)
max_pool2d = _pool("max", 2, Precision.FOLLOW, _gradient(max_pool2d_backward))
max_pool3d = _pool("max", 3, gradient=_gradient(max_pool3d_backward))
avg_pool1d = _pool("avg", 1)
avg_pool2d = _pool("avg", 2, gradient=_gradient(avg_pool2d_backward))
avg_pool3d = _pool("avg", 3, gradient=_gradient(avg_pool3d_backward))


# Adaptive pooling: part i of n has the elements from floor(i*size/n) to ceil((i+1)*size/n).


def _adaptive_expression(kind: str, rank: int) -> Callable[..., Any]:
    name = {1: "adaptive_pool1d", 2: "adaptive_pool", 3: "adaptive_pool3d"}[rank]

    def expression(attrs: Any, data: Any) -> Any:
        _check_layout_stays(attrs)
        return getattr(topi.nn, name)(data, attrs.output_size, kind, attrs.layout)

    return expression


def _infer_adaptive(rank: int) -> Any:
    primal = "NC" + SPATIAL[rank]

    def infer(call: Call) -> Any:
        data, attrs = tensor(call, 0), call.attrs
        out_layout = attrs.out_layout or attrs.layout
        check_ndim(call, 0, data, len(parse_layout(attrs.layout, primal)))
        sizes = sizes_of(data)
        if sizes is None:
            return result(None, data.dtype, len(parse_layout(out_layout, primal)))
        sizes = to_primal(sizes, attrs.layout, primal)
        spatial = sizes[2:]
        if attrs.output_size is not None:
            spatial = [size(extent) for extent in attrs.output_size]
        return result(from_primal([*sizes[:2], *spatial], out_layout, primal), data.dtype)

    return infer


def _evaluate_adaptive(kind: str, rank: int) -> Any:
    primal = "NC" + SPATIAL[rank]
    reduce = numpy.max if kind == "max" else numpy.mean

    def evaluate(attrs: Any, data: Any) -> Any:
        kind_of_data = data.dtype
        out = to_primal_array(data, attrs.layout, primal)
        extents = out.shape[2:] if attrs.output_size is None else attrs.output_size
        for axis, parts in enumerate(extents, 2):
            whole = out.shape[axis]
            pieces = [
                reduce(
                    numpy.take(out, range(i * whole // parts, -(-(i + 1) * whole // parts)), axis),
                    axis=axis,
                    keepdims=True,
                )
                for i in range(parts)
            ]
            out = numpy.concatenate(pieces, axis)
        return from_primal_array(out.astype(kind_of_data), attrs.out_layout or attrs.layout, primal)

    return evaluate


def _adaptive(kind: str, rank: int) -> OpFunction:
    word = "largest" if kind == "max" else "mean"
    return define(
        f"nn.adaptive_{kind}_pool{rank}d",
        "data",
        _infer_adaptive(rank),
        description=(
            f"The {word} value of equal parts: as many along each axis as ``output_size`` says."
        ),
        schema=Schema(
            output_size=optional(repeated(rank)),
            layout=text("NC" + SPATIAL[rank]),
            out_layout=text(None),
        ),
        compute=_adaptive_expression(kind, rank),
        evaluate=_evaluate_adaptive(kind, rank),
        layout=Layout.NAMED,
    )


adaptive_avg_pool1d = _adaptive("avg", 1)
adaptive_avg_pool2d = _adaptive("avg", 2)
adaptive_avg_pool3d = _adaptive("avg", 3)
adaptive_max_pool1d = _adaptive("max", 1)
adaptive_max_pool2d = _adaptive("max", 2)
adaptive_max_pool3d = _adaptive("max", 3)
