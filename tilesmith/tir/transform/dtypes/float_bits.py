"""Converts narrow floats to and from their bit patterns by integer arithmetic.

``decode`` and ``encode`` give expressions of integer arithmetic and float32; they round to nearest,
ties to even, and treat values that are too large as the format does (infinity, else NaN).
"""

from __future__ import annotations

from typing import NamedTuple

from tilesmith.ir import Call, PrimExpr, Select, const
from tilesmith.ir import operators as ops
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import UnsupportedError
from tilesmith.tir.transform.intrinsics.lets import Formula

__all__ = ["FORMATS", "FloatFormat", "decode", "encode", "format_of", "storage_dtype"]


class FloatFormat(NamedTuple):
    """A floating-point format: bits of exponent and mantissa, bias, and the meaning of its largest
    codes.

    ``kind``: "ieee" has infinities; "fn" has one code for NaN; "fnuz" has no negative zero either
    (that code is NaN); "scale" is a power of two without sign.
    """

    exponent: int
    mantissa: int
    bias: int
    kind: str


FORMATS: dict[str, FloatFormat] = {
    "bfloat16": FloatFormat(8, 7, 127, "ieee"),
    "float8_e3m4": FloatFormat(3, 4, 3, "ieee"),
    "float8_e4m3": FloatFormat(4, 3, 7, "ieee"),
    "float8_e4m3b11fnuz": FloatFormat(4, 3, 11, "fnuz"),
    "float8_e4m3fn": FloatFormat(4, 3, 7, "fn"),
    "float8_e4m3fnuz": FloatFormat(4, 3, 8, "fnuz"),
    "float8_e5m2": FloatFormat(5, 2, 15, "ieee"),
    "float8_e5m2fnuz": FloatFormat(5, 2, 16, "fnuz"),
    "float8_e8m0fnu": FloatFormat(8, 0, 127, "scale"),
}


def format_of(dtype: DataType) -> FloatFormat | None:
    """Return the format of a dtype's lanes; None where it is not a narrow float."""
    return FORMATS.get(str(dtype.element))


def storage_dtype(dtype: DataType) -> DataType:
    """Return the unsigned integer with as many bits and lanes."""
    return DataType(f"uint{dtype.bits}").with_lanes(dtype.lanes)


def _reinterpret(dtype: DataType, value: PrimExpr) -> PrimExpr:
    return Call(dtype, "tir.reinterpret", (value,))


class _Bits:
    """Builds 32-bit words and float32 values with the lanes of an expression."""

    def __init__(self, lanes: int) -> None:
        self.word = DataType("uint32").with_lanes(lanes)
        self.single = DataType("float32").with_lanes(lanes)
        self.formula = Formula(self.single)

    def __call__(self, value: int) -> PrimExpr:
        return const(value, self.word)

    def name(self, value: PrimExpr, hint: str) -> PrimExpr:
        return self.formula.name(value, hint)

    def as_float(self, word: PrimExpr) -> PrimExpr:
        return _reinterpret(self.single, word)


def decode(bits: PrimExpr, dtype: DataType) -> PrimExpr:
    """Return the float32 value of a code. ``bits``: unsigned integer with as many bits as
    ``dtype``."""
    kind = format_of(dtype)
    if kind is None:
        raise UnsupportedError(f"'{dtype}' has no bits that can be decoded here")
    b = _Bits(dtype.lanes)
    word = ops.cast(b.word, bits)
    if str(dtype.element) == "bfloat16":
        return b.as_float(ops.shift_left(word, b(16)))
    word = b.name(word, "code")
    if kind.kind == "scale":
        value = ops.shift_left(word, b(23))
        value = Select(ops.equal(word, b(0)), b(0x00400000), value)
        value = Select(ops.equal(word, b(0xFF)), b(0x7FC00000), value)
        return b.formula.result(b.as_float(value))
    width = kind.exponent + kind.mantissa
    size = b.name(ops.bitwise_and(word, b((1 << width) - 1)), "size")
    # the exponent of float32 is reached by a multiplication, which also mends subnormal numbers
    scaled = b.as_float(ops.shift_left(size, b(23 - kind.mantissa)))
    value = _reinterpret(b.word, scaled * b.formula(2.0 ** (127 - kind.bias)))
    infinity = ((1 << kind.exponent) - 1) << kind.mantissa
    not_a_number = b(0x7FC00000)
    if kind.kind == "ieee":
        value = Select(ops.equal(size, b(infinity)), b(0x7F800000), value)
        value = Select(ops.greater(size, b(infinity)), not_a_number, value)
    elif kind.kind == "fn":
        value = Select(ops.equal(size, b((1 << width) - 1)), not_a_number, value)
    sign = ops.shift_left(ops.shift_right(word, b(width)), b(31))
    value = ops.bitwise_or(value, sign)
    if kind.kind == "fnuz":
        value = Select(ops.equal(word, b(1 << width)), not_a_number, value)
    return b.formula.result(b.as_float(value))


