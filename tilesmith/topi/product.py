"""Products of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import te
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi.accumulation import Axis, accumulator, reduce_axes, rounded, widened
from tilesmith.topi.broadcast import broadcast_shape
from tilesmith.topi.compute import compute
from tilesmith.topi.utils import DType, same_size

__all__ = ["matmul", "tensordot"]


def matmul(
    a: Tensor,
    b: Tensor,
    transp_a: bool = False,
    transp_b: bool = False,
    out_dtype: DType | None = None,
) -> Tensor:
    """Return the product over the last axis of ``a`` and the last but one of ``b``, as numpy's
    ``@``.

    Vectors get an axis that is dropped again; leading axes are batches and broadcast. Products of
    two vectors go by blocks, see `accumulation`; others add in one loop.
    """
    out_dtype = out_dtype or a.dtype
    dtype = accumulator(out_dtype)
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
        return te.sum(op.cast(dtype, a(*left)) * op.cast(dtype, b(*right)), axis=k)

    if vector_a and vector_b:
        total = reduce_axes(
            [Axis(inner_a, True)],
            lambda i: op.cast(dtype, a(i)) * op.cast(dtype, b(i)),
            te.sum,
            "T_matmul",
            tag="matmul",
        )
        return rounded(total, out_dtype)
    shape = [*batch, *rows, *columns]
    return rounded(compute(shape, element, name="T_matmul", tag="matmul"), out_dtype)


def tensordot(
    a: Tensor, b: Tensor, axes: int | tuple[Sequence[int] | int, Sequence[int] | int]
) -> Tensor:
    """Return the sum of products over pairs of axes, as numpy's.

    ``axes``: that many last axes of ``a`` with first ones of ``b``, or the axes of ``a`` and those
    of ``b``. The other axes stay, those of ``a`` first. Raises ShapeError where sizes differ.
    """
    if isinstance(axes, int):
        axes = (range(len(a.shape) - axes, len(a.shape)), range(axes))
    own, other = ([one] if isinstance(one, int) else list(one) for one in axes)
    own = [axis % len(a.shape) for axis in own]
    other = [axis % len(b.shape) for axis in other]
    sizes = [(a.shape[x], b.shape[y]) for x, y in zip(own, other)]
    if len(own) != len(other) or not all(same_size(x, y) for x, y in sizes):
        raise ShapeError(f"tensordot: axes {own} and {other} do not have the same sizes")
    summed = [te.reduce_axis((0, size), name=f"k{n}") for n, (size, _) in enumerate(sizes)]
    kept_a = [axis for axis in range(len(a.shape)) if axis not in own]
    kept_b = [axis for axis in range(len(b.shape)) if axis not in other]

    def element(*i: Any) -> PrimExpr:
        left = {**dict(zip(kept_a, i)), **dict(zip(own, summed))}
        right = {**dict(zip(kept_b, i[len(kept_a) :])), **dict(zip(other, summed))}
        value = widened(a(*[left[axis] for axis in range(len(a.shape))]))
        value = value * widened(b(*[right[axis] for axis in range(len(b.shape))]))
        return te.sum(value, axis=summed) if summed else value

    shape = [*[a.shape[axis] for axis in kept_a], *[b.shape[axis] for axis in kept_b]]
    return rounded(compute(shape, element, name="T_tensordot"), a.dtype)
