"""Writes a module as one C99 file: helpers, constants, prototypes, functions."""

from __future__ import annotations

from tilesmith.codegen.c import (  # noqa: F401 - these enter their rules into the tables
    expressions,
    intrinsics,
    memory,
    packed_calls,
)
from tilesmith.codegen.c.file_text import FileText
from tilesmith.codegen.c.functions import FunctionWriter
from tilesmith.codegen.c.parallel import ParallelLoops
from tilesmith.codegen.c.symbols import Symbols
from tilesmith.codegen.lowered import lowered_functions
from tilesmith.ir import IRModule
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.function import PrimFunc

__all__ = ["ModuleWriter", "emit_source"]


def emit_source(module: IRModule) -> str:
    """Return the module's PrimFuncs as a C99 file. Raises CodegenError for code that C cannot
    express.
    """
    return ModuleWriter(module).text()


class ModuleWriter:
    """Writes one module: its functions, with the parts of the file that they need."""

    def __init__(self, module: IRModule) -> None:
        self.functions = lowered_functions(module, "C")
        self.file = FileText(module.attrs.get("constants", ()), self.functions)
        self.symbols = Symbols(self.functions, self.file)
        self.parallel = ParallelLoops(self.file, self.symbols)

    def text(self) -> str:
        """Return the file's text."""
        with deep_recursion():
            bodies = [self._function(name, function) for name, function in self.functions.items()]
        return self.file.text(bodies)

    def _function(self, name: str, function: PrimFunc) -> str:
        returns = self.symbols.returns(name)
        linkage = "" if "global_symbol" in function.attrs else "static "
        kind = "int32_t" if returns == "status" else returns
        writer = FunctionWriter(self.file, self.symbols, name, returns, self.parallel.divide)
        return writer.text(function, f"{linkage}{kind} {self.symbols.symbol_of(name)}")
