"""Convolutions and products of small numbers, a bit at a time.

Bit b of the numbers of so many channels is packed into one word, so that an instruction that counts
bits multiplies and adds a word of them. The weights' bits stand for 0 and 1, or, where they are
``unipolar``, for -1 and 1: then a number w of B bits means ``2 * w - (2 ** B - 1)``.
"""

from __future__ import annotations

from typing import Any

from tilesmith import te, tir
from tilesmith.ir import PrimExpr, const
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import OpAttributeInvalid, ShapeError
from tilesmith.te import Tensor
from tilesmith.topi.compute import compute
from tilesmith.topi.nn.pad import pad
from tilesmith.topi.nn.utils import Numbers, Padding, get_pad_tuple, per_axis, windows_within
from tilesmith.topi.utils import DType, get_const_int, normalize_axes

__all__ = [
    "binary_op_multiplier", "bitpack", "bitserial_conv2d_nchw", "bitserial_conv2d_nhwc",
    "bitserial_dense",
]  # fmt: skip


def binary_op_multiplier(pack_dtype: DType) -> int:
    """Return how many single-bit numbers a word holds."""
    dtype = DataType(pack_dtype)
    if not dtype.is_uint:
        raise OpAttributeInvalid(f"bits are packed into unsigned integers, not into {dtype}")
    return dtype.bits


def bitpack(
    data: Tensor,
    bits: int,
    pack_axis: int,
    bit_axis: int,
    pack_type: DType,
    name: str = "QuantizeInput",
) -> Tensor:
    """Pack the lowest ``bits`` bits of integers along ``pack_axis``.

    The result has a further axis at ``bit_axis``: place b holds bit b of all numbers. The first
    number of a word is its highest bit.
    """
    width = binary_op_multiplier(pack_type)
    (pack_axis,) = normalize_axes(pack_axis, len(data.shape), "pack_axis")
    (bit_axis,) = normalize_axes(bit_axis, len(data.shape) + 1, "bit_axis")
    size = get_const_int(data.shape[pack_axis])
    if size % width:
        raise ShapeError(f"bitpack: {size} numbers do not fill words of {width} bits")
    if not data.dtype.is_integer or not 1 <= bits <= data.dtype.bits:
        raise OpAttributeInvalid(f"bitpack: {bits} bits of {data.dtype}")
    shape: list[Any] = list(data.shape)
    shape[pack_axis] = size // width
    shape.insert(bit_axis, bits)

    def element(*indices: Any) -> Any:
        at = list(indices)
        bit = op.cast(data.dtype, at.pop(bit_axis))
        word: Any = const(0, pack_type)
        for k in range(width):
            place = at[pack_axis] * width + k
            value = data(*at[:pack_axis], place, *at[pack_axis + 1 :])
            single = op.bitwise_and(op.shift_right(value, bit), const(1, data.dtype))
            moved = op.shift_left(op.cast(pack_type, single), const(width - 1 - k, pack_type))
            word = op.bitwise_or(word, moved)
        return word

    return compute(shape, element, name=name, tag="bitpack")


def _product(data: PrimExpr, weight: PrimExpr, bits: Any, out_dtype: DType, signed: bool) -> Any:
    """Return the product of two words of bits, times 2 to the power of ``bits``."""

    def counted(word: PrimExpr) -> PrimExpr:
        return op.cast(out_dtype, tir.popcount(word))

    count = counted(op.bitwise_and(data, weight))
    if signed:
        count = count - counted(op.bitwise_and(data, op.bitwise_not(weight)))
    return op.shift_left(count, op.cast(out_dtype, bits))


