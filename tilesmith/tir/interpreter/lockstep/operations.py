"""Counts the arithmetic of expressions: operations on floats, a multiply-add being two."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import Add, BinaryOp, Call, Div, Max, Min, Mul, Sub
from tilesmith.tir.expr import BufferLoad

__all__ = ["operations_of"]

_ARITHMETIC = (Add, Sub, Mul, Div, Max, Min)


def operations_of(expr: Any) -> int:
    """Return how many operations on floats the evaluation of an expression takes; indices do not
    count. Of a choice between two values both count: a warp computes both sides.
    """
    total, stack = 0, [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, BufferLoad):
            continue
        dtype = getattr(node, "dtype", None)
        if dtype is not None and dtype.is_float:
            if isinstance(node, BinaryOp) and isinstance(node, _ARITHMETIC):
                total += dtype.lanes
            elif isinstance(node, Call) and node.op.name not in ("tir.if_then_else", "tir.likely"):
                total += dtype.lanes * (2 if node.op.name == "tir.fma" else 1)
        node.for_each_child(stack.append)
    return total
