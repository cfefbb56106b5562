"""Declares the interfaces through which a part of the engine calls parts that are built after it.

Expressions contain expressions of any kind, so that the parts call each other in circles: a bound
of ``select(c, x, y)`` needs the normal forms of ``x`` and ``y``, a normal form needs bounds. Each
such call upwards goes through one of these interfaces; the engine says who answers.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from tilesmith.arith.forms import Sum
from tilesmith.ir import Call, Node, PrimExpr

Expr = TypeVar("Expr", bound=Node)

__all__ = ["Digits", "Expr", "ExpressionRewriter", "Minima", "NormalForms"]


class NormalForms(Protocol):
    """Converts integer expressions to normal form."""

    def normal(self, expr: PrimExpr) -> Sum:
        """Returns the normal form of a scalar integer expression."""


class Digits(Protocol):
    """Extracts digits of sums."""

    def digit(self, index: Sum, lower: int, upper: int) -> Sum:
        """Returns ``index // lower % (upper // lower)``."""

    def divide(self, form: Sum, divisor: int) -> tuple[Sum, Sum]:
        """Returns the quotient and the remainder by a positive constant."""


class Minima(Protocol):
    """Builds minima and maxima of sums."""

    def extreme(self, kind: type, args: list[Sum]) -> Sum:
        """Returns the minimum or maximum of sums."""

    def extreme_of_two(self, kind: type, a: Sum, b: Sum) -> Sum:
        """Returns the minimum or maximum of two sums, written as similar to the user's text as
        possible.
        """


class ExpressionRewriter(Protocol):
    """Simplifies expressions of any kind."""

    def rewrite(self, expr: PrimExpr) -> PrimExpr:
        """Returns the simplified expression."""

    def rewrite_children(self, expr: Expr) -> Expr:
        """Returns the same node with simplified children."""

    def rewrite_leaf(self, expr: PrimExpr) -> PrimExpr:
        """Returns an expression that is opaque to integer arithmetic, simplified inside."""

    def rewrite_under(self, condition: PrimExpr, expr: PrimExpr) -> PrimExpr:
        """Returns ``expr`` simplified under the assumption that ``condition`` holds."""

    def fold(self, expr: Any) -> PrimExpr:
        """Returns an operation with constants folded."""

    def if_then_else(self, call: Call) -> PrimExpr:
        """Returns a simplified ``if_then_else``, of which only one side is evaluated."""
