"""Finds the weights of a program that may be written in another form, and writes them so.

A sparse matrix is cut into blocks; those with an element other than 0 are kept, row by row of
blocks: ``name.data`` has them, ``name.indices`` the column of each, ``name.indptr`` where each row
begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from tilesmith.ir import Op
from tilesmith.relay.expr import Call, Var
from tilesmith.relay.walks import post_order
from tilesmith.runtime.ndarray import array
from tilesmith.support.errors import ShapeError

__all__ = [
    "SparseAnalysisResult", "blocks_of", "conv2d_matrix", "dense_weights", "make_sparse",
    "search_fc_transpose", "weights_of",
]  # fmt: skip


@dataclass
class SparseAnalysisResult:
    """The weights that have become sparse: the name of each, and the sizes of its three parts, in
    one list.
    """

    weight_name: list[str] = field(default_factory=list)
    weight_shape: list[list[int]] = field(default_factory=list)


def _is_call(node: Any, name: str) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == name


def weights_of(expr: Any, operator: str) -> list[Var]:
    """Return the variables that are weights of calls of an operator, each once."""
    found = [node.args[1] for node in post_order(expr) if _is_call(node, operator)]
    return list(dict.fromkeys([one for one in found if isinstance(one, Var)]))


def dense_weights(expr: Any) -> list[Var]:
    """Return the variables that are weights of dense layers, each once."""
    return weights_of(expr, "nn.dense")


def search_fc_transpose(expr: Any) -> list[str]:
    """Return the names of the variables that dense layers use transposed."""
    found: dict[str, None] = {}
    for node in post_order(expr):
        if _is_call(node, "nn.dense") and _is_call(node.args[1], "transpose"):
            inner = node.args[1]
            axes = inner.attrs.axes
            is_swap = axes is None or [axis % 2 for axis in axes] == [1, 0]
            if is_swap and isinstance(inner.args[0], Var):
                found[inner.args[0].name_hint] = None
    return list(found)


def conv2d_matrix(weight: Any, layout: str) -> Any:
    """Return the weight of a convolution as the matrix that ``nn.sparse_conv2d`` takes: of data in
    NHWC the weight is HWIO, in NCHW it is OIHW.
    """
    if layout == "NHWC":
        weight = weight.transpose(3, 0, 1, 2)
    return weight.reshape(weight.shape[0], -1)


def blocks_of(matrix: Any, block_size: Iterable[int]) -> tuple[Any, Any, Any]:
    """Return data, indices and row starts of a matrix in blocks of a size (rows, columns)."""
    rows, columns = [int(size) for size in block_size]
    if matrix.shape[0] % rows or matrix.shape[1] % columns:
        raise ShapeError(
            f"a matrix of shape {tuple(matrix.shape)} is not made of blocks of {rows} x {columns}"
        )
    height, width = matrix.shape[0] // rows, matrix.shape[1] // columns
    blocks = matrix.reshape(height, rows, width, columns).transpose(0, 2, 1, 3)
    kept = blocks.any(axis=(2, 3))
    starts = numpy.concatenate([[0], numpy.cumsum(kept.sum(axis=1))]).astype("int32")
    return numpy.ascontiguousarray(blocks[kept]), numpy.nonzero(kept)[1].astype("int32"), starts


def make_sparse(
    names: Iterable[str],
    params: MutableMapping[str, Any],
    block_size: Iterable[int],
    sparsity_threshold: float,
    as_matrix: Callable[[Any], Any] = lambda weight: weight,
) -> SparseAnalysisResult:
    """Write those weights in ``params`` as sparse matrices of which at least a part, the threshold,
    is 0; return which they are.
    """
    result = SparseAnalysisResult()
    block = tuple(block_size)
    for name in names:
        weight = as_numpy(params, name)
        if weight is None or 1 - numpy.count_nonzero(weight) / weight.size < sparsity_threshold:
            continue
        parts = blocks_of(as_matrix(weight), block)
        for part, values in zip(("data", "indices", "indptr"), parts):
            params[f"{name}.{part}"] = array(values)
        del params[name]
        result.weight_name.append(name)
        result.weight_shape.append([size for values in parts for size in values.shape])
    return result


def as_numpy(params: Mapping[str, Any], name: str) -> Any:
    """Return a parameter as an array, None if there is none of the name."""
    value = params.get(name)
    return (
        None
        if value is None
        else numpy.asarray(value.numpy() if hasattr(value, "numpy") else value)
    )
