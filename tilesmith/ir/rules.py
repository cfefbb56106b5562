"""Holds rules in tables: functions (or other values) by class of node, or by name of operator.

    EXPRESSIONS: NodeRules[Callable[[Any, Any], str]] = NodeRules("C code of expressions")

    @EXPRESSIONS.handles(Cast)
    def _cast(emit: Values, expr: Cast) -> str: ...

    text = EXPRESSIONS[expr.__class__](emit, expr)

Whoever adds a kind of node or an operator writes one function. A rule for the common base class
says what becomes of classes that have no other one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

__all__ = ["NodeRules", "OperatorRules"]

Rule = TypeVar("Rule")


class NodeRules(dict[type, Rule]):
    """Rules by class; a class without one has that of its nearest base class.

    ``purpose`` names the table in the error for a class without any rule. What a look-up through
    the base classes finds is kept, so that each class is searched once.
    """

    def __init__(self, purpose: str, rules: Mapping[type, Rule] | None = None) -> None:
        super().__init__(rules or {})
        self.purpose = purpose
        self._entered = dict(self)

    def handles(self, *classes: type) -> Callable[[Rule], Rule]:
        """Enter the decorated rule for classes."""

        def enter(rule: Rule) -> Rule:
            self._entered.update(dict.fromkeys(classes, rule))
            self.clear()  # what subclasses inherited may have changed
            self.update(self._entered)
            return rule

        return enter

    def extended(self, purpose: str) -> NodeRules[Rule]:
        """Return a table that begins with these rules."""
        return NodeRules(purpose, self._entered)

    def __missing__(self, node_type: type) -> Rule:
        for ancestor in node_type.__mro__:
            if ancestor in self._entered:
                rule = self[node_type] = self._entered[ancestor]
                return rule
        raise TypeError(f"{self.purpose}: no rule for {node_type.__name__}")


class OperatorRules(dict[str, Rule]):
    """Rules of calls by the operator's full name."""

    def handles(self, *names: str) -> Callable[[Rule], Rule]:
        """Enter the decorated rule for operators, whose names are given without ``tir.``."""

        def enter(rule: Rule) -> Rule:
            self.update({"tir." + name: rule for name in names})
            return rule

        return enter
