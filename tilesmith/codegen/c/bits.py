"""Writes operators on bits, as C and its dialects for GPUs do."""

from __future__ import annotations

from typing import Protocol

from tilesmith.codegen.c.rules import BIT_AND, BIT_OR, BIT_XOR, SHIFT, UNARY, Piece
from tilesmith.ir import Call, PrimExpr
from tilesmith.runtime.dtype import DataType

__all__ = ["BitWriter", "bitwise", "bitwise_not", "shift"]

_OPERATORS = {"and": ("&", BIT_AND), "or": ("|", BIT_OR), "xor": ("^", BIT_XOR)}


class BitWriter(Protocol):
    """What writes the operands, and converts results to their own small types."""

    def text(self, expr: PrimExpr, least: int = 0) -> str:
        """Return an expression as text, in parentheses if it binds weaker than `least`."""

    def narrowed(self, written: Piece, dtype: DataType) -> Piece:
        """Convert the result of integer arithmetic to its own type."""


def bitwise(emit: BitWriter, call: Call) -> Piece:
    """Return `a & b`, `a | b` or `a ^ b`."""
    operator, precedence = _OPERATORS[call.op.name.rpartition("_")[2]]
    a, b = emit.text(call.args[0], UNARY), emit.text(call.args[1], UNARY)
    return emit.narrowed((f"{a} {operator} {b}", precedence), call.dtype)


def bitwise_not(emit: BitWriter, call: Call) -> Piece:
    """Return `~a`; `!a` of a bool."""
    operator = "!" if call.dtype.is_bool else "~"
    return emit.narrowed((f"{operator}{emit.text(call.args[0], UNARY)}", UNARY), call.dtype)


def shift(emit: BitWriter, call: Call) -> Piece:
    """Return `a << b` or `a >> b`."""
    operator = "<<" if call.op.name == "tir.shift_left" else ">>"
    a, b = emit.text(call.args[0], UNARY), emit.text(call.args[1], UNARY)
    return emit.narrowed((f"{a} {operator} {b}", SHIFT), call.dtype)
