"""Finds assignments that a loop would have to carry into its next iteration, or out of itself.

A name in a script stands for a value that is made once. An assignment inside a loop or branch makes
another value, which ends with that loop or branch:

    s = T.float32(0)
    for i in range(16):
        s = s + A[i]        # each time 0 + A[i]
    B[0] = s                # 0
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["outlives_its_scope"]

_NESTED = (ast.For, ast.While, ast.If, ast.With)


def outlives_its_scope(body: list[ast.stmt], assignment: ast.stmt, name: str) -> bool:
    """Return whether a value assigned to ``name`` is expected outside of the loops and branches of
    ``body`` around the assignment: a loop reads the name before it assigns it, or a statement after
    the loop or branch reads it.
    """
    path = _path(body, assignment)
    if not path or any(_assigns(statement, name) for statement in path[-1][0][: path[-1][1]]):
        return False
    for depth in range(len(path) - 1, 0, -1):
        statements, position = path[depth - 1]
        around = statements[position]
        if isinstance(around, (ast.For, ast.While)) and _reads_first(around, path[depth:], name):
            return True
        if _reads_before_assigning(statements[position + 1 :], name):
            return True
        if any(_assigns(statement, name) for statement in statements[:position]):
            return False  # here lies the value that the assignment hides
    return False


def _path(body: list[ast.stmt], wanted: ast.stmt) -> list[tuple[list[ast.stmt], int]]:
    """Return the lists of statements around a statement, outermost first, and the places there."""
    for position, statement in enumerate(body):
        if statement is wanted:
            return [(body, position)]
        for inner in _bodies(statement):
            found = _path(inner, wanted)
            if found:
                return [(body, position), *found]
    return []


def _bodies(statement: ast.stmt) -> list[list[ast.stmt]]:
    if not isinstance(statement, _NESTED):
        return []
    return [statement.body, getattr(statement, "orelse", [])]


def _heads(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the parts of a statement that are evaluated before its body."""
    for field, value in ast.iter_fields(statement):
        if field not in ("body", "orelse", "target", "targets"):
            yield from [item for item in _listed(value) if isinstance(item, ast.AST)]
    for target in _listed(getattr(statement, "targets", getattr(statement, "target", None))):
        if not isinstance(target, ast.Name):
            yield target
        elif isinstance(statement, ast.AugAssign):
            yield ast.Name(target.id, ast.Load())


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _reads(parts: Iterable[ast.AST], name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        for part in parts
        for node in ast.walk(part)
    )


def _assigns(statement: ast.stmt, name: str) -> bool:
    """Return whether a statement binds a name in its own list of statements."""
    targets = _listed(getattr(statement, "targets", getattr(statement, "target", None)))
    if isinstance(statement, (ast.For, ast.With)):
        return False
    return any(
        isinstance(node, ast.Name) and node.id == name
        for target in targets
        if isinstance(target, (ast.Name, ast.Tuple, ast.List))
        for node in ast.walk(target)
    )


def _reads_before_assigning(statements: list[ast.stmt], name: str) -> bool:
    """Return whether statements read a name before they bind it."""
    for statement in statements:
        if _reads(_heads(statement), name):
            return True
        if isinstance(statement, ast.For) and _binds_target(statement, name):
            continue
        if any(_reads_before_assigning(inner, name) for inner in _bodies(statement)):
            return True
        if _assigns(statement, name):
            return False
    return False


def _binds_target(loop: ast.For, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(loop.target))


def _reads_first(
    loop: ast.For | ast.While, inside: list[tuple[list[ast.stmt], int]], name: str
) -> bool:
    """Return whether an iteration reads a name before or as it reaches the assignment inside."""
    if isinstance(loop, ast.While) and _reads([loop.test], name):
        return True
    for statements, position in inside:
        if _reads_before_assigning(statements[:position], name):
            return True
        if any(_assigns(statement, name) for statement in statements[:position]):
            return False
        if _reads(_heads(statements[position]), name):
            return True
    return False
