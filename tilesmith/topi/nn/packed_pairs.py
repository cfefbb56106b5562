"""Convolutions and products of bfloat16 with weights packed for dot products of two elements.

Two elements along the channels make one word of 32 bits. A weight is packed as in
`topi.nn.packed`, of words: (tiles, …, words, T). The sums are float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.packed_bytes import padded_words
from tilesmith.topi.nn.utils import windows_within
from tilesmith.topi.utils import get_const_int

__all__ = ["conv2d_nhwc_pairs", "matmul_pairs"]


def _word(data: Tensor, indices: Sequence[Any], place: Any) -> PrimExpr:
    """Return two elements along the last axis as a word, 0 beyond the end of the axis."""
    size = data.shape[-1]
    first, second = [
        op.cast("uint32", tir.reinterpret("uint16", data(*indices, place * 2 + number)))
        for number in range(2)
    ]
    if not op.is_const(op.floormod(size, 2), 0):
        second = tir.if_then_else(place * 2 + 1 < size, second, const(0, "uint32"))
    word: PrimExpr = op.bitwise_or(first, op.shift_left(second, const(16, "uint32")))
    return word


def conv2d_nhwc_pairs(
    data: Tensor, weight: Tensor, channels: int, strides: Any, padding: Any, dilation: Any
) -> Tensor:
    """Convolve NHWC bfloat16; ``weight`` is (tiles, ky, kx, words, T) of uint32, ``channels`` the
    outputs. ``padding`` is top, left, bottom, right.
    """
    count = op.floordiv(data.shape[3] + 1, 2)
    words = padded_words(data, padding, count, _word, const(0, "uint32"))
    kernel = [get_const_int(weight.shape[axis]) for axis in (1, 2)]
    (sy, sx), (dy, dx) = strides, dilation
    sizes = [
        windows_within(words.shape[1 + axis], kernel[axis], int(strides[axis]), int(dilation[axis]))
        for axis in range(2)
    ]
    depth, tile = [get_const_int(weight.shape[axis]) for axis in (3, 4)]
    ry, rx = te.reduce_axis((0, kernel[0]), name="ry"), te.reduce_axis((0, kernel[1]), name="rx")
    rc = te.reduce_axis((0, depth), name="rc")
    name = "conv2d_nhwc_pairs"
    return compute(
        (data.shape[0], *sizes, channels),
        lambda n, y, x, o: te.sum(
            tir.dot_bf16bf16(
                words(n, y * sy + ry * dy, x * sx + rx * dx, rc),
                weight(op.floordiv(o, tile), ry, rx, rc, op.floormod(o, tile)),
            ),
            axis=[ry, rx, rc],
        ),
        name=name,
        tag=name,
    )


def matmul_pairs(data: Tensor, weight: Tensor, columns: int) -> Tensor:
    """Return ``data @ B`` of bfloat16 for a B packed as (tiles, words, T) of uint32."""
    tile = get_const_int(weight.shape[2])
    count = op.floordiv(data.shape[-1] + 1, 2)
    words = compute((*data.shape[:-1], count), lambda *i: _word(data, i[:-1], i[-1]), name="words")
    k = te.reduce_axis((0, count), name="k")
    return compute(
        (*data.shape[:-1], columns),
        lambda *i: te.sum(
            tir.dot_bf16bf16(
                words(*i[:-1], k), weight(op.floordiv(i[-1], tile), k, op.floormod(i[-1], tile))
            ),
            axis=k,
        ),
        name="matmul_pairs",
        tag="matmul_pairs",
    )
