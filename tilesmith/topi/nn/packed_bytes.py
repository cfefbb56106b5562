"""Convolutions and products of bytes with weights packed for dot products of small integers.

Four bytes along the channels make one word. A weight is packed as in `topi.nn.packed`, of words:
(tiles, …, words, T). The instruction takes data of one sign: signed bytes become unsigned ones, 128
greater, or the other way round. What this and the zero point add to the sums depends on the weight
alone, and is subtracted by the caller.

Where the instruction multiplies int16, two elements make a word, without their zero point: it may
be any number there, and nothing is left to subtract.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.te import Tensor
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.utils import windows_within
from tilesmith.topi.utils import get_const_int

__all__ = [
    "conv2d_nhwc_words", "depthwise_conv2d_nhwc_bytes", "matmul_words", "window_sums_nhwc",
]  # fmt: skip

_BYTES = 4

_PRODUCTS = {"u8i8": tir.dot_u8i8, "i8i8": tir.dot_i8i8, "i16i16": tir.dot_i16i16}
"""What multiplies words, by the elements of the data and of the weights."""


def _word(data: Tensor, indices: Sequence[Any], place: Any, group: Any, signed: bool) -> PrimExpr:
    """Return four elements along the last axis as bytes of a word, signed or not. Words count
    within groups of ``group`` elements, and are 0 beyond the end of one.
    """
    count = op.floordiv(group + _BYTES - 1, _BYTES)
    is_even = op.is_const(op.floormod(group, _BYTES), 0)
    start = place * _BYTES
    if not is_even and not op.is_const(data.shape[-1] - group, 0):
        start = op.floordiv(place, count) * group + op.floormod(place, count) * _BYTES
    within = op.floormod(place, count) * _BYTES
    word: PrimExpr = const(0, "uint32")
    for number in range(_BYTES):
        byte = op.cast("uint32", op.cast("uint8", data(*indices, start + number)))
        if not is_even:
            byte = tir.if_then_else(within + number < group, byte, const(0, "uint32"))
        word = op.bitwise_or(word, op.shift_left(byte, const(8 * number, "uint32")))
    if data.dtype.is_int != signed:
        word = op.bitwise_xor(word, const(0x80808080, "uint32"))
    return word


def elements_of_word(
    data: Tensor, indices: Sequence[Any], place: Any, group: Any, zero_point: int
) -> tuple[PrimExpr, PrimExpr]:
    """Return two elements along the last axis, without their zero point, as int32. Words of two
    count within groups of ``group`` elements, and are 0 beyond the end of one.
    """
    is_even = op.is_const(op.floormod(group, 2), 0)
    start, count = place * 2, op.floordiv(group + 1, 2)
    if not is_even and not op.is_const(data.shape[-1] - group, 0):
        start = op.floordiv(place, count) * group + op.floormod(place, count) * 2
    first, second = [
        op.cast("int32", data(*indices, start + number)) - const(zero_point, "int32")
        for number in range(2)
    ]
    if not is_even:
        is_within = op.floormod(place, count) * 2 + 1 < group
        second = tir.if_then_else(is_within, second, const(0, "int32"))
    return first, second


def _word_of_two(
    data: Tensor, indices: Sequence[Any], place: Any, group: Any, zero_point: int
) -> PrimExpr:
    """Return two elements along the last axis, without their zero point, as int16 in a word."""
    first, second = elements_of_word(data, indices, place, group, zero_point)
    low = op.bitwise_and(first, const(0xFFFF, "int32"))
    high = op.shift_left(second, const(16, "int32"))
    word: PrimExpr = tir.reinterpret("uint32", op.bitwise_or(low, high))
    return word


def _words(
    data: Tensor, padding: Sequence[int], zero_point: int, groups: int, products: str
) -> Tensor:
    """Return NHWC data padded with the zero point, as words; each group starts with a word."""
    group = op.floordiv(data.shape[3], groups)
    if products == "i16i16":
        word = partial(_word_of_two, group=group, zero_point=zero_point)
        count = groups * op.floordiv(group + 1, 2)
        return padded_words(data, padding, count, word, const(0, "uint32"))
    signed = products == "i8i8"
    byte = (zero_point + (0 if data.dtype.is_int == signed else 128)) & 255
    outside = const(byte * 0x01010101, "uint32")
    count = groups * op.floordiv(group + _BYTES - 1, _BYTES)
    word = partial(_word, group=group, signed=signed)
    return padded_words(data, padding, count, word, outside)


def padded_words(
    data: Tensor, padding: Sequence[int], count: Any, word: Callable[..., Any], outside: PrimExpr
) -> Tensor:
    """Return NHWC data as ``count`` words a pixel: ``word(data, indices of a pixel, place)``, and
    ``outside`` in the padding.
    """
    top, left, bottom, right = [int(value) for value in padding]
    batch, height, width, _ = data.shape

    def element(n: Any, y: Any, x: Any, c: Any) -> PrimExpr:
        inner: PrimExpr = word(data, (n, y - top, x - left), c)
        conditions = []
        for index, before, after, size in ((y, top, bottom, height), (x, left, right, width)):
            conditions += [index >= before] if before else []
            conditions += [index < size + before] if after else []
        if not conditions:
            return inner
        made: PrimExpr = tir.if_then_else(tir.all(*conditions), inner, outside)
        return made

    sizes = (batch, height + top + bottom, width + left + right, count)
    return compute(sizes, element, name="words")


def conv2d_nhwc_words(
    data: Tensor,
    weight: Tensor,
    channels: int,
    strides: Any,
    padding: Any,
    dilation: Any,
    zero_point: int = 0,
    groups: int = 1,
    products: str = "u8i8",
) -> Tensor:
    """Convolve NHWC bytes; ``weight`` is (tiles, ky, kx, words of a group, T) of int32, and
    ``channels`` the outputs. ``padding`` (top, left, bottom, right) stands for ``zero_point``. If
    there are groups, T divides the outputs of one. ``products`` names what the elements of words
    are: bytes of the data as "u8i8" or "i8i8", or "i16i16" without their zero point.
    """
    words = _words(data, padding, zero_point, groups, products)
    kernel = [get_const_int(weight.shape[axis]) for axis in (1, 2)]
    (sy, sx), (dy, dx) = strides, dilation
    sizes = [
        windows_within(words.shape[1 + axis], kernel[axis], int(strides[axis]), int(dilation[axis]))
        for axis in range(2)
    ]
    count, tile = [get_const_int(weight.shape[axis]) for axis in (3, 4)]
    outputs, multiply = channels // groups, _PRODUCTS[products]
    ry, rx = te.reduce_axis((0, kernel[0]), name="ry"), te.reduce_axis((0, kernel[1]), name="rx")
    rc = te.reduce_axis((0, count), name="rc")

    def element(n: Any, y: Any, x: Any, o: Any) -> PrimExpr:
        first = op.floordiv(o, outputs) * count if groups > 1 else 0
        product = multiply(
            words(n, y * sy + ry * dy, x * sx + rx * dx, first + rc),
            weight(op.floordiv(o, tile), ry, rx, rc, op.floormod(o, tile)),
        )
        total: PrimExpr = te.sum(product, axis=[ry, rx, rc])
        return total

    name = "conv2d_nhwc_words"
    return compute((data.shape[0], *sizes, channels), element, name=name, tag=name)


def _centred(data: Tensor, padding: Any, zero_point: int, dtype: str) -> Tensor:
    """Return NHWC bytes without their zero point, padded with 0."""
    top, left, bottom, right = [int(value) for value in padding]
    point = const(zero_point, dtype)
    wide = compute(data.shape, lambda *i: op.cast(dtype, data(*i)) - point, name="centred")
    return pad(wide, [0, top, left, 0], [0, bottom, right, 0], name="pad_temp")


def depthwise_conv2d_nhwc_bytes(
    data: Tensor, weight: Tensor, strides: Any, padding: Any, dilation: Any, zero_point: int = 0
) -> Tensor:
    """Convolve each channel of NHWC bytes on its own, without their zero point; ``weight`` is
    (ky, kx, C) of int32.
    """
    ky, kx = [get_const_int(size) for size in weight.shape[:2]]
    padded = _centred(data, padding, zero_point, "int16")
    (sy, sx), (dy, dx) = strides, dilation
    sizes = [
        windows_within(padded.shape[1 + axis], size, int(strides[axis]), int(dilation[axis]))
        for axis, size in enumerate((ky, kx))
    ]
    ry, rx = te.reduce_axis((0, ky), name="ry"), te.reduce_axis((0, kx), name="rx")
    name = "depthwise_conv2d_nhwc_bytes"
    return compute(
        (data.shape[0], *sizes, data.shape[3]),
        lambda n, y, x, c: te.sum(
            op.cast("int32", padded(n, y * sy + ry * dy, x * sx + rx * dx, c)) * weight(ry, rx, c),
            axis=[ry, rx],
        ),
        name=name,
        tag=name,
    )


def window_sums_nhwc(
    data: Tensor,
    kernel: Sequence[int],
    strides: Any,
    padding: Any,
    dilation: Any,
    zero_point: int = 0,
    groups: int = 1,
) -> Tensor:
    """Return the sums of NHWC bytes, without their zero point, over the window and the channels of
    a group that a convolution multiplies: (N, height, width, groups) of int32.
    """
    batch, height, width, channels = data.shape
    group = op.floordiv(channels, groups)
    top, left, bottom, right = [int(value) for value in padding]
    rc = te.reduce_axis((0, group), name="rc")
    pixels = compute(
        (batch, height, width, groups),
        lambda n, y, x, g: te.sum(
            op.cast("int32", data(n, y, x, g * group + rc)) - zero_point, axis=rc
        ),
        name="pixel_sums",
    )
    padded = pad(pixels, [0, top, left, 0], [0, bottom, right, 0], name="pad_temp")
    (sy, sx), (dy, dx) = strides, dilation
    sizes = [
        windows_within(padded.shape[1 + axis], size, int(strides[axis]), int(dilation[axis]))
        for axis, size in enumerate(kernel)
    ]
    ry, rx = te.reduce_axis((0, kernel[0]), name="ry"), te.reduce_axis((0, kernel[1]), name="rx")
    return compute(
        (batch, *sizes, groups),
        lambda n, y, x, g: te.sum(padded(n, y * sy + ry * dy, x * sx + rx * dx, g), axis=[ry, rx]),
        name="window_sums_nhwc",
    )


def matmul_words(
    data: Tensor, weight: Tensor, columns: int, zero_point: int = 0, products: str = "u8i8"
) -> Tensor:
    """Return ``data @ B`` of bytes for a B packed as (tiles, words, T); ``products`` names what the
    elements of words are, of which "i16i16" are without their ``zero_point``.
    """
    tile = get_const_int(weight.shape[2])
    size = data.shape[-1]
    if products == "i16i16":
        count, word = op.floordiv(size + 1, 2), partial(_word_of_two, zero_point=zero_point)
    else:
        count = op.floordiv(size + _BYTES - 1, _BYTES)
        word = partial(_word, signed=products == "i8i8")
    words = compute(
        (*data.shape[:-1], count), lambda *i: word(data, i[:-1], i[-1], group=size), name="words"
    )
    k, multiply = te.reduce_axis((0, count), name="k"), _PRODUCTS[products]
    return compute(
        (*data.shape[:-1], columns),
        lambda *i: te.sum(
            multiply(
                words(*i[:-1], k), weight(op.floordiv(i[-1], tile), k, op.floormod(i[-1], tile))
            ),
            axis=k,
        ),
        name="matmul_words",
        tag="matmul_words",
    )
