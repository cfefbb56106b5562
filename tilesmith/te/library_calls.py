"""Operations that call a library: one packed function of `runtime/libraries`, in the middle of
compiled code.

Users find them as `contrib.cblas.matmul`, `contrib.random.uniform`, …; this file is where they live
because they make tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import IntImm, convert
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import ShapeError, TypeMismatchError, UnsupportedError
from tilesmith.te.operation import extern
from tilesmith.te.tensor import Tensor
from tilesmith.tir import call_packed

__all__ = [
    "cblas_batch_matmul", "cblas_matmul", "cublas_batch_matmul", "cublas_matmul", "cublaslt_matmul",
    "dnnl_conv2d", "dnnl_matmul", "mkl_batch_matmul", "mkl_matmul", "mkl_matmul_u8s8s32",
    "normal", "randint", "uniform",
]  # fmt: skip

_PREFIX = "tvm.contrib."


# -- products of matrices


def _product(
    name: str, rank: int, lhs: Tensor, rhs: Tensor, transa: bool, transb: bool, **kwargs: Any
) -> Tensor:
    library = name.partition(".")[0]
    if lhs.ndim != rank or rhs.ndim != rank:
        raise ShapeError(
            f"{library}: tensors of {rank} dimensions are multiplied, not of {lhs.ndim} and"
            f" {rhs.ndim}"
        )
    rows, depth = (lhs.shape[-2:])[::-1] if transa else lhs.shape[-2:]
    inner, columns = (rhs.shape[-2:])[::-1] if transb else rhs.shape[-2:]
    if _differ(depth, inner):
        raise ShapeError(
            f"{library}: the inner sizes {depth} and {inner} differ",
            notes=("transa and transb say which matrix is transposed",),
        )
    batch: list[Any] = []
    if rank == 3:
        one, other = lhs.shape[0], rhs.shape[0]
        batch = [other if _is_one(one) else one]
        if _differ(one, other) and not (_is_one(one) or _is_one(other)):
            raise ShapeError(f"{library}: batches of {one} and {other} matrices")
    made: Tensor = extern(
        (*batch, rows, columns),
        [lhs, rhs],
        lambda ins, outs: call_packed(
            _PREFIX + name, ins[0], ins[1], outs[0], bool(transa), bool(transb)
        ),
        **{"dtype": lhs.dtype, "name": "C", **kwargs},
    )
    return made


def _differ(one: Any, other: Any) -> bool:
    """True if two sizes are known, and are not the same."""
    return isinstance(one, IntImm) and isinstance(other, IntImm) and one.value != other.value


def _is_one(size: Any) -> bool:
    return isinstance(size, IntImm) and size.value == 1


def cblas_matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Tensor:
    """Return the product of two matrices, either of them transposed where asked for, by a BLAS
    library (usually OpenBLAS); ``kwargs`` are for `te.extern`.
    """
    return _product("cblas.matmul", 2, lhs, rhs, transa, transb, **kwargs)


def cblas_batch_matmul(
    lhs: Tensor,
    rhs: Tensor,
    transa: bool = False,
    transb: bool = False,
    iterative: bool = False,
    **kwargs: Any,
) -> Tensor:
    """Return the products of the matrices of two batches, by a BLAS library: one call for each
    pair, with ``iterative`` or without.
    """
    name = "cblas.batch_matmul" + ("_iterative" if iterative else "")
    return _product(name, 3, lhs, rhs, transa, transb, **kwargs)


def mkl_matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Tensor:
    """Return the product of two matrices by Intel's MKL."""
    return _product("mkl.matmul", 2, lhs, rhs, transa, transb, **kwargs)


def mkl_batch_matmul(
    lhs: Tensor,
    rhs: Tensor,
    transa: bool = False,
    transb: bool = False,
    iterative: bool = False,
    **kwargs: Any,
) -> Tensor:
    """Return the products of the matrices of two batches by MKL: one call for each pair."""
    name = "mkl.batch_matmul" + ("_iterative" if iterative else "")
    return _product(name, 3, lhs, rhs, transa, transb, **kwargs)


def mkl_matmul_u8s8s32(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Tensor:
    """Return the product of a matrix of uint8 and one of int8, added as int32, by MKL."""
    if (lhs.dtype, rhs.dtype) != ("uint8", "int8"):
        raise TypeMismatchError(
            f"mkl.matmul_u8s8s32 multiplies uint8 by int8, not {lhs.dtype} by {rhs.dtype}"
        )
    kwargs = {"dtype": "int32", **kwargs}
    return _product("mkl.matmul_u8s8s32", 2, lhs, rhs, transa, transb, **kwargs)


def dnnl_matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **kwargs: Any
) -> Tensor:
    """Return the product of two matrices of float32 by oneDNN."""
    return _product("dnnl.matmul", 2, lhs, rhs, transa, transb, **kwargs)


