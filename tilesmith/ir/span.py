"""Records where a piece of a program was written."""

from __future__ import annotations

import linecache
from typing import Any

from tilesmith.ir.node import Node, data

__all__ = ["OperatorSpan", "SequentialSpan", "SourceMap", "SourceName", "Span", "operators_at"]


class SourceName(Node, key="ir.SourceName"):
    """The name of a source file, notebook cell or prompt."""

    name: str = data()


class Span(Node, key="ir.Span"):
    """A range of source text; lines and columns count from 1, the end column is exclusive."""

    source_name: str = data()
    line: int = data()
    end_line: int = data()
    column: int = data()
    end_column: int = data()

    def format(self) -> str:
        """Return ``file:line:column``, the source line, and a marker under the range."""
        place = f"{self.source_name}:{self.line}:{self.column}"
        text = linecache.getline(self.source_name, self.line).rstrip("\n")
        if not text:
            return place
        end = self.end_column if self.end_line == self.line else len(text) + 1
        marker = " " * (self.column - 1) + "^" * max(1, end - self.column)
        return f"{place}\n    {text}\n    {marker}"

    def __str__(self) -> str:
        return self.format()


class OperatorSpan(Node, key="ir.OperatorSpan"):
    """An operator of an imported model: its kind and its name in the model ("" if it has none)."""

    operator: str = data()
    name: str = data()

    def format(self) -> str:
        """Return ``Gather node 'embedding'``."""
        return f"{self.operator} node '{self.name}'" if self.name else self.operator

    def __str__(self) -> str:
        return self.format()


class SequentialSpan(Node, key="ir.SequentialSpan"):
    """Several ranges that one piece of a program comes from, after fusion for instance."""

    spans: tuple[Span | OperatorSpan, ...] = data()

    def __init__(self, spans: Any) -> None:
        flat: list[Span | OperatorSpan] = []
        for span in spans:
            flat.extend(span.spans if isinstance(span, SequentialSpan) else (span,))
        self.spans = tuple(flat)

    def format(self) -> str:
        """Return the texts of all ranges, one below the other."""
        return "\n".join([span.format() for span in self.spans])

    def __str__(self) -> str:
        return self.format()


class SourceMap:
    """Source texts by name, for spans whose source is not a file; errors show lines from them."""

    def __init__(self) -> None:
        self.source_map: dict[str, str] = {}

    def add(self, name: str, content: str) -> SourceName:
        """Store a text under a name."""
        self.source_map[name] = content
        lines = content.splitlines(keepends=True)
        # Without a modification time linecache does not take the entry for a file, and keeps it.
        linecache.cache[name] = (len(content), None, lines, name)
        return SourceName(name)


def operators_at(span: Span | OperatorSpan | SequentialSpan | None) -> str:
    """Return the operators of the imported model that a span names, for errors: ``Gather node
    'embedding'``; "" if it names none.
    """
    spans = span.spans if isinstance(span, SequentialSpan) else (span,)
    named = [one.format() for one in spans if isinstance(one, OperatorSpan)]
    return ", ".join(dict.fromkeys(named))
