"""Describes a language of C's family as data: names of types, words, constants, functions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy

from tilesmith.codegen.c_family.small_types import is_small_float, small_name
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError

__all__ = [
    "C_KEYWORDS", "Dialect", "FLOAT32", "bits_text", "c_string", "is_narrow", "rounded_to", "short",
]  # fmt: skip

FLOAT32 = DataType("float32")
C_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while bool true false main NULL INFINITY NAN asm typeof".split()
)
_SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool"}


def is_narrow(dtype: DataType) -> bool:
    """True if a float dtype is computed in float32."""
    return dtype.is_float and dtype.bits < 32


def short(dtype: DataType) -> str:
    """Return the abbreviation of a dtype in the name of a helper: `i32`, `u8`, `f32`."""
    element = dtype.element
    return _SHORT.get(element) or small_name(element)


def rounded_to(value: float, dtype: DataType) -> float:
    """Return the number of a narrow float dtype that a constant stands for."""
    return float(numpy.array(value, dtype.element.numpy()))


def bits_text(value: float, dtype: DataType) -> str:
    """Return the bits of a float below 32 bits as a constant."""
    bits = numpy.array(value, dtype.element.numpy())
    return f"0x{int(bits.view(f'u{bits.itemsize}')):0{2 * bits.itemsize}x}"


def c_string(text: str) -> str:
    """Return a text as a C string constant."""
    letters = []
    for byte in text.encode():
        if byte in (34, 92):
            letters.append("\\" + chr(byte))
        else:
            letters.append(chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
    return '"' + "".join(letters) + '"'


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One language. Its tables have the short names of dtypes: `i32`, `u8`, `f16`, `bf16`."""

    name: str
    title: str
    types: Mapping[str, str]
    """Short dtype → type of a value of it."""
    numbers: Mapping[str, str]
    """Short dtype → how its constants are written, with `{}` for the digits, if not plainly."""
    smallest: Mapping[str, str] = field(default_factory=dict)
    """Short dtype → the smallest number, where that has a name."""
    inline: str
    """The text before a helper's type."""
    constant: str
    """The declaration of a constant array of the file, with `{type}`, `{name}` and `{count}`."""
    keywords: frozenset[str] = C_KEYWORDS
    """Words that cannot be names of variables."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Short dtype → the header that its type needs."""
    to_float: Mapping[str, str] = field(default_factory=dict)
    """Short dtype → the function that makes a float of a value, where it is not `DTYPE_to_f32`."""
    from_float: Mapping[str, str] = field(default_factory=dict)
    math_names: Mapping[str, str] = field(default_factory=dict)
    """Operator → function, where the names differ."""
    math_suffix: str
    """What functions of float have behind their names."""
    native: frozenset[str] = frozenset()
    """Short names of float dtypes below 32 bits that the operators `+ - *` and comparisons take."""
    extremes: frozenset[str] = frozenset()
    """Short dtypes for which `min` and `max` are built in."""
    shifts_round_down: bool = False
    """Whether `>>` of a negative number is certain to round down, as a division by a power of 2."""
    helpers: Mapping[str, str] = field(default_factory=dict)
    """Name → text of helpers beside those of `helpers`. A first line `// needs: a b` names others,
    `// include: h` a header."""

    def type(self, dtype: DataType) -> str:
        """Return the type of one lane of a value. Raises CodegenError where there is none."""
        if dtype.is_handle:
            return "void*"
        if dtype.is_void:
            return "void"
        found = self.types.get(short(dtype))
        if found is not None:
            return found
        if is_small_float(dtype):
            return self.types["u8"]
        if dtype.is_integer and dtype.bits in (1, 2, 4):
            return self.types["u8" if dtype.is_uint else "i8"]
        raise CodegenError(
            f"{self.title} code cannot hold values of '{dtype}'",
            notes=("integers have 1, 2, 4, 8, 16, 32 or 64 bits, floats 4, 8, 16, 32 or 64",),
        )

    def memory_type(self, dtype: DataType) -> str:
        """Return the type of an element in memory."""
        return self.type(dtype)

    def identifier(self, name: str) -> str:
        """Return a name with only the letters that are allowed, and no word of the language."""
        cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name) or "v"
        if cleaned[0].isdigit():
            cleaned = "v" + cleaned
        return cleaned + "_" if cleaned in self.keywords else cleaned

    def constant_text(self, value: float, dtype: DataType) -> str:
        """Return a constant of a scalar dtype."""
        if dtype.is_bool:
            return "true" if value else "false"
        if is_narrow(dtype):
            return self.narrow_text(value, dtype)
        if dtype.is_float:
            return self.float_text(float(value), dtype)
        form = self.numbers.get(short(dtype), "{}")
        if dtype.is_int and dtype.bits >= 32 and value == dtype.min_value:
            return self.smallest.get(short(dtype)) or f"({form.format(int(value) + 1)} - 1)"
        return form.format(int(value))

    def narrow_text(self, value: float, dtype: DataType) -> str:
        """Return a constant of a float dtype below 32 bits."""
        return bits_text(value, dtype)

    def float_text(self, value: float, dtype: DataType) -> str:
        """Return a float32 or float64 constant as the shortest text that reads back the same."""
        cast = "(double)" if dtype.bits == 64 else ""
        if dtype.bits == 32 and not math.isnan(value):
            with numpy.errstate(over="ignore"):
                value = float(numpy.float32(value))
        if math.isnan(value):
            return cast + "NAN"
        if math.isinf(value):
            return ("-" if value < 0 else "") + cast + "INFINITY"
        if dtype.bits == 64:
            return repr(value)
        text = str(numpy.float32(value))
        return (text if "." in text or "e" in text else text + ".0") + "f"

    def array_text(self, array: numpy.ndarray, dtype: DataType) -> str:
        """Return the elements of an array as constants, twelve to a line; narrow floats as their
        bits.
        """
        flat = array.reshape(-1)
        if is_narrow(dtype):
            width = 2 * flat.itemsize
            texts = [f"0x{bits:0{width}x}" for bits in flat.view(f"u{flat.itemsize}").tolist()]
        else:
            texts = [self.constant_text(value, dtype) for value in flat.tolist()]
        rows = [", ".join(texts[start : start + 12]) for start in range(0, len(texts), 12)]
        return "{\n  " + ",\n  ".join(rows or ["0"]) + "\n}"
