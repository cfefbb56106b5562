"""Walks through expressions: what they are made of, in the order in which it is computed.

Walks keep their own stack, so expressions may be as deep as they like, and they visit a node that
several others share once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.expr import DataTypeImm, ExternFunc, PrimValue, StringImm
from tilesmith.relax.struct_info import ShapeExpr
from tilesmith.relay.adt import Match, pattern_vars
from tilesmith.relay.expr import (
    Call,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    branch,
)
from tilesmith.relay.function import Function

__all__ = ["PLAIN", "binders", "functions_of", "is_closed", "parts", "post_order", "with_parts"]

PLAIN = (ShapeExpr, PrimValue, StringImm, DataTypeImm, ExternFunc)
"""Sizes, numbers, words and names of functions that operators of relax take: they are no values of
the program."""

_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    Call: lambda call: (call.op, *call.args),
    Tuple: lambda tuple_: tuple_.fields,
    TupleGetItem: lambda item: (item.tuple_value,),
    Let: lambda let: (let.value, let.body),
    If: lambda one: (one.cond, branch(one.true_branch), branch(one.false_branch)),
    Function: lambda function: (function.body,),
    RefCreate: lambda ref: (ref.value,),
    RefRead: lambda read: (read.ref,),
    RefWrite: lambda write: (write.ref, write.value),
    Match: lambda match: (match.data, *[clause.rhs for clause in match.clauses]),
}


def parts(expr: Any) -> tuple[Any, ...]:
    """Return the expressions that an expression is made of; of a call also what it calls."""
    found = _PARTS.get(expr.__class__)
    return () if found is None else found(expr)


def with_parts(expr: Any, new: Iterable[Any]) -> Any:
    """Return an expression of the same kind made of other parts; the same one if none changed."""
    new = tuple(new)
    if all(a is b for a, b in zip(new, parts(expr))):
        return expr
    if isinstance(expr, Call):
        return expr.with_fields(op=new[0], args=new[1:])
    if isinstance(expr, Tuple):
        return expr.with_fields(fields=new)
    if isinstance(expr, Let):
        return Let(expr.var, new[0], new[1], expr.span)
    if isinstance(expr, If):
        return If(new[0], new[1], new[2], expr.span)
    if isinstance(expr, Function):
        return expr.with_fields(body=new[0])
    if isinstance(expr, RefWrite):
        return RefWrite(new[0], new[1], expr.span)
    if isinstance(expr, Match):
        clauses = [clause.with_fields(rhs=rhs) for clause, rhs in zip(expr.clauses, new[1:])]
        return Match(new[0], clauses, expr.complete, expr.span)
    if isinstance(expr, TupleGetItem):
        return TupleGetItem(new[0], expr.index, expr.span)
    return type(expr)(new[0], expr.span)  # the making and the reading of a reference


def post_order(expr: Any, enter: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """Yield an expression and all it is made of, each once, parts first.

    Of a node for which ``enter`` is false, only the node itself comes.
    """
    seen: set[int] = set()
    stack: list[tuple[Any, bool]] = [(expr, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            yield node
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        if enter is None or enter(node):
            stack += [(part, False) for part in reversed(parts(node)) if id(part) not in seen]


def binders(expr: Any) -> tuple[Var, ...]:
    """Return the variables that an expression itself binds."""
    if isinstance(expr, Let):
        return (expr.var,)
    if isinstance(expr, Function):
        return expr.params
    if isinstance(expr, Match):
        return tuple([var for clause in expr.clauses for var in pattern_vars(clause.lhs)])
    return ()


def is_closed(node: Any) -> bool:
    """Return whether a node is a function whose body is for a code generator, not for passes."""
    return isinstance(node, Function) and any(node.attrs.get(name) for name in _CLOSED)


_CLOSED = ("Primitive", "Compiler", "Composite")


def functions_of(mod: IRModule) -> list[tuple[Any, Function]]:
    """Return the functions of a module that came through this door, with their variables."""
    return [(var, one) for var, one in mod.functions.items() if isinstance(one, Function)]
