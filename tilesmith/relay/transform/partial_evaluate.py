"""PartialEvaluate: runs a program as far as it is known, and writes down the rest.

Tuples, data, functions and references that the program makes are followed while it is evaluated;
calls of known functions, choices by known values and reads of known references disappear. What
depends on the program's inputs becomes a binding of the rest. References are followed as long as
nothing unknown can see them: before an unknown call, a choice at run time or a function of the rest
that could reach one, it is written down with the value that it has there. A gradient of the higher
order becomes a straight-line program this way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.relay.adt import (
    Clause,
    Constructor,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from tilesmith.relay.analysis import free_type_vars, free_vars
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
    with_lets,
)
from tilesmith.relay.function import Function
from tilesmith.relay.transform.fold_constant import folded_call
from tilesmith.relay.transform.normal_form import ToANormalFormExpr
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import PLAIN, functions_of
from tilesmith.support.errors import InternalError
from tilesmith.support.recursion import deep_recursion

__all__ = ["PartialEvaluate"]

_DEEPEST = 2000
"""So many calls of one function are followed at a time."""


# What is known about a value


class Rest:
    """A value that is known at run time only: an expression of the rest of the program."""

    def __init__(self, expr: Any) -> None:
        self.expr = expr


@dataclass(eq=False)
class Fields:
    """A tuple (``made_by`` is None), or data that a constructor made."""

    fields: list[Any]
    made_by: Constructor | None = None
    has_escaped: bool = False


@dataclass(eq=False)
class Place:
    """A reference: its value while it is followed, else the variable of the rest."""

    value: Any
    variable: Var | None = None


@dataclass(eq=False)
class Closure:
    """A function with the values of its free variables; ``itself`` is the variable by which it
    calls itself.
    """

    function: Function
    known: dict[Var, Any]
    itself: Var | None = None
    has_escaped: bool = False


@dataclass
class _Scope:
    """The bindings of a body or branch of the rest."""

    bindings: list[tuple[Var, Any]] = field(default_factory=list)

    def bind(self, expr: Any, name: str = "x") -> Var:
        """Bind an expression to a new variable."""
        variable = Var(name, None, None, "relay")
        self.bindings.append((variable, expr))
        return variable

    def closed(self, value: Any) -> Any:
        """Return a value with the bindings around it."""
        return with_lets(self.bindings, value)


class _Evaluation:
    """Evaluates the functions of one module."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.bodies: dict[str, Function] = {}
        # Calls that are being followed, by function: arguments, depth of control.
        self.open: dict[Any, list[tuple[Any, int]]] = {}
        self.depth = 0
        self.control = 0
        self.types: set[Any] = set()  # type parameters that are in scope
        self.free: dict[int, tuple[Function, list[Var]]] = {}
        self.names: dict[int, Var] = {}  # functions that are being written, by their closure

    def closure(self, function: Function, known: dict[Var, Any], itself: Var | None) -> Closure:
        """Return a function with what its free variables stand for."""
        if id(function) not in self.free:
            self.free[id(function)] = function, list(free_vars(function))
        taken = [one for one in self.free[id(function)][1] if one in known and one is not itself]
        return Closure(function, {one: known[one] for one in taken}, itself)

    def entry(self, function: Function, name: str) -> Any:
        """Return the rest of a function of the module."""
        self.open[name] = [(None, self.control)]
        self.types = set(function.type_params)
        made = self.residual(Closure(ToANormalFormExpr(function), {}))
        del self.open[name]
        return made

    def copy(self, variable: Var) -> Var:
        """Return a new variable; a type in terms of type parameters that a call has fixed is left
        open.
        """
        info = variable.struct_info
        if info is not None and self.is_foreign(variable.type_annotation):
            info = None
        return Var(variable.name_hint, info, variable.span, "relay")

    def is_foreign(self, type_: Any) -> bool:
        """Return whether a type is written in terms of another function's type parameters."""
        return type_ is not None and not self.types.issuperset(free_type_vars(type_))

    # Evaluation: expressions → what is known.

    def value(self, expr: Any, known: dict[Var, Any], scope: _Scope) -> Any:
        """Return what is known about the value of an expression."""
        while isinstance(expr, Let):
            if isinstance(expr.value, Function):
                known[expr.var] = self.closure(expr.value, known, expr.var)
            else:
                known[expr.var] = self.value(expr.value, known, scope)
            expr = expr.body
        rule = _RULES.get(expr.__class__)
        if rule is None:
            return Rest(expr)
        return rule(self, expr, known, scope)

    def variable(self, expr: Var, known: dict[Var, Any], scope: _Scope) -> Any:
        """A variable: bound, or free in the program."""
        return known.get(expr) or Rest(expr)

    def constant(self, expr: Any, known: dict[Var, Any], scope: _Scope) -> Any:
        """A constant, an operator, a constructor or a function of the module."""
        return Rest(expr)

    def function(self, expr: Function, known: dict[Var, Any], scope: _Scope) -> Any:
        """A function as a value."""
        return self.closure(expr, known, None)

    def fields(self, expr: Tuple, known: dict[Var, Any], scope: _Scope) -> Any:
        """A tuple."""
        return Fields([self.value(one, known, scope) for one in expr.fields])

    def item(self, expr: TupleGetItem, known: dict[Var, Any], scope: _Scope) -> Any:
        """A field of a tuple."""
        whole = self.value(expr.tuple_value, known, scope)
        if isinstance(whole, Fields):
            return whole.fields[expr.index]
        return Rest(scope.bind(TupleGetItem(self.expr(whole, scope), expr.index, expr.span)))

    def new_place(self, expr: RefCreate, known: dict[Var, Any], scope: _Scope) -> Any:
        """A new reference."""
        return Place(self.value(expr.value, known, scope))

    def read(self, expr: RefRead, known: dict[Var, Any], scope: _Scope) -> Any:
        """The value of a reference."""
        place = self.value(expr.ref, known, scope)
        if isinstance(place, Place) and place.variable is None:
            return place.value
        return Rest(scope.bind(RefRead(self.expr(place, scope), expr.span)))

    def write(self, expr: RefWrite, known: dict[Var, Any], scope: _Scope) -> Any:
        """Another value for a reference."""
        place = self.value(expr.ref, known, scope)
        value = self.value(expr.value, known, scope)
        if isinstance(place, Place) and place.variable is None:
            place.value = value
        else:
            write = RefWrite(self.expr(place, scope), self.expr(value, scope), expr.span)
            scope.bind(write, "_")
        return Fields([])

    def choice(self, expr: If, known: dict[Var, Any], scope: _Scope) -> Any:
        """A choice, by a constant or at run time."""
        condition = self.value(expr.cond, known, scope)
        true, false = branch(expr.true_branch), branch(expr.false_branch)
        if isinstance(condition, Rest) and isinstance(condition.expr, Constant):
            chosen = true if bool(condition.expr.data.numpy()) else false
            return self.value(chosen, dict(known), scope)
        self.give_up(free_vars(expr), known, scope)
        then, other = self.branch(true, known), self.branch(false, known)
        return Rest(scope.bind(If(self.expr(condition, scope), then, other, expr.span)))

    def branch(self, expr: Any, known: dict[Var, Any]) -> Any:
        """Return the rest of something that may happen or not."""
        self.control += 1
        inner = _Scope()
        result = self.expr(self.value(expr, dict(known), inner), inner)
        self.control -= 1
        return inner.closed(result)

    def match(self, expr: Match, known: dict[Var, Any], scope: _Scope) -> Any:
        """A choice by patterns."""
        data = self.value(expr.data, known, scope)
        for clause in expr.clauses:
            bound: dict[Var, Any] = {}
            fits = self.fits(clause.lhs, data, bound, scope)
            if fits is None:
                break
            if fits:
                return self.value(clause.rhs, {**known, **bound}, scope)
        self.give_up(free_vars(expr), known, scope)
        self.escape(data, scope, set())
        clauses = []
        for clause in expr.clauses:
            copies: dict[Var, Any] = {}
            pattern = self.pattern(clause.lhs, copies)
            clauses.append(Clause(pattern, self.branch(clause.rhs, {**known, **copies})))
        made = Match(self.expr(data, scope), clauses, expr.complete, expr.span)
        return Rest(scope.bind(made))

    def fits(self, pattern: Any, data: Any, bound: dict[Var, Any], scope: _Scope) -> bool | None:
        """Return whether a value looks like a pattern, None if that is not known."""
        if isinstance(pattern, PatternWildcard):
            return True
        if isinstance(pattern, PatternVar):
            bound[pattern.var] = data
            return True
        if not isinstance(data, Fields):
            return None
        if isinstance(pattern, PatternConstructor):
            if data.made_by is None or data.made_by.tag != pattern.constructor.tag:
                return False
        elif not isinstance(pattern, PatternTuple):
            raise InternalError(f"an unknown pattern {pattern!r}")
        found: bool | None = True
        for inner, value in zip(pattern.patterns, data.fields):
            fits = self.fits(inner, value, bound, scope)
            if fits is False:
                return False
            found = None if fits is None else found
        return found

    def pattern(self, pattern: Any, copies: dict[Var, Any]) -> Any:
        """Return a pattern of the rest with variables of its own."""
        if isinstance(pattern, PatternVar):
            new = self.copy(pattern.var)
            copies[pattern.var] = Rest(new)
            return PatternVar(new)
        if isinstance(pattern, (PatternConstructor, PatternTuple)):
            inner = [self.pattern(one, copies) for one in pattern.patterns]
            return pattern.with_fields(patterns=tuple(inner))
        return pattern

    def call(self, expr: Call, known: dict[Var, Any], scope: _Scope) -> Any:
        """A call: followed where the function is known."""
        args = [self.value(one, known, scope) for one in expr.args]
        callee = expr.op
        if isinstance(callee, Op):
            exprs = [self.expr(one, scope) for one in args]
            made = Call(callee, exprs, expr.attrs, expr.sinfo_args, expr.span)
            found = folded_call(made)
            return self.value(found, {}, scope) if found is not made else Rest(scope.bind(made))
        if isinstance(callee, Constructor):
            return Fields(args, callee)
        function = self.value(callee, known, scope)
        if isinstance(function, Rest) and isinstance(function.expr, Constructor):
            return Fields(args, function.expr)
        followed = self.followed(function, args)
        if followed is not None:
            return self.enter(*followed, args, scope)
        for one in (function, *args):
            self.escape(one, scope, set())
        exprs = [self.expr(one, scope) for one in args]
        made = Call(self.expr(function, scope), exprs, expr.attrs, span=expr.span)
        return Rest(scope.bind(made))

    def followed(self, function: Any, args: list[Any]) -> tuple[Any, Closure] | None:
        """Return a function whose call can be followed, with what names it; else None."""
        name: Any
        if isinstance(function, Closure):
            closure, name = function, id(function)
        elif isinstance(function, Rest) and isinstance(function.expr, GlobalVar):
            name = function.expr.name_hint
            known = self.mod[name] if name in self.mod else None
            if not isinstance(known, Function):
                return None
            if name not in self.bodies:
                self.bodies[name] = ToANormalFormExpr(known)
            closure = Closure(self.bodies[name], {})
        else:
            return None
        attrs = closure.function.attrs
        if attrs.get("Primitive") or attrs.get("Compiler") or attrs.get("SkipOptimization"):
            return None
        before = self.open.get(name, ())
        signature = [_signature(one) for one in args]
        for other, control in before:  # it calls itself: without end, or by a choice at run time
            if control != self.control or other is None or other == signature:
                return None
        if len(before) >= _DEEPEST or self.depth >= 4 * _DEEPEST:
            return None
        return name, closure

    def enter(self, name: Any, closure: Closure, args: list[Any], scope: _Scope) -> Any:
        """Return what is known about the result of a function."""
        known = dict(closure.known)
        if closure.itself is not None:
            known[closure.itself] = closure
        known.update(zip(closure.function.params, args))
        calls = self.open.setdefault(name, [])
        calls.append(([_signature(one) for one in args], self.control))
        self.depth += 1
        result = self.value(closure.function.body, known, scope)
        self.depth -= 1
        calls.pop()
        return result

    # The rest: what is known → expressions.

    def expr(self, value: Any, scope: _Scope) -> Any:
        """Return the expression of the rest for a value."""
        if isinstance(value, Rest):
            return value.expr
        if isinstance(value, Fields):
            fields = [self.expr(one, scope) for one in value.fields]
            return Tuple(fields) if value.made_by is None else Call(value.made_by, fields)
        if isinstance(value, Place):
            self.escape(value, scope, set())
            return value.variable
        self.escape(value, scope, set())
        return self.written(value, scope)

    def written(self, closure: Closure, scope: _Scope) -> Any:
        """Return the expression of a function; one that calls itself is bound."""
        if closure.itself is None:
            return self.residual(closure)
        if id(closure) in self.names:
            return self.names[id(closure)]
        name = self.names[id(closure)] = Var(closure.itself.name_hint, None, None, "relay")
        known = {**closure.known, closure.itself: Rest(name)}
        scope.bindings.append((name, self.residual(Closure(closure.function, known))))
        del self.names[id(closure)]
        return name

    def residual(self, closure: Closure) -> Any:
        """Return a function of the rest."""
        function = closure.function
        if function.attrs.get("Primitive"):
            return function
        outer, self.types = self.types, self.types.union(function.type_params)
        params = [self.copy(one) for one in function.params]
        result = None if self.is_foreign(function.ret_type) else function.ret_type
        known = {**closure.known, **dict(zip(function.params, [Rest(one) for one in params]))}
        body = self.branch(function.body, known)
        self.types = outer
        return function.with_fields(params=params, body=body, ret_type=result)

    def give_up(self, variables: Any, known: dict[Var, Any], scope: _Scope) -> None:
        """Write down the references that variables reach."""
        for one in variables:
            if one in known:
                self.escape(known[one], scope, set())

    def escape(self, value: Any, scope: _Scope, seen: set[int]) -> None:
        """Write down the references that a value reaches: something unknown may see them."""
        stack: list[Any] = [value]
        while stack:
            one = stack.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one, (Fields, Closure)):
                if not one.has_escaped:  # what it reaches stays as it is: once is enough
                    one.has_escaped = True
                    stack += one.fields if isinstance(one, Fields) else one.known.values()
            elif isinstance(one, Place) and one.variable is None:
                self.escape(one.value, scope, seen)
                content = self.expr(one.value, scope)
                one.variable = scope.bind(RefCreate(content), "r")
                one.value = None


