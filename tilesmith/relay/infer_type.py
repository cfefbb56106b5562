"""InferType: finds the type of each expression in one walk.

Types that are not written are holes, filled when they meet other types (`unify.py`). The type of an
operator's call comes from its record; while a type that it needs is a hole, the call waits. What
was found is noted at the expressions, which stay the same objects, and read as ``checked_type``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tilesmith.ir import GlobalVar, IRModule, Op, RelayRefType, Type
from tilesmith.ir.adt import Constructor
from tilesmith.ir.types import FuncType, TupleType, TypeCall
from tilesmith.relax.base import GraphExpr, StructInfo
from tilesmith.relax.relations import infer_call
from tilesmith.relax.type_views import struct_info_of, type_of
from tilesmith.relay.adt import Match, PatternConstructor, PatternTuple, PatternVar
from tilesmith.relay.error_words import in_relays_words
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
from tilesmith.relay.printer import type_text
from tilesmith.relay.ty import TensorType
from tilesmith.relay.unify import DisagreementError, Holes, apply
from tilesmith.relay.walks import PLAIN, functions_of
from tilesmith.support.errors import DiagnosticError, TilesmithError, TypeMismatchError
from tilesmith.support.recursion import deep_recursion

__all__ = ["infer_expr", "infer_module"]

_BOOL = TensorType((), "bool")


class _Inference:
    """The types of one module or expression while they are being found."""

    def __init__(self, mod: IRModule | None) -> None:
        self.mod = mod
        self.holes = Holes()
        self.types: dict[int, Type] = {}
        self.nodes: list[Any] = []
        self.tasks: list[Callable[[], None]] = []
        self.waiting: list[tuple[Any, Callable[[], bool]]] = []

    # The walk.

    def run(self, expr: Any) -> Type:
        """Find the types of an expression and all below it."""
        self.visit(expr)
        while self.tasks:
            self.tasks.pop()()
        return self.types[id(expr)]

    def visit(self, node: Any) -> None:
        """Do what finds the type of a node later, after all that is done first."""
        self.tasks.append(lambda: self._begin(node))

    def then(self, *steps: Callable[[], None]) -> None:
        """Do steps in this order, before anything that waits already."""
        self.tasks.extend(reversed(steps))

    def _begin(self, node: Any) -> None:
        if id(node) in self.types or isinstance(node, Op):
            return
        rule = _RULES.get(node.__class__)
        if rule is None:
            raise TypeMismatchError(
                f"{type(node).__name__} has no type in relay", span=getattr(node, "span", None)
            )
        rule(self, node)

    def all_of(self, nodes: Any, after: Callable[[], None]) -> None:
        """Visit nodes, then do a step."""
        self.tasks.append(after)
        for node in reversed(nodes):
            self.visit(node)

    def note(self, node: Any, type_: Type) -> None:
        """Note the type of a node."""
        self.types[id(node)] = type_
        self.nodes.append(node)

    def of(self, node: Any) -> Type:
        """Return the type of a node that was visited, or the hole where its type will be."""
        return self.holes.head(self.types[id(node)])

    # Agreement.

    def agree(self, node: Any, what: str, wanted: Type, found: Type, sizes: Any = None) -> Type:
        """Make two types agree, or raise the error that shows both."""
        try:
            agreed: Type = self.holes.unify(wanted, found, sizes)
        except DisagreementError:
            wanted, found = self.holes.resolve(wanted), self.holes.resolve(found)
            raise TypeMismatchError(
                f"{what}: expected {type_text(wanted)}, found {type_text(found)}",
                span=getattr(node, "span", None),
                notes=_shown(node),
            ) from None
        return agreed

    def wait(self, node: Any, attempt: Callable[[], bool]) -> None:
        """Try a step now, and again when more is known."""
        if not attempt():
            self.waiting.append((node, attempt))

    def finish(self) -> None:
        """Do what waits; raise the error about what cannot be known. Then note the types."""
        while self.waiting:
            before, self.waiting = self.waiting, []
            self.waiting = [(node, attempt) for node, attempt in before if not attempt()]
            if len(self.waiting) == len(before):
                node = before[0][0]
                raise TypeMismatchError(
                    "the types of the operands are not known here",
                    span=getattr(node, "span", None),
                    notes=("write the types of the parameters", *_shown(node)),
                )
        for node in self.nodes:
            type_ = self.holes.resolve(self.types[id(node)])
            if isinstance(node, GlobalVar):
                if not isinstance(node.struct_info, StructInfo):  # which relax's own functions have
                    node.describe(type_)
            elif isinstance(node, GraphExpr) and not isinstance(node, Constant):
                # A note, not a field: programs are the same before and after.
                object.__setattr__(node, "_struct_info", struct_info_of(type_))

    # Rules.

    def var(self, var: Var) -> None:
        """A variable that is free, or a parameter."""
        self.note(var, self.holes.opened(var.type_annotation))

    def constant(self, constant: Constant) -> None:
        """A constant."""
        self.note(constant, type_of(constant.struct_info))

    def global_var(self, var: GlobalVar) -> None:
        """A function of the module."""
        if self.mod is None or var not in self.mod:
            if var.struct_info is None:
                raise DiagnosticError(f"the module has no function '@{var.name_hint}'")
            self.note(var, type_of(var.struct_info))
            return
        function = self.mod[var]
        known = self.mod.get_global_var(var.name_hint)
        if id(known) not in self.types:
            if not isinstance(function, Function):
                info = var.struct_info or getattr(function, "struct_info", None)
                self.note(known, type_of(info))
            else:
                self.note(known, self.holes.opened(function.declared_type()))
        if known is not var:
            self.note(var, self.types[id(known)])

    def constructor(self, constructor: Constructor) -> None:
        """A constructor: a function for all types of its parameters."""
        header = constructor.belong_to
        definition: Any = self.mod[header] if self.mod is not None and header in self.mod else None
        if definition is None:
            raise DiagnosticError(
                f"the module does not define the type '{header.name_hint}'",
                notes=("mod[header] = TypeData(header, type_vars, constructors)",),
            )
        params = definition.type_vars
        own = next(one for one in definition.constructors if one.tag == constructor.tag)
        result = TypeCall(header, params) if params else header
        self.note(constructor, FuncType(own.inputs, result, params))

    def call(self, call: Call) -> None:
        """A call: of an operator by its record, of anything else by its type."""
        if isinstance(call.op, Op):
            self.all_of(call.args, lambda: self._operator(call))
        else:
            self.all_of((call.op, *call.args), lambda: self._apply(call))

    def _operator(self, call: Call) -> None:
        result = self.holes.fresh()
        self.note(call, result)

        def attempt() -> bool:
            if _open_arguments(self, call):
                _complete(self, call)
                if _open_arguments(self, call):
                    return False
            found = _result_of(self, call)
            self.agree(call, f"the result of {call.op.name}", result, found)
            return True

        self.wait(call, attempt)

    def _apply(self, call: Call) -> None:
        callee = self.of(call.op)
        arguments = [self.types[id(arg)] for arg in call.args]
        what = _name_of(call.op)
        if not isinstance(callee, FuncType):
            result = self.holes.fresh()
            self.agree(call, f"{what} is called", callee, FuncType(arguments, result))
            self.note(call, result)
            return
        if len(callee.arg_types) != len(arguments):
            raise TypeMismatchError(
                f"{what} has {len(callee.arg_types)} parameters, got {len(arguments)} arguments",
                span=call.span,
                notes=_shown(call),
            )
        given = call.type_args or [self.holes.fresh() for _ in callee.type_params]
        types = {id(one): other for one, other in zip(callee.type_params, given)}
        sizes: dict[Any, Any] = {}
        for number, (wanted, found) in enumerate(zip(callee.arg_types, arguments)):
            place = f"argument {number} of {what}"
            self.agree(call, place, apply(wanted, types), found, sizes)
        self.note(call, apply(callee.ret_type, types, sizes))

    def tuple(self, tuple_: Tuple) -> None:
        """A tuple."""
        self.all_of(
            tuple_.fields,
            lambda: self.note(tuple_, TupleType([self.types[id(one)] for one in tuple_.fields])),
        )

    def item(self, item: TupleGetItem) -> None:
        """A field of a tuple; waits for the type of the tuple."""
        self.all_of((item.tuple_value,), lambda: self._field(item))

    def _field(self, item: TupleGetItem) -> None:
        result = self.holes.fresh()
        self.note(item, result)

        def attempt() -> bool:
            type_ = self.of(item.tuple_value)
            if not isinstance(type_, TupleType):
                if self.holes.is_known(type_):
                    self.agree(item, "only tuples have fields", TupleType(()), type_)
                return False
            if item.index >= len(type_.fields):
                raise TypeMismatchError(
                    f"field {item.index} of a tuple of {len(type_.fields)}: {type_text(type_)}",
                    span=item.span,
                )
            self.agree(item, "the field", result, type_.fields[item.index])
            return True

        self.wait(item, attempt)

    def choice(self, one: If) -> None:
        """A choice: the condition is a boolean, both branches have one type."""
        true, false = branch(one.true_branch), branch(one.false_branch)

        def done() -> None:
            self.agree(one, "the condition of if", _BOOL, self.of(one.cond))
            what = "both branches of if have one type"
            self.note(one, self.agree(one, what, self.types[id(true)], self.types[id(false)]))

        self.all_of((one.cond, true, false), done)

    def let(self, let: Let) -> None:
        """A binding; a function may refer to itself."""
        if id(let.var) not in self.types:
            self.var(let.var)
        if isinstance(let.value, Function):
            declared = self.holes.opened(let.value.declared_type())
            self.agree(let, f"%{let.var.name_hint}", self.types[id(let.var)], declared)

        def bound() -> None:
            what = f"the value of %{let.var.name_hint}"
            self.agree(let, what, self.types[id(let.var)], self.types[id(let.value)])

        self.then(
            lambda: self._begin(let.value),
            bound,
            lambda: self._begin(let.body),
            lambda: self.note(let, self.types[id(let.body)]),
        )

    def function(self, function: Function) -> None:
        """A function as a value."""
        for param in function.params:
            if id(param) not in self.types:
                self.var(param)
        result = self.holes.opened(function.ret_type)
        arguments = [self.types[id(param)] for param in function.params]
        type_ = FuncType(arguments, result, function.type_params)

        def done() -> None:
            self.agree(function, "the result of the function", result, self.of(function.body))
            self.note(function, type_)

        self.all_of((function.body,), done)

    def match(self, match: Match) -> None:
        """A choice by patterns: all clauses have one type."""
        result = self.holes.fresh()
        steps: list[Callable[[], None]] = [lambda: self._begin(match.data)]
        for clause in match.clauses:
            steps += [
                partial(self._bind, match, clause),
                partial(self._begin, clause.rhs),
                partial(self._clause, match, clause, result),
            ]
        self.then(*steps, lambda: self.note(match, result))

    def _bind(self, match: Match, clause: Any) -> None:
        _pattern(self, match, clause.lhs, self.types[id(match.data)])

    def _clause(self, match: Match, clause: Any, result: Type) -> None:
        what = "all clauses of match have one type"
        self.agree(match, what, result, self.types[id(clause.rhs)])

    def ref_create(self, ref: RefCreate) -> None:
        """A new reference."""
        self.all_of((ref.value,), lambda: self.note(ref, RelayRefType(self.types[id(ref.value)])))

    def ref_read(self, read: RefRead) -> None:
        """The value behind a reference."""

        def done() -> None:
            value = self.holes.fresh()
            self.agree(read, "ref_read", RelayRefType(value), self.of(read.ref))
            self.note(read, value)

        self.all_of((read.ref,), done)

    def ref_write(self, write: RefWrite) -> None:
        """A new value behind a reference; the result is the empty tuple."""

        def done() -> None:
            wanted = RelayRefType(self.types[id(write.value)])
            self.agree(write, "ref_write", self.of(write.ref), wanted)
            self.note(write, TupleType(()))

        self.all_of((write.ref, write.value), done)


def _result_of(inference: _Inference, call: Call) -> Type:
    stand_ins = [_stand_in(inference, arg) for arg in call.args]
    try:
        with in_relays_words():
            info = infer_call(Call(call.op, stand_ins, call.attrs, call.sinfo_args))
    except TilesmithError as error:
        given = ", ".join(
            [type_text(inference.holes.resolve(inference.of(arg))) for arg in call.args]
        )
        error.span = error.span or call.span
        error.notes += (f"in the call {call.op.name}({given})",)
        raise
    found: Type = type_of(info)
    return found


def _stand_in(inference: _Inference, arg: Any) -> Any:
    """Return an argument, for the inference of an operator, that is as known as it can be."""
    if isinstance(arg, (Constant, *PLAIN)):
        return arg
    if isinstance(arg, Tuple):
        return Tuple([_stand_in(inference, field) for field in arg.fields])
    name = getattr(arg, "name_hint", "value")
    return Var(name, struct_info_of(inference.holes.resolve(inference.of(arg))), None, "relay")


def _pattern(inference: _Inference, match: Match, pattern: Any, type_: Type) -> None:
    if isinstance(pattern, PatternVar):
        if id(pattern.var) not in inference.types:
            inference.var(pattern.var)
        what = f"the pattern %{pattern.var.name_hint}"
        inference.agree(match, what, inference.types[id(pattern.var)], type_)
    elif isinstance(pattern, PatternTuple):
        fields = [inference.holes.fresh() for _ in pattern.patterns]
        inference.agree(match, "a pattern of a tuple", TupleType(fields), type_)
        for inner, field in zip(pattern.patterns, fields):
            _pattern(inference, match, inner, field)
    elif isinstance(pattern, PatternConstructor):
        constructor = pattern.constructor
        if id(constructor) not in inference.types:
            inference.constructor(constructor)
        made: Any = inference.types[id(constructor)]
        if len(pattern.patterns) != len(made.arg_types):
            raise TypeMismatchError(
                f"{constructor.name_hint} takes {len(made.arg_types)} values, the pattern has "
                f"{len(pattern.patterns)}",
                span=match.span,
            )
        holes: dict[int, Type] = {id(one): inference.holes.fresh() for one in made.type_params}
        what = f"the pattern {constructor.name_hint}"
        inference.agree(match, what, apply(made.ret_type, holes), type_)
        for inner, wanted in zip(pattern.patterns, made.arg_types):
            _pattern(inference, match, inner, apply(wanted, holes))


def _plain(inference: _Inference, node: Any) -> None:
    """Sizes, numbers and words that operators of relax take: they are no values here."""
    inference.types[id(node)] = TupleType(())


_RULES: dict[type, Callable[[_Inference, Any], None]] = {
    Var: _Inference.var,
    Constant: _Inference.constant,
    GlobalVar: _Inference.global_var,
    Constructor: _Inference.constructor,
    Call: _Inference.call,
    Tuple: _Inference.tuple,
    TupleGetItem: _Inference.item,
    If: _Inference.choice,
    Let: _Inference.let,
    Function: _Inference.function,
    Match: _Inference.match,
    RefCreate: _Inference.ref_create,
    RefRead: _Inference.ref_read,
    RefWrite: _Inference.ref_write,
    **dict.fromkeys(PLAIN, _plain),
}


def _open_arguments(inference: _Inference, call: Call) -> list[int]:
    """Return the places of the arguments whose types are not known yet."""
    return [
        place
        for place, arg in enumerate(call.args)
        if not inference.holes.is_known(inference.types[id(arg)])
    ]


def _complete(inference: _Inference, call: Call) -> None:
    """Let the operator say what types of operands follow from its attributes."""
    complete = getattr(call.op.spec, "operand_infos", None)
    if complete is None:
        return
    open_places = _open_arguments(inference, call)
    known = [
        None if place in open_places else struct_info_of(inference.holes.resolve(inference.of(arg)))
        for place, arg in enumerate(call.args)
    ]
    found = complete(call, known)
    for place in open_places:
        if found[place] is not None:
            argument = call.args[place]
            what = f"operand {place} of {call.op.name}"
            inference.agree(call, what, inference.types[id(argument)], type_of(found[place]))


def _name_of(callee: Any) -> str:
    name = getattr(callee, "name_hint", None)
    if isinstance(callee, GlobalVar):
        return f"@{name}"
    if isinstance(callee, Constructor):
        return str(name)
    return f"%{name}" if name is not None else "the function"


def _shown(node: Any) -> tuple[str, ...]:
    """Return the text of an expression for an error, if it is short."""
    if getattr(node, "span", None) is not None or not isinstance(node, Call):
        return ()
    text = str(node)
    return ("in\n" + text,) if text.count("\n") < 12 else ("in\n" + text[-400:],)


def infer_module(mod: IRModule) -> IRModule:
    """Return a module whose expressions know their types, with the results of functions written.

    Raises TypeMismatchError where two types do not fit.
    """
    inference = _Inference(mod)
    with deep_recursion():
        for variable, function in functions_of(mod):
            try:
                if id(variable) not in inference.types:
                    inference.global_var(variable)
                found = inference.run(function)
                what = f"the type of @{variable.name_hint}"
                inference.agree(function, what, inference.types[id(variable)], found)
            except TilesmithError as error:
                error.notes += (f"in the function @{variable.name_hint}",)
                raise
        inference.finish()
    for variable, function in functions_of(mod):
        if function.ret_type is None:
            type_: Any = type_of(function.struct_info)
            written = function.with_fields(ret_type=type_.ret_type)
            object.__setattr__(written, "_struct_info", function.struct_info)
            mod[variable] = written
    return mod


def infer_expr(expr: Any, mod: IRModule | None = None) -> Any:
    """Return an expression that knows its type, and that of all below it; ``mod`` has the functions
    and types that it refers to.
    """
    inference = _Inference(mod)
    with deep_recursion():
        inference.run(expr)
        inference.finish()
    return expr
