"""Gives dtypes to numbers that a script writes next to values of narrow dtypes.

A bare ``1`` is an int32 and a bare ``0.5`` a float32, whatever the other operand is: a script with
a float16 ``A`` computes ``A[i] * 0.5`` in float32, and with an int8 one ``A[i] + 1`` in int32, as
users know it. (Python programs that build expressions, like ``te.compute``, keep the dtype of the
expression.)
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from tilesmith.ir import PrimExpr, const, operators
from tilesmith.tir import op

__all__ = ["matching", "with_literals"]

_INT32 = range(-(2**31), 2**31)


def matching(left: Any, right: Any) -> tuple[Any, Any]:
    """Return two operands, with a bare number turned into a constant of its own dtype where that
    matters.
    """
    if isinstance(left, PrimExpr):
        return left, _literal(right, left)
    if isinstance(right, PrimExpr):
        return _literal(left, right), right
    return left, right


def _literal(value: Any, beside: PrimExpr) -> Any:
    """Return ``value`` as a constant, where the dtype of the other operand would be narrower."""
    kind = value.__class__
    if kind is not int and kind is not float:
        return value
    dtype = getattr(beside, "dtype", None)
    if dtype is None or dtype.bits >= 32 or dtype.is_bool:
        return value
    if kind is float and dtype.is_float:
        return const(value, "float32")
    if kind is int and dtype.is_integer and value in _INT32:
        return const(value, "int32")
    return value


# Functions of two values of one dtype → how many arguments stand before these.
_OF_ONE_DTYPE: dict[Callable, int] = {
    **dict.fromkeys(
        (op.floordiv, op.floormod, op.truncdiv, op.truncmod, op.div, op.indexdiv,
         op.indexmod, op.ceildiv, op.power, op.pow, op.bitwise_and, op.bitwise_or, op.bitwise_xor,
         op.shift_left, op.shift_right, operators.add, operators.subtract, operators.multiply),
        0,
    ),
    op.if_then_else: 1,
}  # fmt: skip


def with_literals(function: Any, arguments: list[Any]) -> list[Any]:
    """Return the arguments of a call, converted as ``matching`` does."""
    before = _OF_ONE_DTYPE.get(function) if function.__class__ is FunctionType else None
    if before is None or len(arguments) != before + 2:
        return arguments
    return [*arguments[:before], *matching(*arguments[before:])]
