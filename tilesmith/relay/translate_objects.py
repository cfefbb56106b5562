"""Translates programs with values that native code cannot hold: data types, closures, references.

    match (xs) { Cons(x, rest) => … }      →    c = R.data.fits(xs, "[7, null, null]")
                                                if c: x = R.data.field(xs, 0) …

Such values are objects under relax, and so is a value whose type is a type variable. Where relay
knows that an object is a tensor, ``R.match_cast`` says so, and what follows is computed by kernels.
A function may have effects here, and calls stay in the order in which they are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.ir import GlobalVar, IncompleteType, IRModule, Op, Type
from tilesmith.relax import expr as graph
from tilesmith.relax import op as operators
from tilesmith.relax.expr import Call, PrimValue, SeqExpr, Var, known_struct_info
from tilesmith.relax.op import data as data_words
from tilesmith.relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeExpr,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from tilesmith.relax.type_views import struct_info_of
from tilesmith.relay.adt import (
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from tilesmith.relay.analysis import unmatched_cases
from tilesmith.relay.expr import If, Let, RefCreate, RefRead, RefWrite, TupleGetItem
from tilesmith.relay.function import Function
from tilesmith.relay.translate import ModuleTranslation, Scope, named_sizes, prepared
from tilesmith.relay.ty import TensorType, TupleType, is_dynamic
from tilesmith.relay.walks import functions_of, parts, post_order
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion
from tilesmith.tir.unknown import Any as AnySize

__all__ = ["needs_objects", "to_relax_objects"]


def to_relax_objects(program: IRModule | Function, entries: Iterable[str] = ("main",)) -> IRModule:
    """Translate a module (or one function) of the functional door that may use all of relay."""
    module = program if isinstance(program, IRModule) else IRModule.from_expr(program)
    with deep_recursion():
        return _Objects(prepared(module), entries).run()


def needs_objects(module: IRModule) -> bool:
    """Return whether functions of a module use values that native code cannot hold, or tensors
    whose sizes a choice or a call decides.
    """
    functions = [function for _, function in functions_of(module)]
    branches, has_unknown = len(functions) > 1, False
    for function in functions:
        nodes = list(post_order(function))
        local = {node.var for node in nodes if isinstance(node, Let) and _is_function(node.value)}
        for node in nodes:
            if isinstance(node, (Match, Constructor, RefCreate, RefRead, RefWrite)):
                return True
            if _holds_function(node, local):
                return True
            branches |= isinstance(node, If) or (_is_function(node) and node is not function)
            if isinstance(node, Function):
                types = [param.type_annotation for param in node.params]
                has_unknown |= any(one is not None and is_dynamic(one) for one in types)
    return branches and has_unknown


def _is_function(node: Any) -> bool:
    return isinstance(node, Function)


def _holds_function(node: Any, local: set[Var]) -> bool:
    """Return whether an expression uses a function in another way than to call it."""
    if isinstance(node, Function) and node.type_params:
        return True
    if isinstance(node, Call):
        callee = node.op
        known = isinstance(callee, (Op, GlobalVar, Function)) or callee in local
        held = node.args if known else node.args[:0]
        return not known or any(_may_be_function(one, local) for one in held)
    if isinstance(node, Let):
        return _may_be_function(node.body, local) or isinstance(node.value, GlobalVar)
    return any(_may_be_function(one, local) for one in parts(node))


def _may_be_function(value: Any, local: set[Var]) -> bool:
    return isinstance(value, (Function, GlobalVar)) or (isinstance(value, Var) and value in local)


def _info(type_: Type) -> StructInfo:
    """Return what relax can say about the values of a type."""
    if isinstance(type_, TensorType):
        return struct_info_of(type_)
    if isinstance(type_, TupleType):
        return TupleStructInfo(tuple([_info(field) for field in type_.fields]))
    return ObjectStructInfo()


def _without_sizes(info: StructInfo) -> StructInfo:
    """Return struct info in which tensors of unknown sizes have a rank only."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple([_without_sizes(field) for field in info.fields]))
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        if any(isinstance(size, AnySize) for size in info.shape.values):
            return TensorStructInfo(None, info.dtype, None, info.ndim)
    return info


