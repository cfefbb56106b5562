"""Defines macros: pieces of script that are expanded where they are called.

@T.macro
def copy(dst, src, i):
    dst[i] = src[i]
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from tilesmith.script.definitions import definition_of, variables_around
from tilesmith.script.diagnostics import Source
from tilesmith.script.parsing import Parser
from tilesmith.support.errors import ConfigError, ScriptError

__all__ = ["ScriptMacro", "expand_macro", "inline", "local_macro", "macro"]


class ScriptMacro:
    """A function whose body is parsed where it is called.

    Hygienic: its names are resolved where it was defined; else where it is called.
    """

    def __init__(
        self,
        source: Source,
        node: ast.FunctionDef,
        known: Mapping[str, Any],
        hygienic: bool,
        scopes: list[dict[str, Any]] | None = None,
    ) -> None:
        self.source = source
        self.node = node
        self.known = known
        self.hygienic = hygienic
        self.scopes = scopes
        self.receiver: tuple[Any, ...] = ()

    def __get__(self, instance: Any, owner: type | None = None) -> ScriptMacro:
        """Return the macro as a method: the object becomes its first argument."""
        if instance is None:
            return self
        bound = ScriptMacro(self.source, self.node, self.known, self.hygienic, self.scopes)
        bound.receiver = (instance,)
        return bound

    def get_macro_def(self) -> ast.FunctionDef:
        """Return the definition as Python's syntax tree."""
        return self.node

    def parse_macro(self, parser: Parser) -> Any:
        """Parse the body in the scopes of a parser, which hold the parameters; return the value of
        its ``return``, or of its last expression where the dialect says that this is the value.
        """
        assert parser.dialect is not None
        body = self.node.body
        for number, statement in enumerate(body):
            if isinstance(statement, ast.Return):
                return None if statement.value is None else parser.evaluate(statement.value)
            is_last = number == len(body) - 1 and parser.dialect.last_expression_is_value
            if is_last and isinstance(statement, ast.Expr):
                return parser.evaluate(statement.value)
            parser.visit(statement)
        return None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error: a macro can be called only inside a script."""
        raise ScriptError(
            f"the macro '{self.node.name}' is called outside of a script",
            notes=("call it in a function under @T.prim_func",),
        )


def macro(*args: Any, hygienic: bool = True) -> Any:
    """Decorate a function as a macro: ``@T.macro`` or ``@T.macro(hygienic=False)``."""

    def decorate(function: Any, depth: int = 1) -> ScriptMacro:
        frame = sys._getframe(depth + 1)
        source = definition_of(function)
        known = variables_around(function, frame)
        return ScriptMacro(source, source.tree, known, hygienic)  # type: ignore[arg-type]

    if args and callable(args[0]):
        return decorate(args[0])
    if args:
        raise ConfigError(
            f"macro takes a function, got {args[0]!r}", notes=("write hygienic=… with its name",)
        )
    return decorate


inline = macro


def local_macro(parser: Parser, node: ast.FunctionDef) -> ScriptMacro:
    """Define a macro inside a script."""
    hygienic, decorated = True, False
    for written in node.decorator_list:
        function = written.func if isinstance(written, ast.Call) else written
        if parser.evaluate(function) is macro:
            decorated = True
            if isinstance(written, ast.Call):
                for keyword in written.keywords:
                    hygienic = bool(parser.evaluate(keyword.value))
    if not decorated:
        raise parser.error(
            node, f"function '{node.name}' inside of a script", ("write @T.macro above it",)
        )
    return ScriptMacro(parser.source, node, parser.known, hygienic, parser.snapshot())


def expand_macro(parser: Parser, called: ScriptMacro, arguments: list, named: dict) -> Any:
    """Parse the body of a macro with its parameters bound; a final ``return`` gives its value."""
    values = _bind_arguments(parser, called, [*called.receiver, *arguments], named)
    saved_source, saved_known, caller = parser.source, parser.known, parser.builder.span
    scopes = called.scopes or [{}]
    try:
        parser.source = called.source
        if not called.hygienic:
            scopes = parser.snapshot()
        else:
            parser.known = called.known
        with parser.in_scopes(scopes), parser.scope(values):
            return called.parse_macro(parser)
    except ScriptError as error:
        note = f"in the macro '{called.node.name}', called {_place(saved_source, caller)}"
        error.notes = (*error.notes, note)
        raise
    finally:
        parser.source, parser.known = saved_source, saved_known


def _place(source: Source, caller: Any) -> str:
    """Say where a macro was called, as part of a sentence."""
    if caller is None:
        return "by the parser"
    return f"at {caller.source_name}:{caller.line}\n" + "    " + source.line(caller.line).strip()


def _bind_arguments(
    parser: Parser, called: ScriptMacro, arguments: list, named: dict
) -> dict[str, Any]:
    written = called.node.args
    kind = inspect.Parameter
    names = [*written.posonlyargs, *written.args]
    defaults = [kind.empty] * (len(names) - len(written.defaults)) + [
        parser.evaluate(value) for value in written.defaults
    ]
    parameters = [
        kind(name.arg, kind.POSITIONAL_OR_KEYWORD, default=default)
        for name, default in zip(names, defaults)
    ]
    if written.vararg is not None:
        parameters.append(kind(written.vararg.arg, kind.VAR_POSITIONAL))
    for name, value in zip(written.kwonlyargs, written.kw_defaults):
        default = kind.empty if value is None else parser.evaluate(value)
        parameters.append(kind(name.arg, kind.KEYWORD_ONLY, default=default))
    if written.kwarg is not None:
        parameters.append(kind(written.kwarg.arg, kind.VAR_KEYWORD))
    signature = inspect.Signature(parameters)
    try:
        bound = signature.bind(*arguments, **named)
    except TypeError as error:
        raise ScriptError(
            f"the macro '{called.node.name}': {error}",
            notes=(f"usage: {called.node.name}{signature}",),
        ) from None
    bound.apply_defaults()
    return dict(bound.arguments)
