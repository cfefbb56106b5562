"""Types of the expressions of an importer, each inferred once, parts first."""

from __future__ import annotations

from typing import Any

from tilesmith.relax.base import GraphExpr
from tilesmith.relax.struct_info import known_struct_info
from tilesmith.relay.walks import post_order

__all__ = ["KnownTypes"]


class KnownTypes:
    """Infers the types of expressions that grow, so that nobody asks for the type of the end of a
    deep model from its beginning on (which would be as deep a recursion).
    """

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}

    def add(self, expr: Any) -> None:
        """Infer the type of an expression and of what is new below it."""
        for node in post_order(expr, lambda one: id(one) not in self._known):
            if id(node) not in self._known:
                self._known[id(node)] = node  # kept, so that no other node gets its id
                if isinstance(node, GraphExpr):
                    known_struct_info(node)
