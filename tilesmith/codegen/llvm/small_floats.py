"""Converts floats of 8 bits and fewer (and float16 in software): their bits to and from float32.

The kinds differ in what the largest codes mean:

* "ieee": the largest exponent holds infinities and NaN (float16, float8_e5m2, _e4m3, _e3m4);
* "fn": finite and one NaN (all ones), all exponents are used (float8_e4m3fn);
* "fnuz": finite, no minus zero, whose code is the one NaN (float8_e4m3fnuz, _e5m2fnuz, …);
* "finite": neither infinities nor NaN; what is too large becomes the largest (float4_e2m1fn);
* "scale": an exponent alone, no sign and no zero, all ones is NaN (float8_e8m0fnu).
"""

from __future__ import annotations

from typing import NamedTuple

from tilesmith.codegen.llvm.builder import Builder
from tilesmith.codegen.llvm.dtypes import register_type
from tilesmith.runtime.dtype import DataType


class Format(NamedTuple):
    """A float format: bits of exponent and mantissa, bias of the exponent, kind."""

    exponent_bits: int
    digits: int
    bias: int
    kind: str


FLOAT16 = Format(5, 10, 15, "ieee")
FORMATS = {
    "float8_e3m4": Format(3, 4, 3, "ieee"),
    "float8_e4m3": Format(4, 3, 7, "ieee"),
    "float8_e5m2": Format(5, 2, 15, "ieee"),
    "float8_e4m3fn": Format(4, 3, 7, "fn"),
    "float8_e4m3b11fnuz": Format(4, 3, 11, "fnuz"),
    "float8_e4m3fnuz": Format(4, 3, 8, "fnuz"),
    "float8_e5m2fnuz": Format(5, 2, 16, "fnuz"),
    "float8_e8m0fnu": Format(8, 0, 127, "scale"),
    "float4_e2m1fn": Format(2, 1, 1, "finite"),
}

_FLOAT32 = DataType("float32")
_INT32 = DataType("int32")
_INFINITY = 0x7F800000


class _Bits:
    """Writes operations on float32 vectors and their bits, with all types filled in."""

    def __init__(self, out: Builder, lanes: int) -> None:
        self.out = out
        self.lanes = lanes
        self.single = register_type(_FLOAT32.with_lanes(lanes))
        self.integer = register_type(_INT32.with_lanes(lanes))
        self.flags = register_type(DataType("bool").with_lanes(lanes))

    def number(self, value: int) -> str:
        return str(value) if self.lanes == 1 else f"splat (i32 {value})"

    def do(self, operation: str, a: str, b: str | int) -> str:
        second = self.number(b) if isinstance(b, int) else b
        return self.out.define(f"{operation} {self.integer} {a}, {second}")

    def select(self, condition: str, a: str | int, b: str) -> str:
        first = self.number(a) if isinstance(a, int) else a
        return self.out.define(
            f"select {self.flags} {condition}, {self.integer} {first}, {self.integer} {b}"
        )

    def bits_of(self, value: str) -> str:
        return self.out.define(f"bitcast {self.single} {value} to {self.integer}")

    def float_of(self, bits: str | int) -> str:
        given = self.number(bits) if isinstance(bits, int) else bits
        return self.out.define(f"bitcast {self.integer} {given} to {self.single}")


