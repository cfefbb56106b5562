"""Placeholders for sparse matrices in tensor expressions: three tensors instead of one."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import convert
from tilesmith.support.errors import ShapeError, UnsupportedError
from tilesmith.te.operation import placeholder as dense_placeholder
from tilesmith.te.tensor import Tensor

__all__ = ["CSRPlaceholderOp", "SparsePlaceholderOp", "placeholder"]

INDEX_DTYPE = "int32"


class SparsePlaceholderOp:
    """An input that holds the elements of a matrix other than zero."""

    def __init__(self, shape: Any, nonzeros: Any, dtype: str, name: str) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.name = name
        self.stype = "unknown"
        self.nonzeros = nonzeros


class CSRPlaceholderOp(SparsePlaceholderOp):
    """An input in compressed rows: the tensors `data`, `indices` (the column of each element) and
    `indptr` (where each row begins).
    """

    def __init__(self, shape: Any, nonzeros: Any, dtype: str, name: str) -> None:
        super().__init__(shape, nonzeros, dtype, name)
        if len(self.shape) != 2:
            raise ShapeError(f"a matrix in compressed rows has 2 dimensions, not {len(self.shape)}")
        self.stype = "csr"
        begins = convert(self.shape[0]) + 1
        self.data: Tensor = dense_placeholder((nonzeros,), dtype, name + "_data")
        self.indices: Tensor = dense_placeholder((nonzeros,), INDEX_DTYPE, name + "_indices")
        self.indptr: Tensor = dense_placeholder((begins,), INDEX_DTYPE, name + "_indptr")


def placeholder(
    shape: Any,
    nonzeros: Any = None,
    dtype: str | None = None,
    name: str = "placeholder",
    stype: str | None = None,
) -> CSRPlaceholderOp:
    """Return the placeholder of a matrix with ``nonzeros`` elements; ``stype`` is "csr"."""
    if stype not in (None, "csr"):
        raise UnsupportedError(f"sparse.placeholder: stype is 'csr', not '{stype}'")
    if nonzeros is None:
        raise ShapeError(
            "sparse.placeholder needs the number of elements other than zero",
            notes=("give nonzeros=; it may be a te.var()",),
        )
    return CSRPlaceholderOp(shape, nonzeros, dtype or "float32", name)
