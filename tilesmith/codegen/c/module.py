"""A module as one C99 file: helpers, constants, prototypes, functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tilesmith.codegen.c.helpers import (
    CALL_PACKED,
    FFI_TEXT,
    c_string,
    c_type,
    helper_text,
    identifier,
    reinterpret_text,
    short,
)
from tilesmith.codegen.c.intrinsics import MATH_H
from tilesmith.codegen.c.packed_calls import WITH_TENSORS
from tilesmith.codegen.c.parallel import KEEP_ERROR, LAUNCH
from tilesmith.codegen.c.small_types import small_type_helper
from tilesmith.codegen.c.statements import FunctionWriter, array_text, is_on_stack
from tilesmith.codegen.facts import FailureFinder
from tilesmith.ir import Call, IRModule, PointerType, PrimType
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed, pack
from tilesmith.support.errors import CodegenError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.function import PrimFunc

PACKED_PREFIX = "__tvm_ffi_"
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
_LIBRARY = frozenset(
    [name + suffix for name in (*MATH_H, "pow", "ldexp") for suffix in ("", "f", "l")]
    + "abs abort calloc div exit free main malloc memcmp memcpy memmove memset printf puts rand "
      "realloc strlen".split()
)  # fmt: skip


def emit_source(module: IRModule) -> str:
    """The module's PrimFuncs as a C99 file. Raises CodegenError for what C code cannot do."""
    return ModuleWriter(module).text()


