"""Splits indices of index maps into digits (mixed radix)."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilesmith.ir import (
    Add,
    Cast,
    Dispatcher,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Sub,
    Var,
    const,
    is_const,
)
from tilesmith.ir.operators import all_of, floordiv, floormod

__all__ = ["UNKNOWN_SIZE", "HighestDigit", "NotPlainError", "Pieces"]

UNKNOWN_SIZE = 1 << 60  # stands for a size that is not a constant


class HighestDigit(NamedTuple):
    """An old index as ``digit * divisor + rest``, where the digit is the highest one."""

    digit: PrimExpr
    rest: PrimExpr
    divisor: int
    is_pair: bool

    def beyond(self, size: PrimExpr) -> PrimExpr:
        """Return the condition that the index is at least ``size``, which can hold only in the last
        ``divisor`` elements.
        """
        divisor = const(self.divisor, size.dtype)
        remainder = floormod(size, divisor)
        if self.is_pair and is_const(remainder, self.divisor - 1):
            is_beyond = self.rest == remainder
        else:
            is_beyond = self.rest >= remainder
        return all_of(self.digit == floordiv(size, divisor), is_beyond)


class _Piece(NamedTuple):
    """``scale * ((variable // lower) % extent)``."""

    variable: Var
    lower: int
    extent: int
    scale: int


class _Sum(NamedTuple):
    pieces: tuple[_Piece, ...]
    offset: int


class NotPlainError(Exception):
    """Raised for an index that is not a sum of digits."""


class Pieces(Dispatcher[_Sum]):
    """Splits an index into digits of the variables."""

    def __init__(self, sizes: dict[Var, int]) -> None:
        self.sizes = sizes

    def visit_default(self, node: Any) -> _Sum:
        raise NotPlainError

    def visit_IntImm(self, node: IntImm) -> _Sum:
        return _Sum((), node.value)

    def visit_Var(self, node: Var) -> _Sum:
        if node not in self.sizes:
            raise NotPlainError
        size = self.sizes[node]
        return _Sum((_Piece(node, 1, size, 1),), 0)

    def visit_Cast(self, node: Cast) -> _Sum:
        return self.visit(node.value)

    def visit_Add(self, node: Add) -> _Sum:
        a, b = self.visit(node.a), self.visit(node.b)
        return _Sum(a.pieces + b.pieces, a.offset + b.offset)

    def visit_Sub(self, node: Sub) -> _Sum:
        a, b = self.visit(node.a), self.visit(node.b)
        if b.pieces:
            raise NotPlainError
        return _Sum(a.pieces, a.offset - b.offset)

    def visit_Mul(self, node: Mul) -> _Sum:
        a, b = self.visit(node.a), self.visit(node.b)
        if a.pieces and b.pieces:
            raise NotPlainError
        factor = a.offset if not a.pieces else b.offset
        value = b if not a.pieces else a
        if factor == 0:
            return _Sum((), 0)
        pieces = tuple([piece._replace(scale=piece.scale * factor) for piece in value.pieces])
        return _Sum(pieces, value.offset * factor)

    def divisor(self, node: FloorDiv | FloorMod) -> int:
        if not isinstance(node.b, IntImm) or node.b.value <= 0:
            raise NotPlainError
        return node.b.value

    def visit_FloorDiv(self, node: FloorDiv) -> _Sum:
        value, by = self.visit(node.a), self.divisor(node)
        kept, rest = self.split(value, by)
        pieces = [piece._replace(scale=piece.scale // by) for piece in kept]
        if rest is not None:
            pieces.append(self.upper(rest, by))
        return _Sum(tuple(pieces), value.offset // by)

    def visit_FloorMod(self, node: FloorMod) -> _Sum:
        value, by = self.visit(node.a), self.divisor(node)
        kept, rest = self.split(value, by)
        small = [piece for piece in value.pieces if piece.scale % by and piece is not rest]
        if rest is not None:
            steps = by // rest.scale
            small.append(rest._replace(extent=steps))  # also where fewer values occur: padding
        return _Sum(tuple(small), value.offset % by)

    def upper(self, piece: _Piece, by: int) -> _Piece:
        steps = by // piece.scale
        extent = -(-piece.extent // steps)
        return piece._replace(lower=piece.lower * steps, extent=extent, scale=1)

    def split(self, value: _Sum, by: int) -> tuple[list[_Piece], _Piece | None]:
        """Return the pieces that are multiples of ``by``, and the piece that ``by`` cuts; the sum
        of the others is below ``by``.
        """
        kept = [piece for piece in value.pieces if piece.scale % by == 0]
        others = sorted([p for p in value.pieces if p.scale % by], key=lambda p: p.scale)
        others = [p for p in others if p.extent > 1] or others[-1:]
        if value.offset % by and others:
            raise NotPlainError
        if not others:
            return kept, None
        largest = others[-1]
        below = sum(piece.scale * (piece.extent - 1) for piece in others[:-1])
        if below >= largest.scale or by % largest.scale or any(p.scale < 0 for p in value.pieces):
            raise NotPlainError
        return kept, largest
