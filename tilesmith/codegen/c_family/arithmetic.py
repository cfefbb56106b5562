"""Defines rules of arithmetic, comparisons and logic."""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.c_family.dialect import FLOAT32, is_narrow, short
from tilesmith.codegen.c_family.operators import call_math
from tilesmith.codegen.c_family.pieces import (
    AND,
    ATOM,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    COMPARE,
    EQUAL,
    OR,
    PRODUCT,
    SHIFT,
    SUM,
    UNARY,
    Piece,
)  # fmt: skip
from tilesmith.codegen.c_family.rules import handles_node
from tilesmith.codegen.c_family.values import CommonValues
from tilesmith.codegen.facts import constant_value
from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    CompareOp,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)  # fmt: skip
from tilesmith.runtime.dtype import DataType

_OPERATORS = {"Add": ("+", SUM), "Sub": ("-", SUM), "Mul": ("*", PRODUCT)}
_OF_BOOL = {"Add": ("|", BIT_OR), "Sub": ("^", BIT_XOR), "Mul": ("&", BIT_AND)}
_COMPARE = {
    "EQ": ("==", EQUAL), "NE": ("!=", EQUAL), "LT": ("<", COMPARE), "LE": ("<=", COMPARE),
    "GT": (">", COMPARE), "GE": (">=", COMPARE),
}  # fmt: skip


def binary(emit: CommonValues[Any], expr: BinaryOp, operator: str, precedence: int) -> Piece:
    """Write `a operator b`; the right operand is bracketed where it binds as weakly."""
    dtype = expr.a.dtype
    if short(dtype) in emit.dialect.native and operator in "+-*":
        emit.file.use(dtype)
        a, b = emit.text(expr.a, precedence), emit.text(expr.b, precedence + 1)
        return f"{a} {operator} {b}", precedence
    a, b = emit.widened(expr.a, precedence), emit.widened(expr.b, precedence + 1)
    if is_narrow(dtype) and is_narrow(expr.dtype):
        return emit.shortened(f"{a} {operator} {b}", expr.dtype)
    return emit.narrowed((f"{a} {operator} {b}", precedence), expr.dtype)


@handles_node(Add, Sub, Mul)
def _arithmetic(emit: CommonValues[Any], expr: BinaryOp) -> Piece:
    table = _OF_BOOL if expr.dtype.is_bool else _OPERATORS
    return binary(emit, expr, *table[type(expr).__name__])


@handles_node(Div)
def _div(emit: CommonValues[Any], expr: Div) -> Piece:
    return binary(emit, expr, "/", PRODUCT) if expr.dtype.is_float else _truncated(emit, expr)


@handles_node(Mod)
def _mod(emit: CommonValues[Any], expr: Mod) -> Piece:
    if expr.dtype.is_float:
        return call_math(emit, "fmod", [expr.a, expr.b], expr.dtype)
    return _truncated(emit, expr)


def _truncated(emit: CommonValues[Any], expr: Div | Mod) -> Piece:
    """Write a division of integers that rounds toward zero."""
    name, operator = ("truncdiv", "/") if isinstance(expr, Div) else ("truncmod", "%")
    divisor = constant_value(expr.b)
    is_known = expr.dtype.is_uint or divisor is not None and divisor != -1
    if is_known or emit.facts.is_non_negative(expr.b):
        return binary(emit, expr, operator, PRODUCT)
    return _by_helper(emit, expr, name)


def _by_helper(emit: CommonValues[Any], expr: BinaryOp, name: str) -> Piece:
    helper = emit.file.helper(name, expr.dtype.element)
    return f"{helper}({emit.text(expr.a)}, {emit.text(expr.b)})", ATOM


@handles_node(FloorDiv)
def _floordiv(emit: CommonValues[Any], expr: FloorDiv) -> Piece:
    if expr.dtype.is_float:
        return emit.shortened(_floored_quotient(emit, expr), expr.dtype)
    return _floor(emit, expr, "floordiv", "/")


