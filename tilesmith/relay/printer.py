"""Prints Relay's text format.

    def @main(%x: Tensor[(1, 8), float32]) -> Tensor[(1, 8), float32] {
      %0 = add(%x, 1f);
      multiply(%0, %0)
    }

Each call, tuple, function value, … that is an operand gets a number in the scope where it is first
used; a scope is the body of a function, a branch, a clause. Variables keep their names, numbered
where two would clash. Constants that are no plain scalars stand in the metadata section, as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tilesmith.ir import GlobalVar, IntImm, IRModule, Op, PrimExpr, save_json
from tilesmith.ir import Var as SizeVar
from tilesmith.ir.node import DIALECT_TEXT
from tilesmith.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RelayRefType,
    TupleType,
    TypeCall,
    TypeVar,
)
from tilesmith.relax.attrs import Attrs
from tilesmith.relax.struct_info import TensorStructInfo, TupleStructInfo
from tilesmith.relax.type_views import type_of
from tilesmith.relay.adt import (
    Constructor,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
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
from tilesmith.relay.scopes import Scopes
from tilesmith.relay.ty import TensorType
from tilesmith.relay.walks import PLAIN, binders, parts, post_order
from tilesmith.support.errors import TypeMismatchError
from tilesmith.support.recursion import deep_recursion
from tilesmith.target.virtual_device import VirtualDevice
from tilesmith.tir.unknown import Any as UnknownSize

__all__ = ["HEADER", "SUFFIXES", "type_text"]

HEADER = '#[version = "0.0.5"]'

SUFFIXES = {"int32": "", "float32": "f", "float64": "f64", "float16": "f16", "int64": "i64",
            "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32",
            "uint64": "u64"}  # fmt: skip
"""dtype → what follows a number of it."""

_NO_NAME = re.compile(r"[^A-Za-z0-9_]")
_SCOPES = (Function, If, Let, Match)
"""Expressions that hold scopes: what is inside is numbered there, not outside."""


def type_text(type_: Any) -> str:
    """Return a type as the format writes it."""
    if isinstance(type_, TensorType):
        if not type_.shape:
            return str(type_.dtype)
        sizes = [_size_text(size) for size in type_.shape]
        shape = ", ".join(sizes) + ("," if len(sizes) == 1 else "")
        return f"Tensor[({shape}), {type_.dtype}]"
    if isinstance(type_, TupleType):
        fields = [type_text(field) for field in type_.fields]
        return "(" + ", ".join(fields) + ("," if len(fields) == 1 else "") + ")"
    if isinstance(type_, FuncType):
        params = ", ".join([one.name_hint for one in type_.type_params])
        arguments = ", ".join([type_text(one) for one in type_.arg_types])
        return f"fn {f'[{params}]' if params else ''}({arguments}) -> {type_text(type_.ret_type)}"
    if isinstance(type_, RelayRefType):
        return f"ref({type_text(type_.value)})"
    if isinstance(type_, TypeCall):
        return f"{type_text(type_.func)}[{', '.join([type_text(one) for one in type_.args])}]"
    if isinstance(type_, (TypeVar, GlobalTypeVar)):
        return type_.name_hint
    if isinstance(type_, IncompleteType):
        return "_"
    return str(type_)


def _is_type(info: Any) -> bool:
    """Return whether a type of the format says all that struct info does."""
    if isinstance(info, TupleStructInfo):
        return all(_is_type(field) for field in info.fields)
    if not isinstance(info, TensorStructInfo) or info.vdevice is not None:
        return False
    return info.concrete_shape is not None and not info.dtype.is_void


def _size_text(size: PrimExpr) -> str:
    if isinstance(size, IntImm):
        return str(size.value)
    if isinstance(size, UnknownSize):
        return "?"
    return size.name if isinstance(size, SizeVar) else str(size)


def _number_text(value: Any, dtype: str) -> str | None:
    """Return a scalar as text, or None if the format cannot write it exactly."""
    if dtype == "bool":
        return str(bool(value))
    if dtype not in SUFFIXES:
        return None
    if not dtype.startswith("float"):
        return f"{int(value)}{SUFFIXES[dtype]}"
    text = repr(float(str(value)) if dtype == "float32" else float(value))
    if text in ("inf", "-inf", "nan"):
        return None
    return text.removesuffix(".0") + SUFFIXES[dtype]


class _OpenScope:
    """A scope that is being written: its number, its lines, and what it has named."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines: list[str] = []
        self.names: dict[int, str] = {}


