"""Says what a part of the engine asks of parts that are built after it.

Expressions contain expressions of any kind, so that the parts call each other in circles: a bound
of ``select(c, x, y)`` needs the normal forms of ``x`` and ``y``, a normal form needs bounds. Each
such call upwards goes through one of these interfaces; the engine says who answers.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from tilesmith.arith.forms import Sum
from tilesmith.ir import Call, PrimExpr

Expr = TypeVar("Expr", bound=PrimExpr)

__all__ = ["Digits", "Expr", "ExpressionRewriter", "Minima", "NormalForms"]


class NormalForms(Protocol):
    """Brings integer expressions into normal form."""

    def normal(self, expr: PrimExpr) -> Sum:
        """Gives the normal form of a scalar integer expression."""


class Digits(Protocol):
    """Takes digits of sums."""

    def digit(self, index: Sum, lower: int, upper: int) -> Sum:
        """Gives ``index // lower % (upper // lower)``."""


class Minima(Protocol):
    """Makes minima and maxima of sums."""

    def extreme(self, kind: type, args: list[Sum]) -> Sum:
        """Gives the minimum or maximum of sums."""

    def extreme_of_two(self, kind: type, a: Sum, b: Sum) -> Sum:
        """Gives the minimum or maximum of two sums, written near to how the user wrote it."""


class ExpressionRewriter(Protocol):
    """Simplifies expressions of any kind."""

    def rewrite(self, expr: PrimExpr) -> PrimExpr:
        """Gives the simplified expression."""

    def rewrite_children(self, expr: Expr) -> Expr:
        """Gives the same node over simplified children."""

    def rewrite_leaf(self, expr: PrimExpr) -> PrimExpr:
        """Gives an expression that is opaque to integer arithmetic, simplified inside."""

    def rewrite_under(self, condition: PrimExpr, expr: PrimExpr) -> PrimExpr:
        """Gives ``expr`` simplified where ``condition`` holds."""

    def fold(self, expr: Any) -> PrimExpr:
        """Gives an operation with constants folded."""

    def if_then_else(self, call: Call) -> PrimExpr:
        """Gives a choice of which one side is evaluated, simplified."""