@handles_node(FloorMod)
def _floormod(emit: CommonValues[Any], expr: FloorMod) -> Piece:
    if not expr.dtype.is_float:
        return _floor(emit, expr, "floormod", "%")
    dtype = expr.dtype.element
    a, b = emit.widened(expr.a, SUM), emit.widened(expr.b, UNARY)
    quotient = _rounded(emit, _floored_quotient(emit, expr), dtype)
    whole = _rounded(emit, emit.product_alone(quotient, b, dtype), dtype)
    written, _ = emit.shortened(f"{a} - {whole}", dtype)
    return written, ATOM if is_narrow(dtype) else SUM


def _rounded(emit: CommonValues[Any], written: str, dtype: DataType) -> str:
    """Round an intermediate result in float to a narrow dtype, as each operation is."""
    if not is_narrow(dtype):
        return written
    return emit.to_float(emit.shortened(written, dtype)[0], dtype)


def _floored_quotient(emit: CommonValues[Any], expr: BinaryOp) -> str:
    dtype = expr.dtype.element
    quotient = f"{emit.widened(expr.a, PRODUCT)} / {emit.widened(expr.b, UNARY)}"
    return f"{emit.math_name('floor', dtype)}({_rounded(emit, quotient, dtype)})"


def _floor(emit: CommonValues[Any], expr: BinaryOp, name: str, operator: str) -> Piece:
    simple = emit.facts.is_non_negative(expr.a) and emit.facts.is_non_negative(expr.b)
    if expr.dtype.is_uint or simple:
        return binary(emit, expr, operator, PRODUCT)
    divisor = constant_value(expr.b) if emit.dialect.shifts_round_down else None
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        if name == "floordiv":
            amount = divisor.bit_length() - 1
            return emit.narrowed((f"{emit.text(expr.a, UNARY)} >> {amount}", SHIFT), expr.dtype)
        return emit.narrowed((f"{emit.text(expr.a, UNARY)} & {divisor - 1}", BIT_AND), expr.dtype)
    return _by_helper(emit, expr, name)


@handles_node(Min)
def _min(emit: CommonValues[Any], expr: Min) -> Piece:
    return _extreme(emit, expr, "min")


@handles_node(Max)
def _max(emit: CommonValues[Any], expr: Max) -> Piece:
    return _extreme(emit, expr, "max")


def _extreme(emit: CommonValues[Any], expr: BinaryOp, name: str) -> Piece:
    dtype = FLOAT32 if is_narrow(expr.dtype) else expr.dtype.element
    if short(dtype) in emit.dialect.extremes:
        return f"{name}({emit.text(expr.a)}, {emit.text(expr.b)})", ATOM
    helper = emit.file.helper(name, dtype)
    return emit.shortened(f"{helper}({emit.widened(expr.a)}, {emit.widened(expr.b)})", expr.dtype)


@handles_node(EQ, NE, LT, LE, GT, GE)
def _compareop(emit: CommonValues[Any], expr: CompareOp) -> Piece:
    operator, precedence = _COMPARE[type(expr).__name__]
    a = emit.widened(expr.a, precedence + 1)
    return f"{a} {operator} {emit.widened(expr.b, precedence + 1)}", precedence


@handles_node(And, Or)
def _both_or_either(emit: CommonValues[Any], expr: And | Or) -> Piece:
    # brackets around && inside ||: compilers and readers like them
    operator, precedence, least = ("&&", AND, AND) if isinstance(expr, And) else ("||", OR, EQUAL)
    left = emit.text(expr.a, least)
    emit.guarded += 1  # the right side may not be reached
    written = f"{left} {operator} {emit.text(expr.b, least)}"
    emit.guarded -= 1
    return written, precedence


@handles_node(Not)
def _not(emit: CommonValues[Any], expr: Not) -> Piece:
    return f"!{emit.text(expr.a, UNARY)}", UNARY


@handles_node(Select)
def _select(emit: CommonValues[Any], expr: Select) -> Piece:
    return emit.choice(expr.condition, expr.true_value, expr.false_value)
