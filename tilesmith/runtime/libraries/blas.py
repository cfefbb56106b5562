"""Products of matrices through the C interface of a BLAS library: OpenBLAS or MKL.

OpenBLAS comes with the wheels of numpy and scipy (where its functions have a prefix and, with
64-bit sizes, a suffix) or from the system; MKL is the package `mkl`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from tilesmith.runtime.libraries.find import (
    libraries_of_packages,
    libraries_of_prefix,
    open_first,
    system_libraries,
)
from tilesmith.support.errors import MissingDependencyError, ShapeError, TypeMismatchError

if TYPE_CHECKING:
    import numpy

    from tilesmith.runtime.ndarray import NDArray

__all__ = ["Blas", "cblas_matmul", "find_mkl", "find_openblas", "mkl_matmul", "mkl_matmul_u8s8s32"]

_ROW_MAJOR, _PLAIN, _TRANSPOSED, _FIXED_OFFSET = 101, 111, 112, 173
_SPELLINGS = {
    "scipy_cblas_{}64_": ctypes.c_int64,
    "scipy_cblas_{}": ctypes.c_int,
    "cblas_{}64_": ctypes.c_int64,
    "cblas_{}": ctypes.c_int,
}
"""How builds of a BLAS spell its C functions → the type of sizes there."""
_KINDS = {"float32": ("sgemm", ctypes.c_float), "float64": ("dgemm", ctypes.c_double)}


@dataclass(frozen=True)
class Blas:
    """An open library; ``spelling`` makes the name of its functions, ``size`` is the type of
    sizes.
    """

    name: str
    library: ctypes.CDLL
    spelling: str
    size: Any

    def gemm(self, dtype: str) -> Callable[..., None]:
        """Return the function for products of a dtype."""
        if dtype not in _KINDS:
            raise TypeMismatchError(
                f"{self.name} multiplies {' and '.join(_KINDS)}, not {dtype}",
                notes=("topi.matmul multiplies every dtype",),
            )
        word, scalar = _KINDS[dtype]
        function = getattr(self.library, self.spelling.format(word))
        integer, pointer = ctypes.c_int, ctypes.c_void_p
        function.restype = None
        function.argtypes = [
            integer, integer, integer, self.size, self.size, self.size, scalar, pointer, self.size,
            pointer, self.size, scalar, pointer, self.size,
        ]  # fmt: skip
        return function  # type: ignore[no-any-return]


def _opened(name: str, candidates: Any) -> Blas | None:
    library = open_first(candidates, [one.format("sgemm") for one in _SPELLINGS])
    if library is None:
        return None
    spelling = next(one for one in _SPELLINGS if hasattr(library, one.format("sgemm")))
    return Blas(name, library, spelling, _SPELLINGS[spelling])


@cache
def _openblas() -> Blas | None:
    packages = ("numpy", "scipy", "scipy_openblas64", "scipy_openblas32")
    return _opened(
        "cblas",
        chain(
            libraries_of_packages(packages, "*openblas*"),
            system_libraries(("openblas", "cblas", "blas", "Accelerate")),
        ),
    )


@cache
def _mkl() -> Blas | None:
    return _opened(
        "mkl",
        chain(
            libraries_of_prefix(("libmkl_rt.so*", "libmkl_rt*.dylib", "mkl_rt*.dll")),
            system_libraries(("mkl_rt",)),
        ),
    )


def find_openblas() -> Blas:
    """Return a BLAS library with a C interface; MissingDependencyError where there is none."""
    found = _openblas()
    if found is None:
        raise MissingDependencyError("scipy-openblas64", purpose="calling a BLAS library")
    return found


def find_mkl() -> Blas:
    """Return Intel's MKL; MissingDependencyError where it is not installed."""
    found = _mkl()
    if found is None:
        raise MissingDependencyError("mkl", purpose="calling MKL")
    return found


def cblas_matmul(
    lhs: NDArray, rhs: NDArray, out: NDArray, transa: bool = False, transb: bool = False
) -> None:
    """Store the product of two matrices, of each pair in two batches, or of a batch and one
    matrix, by OpenBLAS.
    """
    _multiply(find_openblas(), lhs, rhs, out, transa, transb)


def mkl_matmul(
    lhs: NDArray, rhs: NDArray, out: NDArray, transa: bool = False, transb: bool = False
) -> None:
    """Store the product of two matrices, or of each pair in two batches, by MKL."""
    _multiply(find_mkl(), lhs, rhs, out, transa, transb)


