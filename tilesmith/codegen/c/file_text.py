"""Collects the parts of a file beside its functions: helpers, constants, prototypes, structures.

Each is written once, in the order of first use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy

from tilesmith.codegen.c.helpers import (
    BARRIER,
    CALL_PACKED,
    FFI_TEXT,
    KEEP_ERROR,
    LAUNCH,
    NAME_OPERATOR,
    WITH_TENSORS,
    c_string,
    c_type,
    constant,
    helper_text,
    is_helper,
    is_narrow,
    reinterpret_text,
    short,
)
from tilesmith.codegen.c.library import LIBRARY
from tilesmith.codegen.c.small_types import small_type_helper
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed, pack

__all__ = ["FileText", "array_text"]

_HEAD = """/* Made by Tilesmith. C99; integers are taken to wrap around (gcc and clang: -fwrapv). */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
"""
_UNROLL = """
#if defined(__clang__)
#define TS_PRAGMA(text) _Pragma(#text)
#define TS_UNROLL(count) TS_PRAGMA(unroll count)
#elif defined(__GNUC__)
#define TS_PRAGMA(text) _Pragma(#text)
#define TS_UNROLL(count) TS_PRAGMA(GCC unroll count)
#else
#define TS_UNROLL(count)
#endif
"""
_ALIGN = """
#if defined(__GNUC__)
#define TS_ALIGNED __attribute__((aligned(64)))
#else
#define TS_ALIGNED
#endif
"""
_PREFETCH = """
#if defined(__GNUC__)
#define TS_PREFETCH(address, write, locality) __builtin_prefetch(address, write, locality)
#else
#define TS_PREFETCH(address, write, locality) ((void)0)
#endif
"""


class FileText:
    """Collects the parts of one file. ``uses_…`` say which pieces of the head are needed,
    ``imported`` is C source, or files with it, that functions import, ``constants`` are the arrays
    that functions refer to by number, ``own_functions`` the names of the module's functions,
    ``symbols`` the C names of functions that the module calls, ``local_names`` those of variables
    in functions.
    """

    def __init__(self, constants: Sequence[Any], own_functions: Collection[str]) -> None:
        self.constants = constants
        self.own_functions = own_functions
        self.symbols: Collection[str] = ()
        self.local_names: set[str] = set()
        self.imported: list[str] = []
        self.uses_ffi = self.uses_prefetch = self.uses_unroll = self.uses_packed = False
        self.uses_parallel = self.uses_barrier = self.uses_tensors = self.keeps_errors = False
        self.names_operators = False
        self.helpers: dict[str, str] = {}
        self.prototypes: dict[str, str] = {}
        self.arrays: dict[str, str] = {}
        self.slots: dict[str, str] = {}
        self.structures: list[str] = []
        self.tasks: list[str] = []
        self._array_keys: dict[tuple[str, int], tuple[str, Any]] = {}

    def text(self, bodies: Sequence[str]) -> str:
        """Return the file with the given functions."""
        heads = [body[: body.index(" {\n")] + ";" for body in bodies]
        slots = [f"static void* {slot};" for slot in self.slots.values()]
        uses_ffi = self.uses_ffi or self.uses_packed
        parts = [
            _HEAD,
            _UNROLL if self.uses_unroll else "",
            LAUNCH if self.uses_parallel else "",
            BARRIER if self.uses_barrier else "",
            _PREFETCH if self.uses_prefetch else "",
            _ALIGN if self.arrays else "",
            FFI_TEXT if uses_ffi else "",
            KEEP_ERROR if self.keeps_errors else "",
            NAME_OPERATOR if self.names_operators else "",
            *[_source_of(part) for part in self.imported],
            CALL_PACKED if self.uses_packed else "",
            WITH_TENSORS if self.uses_tensors else "",
            *self.helpers.values(),
            *[line for name, line in self.prototypes.items() if not self._is_imported(name)],
            *self.arrays.values(),
            *slots,
            *self.structures,
            *heads,
            *["\n" + task.rstrip() for task in self.tasks],
            *["\n" + body.rstrip() for body in bodies],
        ]
        return "\n".join([part for part in parts if part]) + "\n"

    def _is_imported(self, name: str) -> bool:
        return any(name + "(" in _source_of(part) for part in self.imported)

    def has(self, name: str) -> bool:
        """True if a name means something in the whole file: a local variable would hide it."""
        is_own = name in self.symbols or name in self.arrays or name in self.slots.values()
        is_ready = name in LIBRARY or name in self.helpers or is_helper(name)
        return is_own or is_ready or small_type_helper(name) is not None

    def _fresh(self, base: str, used: Collection[str]) -> str:
        """Return a name for the whole file that no local variable hides."""
        number = len(used)
        while f"{base}_{number}" in used or f"{base}_{number}" in self.local_names:
            number += 1
        return f"{base}_{number}"

    def helper(self, name: str, dtype: DataType | None = None) -> str:
        """Add a helper to the file; return its name."""
        full = name if dtype is None else f"{name}_{short(dtype)}"
        if full in self.helpers:
            return full
        small = small_type_helper(full)
        if small is not None:
            for other in small[1]:
                self.helper(other)
            self.helpers[full] = small[0]
        else:
            element = None if dtype is None else dtype.element
            self.helpers[full] = helper_text(name, element)
        return full

    def reinterpret(self, source: DataType, target: DataType) -> str:
        """Return the name of the helper that reads the bits of one type as another."""
        name = f"bits_{short(source)}_as_{short(target)}"
        self.helpers.setdefault(name, reinterpret_text(source, target))
        return name

    def declare(self, name: str, result: DataType, arguments: Sequence[DataType]) -> None:
        """Declare a foreign function, unless a header does."""
        if name not in LIBRARY:
            kinds = ", ".join([c_type(dtype) for dtype in arguments]) or "void"
            self.prototypes.setdefault(name, f"extern {c_type(result)} {name}({kinds});")

    def declare_data(self, name: str) -> None:
        """Declare bytes that another object file defines."""
        self.prototypes.setdefault(name, f"extern unsigned char {name}[];")

    def static_pointer(self) -> str:
        """Return the name of a pointer that lives as long as the library, null at first."""
        name = self._fresh("static", self.slots.values())
        self.slots[name] = name
        return name

    def declare_packed(self, symbol: str) -> None:
        """Declare a function with tvm-ffi's calling convention."""
        self.uses_packed = True
        line = f"extern int32_t {symbol}(void* self, TsAny* args, int32_t count, TsAny* result);"
        if symbol not in self.own_functions:
            self.prototypes.setdefault(symbol, line)

    def packed_call(self, name: str) -> str:
        """Return the beginning of a call of a registered function, whose handle is cached."""
        self.uses_packed = True
        if name not in self.slots:
            self.slots[name] = self._fresh("function", self.slots.values())
        return f"call_packed(&{self.slots[name]}, {c_string(name)}, "

    def constant_array(self, hint: str, array: numpy.ndarray, dtype: DataType) -> str:
        """Add a constant array and return its name. The same array is written once."""
        key = (str(dtype), id(array))
        if key not in self._array_keys:
            name = self._fresh(hint, self.arrays)
            kind = c_type(dtype)
            if is_packed(dtype):
                array, kind, dtype = pack(array, dtype), "uint8_t", DataType("uint8")
            # not const: kernels take plain pointers
            self.arrays[name] = (
                f"static {kind} {name}[{max(1, array.size)}] TS_ALIGNED = "
                f"{array_text(array, dtype)};"
            )
            self._array_keys[key] = (name, array)
        return self._array_keys[key][0]


def _source_of(part: str) -> str:
    """Return C source that a pragma imports: the text itself or the name of a file with it."""
    if "\n" in part or "{" in part or ";" in part:
        return part
    with open(part, encoding="utf-8") as file:
        return file.read()


def array_text(array: numpy.ndarray, dtype: DataType) -> str:
    """Return the elements of an array as C constants, twelve to a line."""
    flat = array.reshape(-1)
    if is_narrow(dtype):
        width = 2 * flat.itemsize
        texts = [f"0x{bits:0{width}x}" for bits in flat.view(f"u{flat.itemsize}").tolist()]
    else:
        texts = [constant(value, dtype) for value in flat.tolist()]
    rows = [", ".join(texts[start : start + 12]) for start in range(0, len(texts), 12)]
    return "{\n  " + ",\n  ".join(rows or ["0"]) + "\n}"
