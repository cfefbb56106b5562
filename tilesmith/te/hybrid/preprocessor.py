"""Finds out how a hybrid script uses its variables, before it is parsed."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from tilesmith.te.hybrid import calls

__all__ = ["PyVariableUsage", "determine_variable_usage"]


class PyVariableUsage(ast.NodeVisitor):
    """Collects the variables that a script assigns: ``status[name]`` is the first assignment, the
    statement whose block it stands in, and the contexts in which the name is used: ``ast.Load``,
    ``ast.Store`` for the first assignment, ``ast.AugStore`` for each further one.
    """

    def __init__(
        self, args: Sequence[Any], symbols: Mapping[str, Any], closure_vars: Mapping[str, Any]
    ) -> None:
        self.args = list(args)
        self.symbols = symbols
        self.closure_vars = closure_vars
        self.status: dict[str, tuple[ast.AST, ast.AST, set[str]]] = {}
        self.scopes: list[ast.AST] = []
        self.parameters: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Go through the function; its parameters are no variables."""
        self.parameters = [one.arg for one in node.args.args]
        self.scopes.append(node)
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()

    def visit_For(self, node: ast.For) -> None:
        """Go through a loop; its variable is not assigned elsewhere."""
        self.visit(node.iter)
        self.scopes.append(node)
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()

    def visit_Call(self, node: ast.Call) -> None:
        """Go through the arguments: the name of a function is no variable."""
        if not isinstance(node.func, ast.Name) or not hasattr(calls, node.func.id):
            if isinstance(node.func, ast.Attribute):
                self.visit(node.func)
        for argument in node.args:
            self.visit(argument)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Note that a variable is assigned again."""
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self.note(node.target, "AugStore")
        else:
            self.visit(node.target)

    def visit_Name(self, node: ast.Name) -> None:
        """Note a use of a variable."""
        if isinstance(node.ctx, ast.Store):
            self.note(node, "AugStore" if node.id in self.status else "Store")
        elif node.id in self.status:
            self.note(node, "Load")

    def note(self, node: ast.Name, use: str) -> None:
        """Add a use of a name."""
        found = self.status.get(node.id)
        if found is None:
            found = self.status[node.id] = (node, self.scopes[-1] if self.scopes else node, set())
        found[2].add(use)


def determine_variable_usage(
    root: ast.AST, args: Sequence[Any], symbols: Mapping[str, Any], closure_vars: Mapping[str, Any]
) -> dict[str, tuple[ast.AST, ast.AST, set[str]]]:
    """Return how a script uses the variables that it assigns."""
    visitor = PyVariableUsage(args, symbols, closure_vars)
    visitor.visit(root)
    return visitor.status