def encode(value: PrimExpr, dtype: DataType) -> PrimExpr:
    """Return the code that is nearest to a float32 value, as an unsigned integer."""
    kind = format_of(dtype)
    if kind is None:
        raise UnsupportedError(f"'{dtype}' has no bits that can be encoded here")
    b = _Bits(dtype.lanes)
    word = b.name(_reinterpret(b.word, value), "word")
    size = b.name(ops.bitwise_and(word, b(0x7FFFFFFF)), "size")
    is_nan = ops.greater(size, b(0x7F800000))
    if kind.kind == "scale":
        return b.formula.result(
            ops.cast(storage_dtype(dtype), _encode_scale(b, word, size, is_nan))
        )
    width = kind.exponent + kind.mantissa
    code = b.name(_rounded(b, size, kind), "code")
    infinity = ((1 << kind.exponent) - 1) << kind.mantissa
    if kind.kind == "ieee":
        quiet = infinity | 1 << max(0, kind.mantissa - 1)
        code = Select(ops.greater(code, b(infinity)), b(infinity), code)
    else:
        largest = (1 << width) - (2 if kind.kind == "fn" else 1)
        quiet = (1 << width) - 1 if kind.kind == "fn" else 1 << width
        code = Select(ops.greater(code, b(largest)), b(quiet), code)
    code = Select(is_nan, b(quiet), code)
    sign = ops.shift_left(ops.shift_right(word, b(31)), b(width))
    if kind.kind == "fnuz":
        code = b.name(code, "unsigned_code")
        sign = Select(ops.equal(code, b(0)), b(0), sign)
    result = ops.bitwise_or(code, sign)
    return b.formula.result(ops.cast(storage_dtype(dtype), result))


def _rounded(b: _Bits, size: PrimExpr, kind: FloatFormat) -> PrimExpr:
    """Return exponent and mantissa of a format for the bits of a positive float32."""
    drop = 23 - kind.mantissa
    odd = ops.bitwise_and(ops.shift_right(size, b(drop)), b(1))
    half = b((1 << (drop - 1)) - 1)
    rounded = ops.shift_right(size + half + odd, b(drop))
    if kind.bias == 127:  # the exponents are the same, subnormal numbers as well
        return rounded
    normal = rounded - b((127 - kind.bias) << kind.mantissa)
    # added to a number whose last place is the smallest one of the format, the value is rounded
    magic = 2.0 ** (24 - kind.bias - kind.mantissa)
    bits = ((24 - kind.bias - kind.mantissa) + 127) << 23
    small = _reinterpret(b.word, b.as_float(size) + b.formula(magic)) - b(bits)
    smallest_normal = (128 - kind.bias) << 23
    return Select(ops.less(size, b(smallest_normal)), small, normal)


def _encode_scale(b: _Bits, word: PrimExpr, size: PrimExpr, is_nan: PrimExpr) -> PrimExpr:
    """Return the exponent of the nearest power of two; 255 for values that have none."""
    rounded = ops.shift_right(size + b(0x00400000), b(23))
    rounded = Select(ops.less(size, b(0x00600000)), b(0), rounded)  # 2**-127 is subnormal there
    wrong = ops.logical_or(is_nan, ops.greater_equal(word, b(0x7F000000 + 0x00400000)))
    return Select(wrong, b(0xFF), rounded)
