"""Products of matrices by the library that numpy uses (usually OpenBLAS), as users of cBLAS call
them: one call of a packed function, in the middle of compiled code.
"""

from __future__ import annotations

from typing import Any

import numpy

from tilesmith import te, tir
from tilesmith.runtime.ndarray import NDArray
from tilesmith.runtime.registry import register_func
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor

__all__ = ["batch_matmul", "matmul"]


@register_func("tilesmith.contrib.cblas.matmul", override=True)
def multiply(lhs: NDArray, rhs: NDArray, out: NDArray, transa: int = 0, transb: int = 0) -> None:
    """Store the product of matrices, or of each pair in two batches."""
    left, right = lhs.numpy(), rhs.numpy()
    left = left.swapaxes(-1, -2) if transa else left
    right = right.swapaxes(-1, -2) if transb else right
    out.copyfrom(numpy.matmul(left, right).astype(out.numpy().dtype))


def matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Tensor:
    """Return the product of two matrices, either of them transposed where asked for."""
    return _product(2, lhs, rhs, transa, transb, **kwargs)


def batch_matmul(
    lhs: Tensor,
    rhs: Tensor,
    transa: bool = False,
    transb: bool = False,
    iterative: bool = False,
    **kwargs: Any,
) -> Tensor:
    """Return the products of the matrices of two batches; ``iterative`` changes nothing."""
    return _product(3, lhs, rhs, transa, transb, **kwargs)


def _product(
    rank: int, lhs: Tensor, rhs: Tensor, transa: bool, transb: bool, **kwargs: Any
) -> Tensor:
    if lhs.ndim != rank or rhs.ndim != rank:
        raise ShapeError(f"cblas: tensors of {rank} dimensions are multiplied")
    rows = lhs.shape[-1] if transa else lhs.shape[-2]
    columns = rhs.shape[-2] if transb else rhs.shape[-1]
    inner = lhs.shape[-2] if transa else lhs.shape[-1], rhs.shape[-1 if transb else -2]
    if int(inner[0]) != int(inner[1]):  # type: ignore[call-overload]
        raise ShapeError(f"cblas: the inner sizes {inner[0]} and {inner[1]} differ")
    made: Tensor = te.extern(
        (*lhs.shape[:-2], rows, columns),
        [lhs, rhs],
        lambda ins, outs: tir.call_packed(
            "tilesmith.contrib.cblas.matmul", ins[0], ins[1], outs[0], int(transa), int(transb)
        ),
        dtype=lhs.dtype,
        name="C",
        **kwargs,
    )
    return made
