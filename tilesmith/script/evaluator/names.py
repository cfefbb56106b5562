"""Evaluates constants, names and attributes."""

from __future__ import annotations

import ast
import builtins
from types import ModuleType
from typing import Any

from tilesmith.script.diagnostics import nearest
from tilesmith.script.evaluator.evaluator import Evaluator, handles_node
from tilesmith.script.evaluator.explanations import instead_of

_MISSING: Any = object()


@handles_node(ast.Constant)
def _constant(evaluator: Evaluator, node: ast.Constant) -> Any:
    return node.value if evaluator.literal is None else evaluator.literal(node.value)


@handles_node(ast.Name)
def _name(evaluator: Evaluator, node: ast.Name) -> Any:
    found = evaluator.parser.lookup(node.id, _MISSING)
    if found is not _MISSING:
        return found
    value = evaluator.builtins.get(node.id) or getattr(builtins, node.id, _MISSING)
    if value is _MISSING:
        raise evaluator.parser.error(
            node, f"undefined variable '{node.id}'", instead_of(evaluator.parser, node.id)
        )
    return value


@handles_node(ast.Attribute)
def _attribute(evaluator: Evaluator, node: ast.Attribute) -> Any:
    value = evaluator.evaluate(node.value)
    try:
        return getattr(value, node.attr)
    except AttributeError:
        written = ast.unparse(node.value)
        # The marker goes under the name that is missing.
        place = ast.copy_location(ast.Name(node.attr), node)
        place.lineno, place.col_offset = (
            node.end_lineno or node.lineno,
            (node.end_col_offset or 0) - len(node.attr),
        )
        kind = "word" if isinstance(value, ModuleType) else "attribute"
        known = dir(value)
        raise evaluator.parser.error(
            place, f"'{written}' has no {kind} '{node.attr}'", nearest(node.attr, known)
        ) from None
