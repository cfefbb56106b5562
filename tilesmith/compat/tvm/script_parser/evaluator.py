"""Evaluates expressions of a script."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilesmith.script.parsing import Parser

__all__ = ["ExprEvaluator", "eval_assign", "eval_expr"]


class ExprEvaluator:
    """Evaluates expressions with additional variables."""

    def __init__(self, parser: Parser, value_table: Mapping[str, Any]) -> None:
        self.parser = parser
        self.value_table = dict(value_table)

    @staticmethod
    def eval(parser: Parser, value_table: Mapping[str, Any], node: ast.AST) -> Any:
        """Return the value of an expression."""
        expression = node.body if isinstance(node, ast.Expression) else node
        with parser.scope(dict(value_table)):
            return parser.evaluate(expression)  # type: ignore[arg-type]


def eval_expr(parser: Parser, node: ast.AST, dict_globals: Mapping[str, Any] | None = None) -> Any:
    """Return the value of an expression, with additional variables."""
    return ExprEvaluator.eval(parser, dict_globals or {}, node)


def eval_assign(parser: Parser, target: ast.expr, source: Any) -> dict[str, Any]:
    """Return the names that an assignment of a value to a target (names, tuples of them) binds."""
    with parser.scope():
        parser.bind_target(target, source)
        return dict(parser.scopes[-1])
