"""Compiles operations of two operands to closures: a rule for each class of node.

A rule gets the node and the closures of its operands, and nothing else of the program. The common
ones are written out, because that saves a call per evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

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
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Sub,
)  # fmt: skip
from tilesmith.ir.rules import NodeRules
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.interpreter.values import Environment, Evaluate, wrap_int

__all__ = ["BINARY_RULES", "BinaryRule"]

BinaryRule = Callable[[BinaryOp, Evaluate, Evaluate], Evaluate]
BINARY_RULES: NodeRules[BinaryRule] = NodeRules("values of binary operations")


def _divide_truncating(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _vector_truncating_quotient(a: Any, b: Any) -> Any:
    quotient = numpy.floor_divide(a, b)
    inexact = (numpy.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return (quotient + inexact).astype(a.dtype)


def _applied(function: Callable[[Any, Any], Any], a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda env: function(a(env), b(env))


def _wrapped(
    function: Callable[[Any, Any], Any], dtype: DataType, a: Evaluate, b: Evaluate
) -> Evaluate:
    """Return an operation whose results wrap around in the range of a scalar integer dtype."""
    if not dtype.is_integer or dtype.lanes > 1:
        return _applied(function, a, b)
    low, high = dtype.min_value, dtype.max_value

    def compute(env: Environment) -> int:
        value = function(a(env), b(env))
        return value if low <= value <= high else wrap_int(value, dtype)

    return compute


@BINARY_RULES.handles(Add)
def _add(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    dtype = node.dtype
    if not dtype.is_integer or dtype.lanes > 1:
        return lambda env: a(env) + b(env)
    low, high = dtype.min_value, dtype.max_value

    def compute(env: Environment) -> int:
        value = a(env) + b(env)
        return value if low <= value <= high else wrap_int(value, dtype)

    return compute


@BINARY_RULES.handles(Sub)
def _sub(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.dtype.is_bool:
        return _applied(lambda x, y: x ^ y, a, b)
    return _wrapped(lambda x, y: x - y, node.dtype, a, b)


@BINARY_RULES.handles(Mul)
def _mul(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    dtype = node.dtype
    if not dtype.is_integer or dtype.lanes > 1:
        return lambda env: a(env) * b(env)
    low, high = dtype.min_value, dtype.max_value

    def compute(env: Environment) -> int:
        value = a(env) * b(env)
        return value if low <= value <= high else wrap_int(value, dtype)

    return compute


@BINARY_RULES.handles(Div)
def _div(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.dtype.is_float:
        return _applied(lambda x, y: x / y, a, b)
    if node.dtype.lanes > 1:
        return _applied(_vector_truncating_quotient, a, b)
    return _wrapped(_divide_truncating, node.dtype, a, b)


@BINARY_RULES.handles(Mod)
def _mod(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.dtype.is_float or node.dtype.lanes > 1:
        return _applied(numpy.fmod, a, b)
    return _wrapped(lambda x, y: x - y * _divide_truncating(x, y), node.dtype, a, b)


@BINARY_RULES.handles(FloorDiv)
def _floordiv(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.dtype.is_float:
        return _applied(lambda x, y: numpy.floor(x / y), a, b)
    return _wrapped(lambda x, y: x // y, node.dtype, a, b)


@BINARY_RULES.handles(FloorMod)
def _floormod(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.dtype.is_float:
        return _applied(lambda x, y: x - numpy.floor(x / y) * y, a, b)
    return _applied(lambda x, y: x % y, a, b)


@BINARY_RULES.handles(Min)
def _min(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.dtype.lanes > 1:
        return _applied(lambda x, y: numpy.where(y < x, y, x), a, b)
    return _applied(lambda x, y: y if y < x else x, a, b)


@BINARY_RULES.handles(Max)
def _max(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.dtype.lanes > 1:
        return _applied(lambda x, y: numpy.where(y > x, y, x), a, b)
    return _applied(lambda x, y: y if y > x else x, a, b)


# Comparisons and logic.


@BINARY_RULES.handles(EQ)
def _eq(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.a.dtype.is_handle:
        return lambda env: a(env) is b(env)
    return lambda env: a(env) == b(env)


@BINARY_RULES.handles(NE)
def _ne(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.a.dtype.is_handle:
        return lambda env: a(env) is not b(env)
    return lambda env: a(env) != b(env)


@BINARY_RULES.handles(LT)
def _lt(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda env: a(env) < b(env)


@BINARY_RULES.handles(LE)
def _le(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda env: a(env) <= b(env)


@BINARY_RULES.handles(GT)
def _gt(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda env: a(env) > b(env)


@BINARY_RULES.handles(GE)
def _ge(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    return lambda env: a(env) >= b(env)


@BINARY_RULES.handles(And)
def _and(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.dtype.lanes > 1:
        return lambda env: a(env) & b(env)
    return lambda env: bool(a(env) and b(env))


@BINARY_RULES.handles(Or)
def _or(node: BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
    if node.dtype.lanes > 1:
        return lambda env: a(env) | b(env)
    return lambda env: bool(a(env) or b(env))
