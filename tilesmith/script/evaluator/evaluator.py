"""The evaluator of expressions, and the table of rules: how each kind of syntax is evaluated.

    @handles_node(ast.Slice)
    def _slice(evaluator: Evaluator, node: ast.Slice) -> slice: ...

A new kind of syntax is one function.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilesmith.ir.rules import NodeRules
from tilesmith.script.evaluator.explanations import explain
from tilesmith.script.evaluator.host import Host
from tilesmith.support.errors import ScriptError

__all__ = ["Evaluator", "handles_node"]

Rule = Callable[[Any, Any], Any]

_RULES: NodeRules[Rule] = NodeRules("expressions of scripts")
handles_node = _RULES.handles


class Evaluator:
    """Evaluates expressions in the scopes of a parser.

    A dialect adapts it by class of value: ``operands`` converts the operands of operators,
    ``subscripts`` takes over ``value[index]``, ``calls`` takes over ``value(arguments)``; each maps
    a class to a function.
    """

    def __init__(self, parser: Host) -> None:
        self.parser = parser
        self.operands: dict[type, Callable[[Any], Any]] = {}
        self.subscripts: dict[type, Callable[[Any, Any], Any]] = {}
        self.calls: dict[type, Callable[[Any, list[Any], dict[str, Any]], Any]] = {}
        self.builtins: dict[str, Any] = {}  # replacements of Python functions
        self.literal: Callable[[Any], Any] | None = None  # converts literals, if not None

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression; every failure becomes an error at the innermost
        position.
        """
        try:
            return _RULES[node.__class__](self, node)
        except ScriptError as error:
            if error.span is None:
                raise self.parser.error(node, error) from None
            raise
        except RecursionError:
            raise
        except Exception as error:
            raise explain(self.parser, node, error) from error

    def operand(self, node: ast.expr) -> Any:
        """Return the value of an operand of an operator."""
        value = self.evaluate(node)
        convert = self.operands.get(value.__class__)
        return value if convert is None else convert(value)

    def items(self, nodes: list[ast.expr]) -> list[Any]:
        """Return the values of several expressions, those with a star unpacked."""
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self.evaluate(node.value))
            else:
                values.append(self.evaluate(node))
        return values


@handles_node(ast.expr)
def _unsupported(evaluator: Evaluator, node: ast.expr) -> Any:
    raise evaluator.parser.error(
        node, f"`{type(node).__name__}` is not supported in an expression of a script"
    )
