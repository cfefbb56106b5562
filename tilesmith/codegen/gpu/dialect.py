"""Describes a dialect of C for GPUs as data: names of types, qualifiers, functions, helpers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy

from tilesmith.codegen.c.helpers import identifier as c_identifier
from tilesmith.codegen.c.helpers import short
from tilesmith.codegen.c.library import LIBRARY
from tilesmith.codegen.c.small_types import is_small_float
from tilesmith.runtime.dtype import DataType
from tilesmith.support.errors import CodegenError

__all__ = ["Dialect", "FLOAT32", "numbers_text", "short"]

FLOAT32 = DataType("float32")


@dataclass(frozen=True)
class Dialect:
    """One dialect. Names of dtypes in its tables are the short ones: `i32`, `u8`, `f16`, `bf16`."""

    name: str
    title: str
    types: Mapping[str, str]
    """Short dtype → type of a value of it."""
    suffixes: Mapping[str, str]
    """Short dtype → ending of a constant."""
    vector_names: Mapping[str, str]
    """Type → the beginning of the names of its vectors."""
    vector_lanes: Callable[[DataType], tuple[int, ...]]
    """The numbers of lanes for which an element has a vector type."""
    components: str
    """The letters of the lanes of a vector: "xyzw"."""
    component_prefix: str
    build_vector: str
    """The text of a vector of given parts, with `{type}` and `{parts}`."""
    access_bytes: int
    """The most bytes of one access."""
    threads: Mapping[str, str]
    """Tag of a thread axis → its index."""
    spaces: Mapping[str, str]
    """Scope of memory → address space of pointers to it, with a space behind; "" for all others."""
    kernel: str
    """The text before a kernel's name, with `{bounds}`."""
    inline: str
    """The text before a helper's type."""
    restrict: str
    shared: str
    """A declaration in shared memory, with `{type}`, `{name}`, `{count}` and `{bytes}`."""
    constant: str
    """The text before a constant array of the file."""
    barriers: Mapping[str, str]
    """Scope → the call of a barrier."""
    infinity: str
    nan: str
    headers: Mapping[str, str]
    """Short dtype → the header that its type needs."""
    to_float: Mapping[str, str]
    """Short dtype → the function that makes a float of a value, where it is not `DTYPE_to_f32`."""
    from_float: Mapping[str, str]
    math_names: Mapping[str, str]
    """Operator → function, where the names differ."""
    math_suffix: str
    """What functions of float have behind their names."""
    fast_names: Mapping[str, str]
    """Operator → quick function of float32 that is less exact."""
    native: frozenset[str] = frozenset()
    """Short names of float dtypes below 32 bits that the operators `+ - *` and comparisons take."""
    helpers: Mapping[str, str] = field(default_factory=dict)
    """Name → text of helpers beside those of `helpers`. A first line `// needs: a b` names others,
    `// include: h` a header."""
    default_arch: str = ""
    """What a target without an architecture means."""
    static_shared_bytes: int = 0
    """The most shared memory that a kernel can declare; 0: as much as a block has."""
    shared_kib: Mapping[int, int] = field(default_factory=dict)
    """Number of an architecture → shared memory of one block in KiB; else the target says it."""
    largest_extents: Mapping[str, int] = field(default_factory=dict)
    """Tag of a thread axis → its largest extent."""
    keywords: frozenset[str] = frozenset()
    prologue: str = ""
    """What each file begins with."""

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
        if dtype.is_integer and dtype.bits < 8:
            return self.types["u8" if dtype.is_uint else "i8"]
        raise CodegenError(
            f"{self.title} cannot hold values of '{dtype}'",
            notes=("integers have 1, 2, 4, 8, 16, 32 or 64 bits, floats 4, 8, 16, 32 or 64",),
        )

    def memory_type(self, dtype: DataType) -> str:
        """Return the type of an element in memory."""
        if dtype.is_bool:
            return self.types["u8"] if self.name == "opencl" else self.types["bool"]
        return self.type(dtype)

    def vector_type(self, dtype: DataType) -> str:
        """Return the type of a vector in a register; "" where it is an array."""
        if dtype.is_bool or dtype.lanes not in self.vector_lanes(dtype.element):
            return ""
        kind = self.type(dtype)
        return f"{self.vector_names.get(kind, kind)}{dtype.lanes}"

    def component(self, lane: int) -> str:
        """Return how a lane of a vector is selected: `.x`, `.s0`."""
        return f".{self.component_prefix}{self.components[lane]}"

    def space(self, scope: str) -> str:
        """Return the address space of memory in a scope, with a space behind it; or ""."""
        return self.spaces.get(scope.partition(".")[0], "")

    def identifier(self, name: str) -> str:
        """Return a name with only the letters that are allowed, and no word of the dialect."""
        cleaned = c_identifier(name)
        return cleaned + "_" if cleaned in self.keywords or cleaned in LIBRARY else cleaned

    def constant_text(self, value: float, dtype: DataType) -> str:
        """Return a constant of a scalar dtype."""
        kind = short(dtype)
        if dtype.is_bool:
            return "true" if value else "false"
        if dtype.is_float:
            if dtype.bits >= 32:
                return self.float_text(float(value), dtype)
            rounded = numpy.array(value, dtype.element.numpy())
            if kind in self.native or kind in self.from_float and self.name == "cuda":
                return f"{self.type(dtype)}({self.float_text(float(rounded), FLOAT32)})"
            return f"0x{int(rounded.view(f'u{rounded.itemsize}')):0{2 * rounded.itemsize}x}"
        if dtype.is_int and dtype.bits >= 32 and value == dtype.min_value:
            return f"(-{-(int(value) + 1)}{self.suffixes.get(kind, '')} - 1)"
        return f"{int(value)}{self.suffixes.get(kind, '')}"

    def float_text(self, value: float, dtype: DataType) -> str:
        """Return a float32 or float64 constant as the shortest text that reads back the same."""
        cast = "(double)" if dtype.bits == 64 else ""
        if dtype.bits == 32 and not math.isnan(value):
            with numpy.errstate(over="ignore"):
                value = float(numpy.float32(value))
        if math.isnan(value):
            return cast + self.nan
        if math.isinf(value):
            return ("-" if value < 0 else "") + cast + self.infinity
        if dtype.bits == 64:
            return repr(value)
        text = str(numpy.float32(value))
        return (text if "." in text or "e" in text else text + ".0") + "f"


def numbers_text(array: numpy.ndarray, dialect: Dialect, dtype: DataType) -> str:
    """Return the elements of an array as constants, twelve to a line."""
    flat = array.reshape(-1)
    texts = [dialect.constant_text(value, dtype) for value in flat.tolist()]
    rows = [", ".join(texts[start : start + 12]) for start in range(0, len(texts), 12)]
    return "{\n  " + ",\n  ".join(rows or ["0"]) + "\n}"
