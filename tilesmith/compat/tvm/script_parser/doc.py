"""Converts Python's syntax tree to a ``doc`` and back.

Both have the same classes (``doc_core``), so that a conversion changes only nodes of the classes
for which a program has registered a function::

    @doc.register_to_doc("Num")
    def convert(node): return doc.Constant(node.n, None)
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilesmith.compat.tvm.script_parser import doc_core
from tilesmith.compat.tvm.script_parser.doc_core import *  # noqa: F403
from tilesmith.support.errors import ConfigError

__all__ = [
    *doc_core.__all__,
    "Entry", "FnFromDoc", "FnToDoc", "NodeTransformer", "NodeVisitor", "Registry", "from_doc",
    "parse", "register_from_doc", "register_to_doc", "to_doc",
]  # fmt: skip

FnToDoc = Callable[[ast.AST], ast.AST]
FnFromDoc = Callable[[ast.AST], ast.AST]


class Entry:
    """The two conversions of one class of nodes; None: the node stays, its children are
    converted.
    """

    def __init__(self) -> None:
        self.to_doc: FnToDoc | None = None
        self.from_doc: FnFromDoc | None = None


class Registry:
    """The conversions that programs have registered, by the name of the class."""

    _inst: Registry | None = None

    def __init__(self) -> None:
        self.table: dict[str, Entry] = {}

    @classmethod
    def current(cls) -> Registry:
        """Return the registry in use."""
        if cls._inst is None:
            cls._inst = cls()
        return cls._inst

    def entry(self, name: str) -> Entry:
        """Return the entry of a class."""
        return self.table.setdefault(name, Entry())


def register_to_doc(name: str) -> Callable[[FnToDoc], FnToDoc]:
    """Decorate the function that converts nodes of a class to a ``doc``."""

    def register(function: FnToDoc) -> FnToDoc:
        entry = Registry.current().entry(name)
        if entry.to_doc is not None:
            raise ConfigError(f"'{name}' has a conversion to a doc already")
        entry.to_doc = function
        return function

    return register


def register_from_doc(name: str) -> Callable[[FnFromDoc], FnFromDoc]:
    """Decorate the function that converts nodes of a class from a ``doc``."""

    def register(function: FnFromDoc) -> FnFromDoc:
        entry = Registry.current().entry(name)
        if entry.from_doc is not None:
            raise ConfigError(f"'{name}' has a conversion from a doc already")
        entry.from_doc = function
        return function

    return register


def to_doc(node: Any) -> Any:
    """Return a node, or a list of them, as a ``doc``."""
    return _converted(node, {n: e.to_doc for n, e in Registry.current().table.items() if e.to_doc})


def from_doc(node: Any) -> Any:
    """Return a ``doc`` as Python's syntax tree."""
    table = Registry.current().table
    return _converted(node, {n: e.from_doc for n, e in table.items() if e.from_doc})


def _converted(node: Any, functions: dict[str, Callable[[ast.AST], ast.AST]]) -> Any:
    """Return a node with the functions applied, a copy only where one of them applies."""
    if isinstance(node, (list, tuple)):
        items = [_converted(item, functions) for item in node]
        same = all(new is old for new, old in zip(items, node))
        return node if same else type(node)(items)
    if not functions or not isinstance(node, ast.AST):
        return node
    function = functions.get(type(node).__name__)
    if function is not None:
        return function(node)
    fields = {name: _converted(value, functions) for name, value in ast.iter_fields(node)}
    if all(value is getattr(node, name) for name, value in fields.items()):
        return node
    return ast.copy_location(type(node)(**fields), node)


def parse(source: str, filename: str = "<unknown>", mode: str = "exec") -> Any:
    """Parse a text of Python to a ``doc``."""
    return to_doc(ast.parse(source, filename, mode))


class NodeVisitor(ast.NodeVisitor):
    """Visits nodes, and lists of them: ``visit_For`` for a ``For``, else ``generic_visit``."""

    def visit(self, node: Any) -> Any:
        """Visit a node, or each item of a list; other values need no visit."""
        if isinstance(node, (list, tuple)):
            for item in node:
                self.visit(item)
            return None
        return super().visit(node) if isinstance(node, ast.AST) else None


class NodeTransformer(ast.NodeTransformer):
    """Replaces nodes by what the visiting functions return."""

    def visit(self, node: Any) -> Any:
        """Return the replacement of a node, or of each item of a list."""
        if isinstance(node, (list, tuple)):
            return type(node)([self.visit(item) for item in node])
        return super().visit(node) if isinstance(node, ast.AST) else node
