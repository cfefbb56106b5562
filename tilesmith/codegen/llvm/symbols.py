"""Describes the functions of a module to their callers: symbols and result types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilesmith.codegen.llvm.c_library import C_LIBRARY
from tilesmith.codegen.llvm.dtypes import register_type, symbol
from tilesmith.codegen.llvm.heap import is_on_stack
from tilesmith.codegen.llvm.module_text import ModuleText
from tilesmith.codegen.outcomes import ModuleOutcomes
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.function import PrimFunc

__all__ = ["Symbols", "kernel_symbol"]


def kernel_symbol(name: str) -> str:
    """Return the symbol of a function of a module: its name, unless the C library has the same."""
    return name + ".kernel" if name in C_LIBRARY else name


class Symbols:
    """Answers questions about functions of this and other object files for calls of them."""

    def __init__(self, functions: Mapping[str, PrimFunc], text: ModuleText) -> None:
        self.functions = functions
        self.text = text
        self.outcomes = ModuleOutcomes(functions, is_on_stack)

    def symbol_of(self, name: str) -> str:
        """Return the symbol of a function: its public name if it has one."""
        function = self.functions.get(name)
        public = function.attrs.get("global_symbol") if function is not None else None
        return kernel_symbol(str(public or name))

    def returns(self, name: str) -> str:
        """Return the result of a function of the module: `"status"` or an LLVM type."""
        dtype = self.outcomes.returned[name]
        return "status" if dtype is None else register_type(dtype)

    def returned_type(self, name: str, call_dtype: DataType) -> str:
        """Return the result type of a function; for one in another object file, the type of the
        call.
        """
        if name in self.functions:
            return self.returns(name)
        return "status" if call_dtype.is_void else register_type(call_dtype)

    def callee(self, name: str, returned: str, kinds: Sequence[str]) -> str:
        """Return `@name` of a function of this or another object file."""
        if name in self.functions:
            return symbol(self.symbol_of(name))
        result = "i32" if returned == "status" else returned
        return self.text.declare(kernel_symbol(name), result, kinds)
