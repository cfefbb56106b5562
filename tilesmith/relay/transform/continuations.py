"""Continuation passing style: functions hand their result on instead of returning it.

    longer = to_cps(function)       # fn (x, k: fn (R) -> answer) -> answer
    un_cps(longer)                  # fn (x) -> R

All calls of functions become the last thing that happens, so that the order of the computation and
what remains to be done are values of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op, RelayRefType, TypeCall, TypeVar
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
)
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_expr, infer_module
from tilesmith.relay.rewriting import renewed
from tilesmith.relay.transform.normal_form import ToANormalFormExpr
from tilesmith.relay.ty import IncompleteType, TupleType, Type
from tilesmith.relay.walks import PLAIN
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.support.recursion import deep_recursion

__all__ = ["ToCPS", "to_cps", "un_cps"]

After = Callable[[Any], Any]
"""What is done with a value: its expression → the expression of the answer."""


def _with_continuations(type_: Type, answer: Type) -> Type:
    """Return the type of a value in continuation passing style."""
    if isinstance(type_, FuncType):
        arguments = [_with_continuations(one, answer) for one in type_.arg_types]
        result = FuncType([_with_continuations(type_.ret_type, answer)], answer)
        return FuncType([*arguments, result], answer, type_.type_params)
    if isinstance(type_, TupleType):
        return TupleType([_with_continuations(one, answer) for one in type_.fields])
    if isinstance(type_, RelayRefType):
        return RelayRefType(_with_continuations(type_.value, answer))
    if isinstance(type_, TypeCall):
        return TypeCall(type_.func, [_with_continuations(one, answer) for one in type_.args])
    return type_


class _Conversion:
    """Converts one function of a module."""

    def __init__(self, mod: IRModule, converted: dict[str, GlobalVar]) -> None:
        self.mod = mod
        self.converted = converted
        self.answer = TypeVar("answer")
        self.variables: dict[Var, Var] = {}

    def outer(self, function: Function) -> Function:
        """Return a function of the module in continuation passing style."""
        made = self.function(function)
        return made.with_fields(type_params=[*function.type_params, self.answer])

    def variable(self, old: Var) -> Var:
        """Return the variable that stands for one of the program."""
        if old not in self.variables:
            type_ = old.checked_type
            known = None
            if not isinstance(type_, IncompleteType):
                known = _with_continuations(type_, self.answer)
            self.variables[old] = Var(old.name_hint, known, old.span, "relay")
        return self.variables[old]

    def function(self, function: Function) -> Function:
        """Return a function as a value: with its continuation as the last parameter."""
        params = [self.variable(one) for one in function.params]
        type_: Any = function.checked_type
        result = _with_continuations(type_.ret_type, self.answer)
        after = var("k", FuncType([result], self.answer))
        body = self.of(function.body, lambda value: Call(after, [value]))
        return Function([*params, after], body, self.answer, function.type_params, function.attrs)

    def continuation(self, type_: Type, after: After) -> Function:
        """Return what is done with a value as a function."""
        value = var("v", _with_continuations(type_, self.answer))
        return Function([value], after(value), self.answer)

    def of(self, expr: Any, after: After) -> Any:
        """Return the expression of the answer: a value is computed, and handed on."""
        rule = _RULES.get(expr.__class__)
        if rule is None:
            raise UnsupportedError(
                f"a {type(expr).__name__} has no continuation passing style",
                span=getattr(expr, "span", None),
            )
        return rule(self, expr, after)

    def all_of(self, exprs: Any, after: Callable[[list[Any]], Any]) -> Any:
        """Compute several values, and hand them on together."""
        found: list[Any] = []

        def step(place: int) -> Any:
            if place == len(exprs):
                return after(found)

            def then(value: Any) -> Any:
                found.append(value)
                return step(place + 1)

            return self.of(exprs[place], then)

        return step(0)

    def atom(self, expr: Any, after: After) -> Any:
        """What stays as it is."""
        return after(expr)

    def use(self, expr: Var, after: After) -> Any:
        """A variable."""
        return after(self.variable(expr))

    def function_value(self, expr: Function, after: After) -> Any:
        """A function as a value."""
        return after(expr if expr.attrs.get("Primitive") else self.function(expr))

    def global_var(self, expr: GlobalVar, after: After) -> Any:
        """A function of the module: its converted form joins the module."""
        return after(_converted(expr, self.mod, self.converted))

    def constructor(self, expr: Constructor, after: After) -> Any:
        """A constructor as a value."""
        type_: Any = expr.checked_type if hasattr(expr, "checked_type") else None
        if type_ is None:
            raise UnsupportedError(
                f"the constructor {expr.name_hint} is used as a value",
                notes=("run EtaExpand(expand_constructor=True) before",),
            )
        params = [var(f"x{place}", one) for place, one in enumerate(type_.arg_types)]
        after_made = var("k", FuncType([type_.ret_type], self.answer))
        body = Call(after_made, [Call(expr, params)])
        return after(Function([*params, after_made], body, self.answer, type_.type_params))

    def tuple(self, expr: Tuple, after: After) -> Any:
        """A tuple."""
        return self.all_of(expr.fields, lambda fields: after(Tuple(fields)))

    def item(self, expr: TupleGetItem, after: After) -> Any:
        """A field of a tuple."""
        return self.of(expr.tuple_value, lambda value: after(TupleGetItem(value, expr.index)))

    def let(self, expr: Let, after: After) -> Any:
        """A binding; a function may refer to itself."""
        variable = self.variable(expr.var)
        if isinstance(expr.value, Function):
            return Let(variable, self.function(expr.value), self.of(expr.body, after))
        return self.of(expr.value, lambda value: Let(variable, value, self.of(expr.body, after)))

    def choice(self, expr: If, after: After) -> Any:
        """A choice: both branches hand on to the same continuation."""
        true, false = branch(expr.true_branch), branch(expr.false_branch)
        joined = var("join")

        def done(condition: Any) -> Any:
            then, other = [
                self.of(one, lambda value: Call(joined, [value])) for one in (true, false)
            ]
            continuation = self.continuation(expr.checked_type, after)
            return Let(joined, continuation, If(condition, then, other, expr.span))

        return self.of(expr.cond, done)

    def match(self, expr: Match, after: After) -> Any:
        """A choice by patterns."""
        joined = var("join")

        def done(data: Any) -> Any:
            clauses = [
                Clause(self.pattern(one.lhs), self.of(one.rhs, lambda value: Call(joined, [value])))
                for one in expr.clauses
            ]
            continuation = self.continuation(expr.checked_type, after)
            return Let(joined, continuation, Match(data, clauses, expr.complete, expr.span))

        return self.of(expr.data, done)

    def pattern(self, pattern: Any) -> Any:
        """Return a pattern with variables of its own."""
        if isinstance(pattern, PatternVar):
            return PatternVar(self.variable(pattern.var))
        return pattern.map_children(
            lambda one: self.pattern(one) if isinstance(one, Pattern) else one
        )

    def call(self, expr: Call, after: After) -> Any:
        """A call: operators and constructors give a value, functions take the continuation."""
        if isinstance(expr.op, (Op, Constructor)):
            return self.all_of(expr.args, lambda args: self.bound(
                Call(expr.op, args, expr.attrs, expr.sinfo_args, expr.span), after))  # fmt: skip

        def done(values: list[Any]) -> Any:
            callee, *args = values
            if isinstance(callee, Function) and callee.attrs.get("Primitive"):
                return self.bound(Call(callee, args), after)
            continuation = self.continuation(expr.checked_type, after)
            return Call(callee, [*args, continuation], span=expr.span)

        return self.all_of([expr.op, *expr.args], done)

    def bound(self, value: Any, after: After) -> Any:
        """Compute something now, in the order of the program."""
        variable = var("v")
        return Let(variable, value, after(variable))

    def new_place(self, expr: RefCreate, after: After) -> Any:
        """A new reference."""
        return self.of(expr.value, lambda value: self.bound(RefCreate(value), after))

    def read(self, expr: RefRead, after: After) -> Any:
        """The value of a reference."""
        return self.of(expr.ref, lambda place: self.bound(RefRead(place), after))

    def write(self, expr: RefWrite, after: After) -> Any:
        """Another value for a reference."""
        return self.all_of([expr.ref, expr.value], lambda both: self.bound(RefWrite(*both), after))


_RULES: dict[type, Callable[[Any, Any, After], Any]] = {
    Var: _Conversion.use,
    Constant: _Conversion.atom,
    Op: _Conversion.atom,
    **dict.fromkeys(PLAIN, _Conversion.atom),
    GlobalVar: _Conversion.global_var,
    Constructor: _Conversion.constructor,
    Function: _Conversion.function_value,
    Tuple: _Conversion.tuple,
    TupleGetItem: _Conversion.item,
    Let: _Conversion.let,
    If: _Conversion.choice,
    Match: _Conversion.match,
    Call: _Conversion.call,
    RefCreate: _Conversion.new_place,
    RefRead: _Conversion.read,
    RefWrite: _Conversion.write,
}


def _prepared(function: Any, mod: IRModule) -> Any:
    return infer_expr(ToANormalFormExpr(renewed(function)), mod)


def _converted(name: GlobalVar, mod: IRModule, converted: dict[str, GlobalVar]) -> GlobalVar:
    """Return the variable of the converted form of a function of the module."""
    known = converted.get(name.name_hint)
    if known is None:
        known = converted[name.name_hint] = GlobalVar(name.name_hint + "_cps")
        function = _prepared(mod[name], mod)
        mod[known] = _Conversion(mod, converted).outer(function)
    return known


def to_cps(func: Function, mod: IRModule | None = None) -> Function:
    """Return a function that hands its result to one more argument, its continuation, and returns
    what this returns. Functions of the module that it calls get such forms (``NAME_cps``) there.
    """
    if not isinstance(func, Function):
        raise TypeMismatchError(f"to_cps takes a function, not a {type(func).__name__}")
    mod = IRModule() if mod is None else mod
    with deep_recursion():
        infer_module(mod)
        made = _Conversion(mod, {}).outer(_prepared(func, mod))
        found: Function = infer_expr(made, mod)
        return found


def ToCPS(expr: Function, mod: IRModule | None = None) -> Function:
    """Return a function in continuation passing style (`to_cps`)."""
    return to_cps(expr, mod)


def un_cps(func: Function) -> Function:
    """Return a function in continuation passing style as one that returns its result."""
    last = func.params[-1].checked_type if func.params else None
    if not isinstance(last, FuncType) or len(last.arg_types) != 1:
        raise TypeMismatchError(
            "un_cps takes a function whose last parameter is its continuation",
            notes=("to_cps makes one",),
        )
    params = [Var(one.name_hint, one.struct_info, one.span, "relay") for one in func.params[:-1]]
    result = last.arg_types[0]
    value = var("v", result)
    body = Call(func, [*params, Function([value], value, result)])
    types = [one for one in func.type_params if one != last.ret_type]
    return Function(params, body, result, types)
