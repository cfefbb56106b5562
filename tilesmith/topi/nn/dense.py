"""Matrix products."""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.broadcast import broadcast_shape
from tilesmith.topi.utils import same_size

__all__ = ["batch_matmul", "dense", "matmul"]


def dense(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """``data @ weight.T + bias``: data of shape (..., K), weight (N, K)."""
    out_dtype = out_dtype or data.dtype
    if not same_size(data.shape[-1], weight.shape[-1]):
        raise ShapeError(f"dense: the inner sizes {data.shape[-1]} and {weight.shape[-1]} differ")
    k = te.reduce_axis((0, data.shape[-1]), name="k")
    result = te.compute(
        (*data.shape[:-1], weight.shape[0]),
        lambda *i: te.sum(
            op.cast(out_dtype, data(*i[:-1], k)) * op.cast(out_dtype, weight(i[-1], k)), axis=k
        ),
        name="T_matmul_NT",
        tag="dense",
    )
    if bias is None:
        return result
    return te.compute(
        result.shape,
        lambda *i: result(*i) + op.cast(out_dtype, bias(i[-1])),
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
    """Products of matrices in a batch: (B, M, K) by (B, N, K), either one transposed as told."""
    out_dtype = out_dtype or tensor_a.dtype
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
        return te.sum(op.cast(out_dtype, left) * op.cast(out_dtype, right), axis=k)

    name = f"T_batch_matmul_{'T' if transpose_a else 'N'}{'T' if transpose_b else 'N'}"
    return te.compute((batch, m, n), element, name=name, tag="batch_matmul")


def matmul(
    a: Tensor,
    b: Tensor,
    transp_a: bool = False,
    transp_b: bool = False,
    out_dtype: str | None = None,
) -> Tensor:
    """The product over the last axis of ``a`` and the last but one of ``b``, as numpy's ``@``.

    Vectors get an axis that is dropped again; leading axes are batches and broadcast.
    """
    out_dtype = out_dtype or a.dtype
    vector_a, vector_b = len(a.shape) == 1, len(b.shape) == 1
    batch_a = list(a.shape[:-2]) if not vector_a else []
    batch_b = list(b.shape[:-2]) if not vector_b else []
    batch = broadcast_shape(batch_a, batch_b) if batch_a or batch_b else []
    inner_a = a.shape[-1] if vector_a or not transp_a else a.shape[-2]
    inner_b = b.shape[-1] if vector_b or transp_b else b.shape[-2]
    if not same_size(inner_a, inner_b):
        raise ShapeError(
            f"matmul needs the inner sizes to agree, got {inner_a} and {inner_b}",
            notes=("transpose one of the operands",),
        )
    rows = [] if vector_a else [a.shape[-1] if transp_a else a.shape[-2]]
    columns = [] if vector_b else [b.shape[-2] if transp_b else b.shape[-1]]
    k = te.reduce_axis((0, inner_a), name="k")

    def batch_index(shape: list, indices: tuple) -> list[Any]:
        own = indices[len(batch) - len(shape) : len(batch)]
        return [
            const(0, size.dtype) if op.is_const(size, 1) and not op.is_const(full, 1) else index
            for index, size, full in zip(own, shape, batch[len(batch) - len(shape) :])
        ]

    def element(*indices: Any) -> Any:
        rest = list(indices[len(batch) :])
        left = batch_index(batch_a, indices)
        right = batch_index(batch_b, indices)
        if vector_a:
            left.append(k)
        else:
            row = rest.pop(0)
            left += [k, row] if transp_a else [row, k]
        if vector_b:
            right.append(k)
        else:
            column = rest.pop(0)
            right += [column, k] if transp_b else [k, column]
        return te.sum(op.cast(out_dtype, a(*left)) * op.cast(out_dtype, b(*right)), axis=k)

    return te.compute([*batch, *rows, *columns], element, name="T_matmul", tag="matmul")