def _signature(value: Any) -> Any:
    """Return what two arguments share by which a function does the same."""
    if isinstance(value, Fields):
        return [value.made_by and value.made_by.tag, [_signature(one) for one in value.fields]]
    if isinstance(value, Rest):
        if isinstance(value.expr, Constant):
            return str(value.expr.data.dtype), value.expr.data.numpy().tobytes()
        return "at run time"
    return id(value)


_RULES: dict[type, Callable[..., Any]] = {
    Var: _Evaluation.variable,
    Constant: _Evaluation.constant,
    Op: _Evaluation.constant,
    GlobalVar: _Evaluation.constant,
    Constructor: _Evaluation.constant,
    Function: _Evaluation.function,
    Tuple: _Evaluation.fields,
    TupleGetItem: _Evaluation.item,
    RefCreate: _Evaluation.new_place,
    RefRead: _Evaluation.read,
    RefWrite: _Evaluation.write,
    If: _Evaluation.choice,
    Match: _Evaluation.match,
    Call: _Evaluation.call,
    **dict.fromkeys(PLAIN, _Evaluation.constant),
}


@relay_pass("PartialEvaluate", 1)
def PartialEvaluate(mod: IRModule) -> IRModule:
    """Run the program as far as it does not depend on its inputs: calls of known functions, choices
    by known values, data, tuples and references disappear. DeadCodeElimination removes what is no
    longer used.
    """
    source = mod.shallow_copy()
    with deep_recursion():
        for variable, function in functions_of(source):
            if not function.attrs.get("Primitive") and not function.attrs.get("Compiler"):
                mod[variable] = _Evaluation(source).entry(function, variable.name_hint)
    return mod
