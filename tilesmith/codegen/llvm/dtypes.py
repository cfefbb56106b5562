"""Writes data types and constants in LLVM's language.

A value in a register has the *register type* of its dtype, an element in memory its *memory type*;
they differ for booleans (`i1` and `i8`). Elements of fewer than 8 bits share bytes in memory: see
`packed_elements`. bfloat16 is kept as its 16 bits (`i16`): arithmetic goes through float32, because
most CPUs have no instructions for it.
"""

from __future__ import annotations

import math
import re
import struct

from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError

_FLOATS = {"float16": "half", "float32": "float", "float64": "double"}
_REGISTER: dict[DataType, str] = {}
_MEMORY: dict[DataType, str] = {}


def register_type(dtype: DataType) -> str:
    """Return LLVM's type of a value of `dtype`. Raises CodegenError when there is none."""
    try:
        return _REGISTER[dtype]
    except KeyError:
        made = _REGISTER[dtype] = _with_lanes(_element(dtype, "i1"), dtype.lanes)
        return made


def extension(dtype: DataType) -> str:
    """Return the attribute of parameters and arguments of a dtype: C's calling conventions extend
    small integers to 32 bits. Who calls and who is called have to agree.
    """
    if dtype.lanes > 1 or dtype.is_float or dtype.is_handle or dtype.bits >= 32:
        return ""
    return "signext " if dtype.is_int else "zeroext "


def memory_type(dtype: DataType) -> str:
    """Return LLVM's type of `dtype` in memory, where a boolean is a byte."""
    try:
        return _MEMORY[dtype]
    except KeyError:
        made = _MEMORY[dtype] = _with_lanes(_element(dtype, "i8"), dtype.lanes)
        return made


def _with_lanes(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def _element(dtype: DataType, boolean: str) -> str:
    if dtype.is_bool:
        return boolean
    if dtype.is_integer and dtype.bits in (8, 16, 32, 64):
        return f"i{dtype.bits}"
    if dtype.element in _FLOATS:
        return _FLOATS[dtype.element]
    if dtype.is_float and dtype.bits in (4, 8, 16):  # bfloat16, the kinds of float8, float4
        return f"i{dtype.bits}"
    if dtype.is_integer and dtype.bits in (1, 2, 4):
        return f"i{dtype.bits}"
    if dtype.is_handle:
        return "ptr"
    if dtype.is_void:
        return "void"
    raise CodegenError(
        f"LLVM code cannot hold values of '{dtype}'",
        notes=("integers have 1, 2, 4, 8, 16, 32 or 64 bits, floats 4, 8, 16, 32 or 64",),
    )


def element_bytes(dtype: DataType) -> int:
    """Return the bytes of one element in memory."""
    return 8 if dtype.is_handle else dtype.element.nbytes


def is_native_float(dtype: DataType) -> bool:
    """True if LLVM's float types represent `dtype` (bfloat16 and float8 are stored in integers)."""
    return dtype.code == "float"


def bfloat16_bits(value: float) -> int:
    """Return the bits of the bfloat16 nearest to `value`, halves to even."""
    if math.isnan(value):
        return 0x7FC0
    (bits,) = struct.unpack("<I", struct.pack("<f", round_to_float32(value)))
    return int((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def round_to_float32(value: float) -> float:
    """Return the float32 nearest to `value`, infinite where it is too large."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def float_constant(value: float, dtype: DataType) -> str:
    """Return a floating-point constant of a scalar dtype, exact to the bit."""
    if dtype == "bfloat16":
        return str(bfloat16_bits(value))
    if dtype == "float16":
        try:
            bits = struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            bits = 0x7C00 if value > 0 else 0xFC00
        return f"0xH{bits:04X}"
    if dtype == "float32":
        value = round_to_float32(value)
    elif dtype != "float64":
        import ml_dtypes  # noqa: F401 - numpy learns the small types from it
        import numpy

        return str(numpy.array(value, dtype.numpy()).view(numpy.uint8).item())
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def integer_constant(value: int, dtype: DataType) -> str:
    """Return an integer or boolean constant of a scalar dtype."""
    if dtype.is_bool:
        return "true" if value else "false"
    if (
        value >> (dtype.bits - 1) > 0
    ):  # LLVM's integers have no sign: write the signed value of the same bits
        value -= 1 << dtype.bits
    return str(value)


def splat(constant: str, dtype: DataType) -> str:
    """Return a vector constant of equal elements; `dtype` is the vector's."""
    return f"splat ({register_type(dtype.element)} {constant})"


def lane_numbers(lanes: int, factor: int = 1) -> str:
    """Return the elements of the constant vector `<0, factor, 2 * factor, ...>` of i64s as text."""
    return ", ".join([f"i64 {lane * factor}" for lane in range(lanes)])


_PLAIN = re.compile(r"[A-Za-z_$.][A-Za-z0-9_$.]*\Z")
_UNWANTED = re.compile(r"[^A-Za-z0-9_.]")


def symbol(name: str) -> str:
    """Return `@name`, quoted where LLVM requires it."""
    if _PLAIN.match(name):
        return "@" + name
    return '@"' + escape(name.encode()) + '"'


def local_name(hint: str) -> str:
    """Return a name hint reduced to the letters that a local name may have."""
    cleaned = _UNWANTED.sub("_", hint)
    return cleaned if cleaned and not cleaned[0].isdigit() else "v" + cleaned


def escape(data: bytes) -> str:
    """Return bytes as the contents of a string constant."""
    return "".join([chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data])


def bytes_constant(data: bytes) -> str:
    """Return bytes as an initialiser `c"..."` of `[n x i8]`; written for speed, not for readers."""
    if not any(data):
        return "zeroinitializer"
    return 'c"\\' + data.hex("\\") + '"'