def cublas_matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, dtype: Any = None
) -> Tensor:
    """Return the product of two matrices by cuBLAS; it runs where tensors are on an NVIDIA GPU."""
    return _product("cublas.matmul", 2, lhs, rhs, transa, transb, dtype=dtype or lhs.dtype)


def cublas_batch_matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, dtype: Any = None
) -> Tensor:
    """Return the products of the matrices of two batches by cuBLAS, on an NVIDIA GPU."""
    return _product("cublas.batch_matmul", 3, lhs, rhs, transa, transb, dtype=dtype or lhs.dtype)


def cublaslt_matmul(
    lhs: Tensor,
    rhs: Tensor,
    transa: bool = False,
    transb: bool = False,
    n: int = 0,
    m: int = 0,
    dtype: Any = None,
) -> Tensor:
    """Return the product of two matrices by cuBLASLt, on an NVIDIA GPU; ``n`` and ``m``, where they
    are given, have to be its rows and columns.
    """
    made = _product("cublaslt.matmul", 2, lhs, rhs, transa, transb, dtype=dtype or lhs.dtype)
    for size, wanted in zip(made.shape, (n, m)):
        if wanted and _differ(size, convert(wanted)):
            raise ShapeError(f"cublaslt: the product has {size}, not {wanted}")
    return made


# -- convolutions


def _known_sizes(tensor: Tensor) -> list[int]:
    if not all(isinstance(size, IntImm) for size in tensor.shape):
        raise UnsupportedError(
            f"dnnl_conv2d needs sizes that are known, those of {tensor.op.name} are {tensor.shape}",
            notes=("topi.nn.conv2d is compiled for all sizes",),
        )
    return [size.value for size in tensor.shape if isinstance(size, IntImm)]


def _pair(value: int | Sequence[int]) -> list[int]:
    return [int(value)] * 2 if isinstance(value, int) else [int(one) for one in value]


def _sides(padding: int | Sequence[int]) -> list[int]:
    """Return the padding of top, left, bottom and right."""
    found = _pair(padding)
    if len(found) not in (2, 4):
        raise ShapeError(f"dnnl_conv2d: padding has 1, 2 or 4 numbers, not {len(found)}")
    return found if len(found) == 4 else [*found, *found]


def dnnl_conv2d(
    src: Tensor,
    weights: Tensor,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
    channel_last: bool = False,
    out_dtype: str = "float32",
    **kwargs: Any,
) -> Tensor:
    """Return a convolution of float32 by oneDNN: of NCHW data by OIHW filters, or with
    ``channel_last`` of NHWC data by HWIO filters.
    """
    if not src.dtype == weights.dtype == out_dtype == "float32":
        raise TypeMismatchError(
            f"dnnl_conv2d convolves float32, not {src.dtype} by {weights.dtype} to {out_dtype}"
        )
    shape, taps = _known_sizes(src), _known_sizes(weights)
    strides, dilations, sides = _pair(stride), _pair(dilation), _sides(padding)
    image = shape[1:3] if channel_last else shape[2:]
    kernel, outer = (taps[:2], taps[3]) if channel_last else (taps[2:], taps[0])
    made = [
        (image[k] + sides[k] + sides[k + 2] - (kernel[k] - 1) * dilations[k] - 1) // strides[k] + 1
        for k in range(2)
    ]
    numbers = [*sides, *strides, *dilations, int(groups)]
    result: Tensor = extern(
        (shape[0], *made, outer) if channel_last else (shape[0], outer, *made),
        [src, weights],
        lambda ins, outs: call_packed(
            _PREFIX + "dnnl.conv2d", ins[0], ins[1], outs[0], *numbers, bool(channel_last)
        ),
        **{"dtype": "float32", "name": "C", **kwargs},
    )
    return result


# -- random numbers


def _drawn(name: str, size: Any, dtype: str, *parameters: Any) -> Tensor:
    made: Tensor = extern(
        size,
        [],
        lambda ins, outs: call_packed(f"{_PREFIX}random.{name}", *parameters, outs[0]),
        name=name,
        dtype=dtype,
    )
    return made


def randint(low: int, high: int, size: Any, dtype: str = "int32") -> Tensor:
    """Return a tensor of random whole numbers from ``low`` to below ``high``."""
    kind = DataType(dtype)
    if not (kind.is_int or kind.is_uint):
        raise TypeMismatchError(f"random.randint makes whole numbers, not {dtype}")
    return _drawn("randint", size, dtype, int(low), int(high))


def uniform(low: float, high: float, size: Any) -> Tensor:
    """Return a float32 tensor of random numbers, equally likely everywhere between the bounds."""
    return _drawn("uniform", size, "float32", float(low), float(high))


def normal(loc: float, scale: float, size: Any) -> Tensor:
    """Return a float32 tensor of random numbers of a normal distribution: its mean and standard
    deviation.
    """
    return _drawn("normal", size, "float32", float(loc), float(scale))
