"""Walks and rewrites nodes: dispatch by a table built per visitor class.

A method ``visit_Add`` serves class ``Add``; a method named after a base class (``visit_BinaryOp``)
serves all classes below it that have no method of their own. ``visit`` looks the class up in one
dictionary; the search through the base classes happens once per pair of classes.

Recursive walkers call methods directly and collect with list comprehensions: what goes through C
(``map``, generators, ``functools.cache``) would use up the C stack (see the style guide).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tilesmith.ir.node import AnyNode, Node
from tilesmith.support.recursion import deep_recursion

__all__ = ["Dispatcher", "Rewriter", "Visitor", "post_order_visit", "pre_order_visit"]

Result = TypeVar("Result")


class Dispatcher(Generic[Result]):
    """Calls the method that is named after a node's class. An unknown class is an error."""

    _table: dict[type, Callable[..., Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._table = {}

    def visit(self, node: Any) -> Result:
        """Dispatch on the class of ``node``."""
        method = self._table.get(node.__class__)
        if method is None:
            method = self._resolve(node.__class__)
        result: Result = method(self, node)
        return result

    __call__ = visit

    @classmethod
    def _resolve(cls, node_type: type) -> Callable[..., Any]:
        for ancestor in node_type.__mro__:
            method = getattr(cls, "visit_" + ancestor.__name__, None)
            if method is not None:
                break
        else:
            method = cls.visit_default
        cls._table[node_type] = method
        return method

    def visit_default(self, node: Any) -> Any:
        """Handle a class that has no method of its own."""
        raise TypeError(f"{type(self).__name__} has no rule for {type(node).__name__}")


class Visitor(Dispatcher[None]):
    """Walks a tree; a class without a method of its own has its children visited."""

    def visit_default(self, node: Any) -> None:
        """Visit the children."""
        node.for_each_child(self.visit)

    def visit_children(self, node: Node) -> None:
        """Visit the children; for use inside a method that does something before or after."""
        node.for_each_child(self.visit)

    def visit_Var(self, node: Any) -> None:
        """Do nothing: variables have no children that are visited."""

    def visit_Op(self, node: Any) -> None:
        """Do nothing: operators are leaves."""

    def visit_GlobalVar(self, node: Any) -> None:
        """Do nothing: names of functions are leaves."""

    def visit_Buffer(self, node: Any) -> None:
        """Do nothing: a use of a buffer is a leaf; its shape is not visited."""


class Rewriter(Dispatcher[Any]):
    """Rewrites a tree bottom-up; a class without a method of its own has its children rewritten.

    A node that does not change is returned as the same object. A use of a buffer is a leaf
    (``visit_Buffer``): override that one method to replace a buffer wherever it is used.
    """

    def visit_default(self, node: Any) -> Any:
        """Rewrite the children."""
        return node.map_children(self.visit)

    def children(self, node: AnyNode) -> AnyNode:
        """Return ``node`` with its children rewritten; for use inside a method of one class."""
        return node.map_children(self.visit)

    def visit_Var(self, node: Any) -> Any:
        """Return the variable; subclasses may replace it."""
        return node

    def visit_Op(self, node: Any) -> Any:
        """Return the operator unchanged."""
        return node

    def visit_GlobalVar(self, node: Any) -> Any:
        """Return the name of a function; subclasses may replace it."""
        return node

    def visit_Buffer(self, node: Any) -> Any:
        """Return the buffer; subclasses may replace it."""
        return node


class _PostOrder(Visitor):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.seen: set[int] = set()

    def visit(self, node: Any) -> None:
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        if not node.is_leaf:
            node.for_each_child(self.visit)
        self.function(node)


def post_order_visit(stmt: Node, fvisit: Callable[[Any], Any]) -> None:
    """Call ``fvisit`` on each node below ``stmt`` (any node) and on itself, children first, shared
    nodes once.
    """
    with deep_recursion():
        _PostOrder(fvisit).visit(stmt)


def pre_order_visit(stmt: Node, fvisit: Callable[[Any], Any]) -> None:
    """Call ``fvisit`` on ``stmt`` (any node) and each node below it, parents first; nodes below one
    for which it returns False are left out.
    """

    def walk(current: Any) -> None:
        if fvisit(current) is not False and not current.is_leaf:
            current.for_each_child(walk)

    with deep_recursion():
        walk(stmt)
