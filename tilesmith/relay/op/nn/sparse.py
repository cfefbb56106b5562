"""Products and sums with sparse matrices: (data, indices, indptr), by rows or blocks."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.attrs import Schema, boolean, integer, text
from tilesmith.relax.expr import RelaxExpr
from tilesmith.relax.spec import topi
from tilesmith.relay.expr import TupleWrapper, const
from tilesmith.relay.op.view import computed, function, make_call

computed(
    "nn.sparse_dense",
    "dense_data sparse_data sparse_indices sparse_indptr",
    "topi.nn.sparse_dense",
    level=1,
    schema=Schema(sparse_lhs=boolean(False)),
    description="``dense @ sparse.T``, or ``sparse @ dense.T``.",
)
computed(
    "nn.sparse_conv2d",
    "dense_data sparse_data sparse_indices sparse_indptr",
    lambda attrs, *operands: topi.nn.sparse_conv2d(*operands, attrs.layout, attrs.kernel_size),
    level=2,
    schema=Schema(layout=text("NHWC"), kernel_size=integer(1)),
    description="A convolution with a sparse filter, a matrix of outputs by places of the window.",
)
computed(
    "nn.sparse_add",
    "dense_data sparse_data sparse_indices sparse_indptr",
    "topi.nn.sparse_add",
    level=1,
    description="The sum of a matrix and a sparse matrix.",
)
computed(
    "nn.sparse_transpose",
    "sparse_data sparse_indices sparse_indptr",
    lambda attrs, *parts: topi.nn.sparse_transpose(*parts),
    level=1,
    description="The transposed of a square sparse matrix.",
)


def _parts(matrix: Any) -> list[Any]:
    """Return data, indices and row starts of a sparse matrix: a tuple of expressions, or one of
    scipy's.
    """
    if hasattr(matrix, "indptr"):
        matrix = (matrix.data, matrix.indices, matrix.indptr)
    return [part if isinstance(part, RelaxExpr) else const(part) for part in matrix]


@function("nn.sparse_dense")
def sparse_dense(dense_mat: Any, sparse_mat: Any, sparse_lhs: bool = False) -> Any:
    """Return ``dense @ sparse.T``; with ``sparse_lhs``, ``sparse @ dense.T``. The sparse matrix is
    (data, indices, indptr), or one of scipy's (rows or blocks compressed).
    """
    operands = [dense_mat, *_parts(sparse_mat)]
    return make_call("nn.sparse_dense", operands, {"sparse_lhs": sparse_lhs})


@function("nn.sparse_add")
def sparse_add(dense_mat: Any, sparse_mat: Any) -> Any:
    """Return the sum of a matrix and a sparse matrix."""
    return make_call("nn.sparse_add", [dense_mat, *_parts(sparse_mat)])


@function("nn.sparse_transpose")
def sparse_transpose(x: Any) -> TupleWrapper:
    """Return data, indices and row starts of the transposed of a square sparse matrix."""
    return TupleWrapper(make_call("nn.sparse_transpose", _parts(x)), 3)
