"""Matrix products."""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi import product, tag
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.broadcast import add, broadcast_shape
from tilesmith.topi.compute import compute
from tilesmith.topi.math import cast
from tilesmith.topi.utils import DType, same_size

__all__ = ["batch_matmul", "dense", "matmul"]


def dense(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Return ``data @ weight.T + bias``: data of shape (..., K), weight (N, K)."""
    out_dtype = out_dtype or data.dtype
    dtype = accumulator(out_dtype)
    if not same_size(data.shape[-1], weight.shape[-1]):
        raise ShapeError(f"dense: the inner sizes {data.shape[-1]} and {weight.shape[-1]} differ")
    k = te.reduce_axis((0, data.shape[-1]), name="k")
    result = compute(
        (*data.shape[:-1], weight.shape[0]),
        lambda *i: te.sum(
            op.cast(dtype, data(*i[:-1], k)) * op.cast(dtype, weight(i[-1], k)), axis=k
        ),
        name="T_matmul_NT",
        tag="dense",
    )
    if bias is None:
        return rounded(result, out_dtype)
    return compute(
        result.shape,
        lambda *i: op.cast(out_dtype, result(*i) + op.cast(dtype, bias(i[-1]))),
        name="T_add",
        tag=tag.BROADCAST,
    )


def batch_matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    oshape: Any = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Multiply matrices in a batch: (B, M, K) by (B, N, K), with optional transposition of
    either.
    """
    out_dtype = out_dtype or tensor_a.dtype
    dtype = accumulator(out_dtype)
    inner_a = tensor_a.shape[1 if transpose_a else 2]
    inner_b = tensor_b.shape[2 if transpose_b else 1]
    if not same_size(inner_a, inner_b):
        raise ShapeError(f"batch_matmul: the inner sizes {inner_a} and {inner_b} differ")
    batch = broadcast_shape(tensor_a.shape[:1], tensor_b.shape[:1])[0]
    m, n = tensor_a.shape[2 if transpose_a else 1], tensor_b.shape[1 if transpose_b else 2]
    k = te.reduce_axis((0, inner_a), name="k")

    def element(b: Any, i: Any, j: Any) -> Any:
        ba = const(0, b.dtype) if op.is_const(tensor_a.shape[0], 1) else b
        bb = const(0, b.dtype) if op.is_const(tensor_b.shape[0], 1) else b
        left = tensor_a(ba, k, i) if transpose_a else tensor_a(ba, i, k)
        right = tensor_b(bb, j, k) if transpose_b else tensor_b(bb, k, j)
        return te.sum(op.cast(dtype, left) * op.cast(dtype, right), axis=k)

    name = f"T_batch_matmul_{'T' if transpose_a else 'N'}{'T' if transpose_b else 'N'}"
    return rounded(compute((batch, m, n), element, name=name, tag="batch_matmul"), out_dtype)


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """Apply `topi.matmul` to two optionally transposed tensors and add a bias along the last
    axis.
    """
    result = product.matmul(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype)
    return result if bias is None else add(result, cast(bias, result.dtype))
