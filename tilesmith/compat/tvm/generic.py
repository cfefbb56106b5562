"""Defines arithmetic functions on anything that converts to a scalar expression."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import PrimExpr, operators
from tilesmith.ir.operators import add, divide, floordiv, multiply, subtract

__all__ = ["add", "cast", "divide", "floordiv", "multiply", "subtract"]


def cast(src: Any, dtype: str, span: Any = None) -> PrimExpr:
    """Convert ``src`` to ``dtype``."""
    return operators.cast(dtype, src)
