"""LazyGradientInit: tensors of zeros and ones are made when something needs their numbers.

A gradient begins with zeros for each value and ones for the result, most of which are only added
to something or multiplied by it. Inside of functions each tensor becomes a cell: of the tensor
(``Raw``), or of a function that makes the zeros or ones. Sums with ``Zero`` and products with
``One`` are the other cell.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op, RelayRefType, TypeCall
from tilesmith.ir.types import FuncType
from tilesmith.relay.adt import Clause, Constructor, Match, Pattern, PatternVar
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
    var,
    with_lets,
)
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_expr, infer_module
from tilesmith.relay.prelude import import_from_std
from tilesmith.relay.rewriting import renewed
from tilesmith.relay.transform.normal_form import ToANormalFormExpr
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.ty import IncompleteType, TensorType, TupleType, Type
from tilesmith.relay.walks import functions_of, post_order
from tilesmith.support.recursion import deep_recursion

__all__ = ["LazyGradientInit"]

_LAZY = {"zeros": "Zero", "zeros_like": "Zero", "ones": "One", "ones_like": "One"}
_CHEAP = {"add": "AddGradCell", "multiply": "MultiplyGradCell"}


def _is_plain(type_: Type) -> bool:
    """Return whether a type is that of tensors and tuples of them."""
    if isinstance(type_, TupleType):
        return not [field for field in type_.fields if not _is_plain(field)]
    return isinstance(type_, TensorType)


class _Cells:
    """Rewrites one function of a module."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.cell, self.raw, one, zero = mod.get_type("GradCell")
        self.makers = {"One": one, "Zero": zero}
        self.variables: dict[Var, Any] = {}

    def type_of(self, type_: Type) -> Type:
        """Return a type with cells in the place of tensors."""
        if isinstance(type_, TensorType):
            return TypeCall(self.cell, [type_])
        if isinstance(type_, TupleType):
            return TupleType([self.type_of(field) for field in type_.fields])
        if isinstance(type_, RelayRefType):
            return RelayRefType(self.type_of(type_.value))
        if isinstance(type_, FuncType):
            arguments = [self.type_of(one) for one in type_.arg_types]
            return FuncType(arguments, self.type_of(type_.ret_type), type_.type_params)
        if isinstance(type_, TypeCall):
            return TypeCall(type_.func, [self.type_of(one) for one in type_.args])
        return type_

    def wrapped(self, value: Any, type_: Type) -> Any:
        """Return a value with its tensors in cells."""
        if isinstance(type_, TupleType):
            items = [TupleGetItem(value, place) for place in range(len(type_.fields))]
            return Tuple([self.wrapped(*pair) for pair in zip(items, type_.fields)])
        return Call(self.raw, [value])

    def plain(self, value: Any, type_: Type) -> Any:
        """Return a value with its tensors out of their cells."""
        if isinstance(type_, TupleType):
            items = [TupleGetItem(value, place) for place in range(len(type_.fields))]
            return Tuple([self.plain(*pair) for pair in zip(items, type_.fields)])
        return Call(self.mod.get_global_var("FromGradCell"), [value])

    def outer(self, function: Function) -> Function:
        """Return a function of the module whose parameters and result stay as they are."""
        params = []
        lets = []
        for one in function.params:
            new = Var(one.name_hint, one.struct_info, one.span, "relay")
            params.append(new)
            self.variables[one] = var(one.name_hint)
            lets.append((self.variables[one], self.wrapped(new, one.checked_type)))
        result = var("result")
        lets.append((result, self.of(function.body)))
        body = self.plain(result, function.checked_type.ret_type)
        return function.with_fields(params=params, body=with_lets(lets, body))

    def variable(self, old: Var) -> Any:
        """Return the variable that stands for one of the program."""
        if old not in self.variables:
            type_ = old.checked_type
            known = None if isinstance(type_, IncompleteType) else self.type_of(type_)
            self.variables[old] = Var(old.name_hint, known, old.span, "relay")
        return self.variables[old]

    def of(self, expr: Any) -> Any:
        """Return an expression with cells in the place of tensors."""
        chain = []
        while isinstance(expr, Let):
            variable = self.variable(expr.var)
            chain.append((variable, self.of(expr.value)))
            expr = expr.body
        return with_lets(chain, self.value(expr))

    def value(self, expr: Any) -> Any:
        """Return an expression that is no let with cells in the place of tensors."""
        if isinstance(expr, Var):
            return self.variable(expr)
        if isinstance(expr, Constant):
            return Call(self.raw, [expr])
        if isinstance(expr, Tuple):
            return Tuple([self.of(field) for field in expr.fields])
        if isinstance(expr, TupleGetItem):
            return TupleGetItem(self.of(expr.tuple_value), expr.index)
        if isinstance(expr, Call):
            return self.call(expr)
        if isinstance(expr, Function):
            return self.function(expr)
        if isinstance(expr, If):
            condition = self.plain(self.of(expr.cond), expr.cond.checked_type)
            true, false = branch(expr.true_branch), branch(expr.false_branch)
            return If(condition, self.of(true), self.of(false), expr.span)
        if isinstance(expr, Match):
            clauses = [Clause(self.pattern(one.lhs), self.of(one.rhs)) for one in expr.clauses]
            return Match(self.of(expr.data), clauses, expr.complete, expr.span)
        if isinstance(expr, RefCreate):
            return RefCreate(self.of(expr.value), expr.span)
        if isinstance(expr, RefRead):
            return RefRead(self.of(expr.ref), expr.span)
        if isinstance(expr, RefWrite):
            return RefWrite(self.of(expr.ref), self.of(expr.value), expr.span)
        return expr

    def pattern(self, pattern: Any) -> Any:
        """Return a pattern with variables of its own."""
        if isinstance(pattern, PatternVar):
            return PatternVar(self.variable(pattern.var))
        return pattern.map_children(
            lambda one: self.pattern(one) if isinstance(one, Pattern) else one
        )

    def function(self, function: Function) -> Any:
        """A function as a value: it takes cells."""
        if function.attrs.get("Primitive"):
            return function
        params = [self.variable(one) for one in function.params]
        result = self.type_of(function.checked_type.ret_type)
        return Function(params, self.of(function.body), result, function.type_params)

    def call(self, call: Call) -> Any:
        """A call: operators take tensors, except where cells tell the result."""
        args = [self.of(arg) for arg in call.args]
        if isinstance(call.op, Constructor):
            return Call(call.op, args)
        is_global = isinstance(call.op, GlobalVar)
        is_primitive = isinstance(call.op, Function) and call.op.attrs.get("Primitive")
        if not isinstance(call.op, Op) and not is_global and not is_primitive:
            return Call(self.of(call.op), args, span=call.span)
        types = [arg.checked_type for arg in call.args]
        name = call.op.name if isinstance(call.op, Op) else ""
        plain = [self.plain(*pair) for pair in zip(args, types)]
        made = Call(call.op, plain, call.attrs, call.sinfo_args, call.span)
        type_ = call.checked_type
        if name in _LAZY:
            return Call(self.makers[_LAZY[name]], [Function([], made, type_)])
        if name in _CHEAP and all(one == type_ for one in types):
            a, b = var("a", type_), var("b", type_)
            operation = Function([a, b], Call(call.op, [a, b], call.attrs, span=call.span), type_)
            return Call(self.mod.get_global_var(_CHEAP[name]), [operation, *args])
        if isinstance(type_, TupleType):
            result = var("result")
            return Let(result, made, self.wrapped(result, type_))
        return self.wrapped(made, type_)


@relay_pass("LazyGradientInit", 1)
def LazyGradientInit(mod: IRModule) -> IRModule:
    """Make tensors of zeros and ones where something needs their numbers only. Functions of other
    values than tensors and tuples of them stay as they are.
    """
    chosen = []
    known = infer_module(mod.shallow_copy())
    for variable, function in functions_of(known):
        type_: Any = function.checked_type
        signatures = [type_]
        called = [known[node] for node in post_order(function) if isinstance(node, GlobalVar)]
        signatures += [one.declared_type() for one in called if isinstance(one, Function)]
        plain = all(
            not one.type_params and all(_is_plain(part) for part in (*one.arg_types, one.ret_type))
            for one in signatures
        )
        if plain and not function.attrs.get("Primitive") and not function.attrs.get("Compiler"):
            chosen.append((variable, function))
    if not chosen:
        return mod
    import_from_std(mod, "gradient.rly")
    with deep_recursion():
        for variable, function in chosen:
            bound: Any = infer_expr(ToANormalFormExpr(renewed(function)), known)
            mod[variable] = _Cells(mod).outer(bound)
    return infer_module(mod)
