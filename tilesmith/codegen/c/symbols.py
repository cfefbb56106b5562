"""Describes the functions of a module to their callers: symbols and result types."""

from __future__ import annotations

from collections.abc import Mapping

from tilesmith.codegen.c.file_text import FileText
from tilesmith.codegen.c.helpers import c_type, identifier
from tilesmith.codegen.c.library import LIBRARY
from tilesmith.codegen.facts import constant_bytes
from tilesmith.codegen.outcomes import ModuleOutcomes
from tilesmith.ir import Call
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate

__all__ = ["Symbols", "is_on_stack"]

STACK_BYTES = 4096
"""Memory of at most so many bytes is a local array."""
LOCAL_BYTES = 64 * 1024
"""The same for memory in scope "local": threads have small stacks."""


def is_on_stack(allocation: Allocate) -> bool:
    """True if an allocation becomes a local array."""
    size = constant_bytes(allocation)
    scope = allocation.buffer_var.storage_scope
    return size is not None and size <= (LOCAL_BYTES if scope == "local" else STACK_BYTES)


class Symbols:
    """Answers questions about functions of this and other files for calls of them."""

    def __init__(self, functions: Mapping[str, PrimFunc], file: FileText) -> None:
        self.functions = functions
        self.file = file
        self.outcomes = ModuleOutcomes(functions, is_on_stack)

    def returns(self, name: str) -> str:
        """Return the result of a function of the module: a C type or `"status"`."""
        dtype = self.outcomes.returned[name]
        return "status" if dtype is None else c_type(dtype)

    def symbol_of(self, name: str) -> str:
        """Return the C name of a function: its public name unless the C library has the same."""
        function = self.functions.get(name)
        public = function.attrs.get("global_symbol") if function is not None else None
        symbol = identifier(str(public or name))
        return symbol + "_kernel" if symbol in LIBRARY else symbol

    def callee(self, name: str, call: Call) -> tuple[str, str]:
        """Return the symbol of a function and what it returns (a C type or `"status"`)."""
        symbol = self.symbol_of(name)
        if name in self.functions:
            return symbol, self.returns(name)
        kind = DataType("int32") if call.dtype.is_void else call.dtype
        self.file.declare(symbol, kind, [arg.dtype for arg in call.args])
        return symbol, "status" if call.dtype.is_void else c_type(call.dtype)
