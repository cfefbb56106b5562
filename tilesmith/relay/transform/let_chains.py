"""Sequences of lets, and the scopes inside of what they bind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tilesmith.relay.adt import Clause, Match
from tilesmith.relay.expr import If, Let, Var, branch
from tilesmith.relay.function import Function
from tilesmith.relay.walks import is_closed, post_order

__all__ = ["Binding", "chain_of", "mk_let", "variables_in", "with_scopes"]

Binding = tuple[Var, Any]


def chain_of(expr: Any) -> tuple[list[Binding], Any]:
    """Return the bindings that an expression begins with, and what comes after them."""
    bindings: list[Binding] = []
    while isinstance(expr, Let):
        bindings.append((expr.var, expr.value))
        expr = expr.body
    return bindings, expr


def mk_let(bindings: Iterable[Binding], body: Any) -> Any:
    """Return an expression in which variables are bound, the first one outermost."""
    for variable, value in reversed(list(bindings)):
        body = Let(variable, value, body)
    return body


def with_scopes(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with ``change`` applied to each scope directly inside it: branches, clauses,
    the bodies of functions that are not for code generators.
    """
    if isinstance(value, If):
        branches = [branch(value.true_branch), branch(value.false_branch)]
        return If(value.cond, change(branches[0]), change(branches[1]), value.span)
    if isinstance(value, Function) and not is_closed(value):
        return value.with_fields(body=change(value.body))
    if isinstance(value, Match):
        clauses = [Clause(one.lhs, change(one.rhs)) for one in value.clauses]
        return Match(value.data, clauses, value.complete, value.span)
    return value


def variables_in(value: Any) -> Iterator[Var]:
    """Yield the variables that a value refers to."""
    for node in post_order(value, lambda one: not is_closed(one)):
        if isinstance(node, Var):
            yield node
