"""``nn.attention_var_len``: attention of sequences of several lengths, one behind the other."""

from __future__ import annotations

import math
from typing import Any

import numpy

from tilesmith import te, tir
from tilesmith.ir import const
from tilesmith.relax.attrs import Schema, optional_integer, optional_number, text
from tilesmith.relax.expr import Call
from tilesmith.relax.op.common import check_dtypes, check_ndim, result, sizes_of, tensor
from tilesmith.relax.op.declaration import define, function_of
from tilesmith.relax.spec import Precision, topi
from tilesmith.support.errors import OpAttributeInvalid, TypeMismatchError

__all__ = ["attention_var_len"]


def _infer(call: Any) -> Any:
    if call.attrs.window_size is not None:
        raise OpAttributeInvalid("nn.attention_var_len: window_size is not supported")
    queries, keys, values = [tensor(call, number) for number in range(3)]
    for number, info in enumerate((queries, keys, values)):
        check_ndim(call, number, info, 4)
    dtype = check_dtypes(call, (queries, keys, values))
    for number in (3, 5):
        starts = tensor(call, number)
        check_ndim(call, number, starts, 1)
        if not starts.dtype.is_integer:
            raise TypeMismatchError(
                f"nn.attention_var_len: the starts of sequences are integers, got {starts.dtype}"
            )
    q, v = sizes_of(queries), sizes_of(values)
    if q is None or v is None:
        return result(None, dtype, 4)
    return result([*q[:3], v[3]], dtype)


def _sequence(starts: Any, count: int) -> Any:
    """Return the number of each token's sequence."""
    return numpy.searchsorted(starts[1:], numpy.arange(count), side="right")


def _evaluate(
    attrs: Any, q: Any, k: Any, v: Any, starts_q: Any, most_q: Any, starts_k: Any, most_k: Any
) -> Any:
    scale = attrs.scale if attrs.scale is not None else 1 / math.sqrt(q.shape[-1])
    out = numpy.zeros((*q.shape[:3], v.shape[3]), "float64")
    for number in range(len(starts_q) - 1):
        rows = slice(int(starts_q[number]), int(starts_q[number + 1]))
        columns = slice(int(starts_k[number]), int(starts_k[number + 1]))
        scores = numpy.einsum("bihd,bjhd->bhij", q[:, rows].astype("float64"), k[:, columns])
        scores = scores * scale
        height, width = scores.shape[2:]
        if attrs.causal_mask is not None:
            offset = width - height if attrs.causal_mask == "BottomRight" else 0
            hidden = numpy.arange(width)[None] > numpy.arange(height)[:, None] + offset
            scores = numpy.where(hidden, -numpy.inf, scores)
        weights = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
        out[:, rows] = numpy.einsum("bhij,bjhd->bihd", weights, v[:, columns])
    return out.astype(q.dtype)


def _numbers(starts: Any, count: Any, name: str) -> Any:
    """Return for each token the number of its sequence: how many others have ended before."""
    one = te.reduce_axis((1, starts.shape[0]), "one")
    return te.compute(
        (count,),
        lambda i: te.sum((starts[one] <= i.astype(starts.dtype)).astype("int32"), axis=one),
        name=name,
    )


def _compute(
    attrs: Any, q: Any, k: Any, v: Any, starts_q: Any, most_q: Any, starts_k: Any, most_k: Any
) -> Any:
    of_query = _numbers(starts_q, q.shape[1], "sequence_of_query")
    of_key = _numbers(starts_k, k.shape[1], "sequence_of_key")
    lowest = tir.min_value(q.dtype)

    def bias(b: Any, h: Any, i: Any, j: Any) -> Any:
        mine = of_query[i]
        seen = mine == of_key[j]
        if attrs.causal_mask is not None:
            row, column = i - starts_q[mine], j - starts_k[mine]
            if attrs.causal_mask == "BottomRight":
                height = starts_q[mine + 1] - starts_q[mine]
                row = row + (starts_k[mine + 1] - starts_k[mine]) - height
            seen = tir.all(seen, column <= row)
        return tir.if_then_else(seen, const(0, q.dtype), lowest / 2)

    hidden = te.compute((1, 1, q.shape[1], k.shape[1]), bias, name="attention_bias")
    return topi.nn.attention(q, k, v, hidden, scale=attrs.scale)


_attention_var_len = define(
    "nn.attention_var_len",
    "queries keys values seqstart_q max_seqlen_q seqstart_k max_seqlen_k",
    _infer,
    schema=Schema(scale=optional_number(), causal_mask=text(None), window_size=optional_integer()),
    compute=_compute,
    evaluate=_evaluate,
    precision=Precision.ALWAYS,
)


@function_of(_attention_var_len)
def attention_var_len(
    queries: Any,
    keys: Any,
    values: Any,
    seqstart_q: Any,
    max_seqlen_q: Any,
    seqstart_k: Any = None,
    max_seqlen_k: Any = None,
    scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> Call:
    """Scaled dot-product attention within each of several sequences, which lie one behind the other
    on the second axis of (1, tokens, heads, head size).

    ``seqstart_q`` and ``seqstart_k`` are the tokens at which the sequences begin, and the number of
    all tokens; without the latter, keys are divided as queries are. ``max_seqlen_q`` and
    ``max_seqlen_k``, the lengths of the longest ones, are not needed to compute it here.
    """
    if seqstart_k is None:
        seqstart_k, max_seqlen_k = seqstart_q, max_seqlen_q
    if max_seqlen_k is None:
        max_seqlen_k = max_seqlen_q
    return _attention_var_len(
        queries,
        keys,
        values,
        seqstart_q,
        max_seqlen_q,
        seqstart_k,
        max_seqlen_k,
        scale=scale,
        causal_mask=causal_mask,
        window_size=window_size,
    )
