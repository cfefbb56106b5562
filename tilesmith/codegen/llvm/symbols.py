"""The functions of a module as calls see them: symbols, returned types, whether they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilesmith.codegen.facts import FailureFinder
from tilesmith.codegen.llvm.c_library import C_LIBRARY
from tilesmith.codegen.llvm.dtypes import register_type, symbol
from tilesmith.codegen.llvm.heap import is_on_stack
from tilesmith.codegen.llvm.module_text import ModuleText
from tilesmith.ir import PointerType, PrimType
from tilesmith.runtime.dtype import DataType
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.stmt import Stmt

__all__ = ["Symbols", "kernel_symbol"]


def kernel_symbol(name: str) -> str:
    """The symbol of a function of a module: its name, unless the C library has one like it."""
    return name + ".kernel" if name in C_LIBRARY else name


class Symbols:
    """Answers what a call of a function of this or another object file has to know."""

    def __init__(self, functions: Mapping[str, PrimFunc], text: ModuleText) -> None:
        self.functions = functions
        self.text = text
        self._returned: dict[str, DataType | None] = {}
        with deep_recursion():
            self._failing = self._find_failing()

    def _find_failing(self) -> set[str]:
        """Names of the functions that can fail, alone or through what they call."""
        callees: dict[str, set[str]] = {}
        failing = set()
        for name, function in self.functions.items():
            finder = FailureFinder(is_on_stack)
            finder.visit(function.body)
            callees[name] = finder.callees
            self._returned[name] = _returned_dtype(function, finder)
            unknown = any(callee not in self.functions for callee in finder.callees)
            if finder.can_fail or unknown:
                failing.add(name)
        changed = True
        while changed:
            more = {name for name, called in callees.items() if called & failing} - failing
            failing |= more
            changed = bool(more)
        return failing

    def symbol_of(self, name: str) -> str:
        """The symbol of a function: its public name where it has one."""
        function = self.functions.get(name)
        public = function.attrs.get("global_symbol") if function is not None else None
        return kernel_symbol(str(public or name))

    def returns(self, name: str) -> str:
        """What a function of the module gives back: `"status"` or an LLVM type."""
        dtype = self._returned[name]
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

    def may_fail(self, name: str) -> bool:
        """Whether a function may report an error; one of another object file may."""
        return name not in self.functions or name in self._failing

    def can_fail(self, body: Stmt) -> bool:
        """Whether a statement can fail, alone or through what it calls."""
        finder = FailureFinder(is_on_stack)
        finder.visit(body)
        return finder.can_fail or any(self.may_fail(name) for name in finder.callees)


def _returned_dtype(function: PrimFunc, finder: FailureFinder) -> DataType | None:
    """The dtype that a function returns; None for a function that returns nothing. `finder` has
    seen the body: a function may leave out its return type."""
    if isinstance(function.ret_type, PrimType) and not function.ret_type.dtype.is_void:
        return function.ret_type.dtype
    if isinstance(function.ret_type, PointerType):
        return DataType("handle")
    found = finder.returned
    return None if found is None or found.is_void else found
