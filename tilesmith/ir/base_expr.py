"""Defines the bases of all expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilesmith.ir.node import Node
from tilesmith.support.errors import UnknownMemberError

__all__ = ["BaseExpr", "RelaxExpr", "is_relax_expr"]


class BaseExpr(Node, key="ir.BaseExpr"):
    """Base of scalar expressions and of graph expressions."""


class RelaxExpr(BaseExpr, key="ir.RelaxExpr"):
    """Base of graph expressions."""

    if not TYPE_CHECKING:  # a checker takes what each class declares itself

        @property
        def struct_info(self) -> Any:
            """What is statically known about the value. Raises UnknownMemberError where a class
            says nothing.
            """
            raise UnknownMemberError(f"nothing is known about a {type(self).__name__}")

    @property
    def checked_type(self) -> Any:
        """The struct info, under its relay name."""
        return self.struct_info  # type: ignore[attr-defined]


def is_relax_expr(expr: Any) -> bool:
    """True for the expressions and functions of relax; not for kernels and names of functions."""
    return isinstance(expr, RelaxExpr) and expr.node_key.startswith("relax.")
