"""Adjoints as tensor expressions: each element of the result gathers what comes back to it."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir, topi
from tilesmith.ir.operators import cast, const, equal, floordiv, floormod
from tilesmith.relax.op.convolution import paddings


class _Windows:
    """Which windows of a pooling an element of the data lies in."""

    def __init__(self, attrs: Any, grad: Any, data: Any) -> None:
        self.window, self.stride, self.dilation = attrs.pool_size, attrs.strides, attrs.dilation
        self.padding = paddings(attrs.padding, 2)
        self.grad, self.data = grad, data
        self.places = [
            te.reduce_axis((0, size), name=f"p{k}") for k, size in enumerate(self.window)
        ]

    def output(self, axis: int, index: Any) -> tuple[Any, list[Any]]:
        """The window in which an element stands at the place of the reduction, and whether it
        exists."""
        start = index + self.padding[axis] - self.places[axis] * self.dilation[axis]
        found = floordiv(start, self.stride[axis])
        inside = [found >= 0, found < self.grad.shape[axis + 2]]
        if self.stride[axis] > 1:
            inside.append(equal(floormod(start, self.stride[axis]), const(0, start.dtype)))
        return found, inside

    def inputs(self, axis: int, window: Any, place: Any) -> tuple[Any, list[Any]]:
        """The element of the data at a place of a window, and whether it exists."""
        index = window * self.stride[axis] + place * self.dilation[axis] - self.padding[axis]
        return index, [index >= 0, index < self.data.shape[axis + 2]]


def max_pool2d_backward(attrs: Any, grad: Any, data: Any) -> Any:
    """Each window's gradient goes to its first largest element."""
    windows = _Windows(attrs, grad, data)
    width = windows.window[1]
    lowest = tir.min_value(data.dtype)

    def combine(left: Any, right: Any) -> Any:
        better = tir.Or(right[1] > left[1], tir.And(equal(right[1], left[1]), right[0] < left[0]))
        return tir.Select(better, right[0], left[0]), tir.Select(better, right[1], left[1])

    def identity(index: Any, value: Any) -> Any:
        return tir.max_value(index), tir.min_value(value)

    first_largest = tir.comm_reducer(combine, identity, name="first_largest")
    own = [te.reduce_axis((0, size), name=f"w{k}") for k, size in enumerate(windows.window)]

    def winner(n: Any, c: Any, y: Any, x: Any) -> Any:
        row, row_inside = windows.inputs(0, y, own[0])
        column, column_inside = windows.inputs(1, x, own[1])
        inside = tir.all(*row_inside, *column_inside)
        value = tir.if_then_else(inside, data(n, c, row, column), lowest)
        number = cast("int64", own[0] * width + own[1])
        return first_largest((number, value), axis=own)

    chosen, _ = te.compute(grad.shape, winner, name="T_winner")

    def gathered(n: Any, c: Any, i: Any, j: Any) -> Any:
        y, rows = windows.output(0, i)
        x, columns = windows.output(1, j)
        number = cast("int64", windows.places[0] * width + windows.places[1])
        inside = tir.all(*rows, *columns)
        mine = tir.if_then_else(inside, equal(chosen(n, c, y, x), number), const(False, "bool"))
        value = tir.if_then_else(mine, grad(n, c, y, x), const(0, grad.dtype))
        return te.sum(value, axis=windows.places)

    return te.compute(data.shape, gathered, name="max_pool2d_backward")


def avg_pool2d_backward(attrs: Any, grad: Any, data: Any) -> Any:
    """Each window's gradient is divided among its elements."""
    windows = _Windows(attrs, grad, data)
    own = [te.reduce_axis((0, size), name=f"w{k}") for k, size in enumerate(windows.window)]

    def count(y: Any, x: Any) -> Any:
        _, rows = windows.inputs(0, y, own[0])
        _, columns = windows.inputs(1, x, own[1])
        return te.sum(
            tir.Select(tir.all(*rows, *columns), const(1, "int64"), const(0, "int64")), axis=own
        )

    counts = None
    if not attrs.count_include_pad:
        counts = te.compute(grad.shape[2:], count, name="T_count")
    whole = windows.window[0] * windows.window[1]

    def gathered(n: Any, c: Any, i: Any, j: Any) -> Any:
        y, rows = windows.output(0, i)
        x, columns = windows.output(1, j)
        divisor = const(whole, grad.dtype) if counts is None else cast(grad.dtype, counts(y, x))
        value = tir.if_then_else(
            tir.all(*rows, *columns), grad(n, c, y, x) / divisor, const(0, grad.dtype)
        )
        return te.sum(value, axis=windows.places)

    return te.compute(data.shape, gathered, name="avg_pool2d_backward")


def take_backward(attrs: Any, grad: Any, x: Any, indices: Any) -> Any:
    """Each place of the data sums what was taken from it."""
    axis = 0 if attrs.axis is None else attrs.axis % len(x.shape)
    places = [te.reduce_axis((0, size), name=f"k{n}") for n, size in enumerate(indices.shape)]

    def gathered(*i: Any) -> Any:
        index = cast("int64", indices(*places))
        index = tir.Select(index < 0, index + cast("int64", x.shape[axis]), index)
        here = equal(index, cast("int64", i[axis]))
        value = grad(*i[:axis], *places, *i[axis + 1 :])
        value = tir.Select(here, value, const(0, grad.dtype))
        return te.sum(value, axis=places) if places else value

    return te.compute(x.shape, gathered, name="take_backward")


def nll_loss_backward(
    attrs: Any, grad: Any, predictions: Any, targets: Any, weights: Any = None
) -> Any:
    """Minus the weight at the target's class, nothing elsewhere."""
    dtype = predictions.dtype
    axis = 1 if len(predictions.shape) > 1 else 0
    ignored = const(attrs.ignore_index, targets.dtype)

    def factor(*i: Any) -> Any:
        target = targets(*i)
        used = tir.NE(target, ignored)
        chosen = tir.Select(used, target, const(0, target.dtype))
        value = const(1, dtype) if weights is None else weights(chosen)
        return tir.Select(used, value, const(0, dtype))

    total = None
    if attrs.reduction == "mean":
        factors = te.compute(targets.shape, factor, name="T_weights")
        total = topi.sum(factors) if targets.shape else factors

    def element(*i: Any) -> Any:
        outer = (*i[:axis], *i[axis + 1 :])
        scale = grad(*outer) if attrs.reduction == "none" else grad()
        if total is not None:
            scale = scale / total()
        hit = equal(cast("int64", targets(*outer)), cast("int64", i[axis]))
        return tir.Select(hit, -(factor(*outer) * scale), const(0, dtype))

    return te.compute(predictions.shape, element, name="nll_loss_backward")
