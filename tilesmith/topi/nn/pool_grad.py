"""Gradients of pooling: each element of the data gathers from the windows that contain it."""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import rounded, widened
from tilesmith.topi.compute import compute, compute_several
from tilesmith.topi.nn.pooling import Windows, windows_of
from tilesmith.topi.nn.utils import Numbers, Padding

__all__ = ["pool_grad"]


def _combine_first_largest(left: Any, right: Any) -> Any:
    """Return the larger of two (index, value), of equal values the one with the smaller index."""
    better = tir.Or(right[1] > left[1], tir.And(op.equal(right[1], left[1]), right[0] < left[0]))
    return tir.Select(better, right[0], left[0]), tir.Select(better, right[1], left[1])


class _Gradient:
    """The windows that contain an element of the data, and its position in them."""

    def __init__(self, grads: Tensor, data: Tensor, windows: Windows) -> None:
        self.grads, self.data, self.windows = grads, data, windows
        self.places = [
            te.reduce_axis((0, size), name=f"p{k}") for k, size in enumerate(windows.kernel)
        ]

    def window_of(self, indices: tuple) -> tuple[list[Any], PrimExpr]:
        """Return the window that has an element at the reduction's position, and whether it
        exists.
        """
        w, found, inside = self.windows, list(indices), []
        for k, axis in enumerate(w.axes):
            start = indices[axis] + w.before[k] - self.places[k] * w.dilation[k]
            found[axis] = op.floordiv(start, w.stride[k])
            inside += [found[axis] >= 0, found[axis] < self.grads.shape[axis]]
            if w.stride[k] > 1:
                rest = op.floormod(start, w.stride[k])
                inside.append(op.equal(rest, const(0, start.dtype)))
        return found, tir.all(*inside)

    def number(self, places: list[Any]) -> PrimExpr:
        """Return the flat number of a position within its window."""
        flat: Any = places[0]
        for place, size in zip(places[1:], self.windows.kernel[1:]):
            flat = flat * size + place
        return op.cast("int64", flat)

    def winners(self) -> Tensor:
        """Return, for each window, the number of the position of its first largest element."""
        w, data = self.windows, self.data

        def identity(index: Any, value: Any) -> Any:
            return tir.max_value(index), tir.min_value(value)

        reducer = tir.comm_reducer(_combine_first_largest, identity, name="first_largest")
        own = [te.reduce_axis((0, size), name=f"w{k}") for k, size in enumerate(w.kernel)]

        def winner(*indices: Any) -> Any:
            place, inside = list(indices), []
            for k, axis in enumerate(w.axes):
                place[axis] = w.first(k, indices[axis]) + own[k] * w.dilation[k]
                inside += [place[axis] >= 0, place[axis] < data.shape[axis]]
            value = tir.if_then_else(tir.all(*inside), data(*place), tir.min_value(data.dtype))
            return reducer((self.number(own), value), axis=own)

        chosen, _ = compute_several(self.grads.shape, winner, name="T_winner")
        return chosen

    def of_max(self) -> Tensor:
        """Pass each window's gradient to its first largest element."""
        chosen, grads = self.winners(), self.grads

        def gathered(*indices: Any) -> PrimExpr:
            window, inside = self.window_of(indices)
            wins = op.equal(chosen(*window), self.number(self.places))
            mine = tir.if_then_else(inside, wins, const(False, "bool"))
            value = tir.if_then_else(mine, grads(*window), const(0, grads.dtype))
            return te.sum(widened(value), axis=self.places)

        total = compute(self.data.shape, gathered, name="max_pool_grad", tag="max_pool_grad")
        return rounded(total, grads.dtype)

    def of_avg(self, ceil_mode: bool, include_pad: bool) -> Tensor:
        """Divide each window's gradient among its elements."""
        w, grads, data = self.windows, self.grads, self.data

        def gathered(*indices: Any) -> PrimExpr:
            window, inside = self.window_of(indices)
            count: Any = const(1, "int64")
            for k, axis in enumerate(w.axes):
                size = data.shape[axis]
                count = count * w.count(k, window[axis], size, ceil_mode, include_pad)
            share = widened(grads(*window))
            divisor = op.cast(share.dtype, op.maximum(count, const(1, "int64")))
            value = tir.if_then_else(inside, share / divisor, const(0, share.dtype))
            return te.sum(widened(value), axis=self.places)

        total = compute(data.shape, gathered, name="avg_pool_grad", tag="avg_pool_grad")
        return rounded(total, grads.dtype)


def pool_grad(
    grads: Tensor,
    data: Tensor,
    kernel: Numbers,
    stride: Numbers,
    padding: Padding,
    pool_type: str,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
    dilation: Numbers = 1,
) -> Tensor:
    """Return the gradient of `pool2d`, or of `pool3d` with a layout of its axes, by its data, from
    the gradient by its result.

    "max": a window's gradient goes to its first largest element; "avg": it is divided among the
    elements that counted in the mean.
    """
    rank = len([axis for axis in layout if axis.isupper()]) - 2
    windows = windows_of(layout, rank, kernel, stride, dilation, padding)
    gradient = _Gradient(grads, data, windows)
    if pool_type == "max":
        return gradient.of_max()
    if pool_type != "avg":
        raise UnsupportedError(f"pooling: type '{pool_type}' is neither max nor avg")
    return gradient.of_avg(ceil_mode, count_include_pad)