def _lacks(known: StructInfo | None, wanted: StructInfo) -> bool:
    """Return whether less is known about a value than its type in relay says."""
    if isinstance(wanted, TupleStructInfo):
        if not isinstance(known, TupleStructInfo) or len(known.fields) != len(wanted.fields):
            return True
        return any(_lacks(one, other) for one, other in zip(known.fields, wanted.fields))
    if isinstance(wanted, TensorStructInfo):
        if isinstance(known, PrimStructInfo):
            return False
        return not isinstance(known, TensorStructInfo) or not isinstance(known.shape, ShapeExpr)
    return False


def _pattern(pattern: Pattern) -> Any:
    """Return a pattern as the runtime reads it (`runtime.program_host`)."""
    if isinstance(pattern, PatternConstructor):
        return [pattern.constructor.tag, *[_pattern(one) for one in pattern.patterns]]
    if isinstance(pattern, PatternTuple):
        return [-1, *[_pattern(one) for one in pattern.patterns]]
    return None


def _fits_all(pattern: Any) -> bool:
    """Return whether a pattern, as the runtime reads it, fits every value of its type."""
    return pattern is None or (pattern[0] == -1 and all(_fits_all(one) for one in pattern[1:]))


class _ObjectScope(Scope):
    """Translates the expressions of one function body or branch."""

    module: _Objects

    def lambda_of(self, function: Function, attrs: Any = None) -> graph.Function:
        """Translate a function; what its type says of the result is said, too."""
        made = super().lambda_of(function, attrs)
        result = self.module.result_of(function)
        return graph.Function(made.params, made.body, result, False, made.attrs)

    def refined(self, value: Any, type_: Type) -> Any:
        """Return a value of which all is known that its type in relay says."""
        wanted = _info(type_)
        if not _lacks(known_struct_info(value), wanted):
            return value
        return self.builder.match_cast(value, named_sizes(wanted, "n"))

    def translated(self, expr: Any) -> Any:
        """Translate an expression whose parts are translated."""
        rule = _RULES.get(expr.__class__)
        if rule is not None:
            return rule(self, expr)
        made = super().translated(expr)
        if isinstance(expr, (If, TupleGetItem)):
            return self.refined(made, expr.checked_type)
        return made

    def call(self, call: Call) -> Any:
        """Translate a call of an operator, a constructor or a function."""
        if isinstance(call.op, Op) or self.module.external_callee(call.op) is not None:
            return super().call(call)
        args = [self.find(arg) for arg in call.args]
        if isinstance(call.op, Constructor):
            return self.builder.emit(_made(call.op, args))
        callee = self.find(call.op)
        if isinstance(callee, GlobalVar) or isinstance(callee.struct_info, FuncStructInfo):
            made: Any = Call(callee, args, span=call.span)
        else:
            made = operators.invoke_closure(callee, graph.Tuple(args), ObjectStructInfo())
        return self.refined(self.builder.emit(made), call.checked_type)

    def constructor(self, made: Constructor) -> Any:
        """Translate a constructor that is used as a function."""
        if not made.inputs:
            return self.builder.emit(_made(made, []))
        params = [Var(f"x{place}", ObjectStructInfo()) for place in range(len(made.inputs))]
        self.builder.begin_binding_block()
        value = self.builder.emit(_made(made, params))
        body = SeqExpr([self.builder.end_block()], value)
        return self.builder.emit(graph.Function(params, body, ObjectStructInfo(), False))

    def reference(self, expr: RefCreate) -> Any:
        """Translate the making of a reference."""
        return self.builder.emit(data_words.new_reference(self.find(expr.value)))

    def read(self, expr: RefRead) -> Any:
        """Translate the reading of a reference."""
        made = self.builder.emit(data_words.read(self.find(expr.ref)))
        return self.refined(made, expr.checked_type)

    def write(self, expr: RefWrite) -> Any:
        """Translate the writing of a reference."""
        return self.builder.emit(data_words.write(self.find(expr.ref), self.find(expr.value)))

    # Matches

    def match(self, match: Match) -> Any:
        """Translate a match: a choice between its first clause and the others."""
        if match.complete:
            missing = unmatched_cases(match, self.module.source)
            if missing:
                raise TypeMismatchError(
                    f"a match has no clause for {missing[0]}",
                    notes=("add one, or make it Match(…, complete=False)",),
                    span=match.span,
                )
        data = self.find(match.data)
        if isinstance(data, graph.Tuple):
            data = self.builder.emit(data)
        made = self.builder.normalize_argument(self.clauses(match, 0, data))
        return self.refined(made, match.checked_type)

    def clauses(self, match: Match, place: int, data: Any) -> Any:
        """Translate the clauses from a place on, as an expression of the block that is open."""
        if place == len(match.clauses):
            return data_words.no_clause(data)
        clause = match.clauses[place]
        pattern = _pattern(clause.lhs)
        is_last = match.complete and place == len(match.clauses) - 1

        def then() -> Any:
            inner: Any = self.inner()
            inner.bind(clause.lhs, data)
            return inner.value(clause.rhs)

        if is_last or _fits_all(pattern):
            return self.block(then)
        condition = self.builder.emit(data_words.fits(data, json.dumps(pattern)))
        return graph.If(
            condition, self.block(then), self.block(lambda: self.clauses(match, place + 1, data))
        )

    def block(self, value: Callable[[], Any]) -> SeqExpr:
        """Return the sequence of what a function emits and returns."""
        self.builder.begin_binding_block()
        try:
            result = self.builder.normalize_argument(value())
        finally:
            block = self.builder.end_block()
        return SeqExpr([block] if block.bindings else [], result)

    def bind(self, pattern: Pattern, value: Any) -> None:
        """Bind the variables of a pattern to the parts of a value."""
        pending = [(pattern, value)]
        while pending:
            one, part = pending.pop()
            if isinstance(one, PatternVar):
                self.known[id(one.var)] = self.refined(part, one.var.checked_type)
            elif isinstance(one, (PatternConstructor, PatternTuple)):
                for place, inside in enumerate(one.patterns):
                    if not isinstance(inside, PatternWildcard):
                        field = data_words.field(part, PrimValue(place))
                        pending.append((inside, self.builder.emit(field)))


