"""Describes the functions of a module to their callers: symbols and result types."""

from __future__ import annotations

from collections.abc import Mapping

from tilesmith.codegen.c.dialect import c_type, identifier
from tilesmith.codegen.c.file_text import FileText
from tilesmith.codegen.c_family.library import LIBRARY
from tilesmith.codegen.facts import constant_bytes
from tilesmith.codegen.outcomes import ModuleOutcomes
from tilesmith.ir import Call, GlobalVar, StringImm
from tilesmith.ir.queries import calls
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Allocate

__all__ = ["Symbols", "is_on_stack"]

STACK_BYTES = 4096
"""Memory of at most so many bytes is a local array."""
_FOREIGN = (
    "tir.call_extern", "tir.call_pure_extern", "tir.tvm_call_cpacked",
    "tir.tvm_call_cpacked_lowered", "tir.lookup_param",
)  # fmt: skip
"""Operators that name a symbol of another file."""
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
        file.symbols = self._called()
        self.outcomes = ModuleOutcomes(functions, is_on_stack)

    def _called(self) -> set[str]:
        """Return the C names of the functions that the module calls."""
        found = set()
        for call in calls([function.body for function in self.functions.values()]):
            first = call.args[0] if call.args else None
            if isinstance(call.op, GlobalVar):
                found.add(self.symbol_of(call.op.name_hint))
            elif isinstance(first, StringImm) and call.op.name in _FOREIGN:
                found.add(first.value)
        return found

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