class ModuleWriter:
    """Collects the parts of one file, each written once."""

    def __init__(self, module: IRModule) -> None:
        self.functions: dict[str, PrimFunc] = {}
        for variable, function in module.functions.items():
            if not isinstance(function, PrimFunc) or function.buffer_map:
                raise CodegenError(
                    f"'{variable.name_hint}' is no lowered function",
                    notes=("lower the module first (tilesmith.lower or tilesmith.build)",),
                )
            self.functions[variable.name_hint] = function
        self.constants: Sequence[Any] = module.attrs.get("constants", ())
        self.imported: list[str] = []
        self.uses_ffi = self.uses_prefetch = self.uses_unroll = self.uses_packed = False
        self.uses_parallel = self.uses_tensors = self.keeps_errors = False
        self._helpers: dict[str, str] = {}
        self._prototypes: dict[str, str] = {}
        self._arrays: dict[str, str] = {}
        self._array_keys: dict[tuple[str, int], tuple[str, Any]] = {}
        self._slots: dict[str, str] = {}
        self._structures: list[str] = []
        self._tasks: list[str] = []
        with deep_recursion():
            self._look_at_functions()

    def _look_at_functions(self) -> None:
        """What each function returns, and which can fail."""
        self._returned: dict[str, DataType | None] = {}
        callees: dict[str, set[str]] = {}
        self._failing: set[str] = set()
        for name, function in self.functions.items():
            finder = FailureFinder(is_on_stack)
            finder.visit(function.body)
            callees[name] = finder.callees
            if finder.can_fail or finder.callees - self.functions.keys():
                self._failing.add(name)
            declared = function.ret_type
            if isinstance(declared, PrimType) and not declared.dtype.is_void:
                self._returned[name] = declared.dtype
            elif isinstance(declared, PointerType):
                self._returned[name] = DataType("handle")
            else:
                found = finder.returned
                self._returned[name] = None if found is None or found.is_void else found
        more = {""}
        while more:
            more = {n for n, called in callees.items() if called & self._failing} - self._failing
            self._failing |= more

    # -- the file

    def text(self) -> str:
        """The file's text."""
        with deep_recursion():
            bodies = [self._function(name, function) for name, function in self.functions.items()]
        heads = [body[: body.index(" {\n")] + ";" for body in bodies]
        slots = [f"static void* {slot};" for slot in self._slots.values()]
        uses_ffi = self.uses_ffi or self.uses_packed
        parts = [
            _HEAD,
            _UNROLL if self.uses_unroll else "",
            LAUNCH if self.uses_parallel else "",
            _PREFETCH if self.uses_prefetch else "",
            _ALIGN if self._arrays else "",
            FFI_TEXT if uses_ffi else "",
            KEEP_ERROR if self.keeps_errors else "",
            *[_source_of(part) for part in self.imported],
            CALL_PACKED if self.uses_packed else "",
            WITH_TENSORS if self.uses_tensors else "",
            *self._helpers.values(),
            *[line for name, line in self._prototypes.items() if not self._is_imported(name)],
            *self._arrays.values(),
            *slots,
            *self._structures,
            *heads,
            *["\n" + task.rstrip() for task in self._tasks],
            *["\n" + body.rstrip() for body in bodies],
        ]
        return "\n".join([part for part in parts if part]) + "\n"

    def _is_imported(self, name: str) -> bool:
        return any(name + "(" in _source_of(part) for part in self.imported)

    def _function(self, name: str, function: PrimFunc) -> str:
        dtype = self._returned[name]
        returns = "status" if dtype is None else c_type(dtype)
        linkage = "" if "global_symbol" in function.attrs else "static "
        head = f"{linkage}{'int32_t' if returns == 'status' else returns} {self.symbol_of(name)}"
        return FunctionWriter(self, name, returns).function_text(function, head)

    def symbol_of(self, name: str) -> str:
        """The C name of a function: its public name unless the C library has one like it."""
        function = self.functions.get(name)
        public = function.attrs.get("global_symbol") if function is not None else None
        symbol = identifier(str(public or name))
        return symbol + "_kernel" if symbol in _LIBRARY else symbol

    def callee(self, name: str, call: Call) -> tuple[str, str]:
        """The symbol of a function and what it gives back (a C type or `"status"`)."""
        if name in self.functions:
            dtype = self._returned[name]
            return self.symbol_of(name), "status" if dtype is None else c_type(dtype)
        returned = "status" if call.dtype.is_void else c_type(call.dtype)
        kind = DataType("int32") if call.dtype.is_void else call.dtype
        self.declare(self.symbol_of(name), kind, [arg.dtype for arg in call.args])
        return self.symbol_of(name), returned

    def may_fail(self, name: str) -> bool:
        """Whether a function may report an error."""
        return name not in self.functions or name in self._failing

    # -- parts

    def fresh_function(self, hint: str) -> str:
        """A name for a further function."""
        return f"{hint}_{len(self._structures) + 1}"

    def add_structure(self, text: str) -> None:
        """Add the definition of a structure."""
        self._structures.append(text)

    def add_task(self, text: str) -> None:
        """Add a function that runs a share of a parallel loop."""
        self._tasks.append(text)

    def helper(self, name: str, dtype: DataType | None = None) -> str:
        """The name of a helper, which is added to the file."""
        full = name if dtype is None else f"{name}_{short(dtype)}"
        if full in self._helpers:
            return full
        small = small_type_helper(full)
        if small is not None:
            for other in small[1]:
                self.helper(other)
            self._helpers[full] = small[0]
        else:
            element = None if dtype is None else dtype.element
            self._helpers[full] = helper_text(name, element)
        return full

    def reinterpret(self, source: DataType, target: DataType) -> str:
        """The name of the helper that reads the bits of one type as another."""
        name = f"bits_{short(source)}_as_{short(target)}"
        self._helpers.setdefault(name, reinterpret_text(source, target))
        return name

    def declare(self, name: str, result: DataType, arguments: Sequence[DataType]) -> None:
        """Declare a foreign function, unless a header does."""
        if name not in _LIBRARY:
            kinds = ", ".join([c_type(dtype) for dtype in arguments]) or "void"
            self._prototypes.setdefault(name, f"extern {c_type(result)} {name}({kinds});")

    def declare_data(self, name: str) -> None:
        """Declare bytes that another object file defines."""
        self._prototypes.setdefault(name, f"extern unsigned char {name}[];")

    def static_pointer(self) -> str:
        """The name of a pointer that lives as long as the library, null at first."""
        name = f"static_{len(self._slots)}"
        self._slots[name] = name
        return name

    def declare_packed(self, symbol: str) -> None:
        """Declare a function with tvm-ffi's calling convention."""
        self.uses_packed = True
        line = f"extern int32_t {symbol}(void* self, TsAny* args, int32_t count, TsAny* result);"
        if symbol not in self.functions:
            self._prototypes.setdefault(symbol, line)

    def packed_call(self, name: str) -> str:
        """The beginning of a call of a registered function, whose handle is kept."""
        self.uses_packed = True
        slot = self._slots.setdefault(name, f"function_{len(self._slots)}")
        return f"call_packed(&{slot}, {c_string(name)}, "

    def constant_array(self, hint: str, array: numpy.ndarray, dtype: DataType) -> str:
        """A constant array; its name. The same array is written once."""
        key = (str(dtype), id(array))
        if key not in self._array_keys:
            name = f"{hint}_{len(self._arrays)}"
            kind = c_type(dtype)
            if is_packed(dtype):
                array, kind, dtype = pack(array, dtype), "uint8_t", DataType("uint8")
            # not const: kernels take plain pointers
            self._arrays[name] = (
                f"static {kind} {name}[{max(1, array.size)}] TS_ALIGNED = "
                f"{array_text(array, dtype)};"
            )
            self._array_keys[key] = (name, array)
        return self._array_keys[key][0]


def _source_of(part: str) -> str:
    """C source that a pragma brings: the text itself or the name of a file with it."""
    if "\n" in part or "{" in part or ";" in part:
        return part
    with open(part, encoding="utf-8") as file:
        return file.read()
