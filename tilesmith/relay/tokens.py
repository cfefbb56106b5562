"""Splits Relay's text format into words."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tilesmith.ir.span import SourceMap, Span
from tilesmith.support.errors import DiagnosticError

__all__ = ["SourceText", "Token"]

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
  | (?P<comment>//[^\n]*)
  | (?P<open>/\*)
  | (?P<version>\#\[version\s*=\s*"[^"]*"\])
  | (?P<metadata>\#\[metadata\])
  | (?P<graph>%[0-9]+)
  | (?P<local>%[A-Za-z_][A-Za-z_0-9]*)
  | (?P<global>@[A-Za-z_][A-Za-z_0-9.]*)
  | (?P<number>(?:[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+(?:[eE][-+]?[0-9]+)?)
      (?:[fiu](?:8|16|32|64)?)?)
  | (?P<text>"(?:[^"\\]|\\.)*")
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*)
  | (?P<sign>->|=>|==|!=|<=|>=|[-+*/%<>=(){}\[\],;:.?!])
  | (?P<end>\Z)""",
    re.VERBOSE,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


class Token(NamedTuple):
    """A word of the text: its kind, the word, and where it begins and ends."""

    kind: str
    text: str
    start: int
    end: int


class SourceText:
    """A text with its name: the words, and spans of them."""

    def __init__(self, source: str, name: str) -> None:
        self.source = source
        self.name = name
        SourceMap().add(name, source)
        self.starts = [0] + [match.end() for match in re.finditer("\n", source)]
        self.metadata_start: int | None = None

    def tokens(self) -> list[Token]:
        """Return the words; those of the metadata section, which is JSON, are left out."""
        found, position = [], 0
        while True:
            match = _TOKEN.match(self.source, position)
            if match is None:
                raise self.error(f"unexpected {self.source[position]!r}", position, position + 1)
            kind, position = str(match.lastgroup), match.end()
            if kind == "open":
                position = self._end_of_comment(match.start())
            elif kind == "metadata":
                self.metadata_start = position
                found.append(Token("end", "", match.start(), match.start()))
                return found
            elif kind not in ("space", "comment"):
                found.append(Token(kind, match.group(), match.start(), match.end()))
                if kind == "end":
                    return found

    def _end_of_comment(self, start: int) -> int:
        depth, position = 0, start
        while True:
            edge = _COMMENT_EDGE.search(self.source, position)
            if edge is None:
                raise self.error("the comment has no end", start, start + 2)
            position = edge.end()
            depth += 1 if edge.group() == "/*" else -1
            if depth == 0:
                return position

    def _place(self, position: int) -> tuple[int, int]:
        import bisect

        line = bisect.bisect_right(self.starts, position)
        return line, position - self.starts[line - 1] + 1

    def span(self, start: int, end: int) -> Span:
        """Return the span of a piece of the text."""
        line, column = self._place(start)
        end_line, end_column = self._place(end)
        return Span(self.name, line, end_line, column, end_column)

    def error(self, message: str, start: int, end: int, notes: Any = ()) -> DiagnosticError:
        """Return an error about a piece of the text."""
        return DiagnosticError(message, span=self.span(start, end), notes=notes)
