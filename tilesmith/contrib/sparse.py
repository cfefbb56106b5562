"""Sparse matrices in compressed rows (CSR): their arrays, and their placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilesmith.runtime import nd
from tilesmith.runtime.devices import Device
from tilesmith.runtime.ndarray import NDArray
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError
from tilesmith.support.lazy import lazy_attributes

if TYPE_CHECKING:
    import numpy

float32 = "float32"
"""The dtype of elements unless another is given."""
itype = "int32"
"""The dtype of positions."""

__getattr__, __dir__ = lazy_attributes(__name__)


class CSRNDArray:
    """A matrix in compressed rows: the tensors `data`, `indices` (the column of each element) and
    `indptr` (where each row begins).

    It is made from a matrix of numbers, from another one, or from the tuple (data, indices, indptr)
    together with a ``shape``.
    """

    def __init__(
        self, arg1: Any, device: Device | None = None, shape: Sequence[int] | None = None
    ) -> None:
        import numpy

        place = device or Device("cpu")
        self.stype = "csr"
        if isinstance(arg1, CSRNDArray):
            arg1, shape = (arg1.data, arg1.indices, arg1.indptr), arg1.shape
        if isinstance(arg1, tuple):
            if len(arg1) != 3 or shape is None:
                raise TypeMismatchError(
                    "CSRNDArray: (data, indices, indptr) and a shape are needed"
                )
            data, indices, indptr = [
                one.numpy() if isinstance(one, NDArray) else numpy.asarray(one) for one in arg1
            ]
        else:
            dense = arg1.numpy() if isinstance(arg1, NDArray) else numpy.asarray(arg1)
            if dense.ndim != 2:
                raise ShapeError(f"CSRNDArray: 2 dimensions are needed, not {dense.ndim}")
            rows, indices = numpy.nonzero(dense)
            data, shape = dense[rows, indices], dense.shape
            indptr = numpy.searchsorted(rows, numpy.arange(dense.shape[0] + 1))
        self.shape = (int(shape[0]), int(shape[1]))
        _check(data, indices, indptr, self.shape)
        self.data: NDArray = nd.array(data, place)
        self.indices: NDArray = nd.array(indices.astype(itype), place)
        self.indptr: NDArray = nd.array(indptr.astype(itype), place)
        self.dtype = self.data.dtype

    def numpy(self) -> numpy.ndarray:
        """Return the whole matrix, with its zeros."""
        import numpy

        full = numpy.zeros(self.shape, self.dtype.numpy())
        rows = numpy.repeat(numpy.arange(self.shape[0]), numpy.diff(self.indptr.numpy()))
        full[rows, self.indices.numpy()] = self.data.numpy()
        return full

    asnumpy = numpy


def _check(
    data: numpy.ndarray, indices: numpy.ndarray, indptr: numpy.ndarray, shape: tuple[int, int]
) -> None:
    rows, columns = shape
    wrong = None
    if indptr.shape != (rows + 1,) or (indptr[1:] < indptr[:-1]).any():
        wrong = f"indptr needs {rows + 1} numbers that do not fall"
    elif not data.shape == indices.shape == (indptr[-1],) or indptr[0] != 0:
        wrong = f"{data.size} elements and {indices.size} columns, indptr ends at {indptr[-1]}"
    elif indices.size and not (0 <= indices.min() and indices.max() < columns):
        wrong = f"a column is not in the range from 0 to {columns - 1}"
    if wrong is not None:
        raise ShapeError(f"CSRNDArray of shape {shape}: {wrong}")


def array(
    source_array: Any,
    device: Device | None = None,
    shape: Sequence[int] | None = None,
    stype: str = "csr",
) -> CSRNDArray:
    """Return a sparse matrix with the numbers of another array."""
    if stype != "csr":
        raise UnsupportedError(f"sparse.array: stype is 'csr', not '{stype}'")
    return CSRNDArray(source_array, device, shape)
