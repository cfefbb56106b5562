"""Reductions along axes, running sums, and positions of extreme values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.relax import op
from tilesmith.relax.expr import ShapeExpr
from tilesmith.relax.frontend.torch.node import (
    AtenNode,
    cast,
    dtype_of,
    full_like_shape,
    number,
    product,
    rank_of,
    reshape,
    shape_of,
)
from tilesmith.relax.frontend.torch.registry import add_converter, converter
from tilesmith.runtime.dtype import DataType


def lowest(dtype: Any) -> Any:
    """Return the least value of a dtype."""
    dtype = DataType(dtype)
    if dtype.is_bool:
        return False
    return -numpy.inf if dtype.is_float else int(numpy.iinfo(dtype.numpy()).min)


def highest(dtype: Any) -> Any:
    """Return the greatest value of a dtype."""
    dtype = DataType(dtype)
    if dtype.is_bool:
        return True
    return numpy.inf if dtype.is_float else int(numpy.iinfo(dtype.numpy()).max)


def _reduced(node: AtenNode, function: Callable[..., Any], x: Any, neutral: Any, dtype: str) -> Any:
    """Reduce along the node's axes; ``neutral`` is what a reduction of nothing gives."""
    rank = rank_of(x)
    axes = node.axes("dim", rank)
    if not rank:
        return x
    if any(isinstance(size, int) and size == 0 for size in shape_of(x)):
        return full_like_shape(node.shape, neutral, dtype)
    return function(x, axes, bool(node.get("keepdim", False)))


@converter("sum")
def _sum(node: AtenNode) -> Any:
    return _reduced(node, op.sum, node.tensor("self", node.dtype), 0, node.dtype)


@converter("prod")
def _prod(node: AtenNode) -> Any:
    return _reduced(node, op.prod, node.tensor("self", node.dtype), 1, node.dtype)


@converter("mean")
def _mean(node: AtenNode) -> Any:
    return _reduced(node, op.mean, node.tensor("self", node.dtype), numpy.nan, node.dtype)


@converter("any")
def _any(node: AtenNode) -> Any:
    return _reduced(node, op.any, node.tensor("self", "bool"), False, "bool")


@converter("all")
def _all(node: AtenNode) -> Any:
    return _reduced(node, op.all, node.tensor("self", "bool"), True, "bool")


def extreme(node: AtenNode, x: Any, axes: list[int], keep: bool, largest: bool) -> Any:
    """Return the largest or smallest elements along axes; not a number if one of them is none."""
    dtype = dtype_of(x)
    function = op.max if largest else op.min
    if not rank_of(x):
        return x
    if dtype.is_bool:
        return (op.any if largest else op.all)(x, axes, keep)
    x = node.emit(x)
    found = function(x, axes, keep)
    if not dtype.is_float:
        return found
    strange = op.any(op.isnan(x), axes, keep)
    return op.where(strange, number(numpy.nan, dtype), found)


def _extreme(largest: bool) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        x = node.tensor("self")
        if any(isinstance(size, int) and size == 0 for size in node.shape):
            return full_like_shape(node.shape, 0, node.dtype)
        return extreme(
            node, x, node.axes("dim", rank_of(x)), bool(node.get("keepdim", False)), largest
        )

    return convert


for _name, _largest in {"amax": True, "amin": False}.items():
    add_converter(_name, _extreme(_largest))
    add_converter(f"{_name[1:]}.default", _extreme(_largest))


def position(node: AtenNode, x: Any, axis: int, keep: bool, largest: bool) -> Any:
    """Return the first position of the extreme along an axis; what is not a number comes first."""
    function = op.argmax if largest else op.argmin
    dtype = dtype_of(x)
    if not rank_of(x):
        return number(0, "int64")
    if dtype.is_bool:
        x = op.astype(x, "int32")
    x = node.emit(x)
    found = function(x, axis, keep)
    if dtype.is_float:
        strange = node.emit(op.isnan(x))
        first = op.argmax(op.astype(strange, "int32"), axis, keep)
        found = op.where(op.any(strange, [axis], keep), first, found)
    return found


