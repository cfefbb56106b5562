"""Translates programs of bindings to the functional door: relax → relay.

    relay_mod = to_relay(relax_mod)

A value becomes one expression, however many users it has; a value whose computation has an effect,
and a local function, is bound by a `Let`, in the order of the bindings. Operators become relay's
where relay has them (`from_relax`), and stay relax's otherwise: expressions may hold these, too.

What only bindings can say is a size that a tensor found at run time gets a name for (`match_cast`)
when that name is used later. A function that says so stays a function of relax, which the others
call; if it is one of the entries, a function of relay with its name calls it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tilesmith.relay.op  # noqa: F401 - it declares the operators
from tilesmith.ir import GlobalVar, IRModule
from tilesmith.ir import Var as SymbolicVar
from tilesmith.relax import expr as graph
from tilesmith.relax.analysis import bindings_of, contains_impure_call, used_vars
from tilesmith.relax.expr import (
    Call,
    Constant,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    known_struct_info,
)
from tilesmith.relax.relations import symbolic_vars
from tilesmith.relax.scopes import NameSupply
from tilesmith.relax.struct_info import ObjectStructInfo, TensorStructInfo
from tilesmith.relax.type_views import type_of
from tilesmith.relay.expr import Let
from tilesmith.relay.from_relax import as_relay
from tilesmith.relay.function import Function
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = ["to_relay"]


def to_relay(program: IRModule | graph.Function, entries: Iterable[str] = ("main",)) -> IRModule:
    """Translate a module (or one function, which becomes ``main``) of bindings; ``entries`` are the
    functions that users will call: they are relay's in any case.

    Tensor functions, and functions that are relay's already, are kept.
    """
    if isinstance(program, graph.Function):
        program = IRModule({"main": program})
    if not isinstance(program, IRModule):
        raise TypeMismatchError(
            f"to_relay takes an IRModule or a relax.Function, got {type(program).__name__}"
        )
    names = NameSupply([variable.name_hint for variable in program.functions])
    functions: dict[GlobalVar, Any] = {}
    variables: dict[GlobalVar, GlobalVar] = {}  # of translated functions: these have types of relay
    with deep_recursion():
        for variable, function in program.functions.items():
            is_entry = variable.name_hint in entries
            if not isinstance(function, graph.Function):
                functions[variable] = function
            elif not needs_bindings(function):
                variables[variable] = GlobalVar(variable.name_hint)
                functions[variables[variable]] = function
            elif is_entry:
                inner = GlobalVar(names.fresh(variable.name_hint + "_with_sizes"))
                functions[inner] = function.without_attr("global_symbol")
                functions[GlobalVar(variable.name_hint)] = _caller(inner, function)
            else:
                functions[variable] = function
        for made in variables.values():
            functions[made] = _Scope({}, variables).function(functions[made])
    return IRModule(functions, program.type_definitions, program.attrs, program.global_infos)


def needs_bindings(function: graph.Function) -> bool:
    """Return whether a function has casts that only bindings can express: one that checks sizes, or
    whose result or sizes are used by more than the function's result.
    """
    bindings = bindings_of(function.body)
    casts = [one for one in bindings if isinstance(one, MatchCast)]
    if not casts:
        return False
    known = {size for param in function.params for size in symbolic_vars(param.struct_info)}
    for cast in casts:
        new = _named_sizes(cast)
        if new is None or known.intersection(new):
            return True
        known.update(new)
    own = {size for cast in casts for size in symbolic_vars(cast.struct_info)}
    tensors = {cast.var for cast in casts}
    values = [one.value for one in bindings if not isinstance(one.value, (Var, Tuple))]
    return any(
        own.intersection(symbolic_vars(value)) or tensors.intersection(used_vars(value))
        for value in values
    )


def _named_sizes(cast: MatchCast) -> list[SymbolicVar] | None:
    """Return the sizes that a cast gives names to; None if it says anything else."""
    wanted, found = cast.struct_info, known_struct_info(cast.value)
    if not isinstance(wanted, TensorStructInfo) or not isinstance(found, TensorStructInfo):
        return None
    if (wanted.dtype, wanted.ndim) != (found.dtype, found.ndim):
        return None
    sizes = wanted.shape.values if isinstance(wanted.shape, graph.ShapeExpr) else ()
    names = [size for size in sizes if isinstance(size, SymbolicVar)]
    return names if len(set(names)) == wanted.ndim else None


def _caller(callee: GlobalVar, function: graph.Function) -> Function:
    params = [_parameter(param) for param in function.params]
    return Function(params, Call(callee, params), attrs=_attributes(function))


def _parameter(param: Var) -> Var:
    return Var(param.name_hint, param.struct_info, param.span, dialect="relay")


def _attributes(function: graph.Function) -> dict[str, Any]:
    return {name: value for name, value in function.attrs.items() if name != "params"}


class _Scope:
    """Translates the bindings of one function or branch; ``known`` maps variables to expressions,
    those of enclosing scopes, too.
    """

    def __init__(self, known: dict[Any, Any], variables: dict[GlobalVar, GlobalVar]) -> None:
        self.known = known
        self.variables = variables

    def inner(self) -> _Scope:
        """Return a scope inside this one."""
        return _Scope(dict(self.known), self.variables)

    def function(self, function: graph.Function) -> Function:
        """Translate a function; its free variables are those of this scope."""
        inner = self.inner()
        params = [_parameter(param) for param in function.params]
        inner.known.update(zip(function.params, params))
        info = function.ret_struct_info
        known = None if info is None or isinstance(info, ObjectStructInfo) else type_of(info)
        return Function(
            params,
            inner.sequence(function.body),
            known,
            attrs=_attributes(function),
            span=function.span,
        )

    def sequence(self, body: Any) -> Any:
        """Translate bindings and the value after them to one expression."""
        if not isinstance(body, SeqExpr):
            return self.value(body)
        lets: list[tuple[Var, Any]] = []
        for block in body.blocks:
            for binding in block.bindings:
                self.bind(binding, lets)
        found = self.value(body.body)
        for var, value in reversed(lets):
            found = Let(var, value, found)
        return found

    def bind(self, binding: Any, lets: list[tuple[Var, Any]]) -> None:
        """Translate a binding; one that has to stay a binding is added to ``lets``."""
        is_function = isinstance(binding.value, graph.Function)
        if not is_function and not contains_impure_call(binding.value):
            self.known[binding.var] = self.value(binding.value)
            return
        var = Var(binding.var.name_hint, None, binding.var.span, dialect="relay")
        if is_function:  # it may call itself
            self.known[binding.var] = var
        lets.append((var, self.value(binding.value)))
        self.known[binding.var] = var

    def value(self, expr: Any) -> Any:
        """Translate an expression."""
        if isinstance(expr, Var):
            return self.known.get(expr, expr)
        if isinstance(expr, GlobalVar):
            return self.variables.get(expr, expr)
        if isinstance(expr, Constant):
            return Constant(expr.data, None, expr.span, "relay")
        if isinstance(expr, Call):
            return self.call(expr)
        if isinstance(expr, Tuple):
            return Tuple([self.value(field) for field in expr.fields], expr.span)
        if isinstance(expr, TupleGetItem):
            value = self.value(expr.tuple_value)
            if isinstance(value, Tuple):
                return value.fields[expr.index]
            return TupleGetItem(value, expr.index, expr.span)
        if isinstance(expr, If):
            branches = [self.inner().sequence(one) for one in (expr.true_branch, expr.false_branch)]
            return If(self.value(expr.cond), branches[0], branches[1], expr.span)
        if isinstance(expr, SeqExpr):
            return self.inner().sequence(expr)
        if isinstance(expr, graph.Function):
            return self.function(expr)
        return expr  # sizes, a number, a word

    def call(self, call: Call) -> Any:
        """Translate a call of an operator or of a function."""
        args = [self.value(arg) for arg in call.args]
        if isinstance(call.op, (Var, graph.Function)):
            return Call(self.value(call.op), args, span=call.span)
        if isinstance(call.op, GlobalVar):
            return Call(self.value(call.op), args, call.attrs, span=call.span)
        made = as_relay(call, args)
        if call.span is not None and isinstance(made, Call) and made.span is None:
            made = made.with_fields(span=call.span)
        return made
