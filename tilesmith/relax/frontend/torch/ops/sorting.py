"""Sorting, the k largest, middle values."""

from __future__ import annotations

from typing import Any

from tilesmith.relax import op
from tilesmith.relax.expr import TupleGetItem
from tilesmith.relax.frontend.torch.node import (
    AtenNode,
    dtype_of,
    full_like_shape,
    rank_of,
    scalar,
)
from tilesmith.relax.frontend.torch.registry import converter


def _is_empty(sizes: Any) -> bool:
    return any(isinstance(size, int) and size == 0 for size in sizes)


def sorted_with_places(node: AtenNode, x: Any, axis: int, descending: bool) -> list[Any]:
    """Return the elements in order along an axis, and where they come from."""
    dtype = dtype_of(x)
    keys = op.astype(x, "int8") if dtype.is_bool else x
    places = node.emit(op.argsort(node.emit(keys), axis, descending, "int64"))
    return [op.gather_elements(x, places, axis), places]


@converter("sort", "argsort")
def _sort(node: AtenNode) -> Any:
    x, descending = node.emit(node.tensor("self")), bool(node.get("descending", False))
    if _is_empty(node.shape) or not rank_of(x):
        found = [x, full_like_shape(node.shape, 0, "int64")]
    else:
        found = sorted_with_places(node, x, node.axis("dim", rank_of(x), -1), descending)
    return found[1] if "argsort" in node.operator else found


@converter("topk")
def _topk(node: AtenNode) -> Any:
    x, count = node.emit(node.tensor("self")), node["k"]
    if not isinstance(count, int):
        raise node.unsupported("a number of elements that is not constant")
    if _is_empty(node.shape):
        return [full_like_shape(node.shape, 0, dtype) for dtype in (node.dtype, "int64")]
    if not rank_of(x):
        return [x, scalar(0, "int64")]
    axis, largest = node.axis("dim", rank_of(x), -1), bool(node.get("largest", True))
    if dtype_of(x).is_bool:
        found = sorted_with_places(node, x, axis, largest)
        return [op.strided_slice(node.emit(part), [axis], [0], [count]) for part in found]
    both = node.emit(op.topk(x, count, axis, "both", largest, "int64"))
    return [TupleGetItem(both, index) for index in range(2)]


@converter("kthvalue")
def _kth_value(node: AtenNode) -> Any:
    x = node.emit(node.tensor("self"))
    if not rank_of(x):
        return [x, scalar(0, "int64")]
    axis, keep = node.axis("dim", rank_of(x), -1), bool(node.get("keepdim", False))
    parts = sorted_with_places(node, x, axis, False)
    place = scalar(int(node["k"]) - 1, "int64")
    found = [op.take(node.emit(part), place, axis) for part in parts]
    return [op.expand_dims(part, axis) for part in found] if keep else found
