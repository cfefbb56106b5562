"""Names how strongly operators of C bind. A piece is a text with the strength of its operator."""

from __future__ import annotations

__all__ = [
    "AND", "ATOM", "BIT_AND", "BIT_OR", "BIT_XOR", "CHOICE", "COMPARE", "EQUAL", "OR", "PRODUCT",
    "Piece", "SHIFT", "SUM", "UNARY", "bracketed",
]  # fmt: skip

Piece = tuple[str, int]
ATOM, UNARY, PRODUCT, SUM, SHIFT, COMPARE, EQUAL = 15, 14, 13, 12, 11, 10, 9
BIT_AND, BIT_XOR, BIT_OR, AND, OR, CHOICE = 8, 7, 6, 5, 4, 3


def bracketed(piece: Piece, least: int) -> str:
    """Return a piece's text, in parentheses if it binds weaker than ``least``."""
    written, precedence = piece
    return f"({written})" if precedence < least else written
