"""Defines pieces of text that remember which node they show and how tightly they bind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["Doc", "Level", "call", "joined", "listed", "parenthesized", "quoted", "render"]


class Level:
    """How tightly an expression binds in Python; higher is tighter."""

    LAMBDA = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARE = 4
    SUM = 9
    PRODUCT = 10
    UNARY = 11
    ATOM = 12


class Doc:
    """A piece of an expression: texts and further pieces; ``node`` is what it shows."""

    __slots__ = ("level", "node", "parts")

    def __init__(self, *parts: Any, level: int = Level.ATOM, node: Any = None) -> None:
        self.parts = parts
        self.level = level
        self.node = node

    def __str__(self) -> str:
        pieces: list[str] = []
        render(self, 0, pieces, None)
        return "".join(pieces)


Piece = str | Doc


def render(doc: Piece, position: int, pieces: list[str], ranges: list[Any] | None) -> int:
    """Append the text of ``doc`` to ``pieces``; return the position after it.

    ``ranges`` collects ``(node, start, end)`` of each piece that shows a node.
    """
    if isinstance(doc, str):
        pieces.append(doc)
        return position + len(doc)
    start = position
    for part in doc.parts:
        position = render(part, position, pieces, ranges)
    if ranges is not None and doc.node is not None:
        ranges.append((doc.node, start, position))
    return position


def parenthesized(doc: Piece, level: int) -> Piece:
    """Put ``doc`` in parentheses unless it binds at least as tightly as ``level``."""
    if isinstance(doc, Doc) and doc.level < level:
        return Doc("(", doc, ")")
    return doc


def joined(pieces: Iterable[Piece], separator: str = ", ") -> Doc:
    """Join pieces with a separator."""
    parts: list[Piece] = []
    for piece in pieces:
        if parts:
            parts.append(separator)
        parts.append(piece)
    return Doc(*parts)


def call(
    function: Piece, arguments: Sequence[Piece], node: Any = None, **named: Piece | None
) -> Doc:
    """Return ``function(arguments, name=value)``; a named argument that is None is left out."""
    written = [*arguments, *[Doc(k, "=", v) for k, v in named.items() if v is not None]]
    return Doc(function, "(", joined(written), ")", node=node)


def listed(pieces: Sequence[Piece]) -> Doc:
    """``[a, b]``."""
    return Doc("[", joined(pieces), "]")


def tupled(pieces: Sequence[Piece]) -> Doc:
    """``(a, b)``, ``(a,)``."""
    return Doc("(", joined(pieces), ",)" if len(pieces) == 1 else ")")


_ESCAPES = str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\x00"}
)


def quoted(text: str) -> str:
    """Return a text as a Python literal in double quotes."""
    text = text.translate(_ESCAPES)
    if not text.isprintable():
        text = "".join(
            [c if c.isprintable() else c.encode("unicode_escape").decode() for c in text]
        )
    return f'"{text}"'
