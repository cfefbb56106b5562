"""Convolutions and products of bytes with weights packed for dot products of four bytes.

Four bytes along the channels make one word. A weight is packed as in `topi.nn.packed`, of words:
(tiles, …, words, T). Signed data become unsigned ones, 128 greater; what this and the zero point
add to the sums depends on the weight alone, and is subtracted by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.utils import windows_within
from tilesmith.topi.utils import get_const_int

__all__ = ["conv2d_nhwc_words", "matmul_words"]

_BYTES = 4


def _word(data: Tensor, indices: Sequence[Any], first: PrimExpr) -> PrimExpr:
    """Return four elements along the last axis as unsigned bytes of a word; 0 beyond the end."""
    size = data.shape[-1]
    is_even = op.is_const(op.floormod(size, _BYTES), 0)
    word: PrimExpr = const(0, "uint32")
    for place in range(_BYTES):
        byte = op.cast("uint32", op.cast("uint8", data(*indices, first + place)))
        if not is_even:
            zero = const(0, "uint32")
            byte = tir.if_then_else(first + place < size, byte, zero)
        word = op.bitwise_or(word, op.shift_left(byte, const(8 * place, "uint32")))
    if data.dtype.is_int:
        word = op.bitwise_xor(word, const(0x80808080, "uint32"))
    return word


def _words(data: Tensor, padding: Sequence[int], zero_point: int) -> Tensor:
    """Return NHWC data padded with the zero point, as words."""
    top, left, bottom, right = [int(value) for value in padding]
    batch, height, width, channels = data.shape
    byte = (zero_point + (128 if data.dtype.is_int else 0)) & 255
    outside = const(byte * 0x01010101, "uint32")

    def element(n: Any, y: Any, x: Any, c: Any) -> PrimExpr:
        inner = _word(data, (n, y - top, x - left), c * _BYTES)
        conditions = []
        for index, before, after, size in ((y, top, bottom, height), (x, left, right, width)):
            conditions += [index >= before] if before else []
            conditions += [index < size + before] if after else []
        if not conditions:
            return inner
        made: PrimExpr = tir.if_then_else(tir.all(*conditions), inner, outside)
        return made

    sizes = (batch, height + top + bottom, width + left + right, op.floordiv(channels + 3, _BYTES))
    return compute(sizes, element, name="words")


def conv2d_nhwc_words(
    data: Tensor,
    weight: Tensor,
    channels: int,
    strides: Any,
    padding: Any,
    dilation: Any,
    zero_point: int = 0,
) -> Tensor:
    """Convolve NHWC bytes, taken as unsigned; ``weight`` is (tiles, ky, kx, words, T) of int32, and
    ``channels`` the outputs. ``padding`` (top, left, bottom, right) stands for ``zero_point``.
    """
    words = _words(data, padding, zero_point)
    kernel = [get_const_int(weight.shape[axis]) for axis in (1, 2)]
    (sy, sx), (dy, dx) = strides, dilation
    sizes = [
        windows_within(words.shape[1 + axis], kernel[axis], int(strides[axis]), int(dilation[axis]))
        for axis in range(2)
    ]
    tile = get_const_int(weight.shape[4])
    ry, rx = te.reduce_axis((0, kernel[0]), name="ry"), te.reduce_axis((0, kernel[1]), name="rx")
    rc = te.reduce_axis((0, words.shape[3]), name="rc")
    return compute(
        (data.shape[0], *sizes, channels),
        lambda n, y, x, o: te.sum(
            tir.dot_u8i8(
                words(n, y * sy + ry * dy, x * sx + rx * dx, rc),
                weight(op.floordiv(o, tile), ry, rx, rc, op.floormod(o, tile)),
            ),
            axis=[ry, rx, rc],
        ),
        name="conv2d_nhwc_words",
        tag="conv2d_nhwc_words",
    )


def matmul_words(data: Tensor, weight: Tensor, columns: int) -> Tensor:
    """Return ``data @ B`` of bytes, taken as unsigned, for a B packed as (tiles, words, T)."""
    tile = get_const_int(weight.shape[2])
    count = op.floordiv(data.shape[-1] + 3, _BYTES)
    words = compute(
        (*data.shape[:-1], count), lambda *i: _word(data, i[:-1], i[-1] * _BYTES), name="words"
    )
    k = te.reduce_axis((0, count), name="k")
    return compute(
        (*data.shape[:-1], columns),
        lambda *i: te.sum(
            tir.dot_u8i8(
                words(*i[:-1], k), weight(op.floordiv(i[-1], tile), k, op.floormod(i[-1], tile))
            ),
            axis=k,
        ),
        name="matmul_words",
        tag="matmul_words",
    )
