"""Operators that only modules of schedules know: operands in blocks, scans and sorts of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith import te, topi
from tilesmith.ir import operators as op
from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi.schedules.published import operator

__all__ = [
    "argsort", "batch_matmul_packed", "dense_pack", "dense_packed", "exclusive_scan",
    "inclusive_scan", "sort_by_key",
]  # fmt: skip


def dense_pack(data: Tensor, weight: Tensor, bias: Any = None, out_dtype: Any = None) -> Tensor:
    """Return ``data · weightᵀ``; the weight may be in blocks of output channels."""
    function = operator("nn.dense" if len(weight.shape) == 2 else "nn.dense_pack")
    result: Tensor = function(data, weight, bias, out_dtype)
    return result


def dense_packed(X: Tensor, packed_w: Tensor, bias: Any = None) -> Tensor:
    """Return the int32 product of 8-bit integers with weights in blocks: (outputs / 16, inputs / 4,
    16, 4).
    """
    k = te.reduce_axis((0, X.shape[1]), name="k")
    blocks, _, width, depth = packed_w.shape

    def element(i: Any, j: Any) -> Any:
        weight = packed_w[j // width, k // depth, j % width, k % depth]
        return te.sum(op.cast("int32", X(i, k)) * op.cast("int32", weight.asobject()), axis=k)

    shape = (X.shape[0], blocks * width)
    result: Tensor = te.compute(shape, element, name="dense_int8", tag="dense_int8")
    if bias is not None:
        result = topi.add(result, bias)
    return result


def batch_matmul_packed(x: Tensor, y: Tensor, *_: Any) -> Tensor:
    """Return the int32 products of 8-bit integers, the right operands in blocks: (batch,
    outputs / 16, inputs / 4, 16, 4).
    """
    k = te.reduce_axis((0, x.shape[2]), name="k")
    blocks, width, depth = y.shape[1], y.shape[3], y.shape[4]

    def element(b: Any, i: Any, j: Any) -> Any:
        right = y[b, j // width, k // depth, j % width, k % depth]
        return te.sum(op.cast("int32", x(b, i, k)) * op.cast("int32", right.asobject()), axis=k)

    shape = (x.shape[0], x.shape[1], blocks * width)
    result: Tensor = te.compute(shape, element, name="batch_matmul_int8", tag="batch_matmul_int8")
    return result


def argsort(
    data: Tensor, axis: int = -1, is_ascend: int = 1, dtype: str = "float32",
    ret_type: str = "indices",
) -> Any:  # fmt: skip
    """Return the positions of the sorted elements; with ``ret_type="both"`` the elements first."""
    places = operator("argsort")(data, axis=axis, is_ascend=is_ascend, dtype=dtype)
    if ret_type == "indices":
        return places
    return [operator("sort")(data, axis=axis, is_ascend=is_ascend), places]


def sort_by_key(keys: Tensor, values: Tensor, axis: int = -1, is_ascend: int = 1) -> list[Tensor]:
    """Return sorted keys, and values in the order of their keys."""
    places = operator("argsort")(keys, axis=axis, is_ascend=is_ascend, dtype="int64")
    gathered = [operator("gather")(one, axis, places) for one in (keys, values)]
    return gathered


def _scan(
    data: Tensor, axis: int, output_dtype: Any, binop: Any, identity: Any, exclusive: bool
) -> Any:
    function: Callable[..., Any] = binop or op.add
    return operator("scanop")(data, function, identity, "scan", axis, output_dtype, exclusive)


def exclusive_scan(
    data: Tensor, axis: int = -1, return_reduction: bool = False, output_dtype: Any = None,
    binop: Any = None, identity_value: Any = 0, workspace: Any = None,
) -> Any:  # fmt: skip
    """Return for each element what the elements before it combine to (by default their sum)."""
    if return_reduction:
        raise UnsupportedError(
            "exclusive_scan gives no reduction beside the scan",
            notes=("reduce the data by topi.sum",),
        )
    return _scan(data, axis, output_dtype, binop, identity_value, True)


def inclusive_scan(
    data: Tensor, axis: int = -1, output_dtype: Any = None, binop: Any = None,
    identity_value: Any = 0, workspace: Any = None,
) -> Any:  # fmt: skip
    """Return for each element what it and the elements before it combine to."""
    return _scan(data, axis, output_dtype, binop, identity_value, False)
