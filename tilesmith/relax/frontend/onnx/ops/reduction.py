"""Reductions over axes, and sums along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relax import op
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis
from tilesmith.relax.frontend.onnx.ops.run_time import RunTimeReduction
from tilesmith.relax.frontend.onnx.registry import add_converter
from tilesmith.relax.frontend.onnx.values import dtype_of, rank_of, scalar, shape_of
from tilesmith.runtime.dtype import DataType

RunTime = Callable[[RunTimeReduction, OnnxNode, Any], Any]
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


def _reduce_at_run_time(node: OnnxNode, name: str, axes: Any, keep: bool, keeps_sizes: bool) -> Any:
    """Reduce over axes that are computed when the model runs."""
    x = node[0]
    if shape_of(axes) == [0]:
        if keeps_sizes:
            return _ELEMENTWISE_OF_ONE.get(name, lambda value: value)(x)
        return _TABLE[name](node, x, list(range(rank_of(x))), keep)
    dtype = wide = dtype_of(x)
    if dtype.is_float and dtype.bits < 32:
        wide = DataType("float32")
    elif dtype.is_bool:
        wide = DataType("uint8")
    elif not dtype.is_float and name in (
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
    ):
        wide = DataType("float64")
    x = x if wide == dtype else node.emit(op.astype(x, wide))
    reduction = RunTimeReduction(node, x, axes, keep)
    found = reduction.shaped(_AT_RUN_TIME[name](reduction, node, x))
    if wide == dtype:
        return found
    return op.astype(found, dtype)


def _log_sum_exp_at_run_time(reduction: RunTimeReduction, node: OnnxNode, x: Any) -> Any:
    top = reduction.combined(x, "max")
    top = node.emit(op.where(op.isfinite(top), top, scalar(0, dtype_of(x))))
    powers = node.emit(op.exp(op.subtract(x, reduction.spread(top))))
    return op.add(op.log(reduction.combined(powers, "add")), top)


def _sum_at_run_time(function: Callable[[Any], Any]) -> RunTime:
    return lambda reduction, node, x: reduction.combined(function(x), "add")


_AT_RUN_TIME: dict[str, RunTime] = {
    "ReduceL1": _sum_at_run_time(op.abs),
    "ReduceL2": lambda reduction, node, x: op.sqrt(reduction.combined(_square(x), "add")),
    "ReduceLogSum": lambda reduction, node, x: op.log(reduction.combined(x, "add")),
    "ReduceLogSumExp": _log_sum_exp_at_run_time,
    "ReduceMax": lambda reduction, node, x: reduction.combined(x, "max"),
    "ReduceMean": lambda reduction, node, x: op.divide(
        reduction.combined(x, "add"), reduction.counted(dtype_of(x))
    ),
    "ReduceMin": lambda reduction, node, x: reduction.combined(x, "min"),
    "ReduceProd": lambda reduction, node, x: reduction.combined(x, "mul"),
    "ReduceSum": lambda reduction, node, x: reduction.combined(x, "add"),
    "ReduceSumSquare": _sum_at_run_time(_square),
}


def _reduction(name: str, reduce: Reduction) -> Callable[[OnnxNode], Any]:
    """Register a reduction: axes are an attribute, from opset 13 (ReduceSum) or 18 on an input."""

    def convert(node: OnnxNode) -> Any:
        x = node[0]
        rank, keep = rank_of(x), node.flag("keepdims", True)
        if node.attribute("axes") is None and node.has(1) and node.known(1) is None:
            keeps_sizes = node.flag("noop_with_empty_axes")
            return _reduce_at_run_time(node, name, node[1], keep, keeps_sizes)
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
    def along(node: OnnxNode, x: Any, axis: int) -> Any:
        is_reversed = node.flag("reverse")
        x = op.flip(x, axis) if is_reversed else x
        found = function(x, axis, dtype_of(x), node.flag("exclusive"))
        return node.emit(op.flip(found, axis) if is_reversed else found)

    def convert(node: OnnxNode) -> Any:
        x = node[0]
        rank = rank_of(x)
        if node.known(1) is not None:
            return along(node, x, normal_axis(int(node.number(1, "axis")), rank))
        given = node.emit(op.astype(op.reshape(node[1], []), "int64"))
        found = along(node, x, rank - 1)
        for axis in range(rank - 1):  # for each axis, and the one that is asked for is chosen
            hits = [op.equal(given, scalar(place, "int64")) for place in (axis, axis - rank)]
            found = op.where(op.logical_or(*hits), along(node, x, axis), found)
        return found

    return convert


add_converter("CumSum", _scan(op.cumsum))
add_converter("CumProd", _scan(op.cumprod))
