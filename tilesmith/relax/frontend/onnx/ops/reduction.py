"""Reductions over axes, and sums along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relax import op
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis
from tilesmith.relax.frontend.onnx.registry import add_converter
from tilesmith.relax.frontend.onnx.values import dtype_of, rank_of, scalar, shape_of

Reduction = Callable[[OnnxNode, Any, list[int], bool], Any]


def _plain(function: Callable[..., Any]) -> Reduction:
    return lambda node, x, axes, keep: function(x, axes, keep)


def _extreme(function: Callable[..., Any], lowest: bool) -> Reduction:
    def convert(node: OnnxNode, x: Any, axes: list[int], keep: bool) -> Any:
        dtype = dtype_of(x)
        if dtype.is_bool:
            return op.astype(convert(node, op.astype(x, "uint8"), axes, keep), "bool")
        if any(shape_of(x)[axis] == 0 for axis in axes if isinstance(shape_of(x)[axis], int)):
            return _of_nothing(x, axes, keep, lowest)
        return function(x, axes, keep)

    return convert


def _of_nothing(x: Any, axes: list[int], keep: bool, lowest: bool) -> Any:
    """Return the extreme value of an empty reduction: infinity, or the limit of the integers."""
    import numpy

    dtype = dtype_of(x)
    if dtype.is_float:
        value: Any = -numpy.inf if lowest else numpy.inf
    else:
        limits = numpy.iinfo(dtype.numpy())
        value = limits.min if lowest else limits.max
    sizes = [1 if i in axes else size for i, size in enumerate(shape_of(x))]
    sizes = sizes if keep else [size for i, size in enumerate(sizes) if i not in axes]
    return op.full(sizes, scalar(value, dtype), dtype)


def _sum_of(function: Callable[[Any], Any]) -> Reduction:
    return lambda node, x, axes, keep: op.sum(function(x), axes, keep)


def _in_single(reduce: Reduction) -> Reduction:
    """Compute a reduction with steps before or after the sum in float32 where floats are
    narrower, so that these steps neither overflow nor round.
    """

    def convert(node: OnnxNode, x: Any, axes: list[int], keep: bool) -> Any:
        dtype = dtype_of(x)
        if not dtype.is_float or dtype.bits >= 32:
            return reduce(node, x, axes, keep)
        wide = node.emit(op.astype(x, "float32"))
        return op.astype(reduce(node, wide, axes, keep), dtype)

    return convert


def _in_floats(reduce: Reduction) -> Reduction:
    """Compute a reduction with roots or logarithms of integers in float64."""
    of_floats = _in_single(reduce)

    def convert(node: OnnxNode, x: Any, axes: list[int], keep: bool) -> Any:
        dtype = dtype_of(x)
        if dtype.is_float:
            return of_floats(node, x, axes, keep)
        return op.astype(reduce(node, node.emit(op.astype(x, "float64")), axes, keep), dtype)

    return convert


def _square(x: Any) -> Any:
    return op.multiply(x, x)


def _log_sum(node: OnnxNode, x: Any, axes: list[int], keep: bool) -> Any:
    return op.log(op.sum(x, axes, keep))


def _log_sum_exp(node: OnnxNode, x: Any, axes: list[int], keep: bool) -> Any:
    """Compute log-sum-exp after subtracting the largest value, so that no power overflows."""
    if any(isinstance(shape_of(x)[axis], int) and shape_of(x)[axis] == 0 for axis in axes):
        return _log_sum(node, op.exp(x), axes, keep)
    dtype = dtype_of(x)
    top = op.max(x, axes, True)
    top = node.emit(op.where(op.isfinite(top), top, scalar(0, dtype)))
    total = op.log(op.sum(op.exp(op.subtract(x, top)), axes, True))
    result = op.add(total, top)
    return result if keep else op.squeeze(result, axes)


def _l2(node: OnnxNode, x: Any, axes: list[int], keep: bool) -> Any:
    return op.sqrt(op.sum(_square(x), axes, keep))


def _mean(node: OnnxNode, x: Any, axes: list[int], keep: bool) -> Any:
    dtype = dtype_of(x)
    if dtype.is_float:
        return op.mean(x, axes, keep)
    mean = node.emit(op.mean(op.astype(x, "float64"), axes, keep))
    sizes = [shape_of(x)[axis] for axis in axes]
    if not all(isinstance(size, int) and size for size in sizes):
        # NaN, the mean of nothing, is no integer: ONNX leaves it open, onnxruntime says 0.
        mean = op.where(op.isnan(mean), scalar(0, "float64"), mean)
    return op.astype(mean, dtype)


_TABLE: dict[str, Reduction] = {
    "ReduceL1": _sum_of(op.abs),
    "ReduceL2": _in_floats(_l2),
    "ReduceLogSum": _in_floats(_log_sum),
    "ReduceLogSumExp": _in_floats(_log_sum_exp),
    "ReduceMax": _extreme(op.max, True),
    "ReduceMean": _mean,
    "ReduceMin": _extreme(op.min, False),
    "ReduceProd": _plain(op.prod),
    "ReduceSum": _plain(op.sum),
    "ReduceSumSquare": _in_single(_sum_of(_square)),
}
_ELEMENTWISE_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "ReduceL1": op.abs,
    "ReduceL2": op.abs,
    "ReduceLogSum": op.log,
    "ReduceSumSquare": _square,
}
"""What is left of a reduction over no axes: its function of a single element."""


def _reduction(name: str, reduce: Reduction) -> Callable[[OnnxNode], Any]:
    """Register a reduction: axes are an attribute, from opset 13 (ReduceSum) or 18 on an input."""

    def convert(node: OnnxNode) -> Any:
        x = node[0]
        rank, keep = rank_of(x), node.flag("keepdims", True)
        axes = node.axes(1, rank)
        if not axes:
            if node.flag("noop_with_empty_axes"):
                return _ELEMENTWISE_OF_ONE.get(name, lambda value: value)(x)
            axes = list(range(rank))
        if not axes:  # a tensor of rank 0: the one axis that it gets is reduced
            return reduce(node, node.emit(op.expand_dims(x, 0)), [0], False)
        return reduce(node, x, axes, keep)

    return convert


for _name, _function in _TABLE.items():
    add_converter(_name, _reduction(_name, _function))


def _scan(function: Callable[..., Any]) -> Callable[[OnnxNode], Any]:
    def convert(node: OnnxNode) -> Any:
        x = node[0]
        axis = normal_axis(int(node.number(1, "axis")), rank_of(x))
        is_reversed = node.flag("reverse")
        x = op.flip(x, axis) if is_reversed else x
        found = function(x, axis, dtype_of(x), node.flag("exclusive"))
        return op.flip(found, axis) if is_reversed else found

    return convert


add_converter("CumSum", _scan(op.cumsum))
add_converter("CumProd", _scan(op.cumprod))
