"""Products of CSR matrices and dense ones."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError, TypeMismatchError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.sparse import csr_times_dense, sparse_dense_sp_lhs, sparse_dense_sp_rhs
from tilesmith.topi.utils import equal_const_int

__all__ = ["csrmm", "csrmm_default", "csrmv", "csrmv_default", "dense", "dense_si", "dense_sw"]

_PARTS = ("data", "indices", "indptr")


def _is_sparse(operand: Any) -> bool:
    return all(isinstance(getattr(operand, part, None), Tensor) for part in _PARTS)


def _parts(operand: Any, name: str) -> tuple[Tensor, Tensor, Tensor]:
    if not _is_sparse(operand):
        raise TypeMismatchError(
            f"{name}: a sparse placeholder is needed, got {type(operand).__name__}",
            notes=("an object with the tensors data, indices and indptr",),
        )
    return operand.data, operand.indices, operand.indptr


def _biased(product: Tensor, bias: Tensor | None, axis: int) -> Tensor:
    """Return the product with a bias along an axis; a bias of one element is for all."""
    if bias is None:
        return product
    if len(bias.shape) != 1:
        raise ShapeError(f"a bias has 1 dimension, got {len(bias.shape)}")

    def element(*i: Any) -> PrimExpr:
        place = 0 if equal_const_int(bias.shape[0], 1) else i[axis]
        return product(*i) + op.cast(product.dtype, bias(place))

    return compute(product.shape, element, name="T_add", tag=tag.BROADCAST)


def csrmm_default(
    data: Tensor, indices: Tensor, indptr: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Return the product of a CSR matrix (M, K), given by its parts, and a dense one (K, N), with a
    bias for each row.
    """
    if len(weight.shape) != 2:
        raise ShapeError(f"csrmm: the dense operand has 2 dimensions, got {len(weight.shape)}")
    return _biased(csr_times_dense(data, indices, indptr, weight), bias, 0)


def csrmm(a: Any, b: Tensor, c: Tensor | None = None) -> Tensor:
    """Return ``a @ b`` for a sparse ``a`` (M, K) and a dense ``b`` (K, N), plus ``c`` (M)."""
    return csrmm_default(*_parts(a, "csrmm"), b, c)


def csrmv_default(
    data: Tensor, indices: Tensor, indptr: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Return the product of a CSR matrix (M, K), given by its parts, and a vector (K, 1)."""
    if len(weight.shape) != 2 or not equal_const_int(weight.shape[1], 1):
        raise ShapeError(f"csrmv: the vector has the shape (K, 1), not {list(weight.shape)}")
    return csrmm_default(data, indices, indptr, weight, bias)


def csrmv(a: Any, x: Tensor, y: Tensor | None = None) -> Tensor:
    """Return ``a @ x`` for a sparse ``a`` (M, K) and ``x`` (K, 1), plus ``y``: (M, 1)."""
    return csrmv_default(*_parts(a, "csrmv"), x, y)


def dense_si(
    data: Tensor, indices: Tensor, indptr: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Return ``data @ weight.T`` for CSR data (M, K), given by its parts, and a dense weight (N,
    K), with a bias for each column.
    """
    return _biased(sparse_dense_sp_lhs(data, indices, indptr, weight), bias, 1)


def dense_sw(
    data: Tensor,
    w_data: Tensor,
    w_indices: Tensor,
    w_indptr: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """Return ``data @ weight.T`` for dense data (M, K) and a CSR weight (N, K), given by its parts,
    with a bias for each column.
    """
    return _biased(sparse_dense_sp_rhs(data, w_data, w_indices, w_indptr), bias, 1)


def dense(data: Any, weight: Any, bias: Tensor | None = None) -> Tensor:
    """Return ``data @ weight.T`` plus a bias for each column, where one of the two is sparse."""
    if _is_sparse(data) and _is_sparse(weight):
        raise TypeMismatchError(
            "sparse.dense: data and weight are both sparse, one has to be dense"
        )
    if _is_sparse(data):
        return dense_si(*_parts(data, "sparse.dense"), weight, bias)
    return dense_sw(data, *_parts(weight, "sparse.dense"), bias)
