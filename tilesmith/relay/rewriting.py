"""Rewrites expressions bottom-up, each shared node once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilesmith.relax.base import GraphExpr
from tilesmith.relax.expr import as_expr
from tilesmith.relay.adt import Clause, Match, Pattern, PatternVar
from tilesmith.relay.expr import Constant, Let, Var
from tilesmith.relay.function import Function
from tilesmith.relay.walks import binders, is_closed, parts, post_order, with_parts
from tilesmith.support.errors import UnknownMemberError

__all__ = [
    "bind", "renewed", "rewrite", "rewrite_typed", "substitute", "with_binders", "with_type_of",
]  # fmt: skip


def rewrite(expr: Any, change: Callable[[Any], Any]) -> Any:
    """Return ``expr`` with ``change`` applied to each node whose parts have been rewritten.

    ``change`` returns the node itself to keep it. Variables are asked where they are used.
    """
    done: dict[int, Any] = {}
    for node in post_order(expr):
        new = with_parts(node, [done[id(part)] for part in parts(node)])
        done[id(node)] = change(new)
    return done[id(expr)]


def rewrite_typed(expr: Any, change: Callable[[Any], Any]) -> Any:
    """Return ``expr`` with ``change`` applied to each node, as `rewrite` does. ``change`` keeps the
    type of each node: what InferType has noted at the old one is noted at the new one, so that
    ``change`` can ask for the types of the operands. Functions for code generators stay as they
    are.
    """
    done: dict[int, Any] = {}
    for node in post_order(expr, lambda one: not is_closed(one)):
        if is_closed(node):
            done[id(node)] = node
            continue
        new = with_type_of(node, with_parts(node, [done[id(part)] for part in parts(node)]))
        done[id(node)] = with_type_of(node, change(new))
    return done[id(expr)]


def with_type_of(old: Any, new: Any) -> Any:
    """Note the type that is known of an expression at the one that takes its place; return it."""
    if new is not old and isinstance(new, GraphExpr) and not isinstance(new, (Constant, Var)):
        info = getattr(old, "_struct_info", None)
        if info is not None and getattr(new, "_struct_info", None) is None:
            object.__setattr__(new, "_struct_info", info)
    return new


def substitute(expr: Any, values: Mapping[Any, Any]) -> Any:
    """Return an expression with variables replaced where they are used."""
    if not values:
        return expr
    return rewrite(expr, lambda node: values.get(node, node) if isinstance(node, Var) else node)


def with_binders(node: Any, table: Mapping[Any, Any]) -> Any:
    """Return a node with the variables that it binds replaced."""
    if isinstance(node, Let):
        return Let(table[node.var], node.value, node.body, node.span)
    if isinstance(node, Function):
        return node.with_fields(params=[table[param] for param in node.params])
    clauses = [Clause(_renamed(clause.lhs, table), clause.rhs) for clause in node.clauses]
    return Match(node.data, clauses, node.complete, node.span)


def _renamed(pattern: Any, table: Mapping[Any, Any]) -> Any:
    if isinstance(pattern, PatternVar):
        return PatternVar(table[pattern.var])
    return pattern.map_children(lambda one: _renamed(one, table) if _is_pattern(one) else one)


def _is_pattern(node: Any) -> bool:
    return isinstance(node, Pattern)


def renewed(expr: Any) -> Any:
    """Return an equal expression that binds variables of its own."""
    bound = {var for node in post_order(expr) for var in binders(node)}
    if not bound:
        return expr
    table = {var: Var(var.name_hint, var.struct_info, var.span, var.dialect) for var in bound}

    def change(node: Any) -> Any:
        if isinstance(node, Var):
            return table.get(node, node)
        return with_binders(node, table) if binders(node) else node

    return rewrite(expr, change)


def bind(expr: Any, binds: Mapping[Any, Any]) -> Any:
    """Return an expression with free variables replaced; of a function, parameters that are bound
    disappear. Variables may be given by name: raises UnknownMemberError for an unknown one.
    """
    if not isinstance(expr, Function):
        return substitute(expr, {var: as_expr(value) for var, value in binds.items()})
    by_name = {param.name_hint: param for param in expr.params}
    values = {}
    for var, value in binds.items():
        if isinstance(var, str) and var not in by_name:
            known = ", ".join(by_name) or "none"
            raise UnknownMemberError(
                f"the function has no parameter '{var}'", notes=(f"parameters: {known}",)
            )
        values[by_name[var] if isinstance(var, str) else var] = as_expr(value)
    params = [param for param in expr.params if param not in values]
    body = substitute(expr.body, values)
    if body is expr.body and len(params) == len(expr.params):
        return expr
    return expr.with_fields(params=params, body=body)
