"""Collects the parts of a C file beside its functions: helpers, constants, prototypes, structures.

Each is written once, in the order of first use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tilesmith.codegen.c.dialect import C99, c_type
from tilesmith.codegen.c.helpers import (
    BARRIER,
    CALL_PACKED,
    FFI_TEXT,
    KEEP_ERROR,
    LAUNCH,
    NAME_OPERATOR,
    WITH_TENSORS,
    helper_text,
    is_helper,
)
from tilesmith.codegen.c_family.dialect import c_string
from tilesmith.codegen.c_family.file_text import CommonFileText, source_of
from tilesmith.codegen.c_family.library import LIBRARY
from tilesmith.runtime.dtype import DataType

__all__ = ["FileText"]

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


class FileText(CommonFileText):
    """Collects the parts of one file. ``uses_…`` say which pieces of the head are needed,
    ``own_functions`` are the names of the module's functions, ``symbols`` the C names of functions
    that the module calls.
    """

    def __init__(self, constants: Sequence[Any], own_functions: Collection[str]) -> None:
        super().__init__(C99, constants)
        self.own_functions = own_functions
        self.symbols: Collection[str] = ()
        self.uses_ffi = self.uses_prefetch = self.uses_unroll = self.uses_packed = False
        self.uses_parallel = self.uses_barrier = self.uses_tensors = self.keeps_errors = False
        self.names_operators = False
        self.prototypes: dict[str, str] = {}
        self.slots: dict[str, str] = {}
        self.structures: list[str] = []
        self.tasks: list[str] = []

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
            *[source_of(part) for part in self.imported],
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
        return any(name + "(" in source_of(part) for part in self.imported)

    def has(self, name: str) -> bool:
        """True if a name means something in the whole file: a local variable would hide it."""
        is_own = name in self.symbols or name in self.slots.values()
        return is_own or super().has(name) or name in LIBRARY or is_helper(name)

    def helper_text(self, name: str, dtype: DataType | None) -> tuple[str, tuple[str, ...]]:
        return helper_text(name, dtype)

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
        name = self.fresh("static", self.slots.values())
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
            self.slots[name] = self.fresh("function", self.slots.values())
        return f"call_packed(&{self.slots[name]}, {c_string(name)}, "