class _Writer:
    """Writes one text: names of variables, numbers of temporaries, the metadata."""

    def __init__(self, show_meta_data: bool, annotate: Callable[[Any], str] | None) -> None:
        self.show_meta_data = show_meta_data
        self.annotate = annotate
        self.metadata: dict[str, list[Any]] = {}
        self.meta_places: dict[int, str] = {}
        self.variables: dict[int, str] = {}
        self.taken: dict[str, int] = {}
        self.open: list[_OpenScope] = []
        self.scopes = Scopes(Tuple(()))
        self.numbers = 0
        self.kept: list[Any] = []  # ids stay valid while the nodes live

    # Names.

    def name(self, var: Any) -> str:
        """Return the name of a variable; the same one wherever it is used."""
        known = self.variables.get(id(var))
        if known is None:
            hint = _NO_NAME.sub("_", var.name_hint) or "v"
            hint = "v" + hint if hint[0].isdigit() else hint
            known, number = hint, self.taken.get(hint, 0)
            while known in self.taken:
                number += 1
                known = f"{hint}{number}"
            self.taken[hint] = number
            self.taken.setdefault(known, 0)
            self.variables[id(var)] = known
            self.kept.append(var)
        return "%" + known

    def declared(self, var: Var) -> str:
        """Return a variable with its type, if that was written."""
        type_ = var.type_annotation
        return self.name(var) + ("" if type_ is None else f": {type_text(type_)}")

    def meta(self, key: str, node: Any) -> str:
        """Put a node into the metadata and return its place there."""
        place = self.meta_places.get(id(node))
        if place is None:
            entries = self.metadata.setdefault(key, [])
            place = self.meta_places[id(node)] = f"meta[{key}][{len(entries)}]"
            entries.append(node)
        return place

    # Expressions.

    def operand(self, expr: Any) -> str:
        """Return an expression as an operand; what needs a line gets one in its scope."""
        known = self.known(expr)
        if known is not None:
            return known
        for node in post_order(expr, self.enters):
            if self.known(node) is None:
                text = self.whole(node)
                name = f"%{self.numbers}"
                self.numbers += 1
                scope = self.scope_of(node)
                scope.lines.append(f"{name} = {text};")
                scope.names[id(node)] = name
                self.kept.append(node)
        return self.known(expr) or ""

    def scope_of(self, node: Any) -> _OpenScope:
        """Return the open scope that a node belongs to, the innermost one if it is in doubt."""
        number = self.scopes.of.get(id(node))
        return next((one for one in reversed(self.open) if one.number == number), self.open[-1])

    def enters(self, expr: Any) -> bool:
        """Return whether the parts of an expression need lines in the scope around it."""
        return not isinstance(expr, _SCOPES) and self.known(expr) is None

    def known(self, expr: Any) -> str | None:
        """Return the text of an expression that needs no line, or has one."""
        if isinstance(expr, Var):
            return self.name(expr)
        if isinstance(expr, PLAIN):
            return self.meta(type(expr).node_key, expr)
        if isinstance(expr, GlobalVar):
            return "@" + expr.name_hint
        if isinstance(expr, Constant):
            return self.constant(expr)
        if isinstance(expr, Op):
            return expr.name
        if isinstance(expr, Constructor):
            return expr.name_hint
        for scope in reversed(self.open):
            found = scope.names.get(id(expr))
            if found is not None:
                return found
        return None

    def whole(self, expr: Any) -> str:
        """Return an expression as the right side of a line, with its type and annotation."""
        known = self.known(expr)
        text = self._whole(expr) if known is None else known
        if isinstance(expr, (Var, GlobalVar, Op, Constructor, *_SCOPES)):
            return text
        info = None if isinstance(expr, Constant) else getattr(expr, "_struct_info", None)
        comments = []
        if info is not None and not isinstance(type_ := expr.checked_type, IncompleteType):
            comments.append(f"ty={type_text(type_)}")
        if self.annotate is not None and (note := self.annotate(expr)):
            comments.append(str(note))
        return text + "".join([f" /* {comment} */" for comment in comments])

    def _whole(self, expr: Any) -> str:
        if isinstance(expr, Call):
            return self.call(expr)
        if isinstance(expr, Tuple):
            fields = [self.operand(field) for field in expr.fields]
            return "(" + ", ".join(fields) + ("," if len(fields) == 1 else "") + ")"
        if isinstance(expr, TupleGetItem):
            return f"{self.operand(expr.tuple_value)}.{expr.index}"
        if isinstance(expr, Function):
            return "fn " + self.function(expr)
        if isinstance(expr, If):
            condition = self.operand(expr.cond)
            true = self.block(expr, 1, branch(expr.true_branch))
            false = self.block(expr, 2, branch(expr.false_branch))
            return f"if ({condition}) {true} else {false}"
        if isinstance(expr, Let):
            return "(" + self.block(None, 0, expr)[1:-1] + ")"
        if isinstance(expr, Match):
            return self.match(expr)
        if isinstance(expr, RefCreate):
            return f"ref({self.operand(expr.value)})"
        if isinstance(expr, RefRead):
            return f"ref_read({self.operand(expr.ref)})"
        if isinstance(expr, RefWrite):
            return f"ref_write({self.operand(expr.ref)}, {self.operand(expr.value)})"
        raise TypeMismatchError(
            f"the text format of relay has no form for {type(expr).__name__}",
            notes=("nodes of relax are printed by script()",),
        )

    def call(self, call: Call) -> str:
        """Return a call with its attributes."""
        if isinstance(call.op, Constructor) and not call.op.inputs and not call.args:
            return call.op.name_hint
        arguments = [self.operand(part) for part in parts(call)]
        callee = arguments.pop(0)
        arguments += self.attributes(call.attrs)
        if call.sinfo_args:
            given = ", ".join([self.given_info(one) for one in call.sinfo_args])
            arguments.append(f"sinfo_args=[{given}]")
        return f"{callee}({', '.join(arguments)})"

    def given_info(self, info: Any) -> str:
        """Return what a call states about its result: a type, or its place in the metadata."""
        return type_text(type_of(info)) if _is_type(info) else self.meta(type(info).node_key, info)

    def attributes(self, attrs: Any) -> list[str]:
        """Return attributes that have not their default."""
        if attrs is None:
            return []
        schema = attrs.schema if isinstance(attrs, Attrs) else None
        found = []
        for name, value in attrs.items():
            field = schema.fields.get(name) if schema is not None else None
            if field is not None and type(field.default) is type(value) and field.default == value:
                continue
            found.append(f"{name}={self.value(value)}")
        return found

    def value(self, value: Any) -> str:
        """Return the value of an attribute."""
        if value is None or isinstance(value, bool):
            return str(value)
        if isinstance(value, int):
            return str(int(value))
        if isinstance(value, float):
            return f"{value!r}f64" if repr(value) not in ("inf", "-inf", "nan") else f'"{value!r}"'
        if isinstance(value, str):
            return json.dumps(str(value))
        if isinstance(value, (tuple, list)):
            return "[" + ", ".join([self.value(item) for item in value]) + "]"
        if hasattr(value, "items"):
            pairs = [f"{json.dumps(str(key))}: {self.value(item)}" for key, item in value.items()]
            return "{" + ", ".join(pairs) + "}"
        if isinstance(value, VirtualDevice):  # which is read from a text, too
            return json.dumps(value.name)
        return self.meta(type(value).node_key, value)

    def constant(self, constant: Constant) -> str:
        """Return a constant: a number, or its place in the metadata."""
        if not constant.data.shape:
            text = _number_text(constant.data.numpy()[()], str(constant.data.dtype))
            if text is not None:
                return text
        return self.meta("relay.Constant", constant)

    def match(self, match: Match) -> str:
        """Return a match with a line for each clause."""
        value = self.operand(match.data)
        clauses = [
            f"{self.pattern(clause.lhs)} => {self.block(match, place, clause.rhs)},"
            for place, clause in enumerate(match.clauses, 1)
        ]
        inside = "\n".join(clauses).replace("\n", "\n  ")
        return f"match{'' if match.complete else '?'} ({value}) {{\n  {inside}\n}}"

    def pattern(self, pattern: Any) -> str:
        """Return a pattern."""
        if isinstance(pattern, PatternVar):
            return self.declared(pattern.var)
        if isinstance(pattern, (PatternConstructor, PatternTuple)):
            inner = [self.pattern(one) for one in pattern.patterns]
            if isinstance(pattern, PatternTuple):
                return "(" + ", ".join(inner) + ("," if len(inner) == 1 else "") + ")"
            name = pattern.constructor.name_hint
            return f"{name}({', '.join(inner)})" if inner else name
        return "_"

    # Scopes.

    def function(self, function: Function) -> str:
        """Return type parameters, parameters, result and body of a function."""
        types = ", ".join([one.name_hint for one in function.type_params])
        params = [self.declared(param) for param in function.params]
        params += self.attributes(function.attrs)
        result = "" if function.ret_type is None else f" -> {type_text(function.ret_type)}"
        block = self.block(function, 0, function.body)
        return f"{f'[{types}]' if types else ''}({', '.join(params)}){result} {block}"

    def block(self, user: Any, place: int, expr: Any) -> str:
        """Return a part of ``user`` in braces, on indented lines, as a scope of its own."""
        number = self.scopes.inner.get((id(user), place), self.open[-1].number)
        inside = "\n".join(self.scope(expr, number)).replace("\n", "\n  ")
        return "{\n  " + inside + "\n}"

    def scope(self, expr: Any, number: int) -> list[str]:
        """Return the lines of an expression: what it binds, what it numbers, and its value."""
        scope = _OpenScope(number)
        self.open.append(scope)
        while isinstance(expr, Let) and self.known(expr) is None:
            value = self.root(expr.value)
            scope.lines.append(f"let {self.declared(expr.var)} = {value};")
            expr = expr.body
        value = self.root(expr)
        self.open.pop()
        return [*scope.lines, value]

    def root(self, expr: Any) -> str:
        """Return the value of a binding or a scope: numbered only if it has other users, too."""
        if self.known(expr) is None and self.is_shared(expr):
            return self.operand(expr)
        if self.known(expr) is None and not isinstance(expr, _SCOPES):
            for part in parts(expr):
                self.operand(part)
        return self.whole(expr)

    def is_shared(self, expr: Any) -> bool:
        """Return whether an expression has several users."""
        return self.scopes.users.get(id(expr), 0) > 1

    # Whole texts.

    def begin(self, expr: Any) -> None:
        """Begin with a function or an expression whose names and numbers are its own."""
        self.scopes, self.numbers = Scopes(expr), 0
        self.open = [_OpenScope(0)]
        self.taken, self.variables = {}, {}

    def module(self, mod: IRModule) -> list[str]:
        """Return the definitions of types, then the functions."""
        found = []
        for header, definition in mod.type_definitions.items():
            types = ", ".join([one.name_hint for one in definition.type_vars])
            lines = [f"type {header.name_hint}{f'[{types}]' if types else ''} {{"]
            for one in definition.constructors:
                inputs = ", ".join([type_text(type_) for type_ in one.inputs])
                lines.append(f"  {one.name_hint}{f'({inputs})' if inputs else ''},")
            found.append("\n".join([*lines, "}"]))
        for var, function in mod.functions.items():
            if isinstance(function, Function):
                self.begin(function)
                found.append(f"def @{var.name_hint}{self.function(function)}")
            else:
                text = function.script(show_meta=False).replace("*/", "* /")
                found.append(f"/* @{var.name_hint}:\n{text}\n*/")
        return ["\n\n".join(found)]

    def metadata_section(self) -> list[str]:
        """Return the metadata, or a remark that it was left out."""
        if not self.metadata:
            return []
        if not self.show_meta_data:
            return ["/* The metadata section was left out: astext(show_meta_data=True) has it. */"]
        entries = {
            key: [json.loads(save_json(node)) for node in nodes]
            for key, nodes in self.metadata.items()
        }
        return ["", "#[metadata]", json.dumps(entries)]


def _free_in(expr: Any) -> list[Var]:
    bound = {var for node in post_order(expr) for var in binders(node)}
    return [node for node in post_order(expr) if isinstance(node, Var) and node not in bound]


@DIALECT_TEXT.register("relay")
def text_of(
    node: Any,
    show_meta_data: bool = True,
    annotate: Callable[[Any], str] | None = None,
    header: bool = True,
) -> str:
    """Return a module or an expression in Relay's text format."""
    writer = _Writer(show_meta_data, annotate)
    with deep_recursion():
        if isinstance(node, IRModule):
            lines = writer.module(node)
        elif isinstance(node, (Function, Var)):
            writer.begin(node)
            lines = [writer.whole(node)]
        else:
            writer.begin(node)
            lines = [f"free_var {writer.declared(var)};" for var in _free_in(node)]
            lines += writer.scope(node, 0)
    lines = [HEADER, *lines] if header else lines
    return "\n".join(lines + writer.metadata_section())
