"""Walks and rewrites expressions by methods named after their kinds.

    class Count(ExprVisitor):
        def visit_call(self, call):
            self.calls += 1
            super().visit_call(call)

A node that several others share is visited once, and its result is kept. The classes with ``Mixed``
visit chains of calls without recursion, so that models may be as deep as they like.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, Op
from tilesmith.relay.adt import (
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from tilesmith.relay.expr import (
    Call,
    Constant,
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
from tilesmith.relay.walks import parts, post_order, with_parts
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "ExprFunctor", "ExprMutator", "ExprVisitor", "MixedModeMutator", "MixedModeVisitor",
]  # fmt: skip

_METHODS: dict[type, str] = {
    Function: "visit_function", Call: "visit_call", Let: "visit_let", Var: "visit_var",
    GlobalVar: "visit_global_var", If: "visit_if", Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem", Constant: "visit_constant", Op: "visit_op",
    RefCreate: "visit_ref_create", RefRead: "visit_ref_read", RefWrite: "visit_ref_write",
    Constructor: "visit_constructor", Match: "visit_match",
}  # fmt: skip

_FLOW = (Call, Tuple, TupleGetItem)
"""Kinds whose chains the mixed visitors follow without recursion."""


class ExprFunctor:
    """Calls the method of an expression's kind, once for each expression."""

    def __init__(self) -> None:
        self.memo_map: dict[Any, Any] = {}

    def visit(self, expr: Any) -> Any:
        """Return what the method of the expression's kind returned for it."""
        if expr in self.memo_map:
            return self.memo_map[expr]
        with deep_recursion():
            result = self._dispatch(expr)
        self.memo_map[expr] = result
        return result

    def _dispatch(self, expr: Any) -> Any:
        for ancestor in expr.__class__.__mro__:
            method = _METHODS.get(ancestor)
            if method is not None:
                return getattr(self, method)(expr)
        raise TypeMismatchError(f"a {type(expr).__name__} is no expression of relay")

    def visit_type(self, typ: Any) -> Any:
        """Return the type."""
        return typ

    def _refused(self, expr: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no rule for {type(expr).__name__}")

    visit_function = visit_let = visit_call = visit_var = visit_if = visit_tuple = _refused
    visit_tuple_getitem = visit_global_var = visit_op = visit_constant = visit_ref_create = _refused
    visit_ref_write = visit_ref_read = visit_constructor = visit_match = _refused


class ExprVisitor(ExprFunctor):
    """Visits an expression and all below it; each method visits the parts."""

    def _leaf(self, expr: Any) -> Any:
        pass

    def _parts(self, expr: Any) -> Any:
        for part in parts(expr):
            self.visit(part)

    visit_var = visit_global_var = visit_op = visit_constant = visit_constructor = _leaf
    visit_call = visit_tuple = visit_tuple_getitem = visit_if = _parts
    visit_ref_create = visit_ref_read = visit_ref_write = visit_match = _parts

    def visit_let(self, let: Let) -> Any:
        """Visit the variable, the value and the body."""
        self.visit(let.var)
        self._parts(let)

    def visit_function(self, fn: Function) -> Any:
        """Visit the parameters and the body."""
        for param in fn.params:
            self.visit(param)
        self._parts(fn)


class ExprMutator(ExprFunctor):
    """Rewrites an expression bottom-up; what does not change stays the same object."""

    def _leaf(self, expr: Any) -> Any:
        return expr

    def _parts(self, expr: Any) -> Any:
        return with_parts(expr, [self.visit(part) for part in parts(expr)])

    visit_var = visit_global_id = visit_global_var = visit_op = visit_constant = _leaf
    visit_constructor = _leaf
    visit_call = visit_tuple = visit_tuple_getitem = _parts
    visit_ref_create = visit_ref_read = visit_ref_write = _parts

    def visit_if(self, ite: If) -> Any:
        """Rewrite the condition and both branches."""
        new = [self.visit(part) for part in (ite.cond, ite.true_branch, ite.false_branch)]
        if [one for one, old in zip(new[1:], parts(ite)[1:]) if one is not old]:
            return If(new[0], new[1], new[2], ite.span)
        return with_parts(ite, (new[0], branch(ite.true_branch), branch(ite.false_branch)))

    def visit_let(self, let: Let) -> Any:
        """Rewrite the variable, the value and the body."""
        var, value, body = self.visit(let.var), self.visit(let.value), self.visit(let.body)
        if var is let.var:
            return with_parts(let, (value, body))
        return Let(var, value, body, let.span)

    def visit_function(self, fn: Function) -> Any:
        """Rewrite the parameters and the body."""
        params = [self.visit(param) for param in fn.params]
        body = self.visit(fn.body)
        if not [one for one, old in zip(params, fn.params) if one is not old]:
            return with_parts(fn, (body,))
        return fn.with_fields(params=params, body=body)

    def visit_match(self, m: Match) -> Any:
        """Rewrite the value, the patterns and the results."""
        data = self.visit(m.data)
        clauses = []
        for clause in m.clauses:
            lhs, rhs = self.visit_pattern(clause.lhs), self.visit(clause.rhs)
            same = lhs is clause.lhs and rhs is clause.rhs
            clauses.append(clause if same else type(clause)(lhs, rhs))
        if data is m.data and all(one is old for one, old in zip(clauses, m.clauses)):
            return m
        return Match(data, clauses, m.complete, m.span)

    def visit_pattern(self, pattern: Pattern) -> Pattern:
        """Rewrite the variables and constructors of a pattern."""
        if isinstance(pattern, PatternVar):
            var = self.visit(pattern.var)
            return pattern if var is pattern.var else PatternVar(var)
        if isinstance(pattern, (PatternConstructor, PatternTuple)):
            inner = [self.visit_pattern(one) for one in pattern.patterns]
            if all(one is old for one, old in zip(inner, pattern.patterns)):
                return pattern
            return pattern.with_fields(patterns=tuple(inner))
        if isinstance(pattern, PatternWildcard):
            return pattern
        raise TypeMismatchError(f"a {type(pattern).__name__} is no pattern")


def _flows(expr: Any) -> bool:
    return isinstance(expr, _FLOW)


class MixedModeVisitor(ExprVisitor):
    """Visits what calls and tuples are made of before these, without recursion."""

    def visit(self, expr: Any) -> Any:
        """Visit an expression, its operands first."""
        if _flows(expr):
            for node in post_order(expr, lambda one: _flows(one) and one not in self.memo_map):
                if node is not expr:
                    super().visit(node)
        return super().visit(expr)


class MixedModeMutator(ExprMutator):
    """Rewrites what calls and tuples are made of before these, without recursion; then
    ``rewrite_call``, ``rewrite_tuple`` and ``rewrite_tuple_getitem`` may replace the new node.
    """

    def visit(self, expr: Any) -> Any:
        """Rewrite an expression, its operands first."""
        if _flows(expr):
            for node in post_order(expr, lambda one: _flows(one) and one not in self.memo_map):
                if node is not expr:
                    super().visit(node)
        return super().visit(expr)

    def _dispatch(self, expr: Any) -> Any:
        if not _flows(expr):
            return super()._dispatch(expr)
        post = super()._dispatch(expr)
        if isinstance(expr, Call):
            return self.rewrite_call(expr, post)
        if isinstance(expr, Tuple):
            return self.rewrite_tuple(expr, post)
        return self.rewrite_tuple_getitem(expr, post)

    def _kept(self, pre: Any, post: Any) -> Any:
        """Return the new node; subclasses may return another one."""
        return post

    rewrite_call = rewrite_tuple = rewrite_tuple_getitem = _kept
