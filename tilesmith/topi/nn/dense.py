"""Matrix products."""

from __future__ import annotations

from typing import Any

from tilesmith import te
from tilesmith.ir import IntImm, const, convert
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi import product, tag
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.broadcast import add, broadcast_shape
from tilesmith.topi.compute import compute
from tilesmith.topi.math import cast
from tilesmith.topi.nn.rewritten import given_weight
from tilesmith.topi.utils import DType, get_const_int, same_size, simplify

__all__ = ["batch_matmul", "dense", "dense_pack", "matmul"]


def dense(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Return ``data @ weight.T + bias``: data of shape (..., K), weight (N, K).

    The last two parameters say that a tuner rearranged the weight, see `given_weight`; its axes are
    j and k.
    """
    weight = given_weight(
        weight, ["j", "k"], auto_scheduler_rewritten_layout, meta_schedule_original_shape
    )
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
    return _biased(result, bias, out_dtype)


def _biased(result: Tensor, bias: Tensor | None, out_dtype: DType) -> Tensor:
    """Return sums, with a bias along the last axis, in the wanted dtype."""
    if bias is None:
        return rounded(result, out_dtype)
    dtype = result.dtype
    return compute(
        result.shape,
        lambda *i: op.cast(out_dtype, result(*i) + op.cast(dtype, bias(i[-1]))),
        name="T_add",
        tag=tag.BROADCAST,
    )


def dense_pack(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: DType | None = None
) -> Tensor:
    """Return ``data @ w.T + bias`` for a weight whose outputs are in tiles: (N / T, K, T)."""
    out_dtype = out_dtype or data.dtype
    dtype = accumulator(out_dtype)
    if not same_size(data.shape[-1], weight.shape[1]):
        raise ShapeError(
            f"dense_pack: the inner sizes {data.shape[-1]} and {weight.shape[1]} differ"
        )
    tile = get_const_int(weight.shape[2])
    k = te.reduce_axis((0, data.shape[-1]), name="k")
    result = compute(
        (*data.shape[:-1], simplify(weight.shape[0] * tile)),
        lambda *i: te.sum(
            op.cast(dtype, data(*i[:-1], k))
            * op.cast(dtype, weight(op.floordiv(i[-1], tile), k, op.floormod(i[-1], tile))),
            axis=k,
        ),
        name="T_dense_pack",
        tag="dense_pack",
    )
    return _biased(result, bias, out_dtype)


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
    """Multiply matrices in a batch: (B, M, K) by (B, N, K), with optional transposition of either.

    ``oshape`` is the shape of the result, for symbolic sizes of which more is known. The last two
    parameters say that a tuner rearranged ``tensor_b``, whose axes are b, j and k; see
    `given_weight`.
    """
    tensor_b = given_weight(
        tensor_b, ["b", *("jk" if transpose_b else "kj")], auto_scheduler_rewritten_layout,
        meta_schedule_original_shape,
    )  # fmt: skip
    out_dtype = out_dtype or tensor_a.dtype
    dtype = accumulator(out_dtype)
    inner_a = tensor_a.shape[1 if transpose_a else 2]
    inner_b = tensor_b.shape[2 if transpose_b else 1]
    if not same_size(inner_a, inner_b):
        raise ShapeError(f"batch_matmul: the inner sizes {inner_a} and {inner_b} differ")
    batch = broadcast_shape(tensor_a.shape[:1], tensor_b.shape[:1])[0]
    m, n = tensor_a.shape[2 if transpose_a else 1], tensor_b.shape[1 if transpose_b else 2]
    shape = (batch, m, n) if oshape is None else tuple(oshape)
    for given, size in zip(shape, (batch, m, n)):
        if (
            isinstance(size, IntImm)
            and isinstance(convert(given), IntImm)
            and int(given) != int(size)
        ):
            raise ShapeError(f"batch_matmul: the result is {[batch, m, n]}, not {list(shape)}")
    k = te.reduce_axis((0, inner_a), name="k")

    def element(b: Any, i: Any, j: Any) -> Any:
        ba = const(0, b.dtype) if op.is_const(tensor_a.shape[0], 1) else b
        bb = const(0, b.dtype) if op.is_const(tensor_b.shape[0], 1) else b
        left = tensor_a(ba, k, i) if transpose_a else tensor_a(ba, i, k)
        right = tensor_b(bb, j, k) if transpose_b else tensor_b(bb, k, j)
        return te.sum(op.cast(dtype, left) * op.cast(dtype, right), axis=k)

    name = f"T_batch_matmul_{'T' if transpose_a else 'N'}{'T' if transpose_b else 'N'}"
    return rounded(compute(shape, element, name=name, tag="batch_matmul"), out_dtype)


def matmul(
    tensor_a: Tensor,
    tensor_b: Tensor,
    bias: Tensor | None = None,
    out_dtype: DType | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Apply `topi.matmul` to two optionally transposed tensors and add a bias along the last axis.

    The last two parameters: see `dense`.
    """
    tensor_b = given_weight(
        tensor_b, "jk" if transpose_b else "kj", auto_scheduler_rewritten_layout,
        meta_schedule_original_shape,
    )  # fmt: skip
    result = product.matmul(tensor_a, tensor_b, transpose_a, transpose_b, out_dtype)
    return result if bias is None else add(result, cast(bias, result.dtype))
