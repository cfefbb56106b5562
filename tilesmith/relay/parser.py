"""Parses Relay's text format; `printer.py` describes it.

mod = relay.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(4), float32]) { nn.relu(%x) }')
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import GlobalVar, IRModule, Op
from tilesmith.relax.type_views import struct_info_of
from tilesmith.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from tilesmith.relay.attribute_parser import AttributeParser
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
    const,
    var,
)
from tilesmith.relay.function import Function
from tilesmith.relay.span_check import SpanCheck
from tilesmith.relay.tokens import SourceText, Token
from tilesmith.relay.type_parser import TypeParser
from tilesmith.relay.words import Words
from tilesmith.support.errors import DiagnosticError, TilesmithError
from tilesmith.support.recursion import deep_recursion

__all__ = ["SpanCheck", "fromtext", "parse", "parse_expr"]

VERSION = "0.0.5"

_INFIX = {
    "==": (1, "equal"), "!=": (1, "not_equal"), "<": (2, "less"), ">": (2, "greater"),
    "<=": (2, "less_equal"), ">=": (2, "greater_equal"), "+": (3, "add"), "-": (3, "subtract"),
    "*": (4, "multiply"), "/": (4, "divide"),
}  # fmt: skip
"""Sign → how tightly it binds, and the operator."""


class _Parser:
    """Parses expressions."""

    def __init__(self, text: SourceText, mod: IRModule, metadata: dict[str, Any]) -> None:
        self.words = Words(text)
        self.types = TypeParser(self.words)
        self.values = AttributeParser(self.words, metadata)
        self.mod = mod
        self.global_vars = {one.name_hint: one for one in mod.get_global_vars()}
        self.scopes: list[dict[str, Any]] = [{}]
        self.constructors: dict[str, Constructor] = {}
        self.free: dict[str, Var] = {}
        for header, definition in mod.type_definitions.items():
            self.types.type_names[header.name_hint] = header
            self.constructors.update({one.name_hint: one for one in definition.constructors})

    def version(self) -> None:
        """Go past the version, if there is one."""
        if self.words.next.kind == "version":
            token = self.words.take()
            if f'"{VERSION}"' not in token.text:
                raise self.words.error_at(token, f'the text is not of version "{VERSION}"')

    def whole_expression(self) -> Any:
        """Parse one expression up to the end of the text."""
        expr = self.scope()
        if self.words.next.kind != "end":
            raise self.words.unexpected("the end of the text")
        return expr

    def function(self, start: Token) -> Function:
        """Parse a function after the word ``fn`` or its name."""
        before = dict(self.types.type_names)
        type_params = self.types.type_params()
        self.words.expect("(")
        self.scopes.append({})
        params: list[Var] = []
        attrs: dict[str, Any] = {}
        self.words.listed(")", lambda: self._parameter(params, attrs))
        result = self.types.type() if self.words.took("->") else None
        self.words.expect("{")
        body = self.scope()
        self.words.expect("}")
        self.scopes.pop()
        self.types.type_names = before
        return Function(params, body, result, type_params, attrs, self.words.span(start))

    def _parameter(self, params: list[Var], attrs: dict[str, Any]) -> None:
        if self.words.next.kind == "local":
            params.append(self._bound())
            return
        name = self.words.next
        if name.kind not in ("name", "text"):
            raise self.words.unexpected("a parameter such as %x: float32, or an attribute")
        self.words.take()
        self.words.expect("=")
        key = json.loads(name.text) if name.kind == "text" else name.text
        attrs[key] = self.values.attribute()

    def _bound(self) -> Var:
        """Parse a variable where it is bound, with its type."""
        token = self.words.expect_kind("local", "a variable")
        type_ = self.types.type() if self.words.took(":") else None
        made = self._variable(token, type_)
        self.scopes[-1][token.text] = made
        return made

    def _variable(self, token: Token, type_: Any) -> Var:
        return var(token.text[1:], type_, span=self.words.span_of(token))

    # Scopes.

    def scope(self) -> Any:
        """Parse bindings and the value after them."""
        self.scopes.append({})
        lets: list[tuple[Token, Var, Any]] = []
        while True:
            start = self.words.next
            if self.words.took("let"):
                lets.append((start, *self._let()))
            elif start.kind == "graph" and self.words.tokens[self.words.at + 1].text == "=":
                self.words.take()
                self.words.take()
                self.scopes[-1][start.text] = self.expression()
                self.words.expect(";")
            elif self.words.took("free_var"):
                token = self.words.expect_kind("local", "a variable")
                type_ = self.types.type() if self.words.took(":") else None
                self.free[token.text] = self._variable(token, type_)
                self.words.expect(";")
            else:
                value = self.expression()
                if not self.words.took(";"):
                    break
                lets.append((start, var("_"), value))
        self.scopes.pop()
        for start, variable, bound in reversed(lets):
            value = Let(variable, bound, value, self.words.span_of(start))
        return value

    def _let(self) -> tuple[Var, Any]:
        outer = dict(self.scopes[-1])
        variable = self._bound()
        is_function = self.words.follows("=", "fn")
        self.words.expect("=")
        if not is_function:  # only a function may refer to itself
            inner, self.scopes[-1] = self.scopes[-1], outer
            value = self.expression()
            self.scopes[-1] = inner
        else:
            value = self.expression()
        self.words.expect(";")
        return variable, value

    # Expressions.

    def expression(self, least: int = 0) -> Any:
        """Parse an expression; signs that bind less tightly than ``least`` end it."""
        start = self.words.next
        left = self._postfix()
        while self.words.next.kind == "sign" and self.words.next.text in _INFIX:
            level, name = _INFIX[self.words.next.text]
            if level < least:
                break
            self.words.take()
            right = self.expression(level + 1)
            left = Call(Op.get(name), (left, right), span=self.words.span(start))
        return left

    def _postfix(self) -> Any:
        start = self.words.next
        value = self._primary()
        while True:
            if self.words.follows("("):
                value = self._call(value, start)
            elif self.words.follows(".") and self.words.tokens[self.words.at + 1].kind == "number":
                self.words.take()
                token = self.words.take()
                for index in token.text.split("."):
                    value = TupleGetItem(value, int(index), self.words.span(start))
            elif isinstance(value, Op):
                raise self.words.unexpected(f"'(' after the operator {value.name}")
            elif isinstance(value, Constructor) and not value.inputs:
                value = Call(value, (), span=self.words.span(start))
            else:
                return value

    def _call(self, callee: Any, start: Token) -> Any:
        self.words.expect("(")
        args: list[Any] = []
        attrs: dict[str, Any] = {}
        infos: list[Any] = []

        def argument() -> None:
            name = self.words.next
            if name.kind in ("name", "text") and self.words.tokens[self.words.at + 1].text == "=":
                self.words.take()
                self.words.take()
                key = json.loads(name.text) if name.kind == "text" else name.text
                if key == "sinfo_args":
                    self.words.expect("[")
                    infos.extend(self.words.listed("]", self._given_info))
                else:
                    attrs[key] = self.values.attribute()
            else:
                args.append(self.expression())

        self.words.listed(")", argument)
        span = self.words.span(start)
        try:
            return Call(callee, args, attrs or None, infos, span)
        except TilesmithError as error:
            error.span = span
            raise

    def _given_info(self) -> Any:
        """Parse what a call of an operator of relax states about its result."""
        if self.words.follows("meta"):
            return self.values.meta(self.words.take())
        return struct_info_of(self.types.type())

    def _primary(self) -> Any:
        token = self.words.next
        read = getattr(self, f"_read_{token.kind}", None)
        if read is None:
            raise self.words.unexpected("an expression")
        return read(self.words.take())

    def _read_local(self, token: Token) -> Any:
        for scope in reversed(self.scopes):
            if token.text in scope:
                return scope[token.text]
        if token.text in self.free:
            return self.free[token.text]
        raise self.words.error_at(token, f"the variable '{token.text}' is not bound here")

    def _read_graph(self, token: Token) -> Any:
        for scope in reversed(self.scopes):
            if token.text in scope:
                return scope[token.text]
        raise self.words.error_at(token, f"nothing before is numbered '{token.text}'")

    def _read_global(self, token: Token) -> Any:
        found = self.global_vars.get(token.text[1:])
        if found is None:
            known = ", ".join([f"@{name}" for name in self.global_vars]) or "none"
            notes = (f"functions: {known}",)
            raise self.words.error_at(token, f"there is no function '{token.text}'", notes)
        return found

    def _read_number(self, token: Token) -> Any:
        value, dtype = self.values.number(token)
        return const(value, dtype, self.words.span_of(token))

    def _read_sign(self, token: Token) -> Any:
        if token.text == "(":
            return self._parenthesized(token)
        if token.text == "-" and self.words.next.kind == "number":
            number = self.words.take()
            value, dtype = self.values.number(number)
            return const(numpy.negative(numpy.asarray(value, dtype)), dtype, self.words.span(token))
        if token.text == "-":
            return Call(Op.get("negative"), (self._postfix(),), span=self.words.span(token))
        self.words.at -= 1
        raise self.words.unexpected("an expression")

    def _parenthesized(self, start: Token) -> Any:
        fields: list[Any] = []
        is_tuple = self.words.follows(")")
        while not self.words.took(")"):
            fields.append(self.scope())
            if self.words.took(","):
                is_tuple = True
            else:
                self.words.expect(")")
                break
        return Tuple(fields, self.words.span(start)) if is_tuple else fields[0]

    def _read_name(self, token: Token) -> Any:
        known: dict[str, Callable[[], Any]] = {
            "True": lambda: const(True), "False": lambda: const(False),
            "fn": lambda: self.function(token), "if": lambda: self._if(token),
            "match": lambda: self._match(token), "meta": lambda: self.values.meta(token),
            "ref": lambda: RefCreate(*self._arguments(1, token)),
            "ref_read": lambda: RefRead(*self._arguments(1, token)),
            "ref_write": lambda: RefWrite(*self._arguments(2, token)),
        }  # fmt: skip
        special = known.get(token.text)
        if special is not None:
            return special()
        if token.text in self.constructors:
            return self.constructors[token.text]
        try:
            return Op.get(token.text)
        except TilesmithError as error:
            message = f"there is no operator or constructor '{token.text}'"
            raise self.words.error_at(token, message, error.notes) from error

    def _arguments(self, count: int, start: Token) -> list[Any]:
        self.words.expect("(")
        found = self.words.listed(")", self.expression)
        if len(found) != count:
            raise self.words.error_at(start, f"{start.text} takes {count} values, not {len(found)}")
        return [*found, self.words.span(start)]

    def _block(self) -> Any:
        self.words.expect("{")
        value = self.scope()
        self.words.expect("}")
        return value

    def _if(self, start: Token) -> If:
        self.words.expect("(")
        condition = self.expression()
        self.words.expect(")")
        true = self._block()
        self.words.expect("else")
        false = self._if(self.words.take()) if self.words.follows("if") else self._block()
        return If(condition, true, false, self.words.span(start))

    def _match(self, start: Token) -> Match:
        complete = not self.words.took("?")
        self.words.expect("(")
        value = self.expression()
        self.words.expect(")")
        self.words.expect("{")
        clauses = self.words.listed("}", self._clause)
        return Match(value, clauses, complete, self.words.span(start))

    def _clause(self) -> Clause:
        self.scopes.append({})
        pattern = self._pattern()
        self.words.expect("=>")
        value = self._block() if self.words.follows("{") else self.expression()
        self.scopes.pop()
        return Clause(pattern, value)

    def _pattern(self) -> Pattern:
        if self.words.next.kind == "local":
            return PatternVar(self._bound())
        token = self.words.take()
        if token.text == "_":
            return PatternWildcard()
        if token.text == "(":
            return PatternTuple(self.words.listed(")", self._pattern))
        if token.text not in self.constructors:
            known = ", ".join(self.constructors) or "none"
            notes = (f"constructors: {known}",)
            raise self.words.error_at(token, f"'{token.text}' is no pattern", notes)
        inner = self.words.listed(")", self._pattern) if self.words.took("(") else []
        return PatternConstructor(self.constructors[token.text], inner)


class _Definitions:
    """Parses the definitions of a module with a parser of expressions."""

    def __init__(self, parser: _Parser) -> None:
        self.parser = parser
        self.defined: set[str] = set()

    def module(self) -> IRModule:
        """Parse a whole text: definitions, or one expression."""
        parser = self.parser
        parser.version()
        if not (parser.words.follows("def") or parser.words.follows("type")):
            if parser.words.next.kind != "end":
                expr = parser.whole_expression()
                if not isinstance(expr, Function):
                    expr = Function(list(parser.free.values()), expr)
                parser.mod["main"] = expr
            return parser.mod
        self._declare()
        while parser.words.next.kind != "end":
            if parser.words.took("type"):
                self._type()
            else:
                parser.words.expect("def")
                self._function()
        return parser.mod

    def _declare(self) -> None:
        """Name all functions and types first, so that definitions may refer to later ones."""
        parser = self.parser
        for token, name in zip(parser.words.tokens, parser.words.tokens[1:]):
            if token.kind == "name" and token.text == "def" and name.kind == "global":
                parser.global_vars.setdefault(name.text[1:], GlobalVar(name.text[1:]))
            elif token.kind == "name" and token.text == "type" and name.kind == "name":
                parser.types.header(name)

    def _type(self) -> None:
        parser = self.parser
        name = parser.words.expect_kind("name", "the name of a type")
        header: Any = parser.types.type_names[name.text]
        before = dict(parser.types.type_names)
        params = parser.types.type_params()
        constructors = []
        if not parser.words.took(";"):
            parser.words.expect("{")
            constructors = parser.words.listed("}", lambda: self._constructor(header))
        parser.types.type_names = before
        parser.mod[header] = TypeData(header, params, constructors)

    def _constructor(self, header: Any) -> Constructor:
        parser = self.parser
        name = parser.words.expect_kind("name", "the name of a constructor")
        inputs = parser.words.listed(")", parser.types.type) if parser.words.took("(") else []
        made = parser.constructors[name.text] = Constructor(name.text, inputs, header)
        return made

    def _function(self) -> None:
        parser = self.parser
        name = parser.words.expect_kind("global", "the name of a function such as @main")
        variable = parser.global_vars[name.text[1:]]
        if variable.name_hint in self.defined:
            raise parser.words.error_at(name, f"'{name.text}' is defined twice")
        self.defined.add(variable.name_hint)
        parser.types.sizes = {}
        parser.mod[variable] = parser.function(name)


def _parser(source: str, name: str, mod: IRModule | None, table: Any) -> _Parser:
    if not isinstance(source, str):
        raise DiagnosticError(f"a program is parsed from a text, not from {source!r}")
    start = mod.shallow_copy() if mod is not None else IRModule()
    return _Parser(SourceText(source, name), start, dict(table or {}))


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Any = None,
) -> IRModule:
    """Return the module of a text. Its definitions join those of ``init_module``; an expression
    becomes the function "main". ``init_meta_table`` holds further metadata: key → list of nodes.

    Raises DiagnosticError with line and column for a text that is not of the format.
    """
    with deep_recursion():
        return _Definitions(_parser(source, source_name, init_module, init_meta_table)).module()


def parse_expr(source: str) -> Any:
    """Return the expression of a text."""
    with deep_recursion():
        parser = _parser(source, "from_string", None, None)
        parser.version()
        return parser.whole_expression()


def fromtext(source: str, source_name: str = "from_string") -> IRModule:
    """Return the module of a text, which has to begin with its version."""
    if not source.lstrip().startswith("#[version"):
        text = SourceText(source, source_name)
        raise text.error(f'the text has to begin with #[version = "{VERSION}"]', 0, 1)
    return parse(source, source_name)
