"""Writes debug information in LLVM's metadata: the line of the program that an instruction comes
from.

On with the options `tir.debug_script` and `tir.enable_debug`. A statement's place is its span: the
line of the user's TVMScript file, or, after `tir.transform.InstallDebugSpans` (which
`tir.enable_debug` runs), the line of the lowered program as it is printed. Debuggers and profilers
then show these lines.
"""

from __future__ import annotations

import os

from tilesmith.codegen.llvm.dtypes import escape
from tilesmith.codegen.llvm.metadata import Metadata
from tilesmith.ir.span import Span

Location = str
"""The name of a DILocation node (`!7`)."""


class ModuleDebug:
    """The metadata of one module: files, functions, locations."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self._unit = ""
        self._functions = 0

    def function(self, symbol: str, span: Span | None) -> FunctionDebug:
        """Begin a function with its location."""
        file = self.file(span.source_name if span is not None else "<generated>")
        if not self._unit:
            self._unit = self.metadata.distinct(
                f"!DICompileUnit(language: DW_LANG_C99, file: {file}, producer: "
                '"Tilesmith", isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug)'
            )
        line = span.line if span is not None else 0
        kind = self.metadata.node("!DISubroutineType(types: !{null})")
        name = _quoted(symbol)
        scope = self.metadata.distinct(
            f"!DISubprogram(name: {name}, linkageName: {name}, scope: {file}, file: {file}, "
            f"line: {line}, type: {kind}, scopeLine: {line}, "
            f"spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {self._unit})"
        )
        return FunctionDebug(self, scope, file, line)

    def file(self, name: str) -> str:
        """Return the DIFile of a source."""
        folder, base = os.path.split(name)
        folder = folder or os.getcwd()
        return self.metadata.node(
            f"!DIFile(filename: {_quoted(base)}, directory: {_quoted(folder)})"
        )

    def footer(self) -> list[str]:
        """Return the named metadata that the module needs."""
        if not self._unit:
            return []
        version = self.metadata.node('!{i32 2, !"Debug Info Version", i32 3}')
        dwarf = self.metadata.node('!{i32 7, !"Dwarf Version", i32 4}')
        return [
            f"!llvm.dbg.cu = !{{{self._unit}}}",
            f"!llvm.module.flags = !{{{version}, {dwarf}}}",
        ]


class FunctionDebug:
    """The locations in one function. `scope` is its DISubprogram."""

    def __init__(self, module: ModuleDebug, scope: str, file: str, line: int) -> None:
        self.module = module
        self.scope = scope
        self.file = file
        self.line = line

    def location(self, span: Span | None) -> Location:
        """Return the DILocation of a span or, without one, of the function."""
        if span is None:
            return self._at(self.line, 0, self.scope)
        file = self.module.file(span.source_name)
        scope = self.scope
        if file != self.file:  # a macro, or a function of another file that was inlined
            scope = self.module.metadata.node(
                f"!DILexicalBlockFile(scope: {self.scope}, file: {file}, discriminator: 0)"
            )
        return self._at(span.line, span.column, scope)

    def _at(self, line: int, column: int, scope: str) -> Location:
        column = min(column, 65535)  # LLVM keeps 16 bits
        return self.module.metadata.node(
            f"!DILocation(line: {line}, column: {column}, scope: {scope})"
        )


def annotate(lines: list[str], start: int, location: Location) -> None:
    """Add a location to the instructions from `start` on that have none yet."""
    words = f", !dbg {location}"
    for number in range(start, len(lines)):
        line = lines[number]
        if line.startswith("  ") and "!dbg" not in line and " = phi " not in line:
            lines[number] = line + words


def _quoted(text: str) -> str:
    return '"' + escape(text.encode()) + '"'