def mkl_matmul_u8s8s32(
    lhs: NDArray, rhs: NDArray, out: NDArray, transa: bool = False, transb: bool = False
) -> None:
    """Store the product of an unsigned and a signed matrix of bytes, added as int32, by MKL."""
    blas = find_mkl()
    if (lhs.dtype, rhs.dtype, out.dtype) != ("uint8", "int8", "int32"):
        raise TypeMismatchError(
            "mkl.matmul_u8s8s32 multiplies uint8 by int8 into int32, not"
            f" {lhs.dtype} by {rhs.dtype} into {out.dtype}"
        )
    left, right = _compact(lhs), _compact(rhs)
    target, is_own = _output(out)
    rows, columns, depth = _sizes(left, right, target, transa, transb)
    offset = ctypes.c_int32(0)
    integer, size, pointer = ctypes.c_int, blas.size, ctypes.c_void_p
    function = blas.library.cblas_gemm_s8u8s32
    function.restype = None
    function.argtypes = [
        integer, integer, integer, integer, size, size, size, ctypes.c_float, pointer, size,
        ctypes.c_int8, pointer, size, ctypes.c_int8, ctypes.c_float, pointer, size, pointer,
    ]  # fmt: skip
    function(
        _ROW_MAJOR, _order(transa), _order(transb), _FIXED_OFFSET, rows, columns, depth, 1.0,
        left.ctypes.data, left.shape[-1], 0, right.ctypes.data, right.shape[-1], 0, 0.0,
        target.ctypes.data, columns, ctypes.addressof(offset),
    )  # fmt: skip
    if not is_own:
        out.copyfrom(target)


def _order(is_transposed: bool) -> int:
    return _TRANSPOSED if is_transposed else _PLAIN


def _compact(tensor: NDArray) -> numpy.ndarray:
    import numpy

    return numpy.ascontiguousarray(tensor.numpy_view())


def _output(out: NDArray) -> tuple[numpy.ndarray, bool]:
    """Return memory for a result, and whether it is that of ``out``."""
    import numpy

    view = out.numpy_view()
    is_own = view.flags.c_contiguous
    return (view if is_own else numpy.empty(view.shape, view.dtype)), is_own


def _sizes(
    left: numpy.ndarray, right: numpy.ndarray, out: numpy.ndarray, transa: bool, transb: bool
) -> tuple[int, int, int]:
    """Return rows, columns and depth of a product, after a check of all shapes."""
    a = left.shape[-2:][::-1] if transa else left.shape[-2:]
    b = right.shape[-2:][::-1] if transb else right.shape[-2:]
    batches = {array.shape[:-2] for array in (left, right)} - {(), (1,)}
    fits = a[1] == b[0] and out.shape[-2:] == (a[0], b[1]) and len(batches) <= 1
    if not fits or (batches and batches != {out.shape[:-2]}):
        raise ShapeError(
            f"matrices of shapes {left.shape}{' (transposed)' if transa else ''} and"
            f" {right.shape}{' (transposed)' if transb else ''} do not make one of {out.shape}"
        )
    return a[0], b[1], a[1]


def _multiply(
    blas: Blas, lhs: NDArray, rhs: NDArray, out: NDArray, transa: bool, transb: bool
) -> None:
    function = blas.gemm(str(lhs.dtype))
    if not lhs.dtype == rhs.dtype == out.dtype:
        raise TypeMismatchError(
            f"{blas.name}: one dtype is needed, not {lhs.dtype}, {rhs.dtype} and {out.dtype}"
        )
    left, right = _compact(lhs), _compact(rhs)
    target, is_own = _output(out)
    rows, columns, depth = _sizes(left, right, target, transa, transb)
    result = target
    if right.ndim == 2 < left.ndim and not transa:
        # one matrix for the whole batch: its rows are those of one tall matrix
        left, result = left.reshape(-1, depth), target.reshape(-1, columns)
        rows = result.shape[0]
    if target.size and not depth:
        target[...] = 0
    elif target.size:
        lefts, rights, targets = [
            array.reshape(-1, *array.shape[-2:]) for array in (left, right, result)
        ]
        for number, result in enumerate(targets):
            a, b = [array[number if len(array) > 1 else 0] for array in (lefts, rights)]
            function(
                _ROW_MAJOR, _order(transa), _order(transb), rows, columns, depth, 1.0,
                a.ctypes.data, a.shape[1], b.ctypes.data, b.shape[1], 0.0,
                result.ctypes.data, columns,
            )  # fmt: skip
    if not is_own:
        out.copyfrom(target)
