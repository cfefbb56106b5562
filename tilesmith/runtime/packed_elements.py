"""Converts between packed elements of fewer than 8 bits (int4, uint2, float4, …) and numpy arrays.

In a tensor several elements share a byte, and element 0 lies in the lowest bits of byte 0. numpy
(through `ml_dtypes`) stores one element per byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilesmith.runtime.dtype import DataType

if TYPE_CHECKING:
    import numpy

__all__ = ["is_packed", "pack", "packed_bytes", "unpack"]


def is_packed(dtype: DataType) -> bool:
    """True if several elements of `dtype` share a byte of memory."""
    return dtype.bits in (1, 2, 4) and (dtype.is_integer or dtype.is_float)


def packed_bytes(count: int, dtype: DataType) -> int:
    """Return the bytes that `count` elements (with all their lanes) take."""
    return (count * dtype.lanes * dtype.bits + 7) // 8


def pack(array: numpy.ndarray, dtype: DataType) -> numpy.ndarray:
    """Return the bytes (uint8) that hold an array of packed elements, whose numpy dtype is
    `dtype`'s.
    """
    import numpy

    bits = dtype.bits
    each = 8 // bits
    codes = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8) & ((1 << bits) - 1)
    padded = numpy.zeros(-(-len(codes) // each) * each, numpy.uint8)
    padded[: len(codes)] = codes
    shifts = numpy.arange(each, dtype=numpy.uint8) * bits
    packed: numpy.ndarray = numpy.bitwise_or.reduce(padded.reshape(-1, each) << shifts, axis=1)
    return packed.astype(numpy.uint8)


def unpack(content: numpy.ndarray, dtype: DataType, shape: tuple[int, ...]) -> numpy.ndarray:
    """Return the array of a shape whose packed elements lie in `content` (uint8)."""
    import numpy

    bits, element = dtype.bits, dtype.element
    shifts = numpy.arange(8 // bits, dtype=numpy.uint8) * bits
    shape = shape if dtype.lanes == 1 else (*shape, dtype.lanes)
    codes = (content.reshape(-1, 1) >> shifts).reshape(-1) & ((1 << bits) - 1)
    codes = codes[: int(numpy.prod(shape, dtype=numpy.int64))].reshape(shape).astype(numpy.uint8)
    if element.is_int:  # ml_dtypes extends the sign into the byte's upper bits
        half = 1 << (bits - 1)
        codes = ((codes.astype(numpy.int16) ^ half) - half).astype(numpy.uint8)
    return codes.view(element.numpy())