def round_bits(out: Builder, value: str, wide: DataType, form: Format) -> str:
    """Return the bits (in an i32) of a float32 rounded to a small format, halves to even.

    Normal results: round in the integer domain; subnormal ones: an addition lets the FPU round.
    """
    w = _Bits(out, wide.lanes)
    bits = w.bits_of(value)
    if form.kind == "scale":
        return _scale_bits(w, bits)
    exponent_bits, digits, bias, kind = form
    drop = 23 - digits
    magnitude = w.do("and", bits, 0x7FFFFFFF)
    odd = w.do("and", w.do("lshr", magnitude, drop), 1)
    rebias = ((bias - 127) << 23) + (1 << (drop - 1)) - 1
    normal = w.do("lshr", w.do("add", w.do("add", magnitude, rebias), odd), drop)
    # 2 ** (1 - bias - digits) is the smallest step: adding 2 ** 23 times that rounds to it
    magic_bits = (127 + 1 - bias - digits + 23) << 23
    summed = out.define(f"fadd {w.single} {w.float_of(magnitude)}, {w.float_of(magic_bits)}")
    small = w.do("sub", w.bits_of(summed), magic_bits)
    is_small = w.do("icmp ult", magnitude, (127 + 1 - bias) << 23)
    result = w.select(is_small, small, normal)
    # the code of NaN, the largest finite code, and the code for values above it
    top = (1 << (exponent_bits + digits)) - 1
    infinity = top ^ ((1 << digits) - 1)
    nan, largest, beyond = {
        "ieee": (infinity | (1 << (digits - 1)), infinity - 1, infinity),
        "fn": (top, top - 1, top),
        "fnuz": (top + 1, top, top + 1),
        "finite": (top + 1, top, top),
    }[kind]
    too_large = w.do("icmp ugt", result, largest)
    overflow = out.define(f"or {w.flags} {too_large}, {w.do('icmp uge', magnitude, _INFINITY)}")
    result = w.select(overflow, beyond, result)
    sign = w.do("shl", w.do("lshr", bits, 31), exponent_bits + digits)
    if kind == "fnuz":  # neither zero nor NaN has a sign
        unsigned = out.define(f"or {w.flags} {overflow}, {w.do('icmp eq', result, 0)}")
        sign = w.select(unsigned, 0, sign)
    is_nan = w.do("icmp ugt", magnitude, _INFINITY)
    if kind == "finite":
        return w.select(is_nan, nan, w.do("or", result, sign))
    return w.do("or", w.select(is_nan, nan, result), sign)


def _scale_bits(w: _Bits, bits: str) -> str:
    """Return the bits of a float8_e8m0fnu: the exponent, halves up; a value that is not positive
    has none.
    """
    exponent = w.do("lshr", w.do("add", bits, 0x400000), 23)
    # below 2 ** -126 the field of the exponent is 0: 2 ** -127 is the smallest scale, and as in
    # ml_dtypes everything above it becomes 2 ** -126
    is_above = w.do("icmp ugt", bits, 0x400000)
    subnormal = w.out.define(f"zext {w.flags} {is_above} to {w.integer}")
    made = w.select(w.do("icmp ult", bits, 0x800000), subnormal, exponent)
    positive = w.out.define(
        f"and {w.flags} {w.do('icmp sgt', bits, 0)}, {w.do('icmp slt', bits, _INFINITY)}"
    )
    return w.select(positive, made, w.number(0xFF))


def _format(out: Builder, dtype: DataType) -> Format:
    found = FORMATS.get(dtype.element)
    if found is None:
        raise out.unsupported(
            f"no conversion of '{dtype.element}'", "known small types: " + ", ".join(FORMATS)
        )
    return found


def to_small_float(out: Builder, value: str, target: DataType) -> str:
    """Convert a float32 to a float of 8 bits or fewer."""
    wide = _FLOAT32.with_lanes(target.lanes)
    bits = round_bits(out, value, wide, _format(out, target))
    integer = register_type(_INT32.with_lanes(target.lanes))
    return out.define(f"trunc {integer} {bits} to {register_type(target)}")


def from_small_float(out: Builder, value: str, source: DataType) -> str:
    """Convert a float of 8 bits or fewer to float32."""
    exponent_bits, digits, bias, kind = _format(out, source)
    w = _Bits(out, source.lanes)
    bits = out.define(f"zext {register_type(source)} {value} to {w.integer}")
    if kind == "scale":
        placed = w.select(w.do("icmp eq", bits, 0), 0x400000, w.do("shl", bits, 23))
        return w.float_of(w.select(w.do("icmp eq", bits, 0xFF), 0x7FC00000, placed))
    top = (1 << (exponent_bits + digits)) - 1
    rest = w.do("and", bits, top)
    placed = w.do("shl", rest, 23 - digits)
    # multiplying by a power of two corrects the exponent and makes subnormal numbers normal
    factor = w.float_of((127 + 127 - bias) << 23)
    scaled = out.define(f"fmul {w.single} {w.float_of(placed)}, {factor}")
    magnitude = w.bits_of(scaled)
    if kind in ("ieee", "fn"):
        first_special = top if kind == "fn" else top ^ ((1 << digits) - 1)
        infinite = w.do("or", placed, _INFINITY)
        magnitude = w.select(w.do("icmp uge", rest, first_special), infinite, magnitude)
    sign = w.do("shl", w.do("and", bits, top + 1), 31 - exponent_bits - digits)
    joined = w.do("or", magnitude, sign)
    if kind == "fnuz":
        joined = w.select(w.do("icmp eq", bits, top + 1), 0x7FC00000, joined)
    return w.float_of(joined)
