"""What operators of nn take, as expressions of the graph IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.ir import PrimExpr
from tilesmith.relax.expr import const
from tilesmith.relax.frontend.nn.core import Tensor, as_expression
from tilesmith.support.errors import TypeMismatchError

__all__ = ["IntExpr", "OutType", "expression", "expressions", "pair"]

IntExpr = int | PrimExpr
OutType = Tensor | Sequence[Tensor]


def expression(value: Any, operator: str, what: str = "x") -> Any:
    """Return the expression of a tensor. Raises TypeMismatchError for anything else."""
    if isinstance(value, Tensor):
        return as_expression(value)
    raise TypeMismatchError(
        f"nn.op.{operator}: '{what}' is {type(value).__name__}, a tensor of nn is needed",
        notes=("Tensor.from_const(array) makes one of an array",),
    )


def expressions(values: Any, operator: str, what: str = "x") -> list[Any]:
    """Return the expressions of several tensors."""
    if not isinstance(values, (list, tuple)):
        raise TypeMismatchError(f"nn.op.{operator}: '{what}' is a list of tensors, got {values!r}")
    return [expression(value, operator, f"{what}[{i}]") for i, value in enumerate(values)]


def pair(a: Any, b: Any, operator: str) -> tuple[Any, Any]:
    """Return the expressions of two operands, one of which may be a number; it gets the data type
    of the other.
    """
    known = a if isinstance(a, Tensor) else b
    expression(known, operator, "b" if known is b else "a")  # one of them is a tensor
    return _operand(a, known, operator, "a"), _operand(b, known, operator, "b")


def _operand(value: Any, known: Tensor, operator: str, what: str) -> Any:
    if isinstance(value, (bool, int, float)):
        return const(value, known.dtype)
    return expression(value, operator, what)
