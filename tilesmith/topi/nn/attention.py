"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import IntImm, PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import UnsupportedError
from tilesmith.te import Tensor
from tilesmith.topi import tag
from tilesmith.topi.accumulation import accumulator, rounded
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.normalization import softmax
from tilesmith.topi.utils import equal_const_int

__all__ = ["attention"]


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Tensor:
    """Return ``softmax(query @ key.T * scale + bias) @ value`` for each head.

    query (batch, length, heads, size), key and value (batch, keys, heads, size), bias broadcast to
    (batch, heads, length, keys). ``scale``: 1 / sqrt(size) by default. ``causal_mask``: "TopLeft"
    or "BottomRight", the corner at which the diagonal of visible keys starts. Narrow floats are
    computed in float32. Raises UnsupportedError for a ``window_size``.
    """
    if window_size is not None:
        raise UnsupportedError("attention: window_size is not supported; pass a bias instead")
    batch, length, heads, size = query.shape
    keys, out_size = key.shape[1], value.shape[3]
    dtype = accumulator(query.dtype)
    factor = _scale(scale, size, dtype)
    d = te.reduce_axis((0, size), name="d")
    scores = compute(
        (batch, heads, length, keys),
        lambda b, h, i, j: te.sum(
            op.cast(dtype, query(b, i, h, d)) * op.cast(dtype, key(b, j, h, d)), axis=d
        ),
        name="T_scores",
    )

    def masked(b: Any, h: Any, i: Any, j: Any) -> PrimExpr:
        found = scores(b, h, i, j) * factor
        if bias is not None:
            place = [
                const(0, index.dtype) if equal_const_int(extent, 1) else index
                for index, extent in zip((b, h, i, j), bias.shape)
            ]
            found = found + op.cast(dtype, bias(*place))
        if causal_mask is not None:
            last = i + (keys - length) if causal_mask == "BottomRight" else i
            found = tir.Select(j <= last, found, tir.min_value(dtype))
        return found

    masked_scores = compute(scores.shape, masked, name="T_masked", tag=tag.BROADCAST)
    weights = softmax(masked_scores, 3)
    k = te.reduce_axis((0, keys), name="k")
    product = compute(
        (batch, length, heads, out_size),
        lambda b, i, h, o: te.sum(weights(b, h, i, k) * op.cast(dtype, value(b, k, h, o)), axis=k),
        name="T_attention",
    )
    return rounded(product, query.dtype)


def _scale(scale: float | None, size: PrimExpr, dtype: Any) -> PrimExpr:
    if scale is not None:
        return const(scale, dtype)
    if isinstance(size, IntImm):
        return const(1 / math.sqrt(size.value), dtype)
    return tir.rsqrt(op.cast(dtype, size))
