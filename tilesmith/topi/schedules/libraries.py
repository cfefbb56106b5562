"""Operators that call a library in place of loops: BLAS, MKL, oneDNN, cuBLAS.

The general schedules leave the call as it is, and schedule what stands around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import topi
from tilesmith.support.errors import UnknownNameError
from tilesmith.te import Tensor, library_calls

__all__ = [
    "batch_matmul_blas_common", "batch_matmul_cblas", "batch_matmul_cublas", "batch_matmul_mkl",
    "conv2d_nchw_dnnl", "conv2d_nhwc_dnnl", "dense_cblas", "dense_cublas", "dense_dnnl",
    "dense_mkl", "matmul_blas_common", "matmul_cblas", "matmul_cublas", "matmul_dnnl", "matmul_mkl",
]  # fmt: skip

Function = Callable[..., Tensor]


def _multiplied(
    library: str, rank: int, a: Tensor, b: Tensor, transposed: tuple[bool, bool], out_dtype: Any
) -> Tensor:
    """Return the product of two tensors of matrices by the function of a library."""
    of_bytes = library == "mkl" and (a.dtype, b.dtype) == ("uint8", "int8")
    if of_bytes:
        return library_calls.mkl_matmul_u8s8s32(a, b, *transposed)
    words = "batch_matmul" if rank == 3 else "matmul"
    function: Function = getattr(library_calls, f"{library}_{words}")
    return function(a, b, *transposed, dtype=out_dtype or a.dtype)


def _with_bias(product: Tensor, bias: Tensor | None) -> Tensor:
    return product if bias is None else topi.add(product, bias)


def _matmul(library: str) -> Function:
    def matmul(
        tensor_a: Tensor,
        tensor_b: Tensor,
        bias: Tensor | None = None,
        out_dtype: Any = None,
        transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> Tensor:
        both = bool(transpose_a), bool(transpose_b)
        return _with_bias(_multiplied(library, 2, tensor_a, tensor_b, both, out_dtype), bias)

    matmul.__doc__ = f"Return the product of two matrices by {library}."
    return matmul


def _dense(library: str) -> Function:
    def dense(
        data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: Any = None
    ) -> Tensor:
        product = _multiplied(library, 2, data, weight, (False, True), out_dtype)
        return _with_bias(product, bias)

    dense.__doc__ = f"Return ``data · weightᵀ`` by {library}."
    return dense


def _batch_matmul(library: str) -> Function:
    def batch_matmul(
        tensor_a: Tensor,
        tensor_b: Tensor,
        out_shape: Any = None,
        out_dtype: Any = None,
        transpose_a: bool = False,
        transpose_b: bool = True,
    ) -> Tensor:
        both = bool(transpose_a), bool(transpose_b)
        return _multiplied(library, 3, tensor_a, tensor_b, both, out_dtype)

    batch_matmul.__doc__ = f"Return the products of the matrices of two batches by {library}."
    return batch_matmul


matmul_cblas, matmul_mkl, matmul_dnnl, matmul_cublas = (
    _matmul(library) for library in ("cblas", "mkl", "dnnl", "cublas")
)
dense_cblas, dense_mkl, dense_dnnl, dense_cublas = (
    _dense(library) for library in ("cblas", "mkl", "dnnl", "cublas")
)
batch_matmul_cblas, batch_matmul_mkl, batch_matmul_cublas = (
    _batch_matmul(library) for library in ("cblas", "mkl", "cublas")
)


def _name_of(library: Any) -> str:
    """Return the name of a library that is given as a module of ``contrib``."""
    name = str(getattr(library, "__name__", library)).rpartition(".")[2]
    if name not in ("cblas", "mkl", "dnnl"):
        raise UnknownNameError(f"'{name}' multiplies no matrices", notes=("cblas, mkl or dnnl",))
    return name


def matmul_blas_common(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None,
    out_dtype: Any,
    transpose_a: bool,
    transpose_b: bool,
    lib: Any,
) -> Tensor:
    """Return the product of two matrices by a module of ``contrib``."""
    function = _matmul(_name_of(lib))
    return function(tensor_a, tensor_b, bias, out_dtype, transpose_a, transpose_b)


def batch_matmul_blas_common(
    tensor_a: Tensor, tensor_b: Tensor, out_shape: Any, trans_a: bool, trans_b: bool, lib: Any
) -> Tensor:
    """Return the products of the matrices of two batches by a module of ``contrib``."""
    function = _batch_matmul(_name_of(lib))
    return function(tensor_a, tensor_b, out_shape, None, trans_a, trans_b)


def conv2d_nchw_dnnl(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: Any
) -> Tensor:
    """Return a convolution of NCHW data by oneDNN."""
    return library_calls.dnnl_conv2d(
        data, kernel, strides, padding, dilation, 1, False, out_dtype or data.dtype
    )


def conv2d_nhwc_dnnl(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: Any
) -> Tensor:
    """Return a convolution of NHWC data by oneDNN."""
    return library_calls.dnnl_conv2d(
        data, kernel, strides, padding, dilation, 1, True, out_dtype or data.dtype
    )