def _made(constructor: Constructor, fields: list[Any]) -> Call:
    if len(fields) != len(constructor.inputs):
        raise TypeMismatchError(
            f"the constructor '{constructor.name_hint}' takes {len(constructor.inputs)} values, "
            f"not {len(fields)}"
        )
    made: Call = data_words.make(constructor.tag, *fields)
    return made


_RULES: dict[type, Callable[[_ObjectScope, Any], Any]] = {
    Constructor: _ObjectScope.constructor,
    Match: _ObjectScope.match,
    RefCreate: _ObjectScope.reference,
    RefRead: _ObjectScope.read,
    RefWrite: _ObjectScope.write,
}


class _Objects(ModuleTranslation):
    """Translates the functions of a module that may use all of relay."""

    scope = _ObjectScope

    def __init__(self, source: IRModule, entries: Iterable[str]) -> None:
        super().__init__(source, entries)
        self.infer()

    def declared(self, function: Function) -> FuncStructInfo:
        """Return the type of a function under relax."""
        params = [self.known_sizes(param) for param in function.params]
        return FuncStructInfo(params, self.result_of(function), False)

    def result_of(self, function: Function) -> StructInfo:
        """Return what is known about the result of a function."""
        type_: Any = function.ret_type or getattr(function.checked_type, "ret_type", None)
        return ObjectStructInfo() if type_ is None else _without_sizes(_info(type_))

    def known_sizes(self, param: Var) -> StructInfo:
        """Return the struct info of a parameter."""
        type_: Any = param.type_annotation
        if type_ is None or isinstance(type_, IncompleteType):
            type_ = param.checked_type
        return named_sizes(_info(type_), param.name_hint)
