"""The functions of a module as calls see them: their symbols and what they give back."""

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
    """The symbol of a function of a module: its name, unless the C library has one like it."""
    return name + ".kernel" if name in C_LIBRARY else name


class Symbols:
    """Answers what a call of a function of this or another object file has to know."""

    def __init__(self, functions: Mapping[str, PrimFunc], text: ModuleText) -> None:
        self.functions = functions
        self.text = text
        self.outcomes = ModuleOutcomes(functions, is_on_stack)

    def symbol_of(self, name: str) -> str:
        """The symbol of a function: its public name where it has one."""
        function = self.functions.get(name)
        public = function.attrs.get("global_symbol") if function is not None else None
        return kernel_symbol(str(public or name))

    def returns(self, name: str) -> str:
        """What a function of the module gives back: `"status"` or an LLVM type."""
        dtype = self.outcomes.returned[name]
        return "status" if dtype is None else register_type(dtype)

    def returned_type(self, name: str, call_dtype: DataType) -> str:
        """What a function gives back; of one in another object file a call says it."""
        if name in self.functions:
            return self.returns(name)
        return "status" if call_dtype.is_void else register_type(call_dtype)

    def callee(self, name: str, returned: str, kinds: Sequence[str]) -> str:
        """`@name` of a function of this or another object file."""
        if name in self.functions:
            return symbol(self.symbol_of(name))
        result = "i32" if returned == "status" else returned
        return self.text.declare(kernel_symbol(name), result, kinds)
