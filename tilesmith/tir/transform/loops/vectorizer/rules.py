"""Holds the tables of rules: how each kind of expression and statement becomes vector code.

    @EXPRESSION_RULES.handles(Not)
    def _not(values: Values, expr: Not) -> PrimExpr: ...

    @STATEMENT_RULES.handles(While)
    def _while(vectorizer: Vectorizer, loop: While) -> Stmt: ...

A new kind of node is one function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir.rules import NodeRules

__all__ = ["EXPRESSION_RULES", "STATEMENT_RULES"]

Rule = Callable[[Any, Any], Any]

EXPRESSION_RULES: NodeRules[Rule] = NodeRules("vector code of expressions")
"""What ``Values`` calls; an expression that no lane changes is returned as the same object."""

STATEMENT_RULES: NodeRules[Rule] = NodeRules("vector code of statements")
"""What ``Vectorizer`` calls."""
