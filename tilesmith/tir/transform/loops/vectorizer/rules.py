"""The tables of rules: how each kind of expression and statement becomes vector code.

    @EXPRESSION_RULES.handles_node(Not)
    def _not(values: Values, expr: Not) -> PrimExpr: ...

    @STATEMENT_RULES.handles_node(While)
    def _while(vectorizer: Vectorizer, loop: While) -> Stmt: ...

A new kind of node is one function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import Node

__all__ = ["EXPRESSION_RULES", "STATEMENT_RULES", "Rule", "Rules"]

Rule = Callable[[Any, Any], Any]


class Rules(dict[type, Rule]):
    """Rules by the class of a node; a class without a rule has that of its nearest base class."""

    def __missing__(self, node_type: type) -> Rule:
        for ancestor in node_type.__mro__:
            if ancestor in self:
                rule = self[node_type] = self[ancestor]
                return rule
        raise KeyError(node_type)

    def handles_node(self, *node_types: type[Node]) -> Callable[[Rule], Rule]:
        """Enter the rule of classes of nodes."""

        def enter(rule: Rule) -> Rule:
            for node_type in node_types:
                self[node_type] = rule
            return rule

        return enter


EXPRESSION_RULES = Rules()
"""What ``Values`` calls; an expression that no lane changes is returned as the same object."""

STATEMENT_RULES = Rules()
"""What ``Vectorizer`` calls."""
