"""Defunctionalization: functions as values become data, and their calls a match.

    fn (x) { x + y }  as a value    →    Closure0(y)
    f(x)                            →    apply0(f, x), which matches f against all that it can be

Functions with type parameters are written once for each choice of types that is used. See Reynolds:
Definitional interpreters for higher-order programming languages, 1972.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op, RelayRefType, TypeCall, TypeVar
from tilesmith.ir.adt import TypeData
from tilesmith.ir.types import FuncType, GlobalTypeVar
from tilesmith.relay.adt import Clause, Constructor, Match, Pattern, PatternConstructor, PatternVar
from tilesmith.relay.analysis import free_vars
from tilesmith.relay.expr import Call, If, Let, TupleGetItem, Var, branch, var, with_lets
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_expr, infer_module
from tilesmith.relay.printer import type_text
from tilesmith.relay.rewriting import renewed
from tilesmith.relay.transform.normal_form import ToANormalFormExpr
from tilesmith.relay.ty import TupleType, Type
from tilesmith.relay.unify import apply
from tilesmith.relay.walks import parts, with_parts
from tilesmith.support.errors import TypeMismatchError, UnsupportedError
from tilesmith.support.recursion import deep_recursion

__all__ = ["Defunctionalization"]

Types = Mapping[Any, Type]
"""The ``id`` of a type variable → what it stands for."""


class _Family:
    """The functions of one type that are values: a type of data, and the function that calls."""

    def __init__(self, type_: FuncType, number: int) -> None:
        self.type = type_
        self.header = GlobalTypeVar(f"Closure{number}")
        self.apply = GlobalVar(f"apply{number}")
        self.members: list[tuple[Constructor, Any]] = []  # constructor, (fields, params) → body
        self.known: dict[Any, Constructor] = {}


class _Program:
    """The program that is being made."""

    def __init__(self, source: IRModule) -> None:
        self.source = source
        self.made = IRModule({}, dict(source.type_definitions))
        self.families: dict[str, _Family] = {}
        self.special: dict[tuple[str, str], GlobalVar] = {}
        self.bodies: dict[str, Function] = {}

    # Types.

    def family(self, type_: FuncType) -> _Family:
        """Return the functions of a type, which has no type variables any more."""
        if type_.type_params:
            raise UnsupportedError(
                f"a value of the type {type_text(type_)} cannot become data",
                notes=("a function with type parameters has to be called where it is named",),
            )
        key = type_text(type_)
        if key not in self.families:
            self.families[key] = _Family(type_, len(self.families))
        return self.families[key]

    def type(self, type_: Type) -> Type:
        """Return a type with data in the place of functions."""
        if isinstance(type_, FuncType):
            return self.family(type_).header
        if isinstance(type_, TupleType):
            return TupleType([self.type(one) for one in type_.fields])
        if isinstance(type_, RelayRefType):
            return RelayRefType(self.type(type_.value))
        if isinstance(type_, TypeCall):
            return TypeCall(type_.func, [self.type(one) for one in type_.args])
        return type_

    # Functions.

    def specialised(self, name: GlobalVar, types: list[Type]) -> GlobalVar:
        """Return the variable of a function of the module for a choice of its type parameters."""
        key = name.name_hint, ", ".join([type_text(one) for one in types])
        known = self.special.get(key)
        if known is not None:
            return known
        if name.name_hint not in self.bodies:
            written: Any = self.source[name]
            if not isinstance(written, Function):
                raise UnsupportedError(f"@{name.name_hint} is no function of relay")
            bound = ToANormalFormExpr(renewed(written))
            self.bodies[name.name_hint] = infer_expr(bound, self.source)
        function = self.bodies[name.name_hint]
        names = {one.name_hint for one in self.special.values()}
        number = len(names)
        while (fresh := f"{name.name_hint}_{number}") in names or fresh in self.source:
            number += 1
        made = self.special[key] = GlobalVar(fresh)
        chosen = {id(one): other for one, other in zip(function.type_params, types)}
        self.made[made] = _Rewriting(self, chosen).function(function)
        return made

    def closure(self, type_: FuncType, key: Any, fields: list[Type], make_body: Any) -> Constructor:
        """Return the constructor of the data for a function that is a value."""
        family = self.family(type_)
        if key not in family.known:
            name = f"{family.header.name_hint}_{len(family.members)}"
            made = Constructor(name, [self.type(one) for one in fields], family.header)
            family.known[key] = made
            family.members.append((made, make_body))
        return family.known[key]

    def finish(self) -> IRModule:
        """Write the types of data and the functions that call."""
        done: dict[str, list[Clause]] = {key: [] for key in self.families}
        parameters: dict[str, list[Var]] = {}
        changed = True
        while changed:  # bodies may make further functions into values
            changed = False
            for key, family in [*self.families.items()]:
                clauses = done.setdefault(key, [])
                while len(clauses) < len(family.members):
                    changed = True
                    constructor, make_body = family.members[len(clauses)]
                    if key not in parameters:
                        parameters[key] = [
                            var(f"x{place}", self.type(one))
                            for place, one in enumerate(family.type.arg_types)
                        ]
                    fields = [var(f"y{n}", one) for n, one in enumerate(constructor.inputs)]
                    pattern = PatternConstructor(constructor, [PatternVar(one) for one in fields])
                    clauses.append(Clause(pattern, make_body(fields, parameters[key])))
        for key, family in self.families.items():
            constructors = [one for one, _ in family.members]
            definition = TypeData(family.header, (), tuple(constructors))
            self.made[family.header] = definition
            if constructors:
                closure = var("f", family.header)
                body = Match(closure, done[key], True)
                result = self.type(family.type.ret_type)
                self.made[family.apply] = Function([closure, *parameters[key]], body, result)
        return self.made


class _Rewriting:
    """Rewrites one body, for a choice of the type parameters around it."""

    def __init__(self, program: _Program, types: Types) -> None:
        self.program = program
        self.types = types
        self.variables: dict[Var, Any] = {}

    def type_of(self, expr: Any) -> Any:
        """Return the type of an expression of the source, without type variables."""
        if isinstance(expr, GlobalVar):
            named: Any = self.program.source[expr]
            return named.declared_type()
        return apply(expr.checked_type, dict(self.types))

    def variable(self, old: Var) -> Any:
        """Return what stands for a variable of the source."""
        if old not in self.variables:
            type_ = self.program.type(self.type_of(old))
            self.variables[old] = Var(old.name_hint, type_, old.span, "relay")
        return self.variables[old]

    def function(self, function: Function) -> Function:
        """Return a function of the module."""
        params = [self.variable(one) for one in function.params]
        result = self.program.type(apply(function.checked_type.ret_type, dict(self.types)))
        return Function(params, self.of(function.body), result, (), function.attrs)

    def of(self, expr: Any) -> Any:
        """Return an expression without functions as values."""
        chain = []
        while isinstance(expr, Let):
            if isinstance(expr.value, Function) and not expr.value.attrs.get("Primitive"):
                chain.append((self.variable(expr.var), self.closure(expr.value, expr.var)))
            else:
                chain.append((self.variable(expr.var), self.of(expr.value)))
            expr = expr.body
        return with_lets(chain, self.value(expr))

    def value(self, expr: Any) -> Any:
        """Return an expression that is no let without functions as values."""
        if isinstance(expr, Var):
            return self.variable(expr)
        if isinstance(expr, GlobalVar):
            return self.named(expr)
        if isinstance(expr, Function):
            return expr if expr.attrs.get("Primitive") else self.closure(expr, None)
        if isinstance(expr, Constructor):
            raise UnsupportedError(
                f"the constructor {expr.name_hint} is used as a value",
                notes=("run EtaExpand(expand_constructor=True) before",),
            )
        if isinstance(expr, Call):
            return self.call(expr)
        if isinstance(expr, If):
            true, false = self.of(branch(expr.true_branch)), self.of(branch(expr.false_branch))
            return If(self.of(expr.cond), true, false, expr.span)
        if isinstance(expr, Match):
            clauses = [Clause(self.pattern(one.lhs), self.of(one.rhs)) for one in expr.clauses]
            return Match(self.of(expr.data), clauses, expr.complete, expr.span)
        if isinstance(expr, TupleGetItem):
            return TupleGetItem(self.of(expr.tuple_value), expr.index, expr.span)
        return with_parts(expr, [self.of(part) for part in parts(expr)])

    def pattern(self, pattern: Any) -> Any:
        """Return a pattern with variables of its own."""
        if isinstance(pattern, PatternVar):
            return PatternVar(self.variable(pattern.var))
        return pattern.map_children(
            lambda one: self.pattern(one) if isinstance(one, Pattern) else one
        )

    def closure(self, function: Function, itself: Var | None) -> Any:
        """Return the data for a function that is a value."""
        type_ = self.type_of(function)
        taken = [one for one in free_vars(function) if one is not itself]
        fields = [self.type_of(one) for one in taken]
        program, types = self.program, self.types
        key = id(function), tuple(sorted([(one, type_text(two)) for one, two in types.items()]))

        def body(values: list[Var], arguments: list[Var]) -> Any:
            inner = _Rewriting(program, types)
            inner.variables.update(zip(taken, values))
            lets: list[tuple[Var, Any]] = []
            for param, argument in zip(function.params, arguments):
                lets.append((inner.variable(param), argument))
            if itself is not None:
                again = program.closure(type_, key, fields, body)
                lets.append((inner.variable(itself), Call(again, values)))
            return with_lets(lets, inner.of(function.body))

        constructor = program.closure(type_, key, fields, body)
        return Call(constructor, [self.variable(one) for one in taken])

    def named(self, name: GlobalVar) -> Any:
        """Return the data for a function of the module that is a value."""
        type_ = self.type_of(name)
        if type_.type_params:
            raise UnsupportedError(
                f"@{name.name_hint}, which has type parameters, is used as a value",
                notes=("wrap it: fn (%x: Tensor[...]) { @f(%x) }",),
            )
        special = self.program.specialised(name, [])
        key = "@" + special.name_hint
        constructor = self.program.closure(
            type_, key, [], lambda values, arguments: Call(special, arguments)
        )
        return Call(constructor, [])

    def call(self, call: Call) -> Any:
        """Return a call: of an operator, a constructor, a function of the module, or of data."""
        if isinstance(call.op, GlobalVar):
            special = self.program.specialised(call.op, self.chosen(call))
            args = [self.of(arg) for arg in call.args]
            return Call(special, args, call.attrs, span=call.span)
        if isinstance(call.op, (Op, Constructor)) or (
            isinstance(call.op, Function) and call.op.attrs.get("Primitive")
        ):
            args = [self.of(arg) for arg in call.args]
            return Call(call.op, args, call.attrs, call.sinfo_args, call.span)
        family = self.program.family(self.type_of(call.op))
        return Call(family.apply, [self.of(one) for one in (call.op, *call.args)], span=call.span)

    def chosen(self, call: Call) -> list[Type]:
        """Return what the type parameters of a function of the module stand for in a call."""
        named: Any = self.program.source[call.op]
        declared = named.declared_type()
        found: dict[int, Type] = {}
        for wanted, arg in zip(declared.arg_types, call.args):
            _match(wanted, self.type_of(arg), found)
        _match(declared.ret_type, apply(call.checked_type, dict(self.types)), found)
        missing = [one.name_hint for one in declared.type_params if id(one) not in found]
        if missing:
            raise TypeMismatchError(
                f"the call of @{call.op.name_hint} does not say what {', '.join(missing)} is",
                span=call.span,
            )
        return [found[id(one)] for one in declared.type_params]


def _match(wanted: Any, given: Any, found: dict[int, Type]) -> None:
    """Collect what type variables of one type stand for in another."""
    if isinstance(wanted, TypeVar):
        found.setdefault(id(wanted), given)
    elif isinstance(wanted, FuncType) and isinstance(given, FuncType):
        for one, other in zip(wanted.arg_types, given.arg_types):
            _match(one, other, found)
        _match(wanted.ret_type, given.ret_type, found)
    elif isinstance(wanted, TupleType) and isinstance(given, TupleType):
        for one, other in zip(wanted.fields, given.fields):
            _match(one, other, found)
    elif isinstance(wanted, TypeCall) and isinstance(given, TypeCall):
        for one, other in zip(wanted.args, given.args):
            _match(one, other, found)
    elif isinstance(wanted, RelayRefType) and isinstance(given, RelayRefType):
        _match(wanted.value, given.value, found)


def Defunctionalization(func: Function, mod: IRModule) -> Function:
    """Return a function without functions as values; the module gets the types of data and the
    functions (of these and of the module) that it calls.

    Its parameters and result have to be without functions. Raises TypeMismatchError otherwise.
    """
    if not isinstance(func, Function) or func.type_params:
        raise TypeMismatchError("Defunctionalization takes a function without type parameters")
    with deep_recursion():
        source = mod.shallow_copy()
        entry = GlobalVar("__defunctionalized")
        source[entry] = func
        infer_module(source)
        type_: Any = func.declared_type()
        typed: Any = source[entry]
        for one in (*type_.arg_types, typed.checked_type.ret_type):
            if _has_function(one):
                raise TypeMismatchError(
                    f"a parameter or the result has the type {type_text(one)}",
                    notes=("functions that come from outside cannot become data",),
                )
        program = _Program(source)
        variable = program.specialised(entry, [])
        made = program.finish()
        result: Any = made[variable]
        del made[variable]
        mod.update(made)
        found: Function = infer_expr(result, mod)
        return found


def _has_function(type_: Any) -> bool:
    if isinstance(type_, TupleType):
        return bool([one for one in type_.fields if _has_function(one)])
    if isinstance(type_, TypeCall):
        return bool([one for one in type_.args if _has_function(one)])
    if isinstance(type_, RelayRefType):
        return _has_function(type_.value)
    return isinstance(type_, FuncType)