def _position(largest: bool) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        x = node.tensor("self")
        keep = bool(node.get("keepdim", False))
        if any(isinstance(size, int) and size == 0 for size in node.shape):
            return full_like_shape(node.shape, 0, "int64")
        if node.get("dim") is None:
            flat = reshape(x, [product(shape_of(x))])
            return reshape(node.emit(position(node, flat, 0, False, largest)), node.shape)
        return position(node, x, node.axis("dim", rank_of(x)), keep, largest)

    return convert


add_converter("argmax", _position(True))
add_converter("argmin", _position(False))


def _extreme_and_position(largest: bool) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        x = node.emit(node.tensor("self"))
        axis, keep = node.axis("dim", rank_of(x)), bool(node.get("keepdim", False))
        if any(isinstance(size, int) and size == 0 for size in node.shape):
            empty = [full_like_shape(node.shape, 0, dtype) for dtype in (node.dtype, "int64")]
            return empty
        return [
            extreme(node, x, [axis], keep, largest) if node.wants(0) else None,
            position(node, x, axis, keep, largest) if node.wants(1) else None,
        ]

    return convert


add_converter("max.dim", _extreme_and_position(True))
add_converter("min.dim", _extreme_and_position(False))


def variance(
    node: AtenNode, x: Any, axes: list[int], keep: bool, correction: float
) -> tuple[Any, Any]:
    """Return variance and mean along axes (the mean with sizes of 1)."""
    dtype = dtype_of(x)
    mean = node.emit(op.mean(x, axes, True) if axes else x)
    distance = node.emit(op.subtract(x, mean))
    squares = op.multiply(distance, distance)
    total = op.sum(squares, axes, keep) if axes else squares
    count = product([shape_of(x)[axis] for axis in axes])
    if isinstance(count, int):
        rest = max(count - correction, 0)
        return op.divide(total, number(float(rest), dtype)), mean
    rest_tensor = op.subtract(
        cast(node.importer.tensor_of_scalar(count), dtype), number(correction, dtype)
    )
    return op.divide(total, op.maximum(rest_tensor, number(0, dtype))), mean


def _correction(node: AtenNode) -> float:
    if "unbiased" in node.arguments:
        return 1.0 if node.get("unbiased", True) else 0.0
    return float(node.get("correction", 1))


def _variance_of(node: AtenNode) -> tuple[Any, Any]:
    x = node.emit(node.tensor("self", node.dtype))
    axes = node.axes("dim", rank_of(x)) if rank_of(x) else []
    return variance(node, x, axes, bool(node.get("keepdim", False)), _correction(node))


@converter("var")
def _var(node: AtenNode) -> Any:
    return _variance_of(node)[0]


@converter("std")
def _std(node: AtenNode) -> Any:
    return op.sqrt(_variance_of(node)[0])


@converter("var_mean")
def _var_mean(node: AtenNode) -> Any:
    found, mean = _variance_of(node)
    return [found, reshape(mean, node.shape)]


@converter("std_mean")
def _std_mean(node: AtenNode) -> Any:
    found, mean = _variance_of(node)
    return [op.sqrt(found), reshape(mean, node.shape)]


def _running(function: Callable[..., Any]) -> Callable[[AtenNode], Any]:
    def convert(node: AtenNode) -> Any:
        x = node.tensor("self", node.dtype)
        if not rank_of(x) or any(isinstance(size, int) and size == 0 for size in shape_of(x)):
            return x
        return function(x, node.axis("dim", rank_of(x)))

    return convert


add_converter("cumsum", _running(op.cumsum))
add_converter("cumprod", _running(op.cumprod))


@converter("logsumexp")
def _logsumexp(node: AtenNode) -> Any:
    x = node.emit(node.tensor("self", node.dtype))
    axes = node.axes("dim", rank_of(x))
    if not rank_of(x):
        return x
    top = node.emit(op.max(x, axes, True))
    top = node.emit(op.where(op.isfinite(top), top, number(0, node.dtype)))
    total = op.add(op.log(op.sum(op.exp(op.subtract(x, top)), axes, True)), top)
    return op.reshape(total, ShapeExpr(node.shape))
