"""Defines arithmetic functions on anything that converts to a scalar expression."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr, operators

__all__ = ["add", "cast", "divide", "floordiv", "multiply", "subtract"]


def add(lhs: Any, rhs: Any, span: Any = None) -> PrimExpr:
    """Return ``lhs + rhs``."""
    return operators.add(lhs, rhs, span)


def subtract(lhs: Any, rhs: Any, span: Any = None) -> PrimExpr:
    """Return ``lhs - rhs``."""
    return operators.subtract(lhs, rhs, span)


def multiply(lhs: Any, rhs: Any, span: Any = None) -> PrimExpr:
    """Return ``lhs * rhs``."""
    return operators.multiply(lhs, rhs, span)


def divide(lhs: Any, rhs: Any, span: Any = None) -> PrimExpr:
    """Return ``lhs / rhs``: for integers rounded towards zero."""
    return operators.divide(lhs, rhs, span)


def floordiv(lhs: Any, rhs: Any, span: Any = None) -> PrimExpr:
    """Return ``lhs // rhs``, rounded down."""
    return operators.floordiv(lhs, rhs, span)


def cast(src: Any, dtype: str, span: Any = None) -> PrimExpr:
    """Convert ``src`` to ``dtype``."""
    return operators.cast(dtype, src)
