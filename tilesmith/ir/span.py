"""Where a piece of a program was written."""

from __future__ import annotations

import linecache

from tilesmith.ir.node import Node, data

__all__ = ["SourceName", "Span"]


class SourceName(Node, key="ir.SourceName"):
    """The name of a source file, notebook cell or prompt."""

    name: str = data()


class Span(Node, key="ir.Span"):
    """A stretch of source text; lines and columns count from 1, the end column is exclusive."""

    source_name: str = data()
    line: int = data()
    end_line: int = data()
    column: int = data()
    end_column: int = data()

    def format(self) -> str:
        """``file:line:column``, the source line, and a marker under the stretch."""
        place = f"{self.source_name}:{self.line}:{self.column}"
        text = linecache.getline(self.source_name, self.line).rstrip("\n")
        if not text:
            return place
        end = self.end_column if self.end_line == self.line else len(text) + 1
        marker = " " * (self.column - 1) + "^" * max(1, end - self.column)
        return f"{place}\n    {text}\n    {marker}"

    def __str__(self) -> str:
        return self.format()
