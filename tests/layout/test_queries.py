"""Walks that another room may need are in the query library, not in private visitors."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "tilesmith"
TREES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}

# Classes that collect what they find in `self.found`. The number may only fall: what lists nodes is
# a function of ir/queries.py or tir/queries.py. Lower it when a class goes.
FINDERS = 15


def names_by_getattr(tree: ast.AST) -> list[int]:
    """Lines of ``getattr(x, "name", "")``: asking an operator for its name without knowing that it
    is one."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and [one.value for one in node.args[1:] if isinstance(one, ast.Constant)] == ["name", ""]
    ]


def finders(tree: ast.AST) -> list[str]:
    """Classes that set ``self.found``."""
    return [
        cls.name
        for cls in ast.walk(tree)
        if isinstance(cls, ast.ClassDef)
        and any(
            isinstance(node, ast.Attribute)
            and node.attr == "found"
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
            for node in ast.walk(cls)
        )
    ]


def test_operators_are_told_by_identity():
    found = {path: lines for path, tree in TREES.items() if (lines := names_by_getattr(tree))}
    assert not found, f"use ir.queries.is_call or called_name: {found}"


def test_finders_only_become_fewer():
    found = [f"{path}: {name}" for path, tree in TREES.items() for name in finders(tree)]
    assert len(found) <= FINDERS, "\n".join(found)
