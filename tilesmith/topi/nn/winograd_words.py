"""Winograd's convolution of bytes, exactly, in products of int16.

The numbers stay whole: the data are combined with whole factors, and the weights, which take the
fractions, are multiplied by what makes them whole; the results are divided by that at the end. Two
channels share a word. While the data are combined a word is the sum ``first + 65536 * second``,
which adds like a number; then its halves become int16, as the dot products of words want them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy

from tilesmith import tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import ShapeError
from tilesmith.te import Tensor
from tilesmith.topi.nn.packed_bytes import elements_of_word, padded_words
from tilesmith.topi.nn.winograd_packed import Arithmetic, convolve_by_tiles, tile_matrices
from tilesmith.topi.utils import get_const_int

__all__ = ["conv2d_nhwc_winograd_words", "winograd_data_growth", "winograd_weight_shift"]

_MOST_BITS = 8


def winograd_weight_shift(tile: int, stride: int = 1) -> int:
    """Return by how many bits the weights at the points of a tile are shifted to be whole: along
    each of the two axes by half of them.
    """
    _, _, weights = tile_matrices(tile, stride)
    for bits in range(_MOST_BITS):
        scaled = weights * 2**bits
        if (scaled == numpy.rint(scaled)).all():
            return 2 * bits
    raise ShapeError(f"Winograd's tiles of {tile} have weights that no power of 2 makes whole")


def winograd_data_growth(tile: int, stride: int = 1) -> int:
    """Return how many times as great as the data their combinations at a point can be."""
    _, data, _ = tile_matrices(tile, stride)
    return int(numpy.abs(data).sum(0).max()) ** 2


def _sum_of_word(
    data: Tensor, indices: Sequence[Any], place: Any, group: Any, zero_point: int
) -> PrimExpr:
    first, second = elements_of_word(data, indices, place, group, zero_point)
    return first + op.shift_left(second, const(16, "int32"))


def _as_two(word: PrimExpr) -> PrimExpr:
    """Return a sum ``first + 65536 * second`` as two int16: a first one below 0 has taken 1 from
    the upper half.
    """
    borrowed = op.shift_left(op.bitwise_and(word, const(0x8000, "int32")), const(1, "int32"))
    made: PrimExpr = tir.reinterpret("uint32", word + borrowed)
    return made


def conv2d_nhwc_winograd_words(
    data: Tensor,
    weight: Tensor,
    channels: int,
    padding: Sequence[int],
    tile: int,
    rows: int,
    stride: int = 1,
    zero_point: int = 0,
) -> Tensor:
    """Convolve NHWC bytes with 3 by 3 taps by tiles, as `conv2d_nhwc_winograd` does: int32.

    ``weight`` is (tiles of outputs, points, words, T) of int32, each two int16 shifted by
    `winograd_weight_shift`; ``padding`` stands for ``zero_point``. What is combined has to fit into
    int16, and the shifted results into int32.
    """
    *groups, _, _, depth, _ = [get_const_int(one) for one in weight.shape]
    count = int(numpy.prod(groups)) if groups else 1
    inputs = get_const_int(data.shape[-1])
    own = inputs // count
    if inputs % count or depth != (own + 1) // 2 or channels % count:
        raise ShapeError(
            f"conv2d_nhwc_winograd_words: the weights take {depth} words of two channels in "
            f"{count} groups, the data have {inputs} channels, the result {channels}"
        )
    word = partial(_sum_of_word, group=own, zero_point=zero_point)
    shift = winograd_weight_shift(tile, stride)

    def padded(around: list[int]) -> Tensor:
        return padded_words(data, around, depth * count, word, const(0, "int32"))

    def result(total: PrimExpr) -> PrimExpr:
        return op.shift_right(total, const(shift, "int32")) if shift else total

    arithmetic = Arithmetic(padded, _as_two, tir.dot_i16i16, result)
    return convolve_by_tiles(arithmetic, data, weight, channels, padding, tile, rows, stride)
