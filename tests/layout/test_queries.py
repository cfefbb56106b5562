"""Walks that another room may need are in the query library, not in private visitors."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "tilesmith"

# Classes that collect what they find in `self.found`. The number may only fall: what lists nodes is
# a function of ir/queries.py or tir/queries.py. Lower it when a class goes.
FINDERS = 15


def trees() -> Iterator[tuple[str, ast.AST]]:
    """Parse the package, file by file; to keep all of it would take every worker 10 s and 400 MB
    at collection."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


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


def test_walks_are_in_the_library():
    """Operators are told by identity, and classes that only find become fewer."""
    by_name: dict[str, list[int]] = {}
    classes: list[str] = []
    for path, tree in trees():
        if lines := names_by_getattr(tree):
            by_name[path] = lines
        classes += [f"{path}: {name}" for name in finders(tree)]
    assert not by_name, f"use ir.queries.is_call or called_name: {by_name}"
    assert len(classes) <= FINDERS, "\n".join(classes)
