"""Registers the packed functions of this package; each loads its module when it is first called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.runtime.ffi import tvm_ffi
from tilesmith.runtime.registry import register_func
from tilesmith.support.lazy import resolve

__all__ = ["FUNCTIONS", "register_all"]

_HERE = "tilesmith.runtime.libraries."

FUNCTIONS: dict[str, str] = {
    "tvm.contrib.cblas.matmul": _HERE + "blas:cblas_matmul",
    "tvm.contrib.cblas.batch_matmul": _HERE + "blas:cblas_matmul",
    "tvm.contrib.cblas.batch_matmul_iterative": _HERE + "blas:cblas_matmul",
    "tvm.contrib.mkl.matmul": _HERE + "blas:mkl_matmul",
    "tvm.contrib.mkl.batch_matmul": _HERE + "blas:mkl_matmul",
    "tvm.contrib.mkl.batch_matmul_iterative": _HERE + "blas:mkl_matmul",
    "tvm.contrib.mkl.matmul_u8s8s32": _HERE + "blas:mkl_matmul_u8s8s32",
    "tvm.contrib.dnnl.matmul": _HERE + "dnnl:matmul",
    "tvm.contrib.dnnl.conv2d": _HERE + "dnnl:conv2d",
    "tvm.contrib.cublas.matmul": _HERE + "gpu:cublas",
    "tvm.contrib.cublas.batch_matmul": _HERE + "gpu:cublas",
    "tvm.contrib.cublaslt.matmul": _HERE + "gpu:cublas",
    "tvm.contrib.random.seed": _HERE + "random:seed",
    "tvm.contrib.random.randint": _HERE + "random:randint",
    "tvm.contrib.random.uniform": _HERE + "random:uniform",
    "tvm.contrib.random.normal": _HERE + "random:normal",
    "tvm.contrib.random.random_fill": _HERE + "random:random_fill",
    "tvm.contrib.sort.argsort": _HERE + "sort:argsort",
    "tvm.contrib.sort.argsort_nms": _HERE + "sort:argsort_nms",
    "tvm.contrib.sort.sort": _HERE + "sort:sort",
    "tvm.contrib.sort.topk": _HERE + "sort:topk",
}
"""Name of a packed function → the Python function that it calls."""


def _forward(path: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return resolve(path)(*arguments)

    return call


def register_all() -> None:
    """Register the functions, except those that another runtime in the process has registered."""
    for name, path in FUNCTIONS.items():
        if tvm_ffi.get_global_func(name, allow_missing=True) is None:
            register_func(name, _forward(path))
