"""Writes functions as C99 text: parameters, head, and the parts that write the body.

Functions return 0, or the code of an error that is set in tvm-ffi, unless they return a value.
"""

from __future__ import annotations

import re
from collections import Counter

from tilesmith.codegen.c.dialect import c_type
from tilesmith.codegen.c.file_text import FileText
from tilesmith.codegen.c.statements import Divide, StatementWriter
from tilesmith.codegen.c.symbols import Symbols
from tilesmith.codegen.c.values import Values
from tilesmith.codegen.c_family.lines import CommonLines
from tilesmith.codegen.c_family.memory import pointed_dtype
from tilesmith.ir import Var
from tilesmith.tir.function import PrimFunc

__all__ = ["FunctionWriter"]

_WORD = re.compile(r"\w+")
_DECLARED = re.compile(r"\s+(?:const )?\w+\*? (\w+)(?:\[\w+\])?(?: = .*)?;\Z")


class FunctionWriter:
    """Writes one function. ``returns`` is the C type of its value, or `"status"`; ``divide`` writes
    its parallel loops.
    """

    def __init__(
        self, file: FileText, symbols: Symbols, name: str, returns: str, divide: Divide
    ) -> None:
        self.out = CommonLines(name, file)
        self.emit = Values(self.out, file, symbols, returns)
        self.statements = StatementWriter(self.emit, divide)

    def text(self, function: PrimFunc, head: str) -> str:
        """Return the text of a function with the given beginning (linkage and type)."""
        restrict = "restrict " if function.attrs.get("tir.noalias") else ""
        parameters = [self.parameter(var, restrict) for var in function.params]
        self.statements.visit(function.body)
        if self.emit.exits.returns == "status":
            self.out.write("return 0;")
        self.mention_unused([self.emit.names[var] for var in function.params])
        return self.finished(f"{head}({', '.join(parameters) or 'void'})")

    def finished(self, head: str) -> str:
        """Return the function with its head."""
        return f"{head} {{\n" + "\n".join(self.out.lines) + "\n}\n"

    def mention_unused(self, parameters: list[str]) -> None:
        """Mark unused names, about which compilers would warn."""
        counts = Counter(_WORD.findall("\n".join(self.out.lines)))
        for number, line in enumerate(self.out.lines):
            declared = _DECLARED.match(line)
            if declared is not None and counts[declared.group(1)] == 1:
                self.out.lines[number] = f"{line} (void){declared.group(1)};"
        unused = [f"(void){name};" for name in parameters if not counts[name]]
        if unused:
            self.out.lines.insert(0, "  " + " ".join(unused))

    def parameter(self, var: Var, restrict: str) -> str:
        """Bind a parameter; return its declaration."""
        if var.dtype.lanes > 1:
            raise self.out.unsupported(f"parameter '{var.name}' is a vector")
        name = self.emit.names[var] = self.out.fresh(var.name)
        if not var.dtype.is_handle:
            return f"{c_type(var.dtype)} {name}"
        element = self.emit.pointer_types[var] = pointed_dtype(var)
        if element is None:
            return f"void* {name}"
        return f"{c_type(element)}* {restrict}{name}"
