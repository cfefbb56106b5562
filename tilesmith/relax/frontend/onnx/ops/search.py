"""Positions of extreme values, sorting, distinct values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.relax import op
from tilesmith.relax.expr import TupleGetItem
from tilesmith.relax.frontend.onnx.node import OnnxNode, normal_axis
from tilesmith.relax.frontend.onnx.registry import add_converter, converter
from tilesmith.relax.frontend.onnx.values import dtype_of, rank_of, scalar, shape_of


def _arg_extreme(function: Callable[..., Any]) -> Callable[[OnnxNode], Any]:
    def convert(node: OnnxNode) -> Any:
        x = node[0]
        axis, keep = node.axis(0, rank_of(x)), node.flag("keepdims", True)
        if not node.flag("select_last_index"):
            return function(x, axis, keep)
        size = shape_of(x)[axis]
        if not isinstance(size, int):
            raise node.unsupported("select_last_index on an axis of symbolic size")
        return op.subtract(scalar(size - 1, "int64"), function(op.flip(x, axis), axis, keep))

    return convert


add_converter("ArgMax", _arg_extreme(op.argmax))
add_converter("ArgMin", _arg_extreme(op.argmin))


@converter("TopK")
def _top_k(node: OnnxNode) -> Any:
    x = node[0]
    count = node.attribute("k")  # before opset 10
    if count is None and node.known(1) is None:
        return _top_at_run_time(node, x)
    count = int(node.number(1, "k") if count is None else count)
    axis = node.axis(-1, rank_of(x))
    largest = node.flag("largest", True)
    if count == 0:
        sizes = [0 if i == axis else size for i, size in enumerate(shape_of(x))]
        return op.zeros(sizes, dtype_of(x)), op.zeros(sizes, "int64")
    found = node.emit(op.topk(x, count, axis, "both", largest, "int64"))
    return TupleGetItem(found, 0), TupleGetItem(found, 1)


def _top_at_run_time(node: OnnxNode, x: Any) -> Any:
    """Sort all, and take as many as are asked for when the model runs."""
    axis = node.axis(-1, rank_of(x))
    largest = node.flag("largest", True)
    (count,) = node.run_time_sizes(node[1], "k")
    order = node.emit(op.argsort(x, axis, largest, "int64"))
    order = node.emit(op.strided_slice(order, [axis], [0], [count], [1], True))
    return op.gather_elements(x, order, axis), order


@converter("Unique")
def _unique(node: OnnxNode) -> Any:
    x, axis = node[0], node.attribute("axis")
    if not node.flag("sorted", True):
        return _unique_in_order(node, x, axis)
    axis = None if axis is None else normal_axis(axis, rank_of(x))
    if node.outputs <= 1:
        return op.unique(x, True, axis=axis)
    found = node.emit(op.unique(x, True, True, True, True, axis=axis))
    return tuple([TupleGetItem(found, index) for index in range(4)])


def _unique_in_order(node: OnnxNode, x: Any, axis: Any) -> Any:
    """Return distinct values in the order of their first occurrence."""
    axis = None if axis is None else normal_axis(axis, rank_of(x))
    if axis is None:
        x = node.emit(op.flatten(x))
    found = node.emit(op.unique(x, True, True, True, True, axis=axis))
    values, first, inverse, counts = [node.emit(TupleGetItem(found, index)) for index in range(4)]
    order = node.emit(op.argsort(first, -1, False, "int64"))
    # The inverse permutation gives the position of each sorted value.
    place = op.argsort(order, -1, False, "int64")
    return (
        op.take(values, order, 0 if axis is None else axis),
        op.take(first, order, 0),
        op.take(node.emit(place), inverse, 0),
        op.take(counts, order, 0),
    )