def _convolution(
    layout: str,
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    bits: tuple[int, int],
    dtypes: tuple[DType, DType],
    unipolar: bool,
) -> Tensor:
    name = "bitserial_conv2d_" + layout.lower()
    is_first = layout == "NCHW"
    pack_dtype, out_dtype = dtypes
    channel_axis, kernel_axis = (1, 1) if is_first else (3, 2)
    packed = bitpack(data, bits[0], channel_axis, 2 if is_first else 4, pack_dtype)
    if len(kernel.shape) == 4:
        kernel = bitpack(kernel, bits[1], kernel_axis, 4, pack_dtype, name="QuantizeWeight")
    elif len(kernel.shape) != 5 or get_const_int(kernel.shape[4]) != bits[1]:
        raise ShapeError(f"{name}: a packed kernel has 5 dimensions, the last {bits[1]} bits")
    own = dict(zip("OIHWB" if is_first else "HWIOB", kernel.shape))
    size = dict(zip("NCBHW" if is_first else "NHWCB", packed.shape))
    if get_const_int(own["I"]) != get_const_int(size["C"]):
        raise ShapeError(f"{name}: {size['C']} words of channels, the kernel takes {own['I']}")
    ky, kx = get_const_int(own["H"]), get_const_int(own["W"])
    sy, sx = per_axis(stride, 2, "stride")
    top, left, bottom, right = get_pad_tuple(padding, (ky, kx))
    before, after = {"H": top, "W": left}, {"H": bottom, "W": right}
    padded = pad(
        packed,
        [before.get(letter, 0) for letter in size],
        [after.get(letter, 0) for letter in size],
        name="PaddedInput",
    )
    out = {
        "N": size["N"],
        "C": own["O"],
        "H": windows_within(size["H"] + top + bottom, ky, sy),
        "W": windows_within(size["W"] + left + right, kx, sx),
    }
    rc = te.reduce_axis((0, size["C"]), name="rc")
    ry, rx = te.reduce_axis((0, ky), name="ry"), te.reduce_axis((0, kx), name="rx")
    b1, b2 = te.reduce_axis((0, bits[0]), name="b1"), te.reduce_axis((0, bits[1]), name="b2")

    def element(*indices: Any) -> Any:
        at = dict(zip(layout, indices))
        source = {"N": at["N"], "C": rc, "H": at["H"] * sy + ry, "W": at["W"] * sx + rx, "B": b1}
        place = {"O": at["C"], "I": rc, "H": ry, "W": rx, "B": b2}
        value = padded(*[source[letter] for letter in size])
        weight = kernel(*[place[letter] for letter in own])
        term = _product(value, weight, b1 + b2, out_dtype, unipolar)
        return te.sum(term, axis=[rc, ry, rx, b2, b1])

    return compute([out[letter] for letter in layout], element, name="Conv2dOutput", tag=name)


def bitserial_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    activation_bits: int,
    weight_bits: int,
    pack_dtype: DType = "uint32",
    out_dtype: DType = "int16",
    unipolar: bool = True,
) -> Tensor:
    """Convolve NCHW numbers of so many bits with an OIHW kernel, or with one that is packed: (O,
    words of I, H, W, weight_bits).
    """
    return _convolution(
        "NCHW", data, kernel, stride, padding, (activation_bits, weight_bits),
        (pack_dtype, out_dtype), unipolar,
    )  # fmt: skip


def bitserial_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Numbers,
    padding: Padding,
    activation_bits: int,
    weight_bits: int,
    pack_dtype: DType = "uint32",
    out_dtype: DType = "int16",
    unipolar: bool = True,
) -> Tensor:
    """Convolve NHWC numbers of so many bits with an HWIO kernel, or with one that is packed: (H, W,
    words of I, O, weight_bits).
    """
    return _convolution(
        "NHWC", data, kernel, stride, padding, (activation_bits, weight_bits),
        (pack_dtype, out_dtype), unipolar,
    )  # fmt: skip


def bitserial_dense(
    data: Tensor,
    weight: Tensor,
    data_bits: int,
    weight_bits: int,
    pack_dtype: DType = "uint32",
    out_dtype: DType = "int16",
    unipolar: bool = True,
) -> Tensor:
    """Return ``data @ weight.T`` of numbers of so many bits; the weight is (N, K), or packed: (N,
    weight_bits, words of K).
    """
    packed = bitpack(data, data_bits, 1, 1, pack_dtype)
    if len(weight.shape) == 2:
        weight = bitpack(weight, weight_bits, 1, 1, pack_dtype, name="QuantizeWeight")
    words = get_const_int(packed.shape[2])
    if get_const_int(weight.shape[2]) != words or get_const_int(weight.shape[1]) != weight_bits:
        raise ShapeError(f"bitserial_dense: {words} words of data, weight of shape {weight.shape}")
    db = te.reduce_axis((0, data_bits), name="db")
    wb = te.reduce_axis((0, weight_bits), name="wb")
    k = te.reduce_axis((0, words), name="k")
    return compute(
        (packed.shape[0], weight.shape[0]),
        lambda i, j: te.sum(
            _product(packed(i, db, k), weight(j, wb, k), db + wb, out_dtype, unipolar),
            axis=[wb, db, k],
        ),
        name="matmul",
        tag="bitserial_dense",
    )
