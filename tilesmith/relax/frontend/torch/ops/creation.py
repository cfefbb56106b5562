"""Tensors made of numbers."""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith.ir import PrimExpr
from tilesmith.relax import op
from tilesmith.relax.expr import Constant, PrimValue
from tilesmith.relax.frontend.torch.node import AtenNode, full_like_shape, number
from tilesmith.relax.frontend.torch.registry import converter
from tilesmith.runtime.dtype import DataType


@converter("full", "full_like", "new_full")
def _full(node: AtenNode) -> Any:
    value = node["fill_value"]
    filler = node.emit(node.as_tensor(value, node.dtype)) if isinstance(value, PrimExpr) else value
    return full_like_shape(node.shape, filler, node.dtype)


@converter("zeros", "zeros_like", "new_zeros")
def _zeros(node: AtenNode) -> Any:
    return full_like_shape(node.shape, 0, node.dtype)


@converter("ones", "ones_like", "new_ones")
def _ones(node: AtenNode) -> Any:
    return full_like_shape(node.shape, 1, node.dtype)


@converter(
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"
)
def _empty(node: AtenNode) -> Any:
    """Fill what torch leaves open with zeros."""
    return full_like_shape(node.shape, 0, node.dtype)


@converter("arange")
def _arange(node: AtenNode) -> Any:
    start, end, step = node.get("start", 0), node["end"], node.get("step", 1)
    dtype = DataType(node.dtype)
    count = node.shape[0]
    if isinstance(count, int) and not any(isinstance(x, PrimExpr) for x in (start, end, step)):
        wide = "float64" if dtype.is_float else "int64"
        if not dtype.is_float:  # torch cuts fractions off first
            start, step = int(start), int(step)
        values = numpy.arange(count).astype(wide) * step + start
        return Constant(values.astype(dtype.numpy()))
    numbers = op.arange(_prim(0), _prim(count), _prim(1), "int64")
    found = op.astype(numbers, dtype) if dtype != "int64" else numbers
    if not (isinstance(step, int) and step == 1):
        found = op.multiply(found, node.as_tensor(step, dtype))
    return (
        found
        if isinstance(start, int) and start == 0
        else op.add(found, node.as_tensor(start, dtype))
    )


def _prim(value: Any) -> Any:
    return PrimValue(value) if isinstance(value, (PrimExpr, int)) else value


@converter("linspace")
def _linspace(node: AtenNode) -> Any:
    count = node.static(node.shape, "linspace")[0]
    start, end = node["start"], node["end"]
    if any(not isinstance(value, (int, float)) for value in (start, end)):
        raise node.unsupported("linspace between tensors")
    dtype = DataType(node.dtype)
    values = numpy.linspace(start, end, count, dtype="float64")
    return Constant((values if dtype.is_float else numpy.trunc(values)).astype(dtype.numpy()))


@converter("eye")
def _eye(node: AtenNode) -> Any:
    rows, columns = node.static(node.shape, "an identity matrix")
    return Constant(numpy.eye(rows, columns, dtype=DataType(node.dtype).numpy()))


@converter("tril_indices", "triu_indices")
def _triangle_indices(node: AtenNode) -> Any:
    function = numpy.tril_indices if "tril" in node.operator else numpy.triu_indices
    found = function(int(node["row"]), int(node.get("offset", 0)), int(node["col"]))
    return Constant(numpy.stack(found).astype(DataType(node.dtype).numpy()))


@converter("one_hot")
def _one_hot(node: AtenNode) -> Any:
    depth = node.static(node.shape[-1:], "one_hot")[0]
    x = node.tensor("self")
    return op.one_hot(x, number(1, "int64"), number(0, "int64"), depth, -1, "int64")


@converter("native_dropout", "dropout", "alpha_dropout", "feature_dropout")
def _dropout(node: AtenNode) -> Any:
    """Keep everything, as in evaluation; dropping at random is refused."""
    x = node.tensor("input")
    if node.get("train", False) and float(node.get("p", 0.5)) > 0:
        raise node.unsupported(
            "dropout during training", "call model.eval() before the model is exported"
        )
    if not isinstance(node.fx_node.meta["val"], (list, tuple)):
        return x
    return [x, full_like_shape(node.shape, 1, "bool")]
