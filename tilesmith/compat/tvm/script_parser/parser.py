"""Defines the parser, and its table of names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from tilesmith.compat.tvm.script_parser.diagnostics import Diagnostics, Source
from tilesmith.compat.tvm.script_parser.evaluator import eval_assign, eval_expr
from tilesmith.script import parsing
from tilesmith.script.definitions import parse_node, run_parser
from tilesmith.script.entry import default_variables, parse_program
from tilesmith.script.macros import ScriptMacro
from tilesmith.support.errors import UnsupportedError

__all__ = ["DEFAULT_VISIT", "Parser", "ScriptMacro", "VarTable", "VarTableFrame"]

DEFAULT_VISIT = {"Interactive", "Module", "Expression", "Pass"}
"""The kinds of syntax that need no method of a dialect."""


class VarTableFrame:
    """The names of one scope."""

    def __init__(self) -> None:
        self.vars: list[str] = []

    def add(self, var: str) -> None:
        """Add a name; adding it twice is an error."""
        if var in self.vars:
            raise ValueError(f"'{var}' is defined already in this scope")
        self.vars.append(var)

    def pop_all(self, fn_pop: Any) -> None:
        """Call ``fn_pop`` with each name, and forget them."""
        for var in self.vars:
            fn_pop(var)
        self.vars.clear()


class VarTable:
    """Names and values, scope by scope."""

    def __init__(self) -> None:
        self.frames: list[VarTableFrame] = []
        self.name2value: dict[str, list[Any]] = {}

    @contextmanager
    def with_frame(self) -> Iterator[VarTableFrame]:
        """Open a scope; its names end with it."""
        frame = VarTableFrame()
        self.frames.append(frame)
        try:
            yield frame
        finally:
            frame.pop_all(lambda name: self.name2value[name].pop())
            self.frames.pop()

    def add(self, var: str, value: Any, allow_shadowing: bool = False) -> None:
        """Bind a name in the innermost scope; ``allow_shadowing`` permits a name that is bound
        there already.
        """
        if allow_shadowing and var in self.frames[-1].vars:
            self.name2value[var][-1] = value
            return
        self.frames[-1].add(var)
        self.name2value.setdefault(var, []).append(value)

    def get(self) -> dict[str, Any]:
        """Return each name in scope with its innermost value."""
        return {name: values[-1] for name, values in self.name2value.items() if values}

    def exist(self, value: Any) -> bool:
        """True if some name stands for this object."""
        return any(value is known for values in self.name2value.values() for known in values)


class ScopesTable(VarTable):
    """The names that a parser knows: its scopes, as a table."""

    def __init__(self, parser: parsing.Parser) -> None:
        super().__init__()
        self.parser = parser

    @contextmanager
    def with_frame(self) -> Iterator[VarTableFrame]:
        """Open a scope; its names end with it."""
        with self.parser.scope():
            yield VarTableFrame()

    def add(self, var: str, value: Any, allow_shadowing: bool = False) -> None:
        """Bind a name in the innermost scope; ``allow_shadowing`` permits a name that is bound
        there already.
        """
        if not allow_shadowing and var in self.parser.scopes[-1]:
            raise ValueError(f"'{var}' is defined already in this scope")
        self.parser.define(var, value)

    def get(self) -> dict[str, Any]:
        """Return each name in scope with its innermost value."""
        found = dict(self.parser.known)
        for scope in self.parser.scopes:
            found.update(scope)
        return found

    def exist(self, value: Any) -> bool:
        """True if some name of the program stands for this object."""
        return self.parser.is_defined_here(value)


class Parser(parsing.Parser):
    """Parses one source::

        Parser(Source(text)).parse({"T": T})

    ``function_annotations`` is accepted; annotations are read from the text.
    """

    function_annotations: Mapping[str, Any] | None = None

    def __init__(
        self, source: Source, function_annotations: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(source.as_parsed(), {})
        self.function_annotations = function_annotations

    @classmethod
    def of(cls, parser: parsing.Parser) -> Parser:
        """Return a parser with the methods that users know; both share their state."""
        if isinstance(parser, cls):
            return parser
        view = object.__new__(cls)
        view.__dict__ = parser.__dict__
        return view

    @property
    def diag(self) -> Diagnostics:
        """What raises errors at pieces of the source that is being parsed."""
        return Diagnostics(Source.of(self.source))

    @property
    def var_table(self) -> VarTable:
        """The names in scope."""
        return ScopesTable(self)

    def parse(self, extra_vars: Mapping[str, Any] | None = None) -> Any:
        """Return the function or module that the source defines."""
        self.known = {**default_variables(), **(extra_vars or {})}
        whole = isinstance(self.source.tree, ast.Module)
        return run_parser(self, parse_program if whole else parse_node)

    def eval_expr(self, node: ast.AST, extra_vars: Mapping[str, Any] | None = None) -> Any:
        """Return the value of an expression."""
        return eval_expr(self, node, extra_vars)

    def eval_assign(
        self,
        target: ast.expr,
        source: Any,
        bind_value: Callable[[Parser, ast.expr, str, Any], Any],
        allow_shadowing: bool = False,
    ) -> dict[str, Any]:
        """Bind what an assignment of a value binds; ``bind_value(parser, node, name, value)`` may
        change values.
        """
        names = eval_assign(self, target, source)
        for name, value in names.items():
            names[name] = bind_value(self, target, name, value)
            self.var_table.add(name, names[name], allow_shadowing)
        return names

    def report_error(self, node: ast.AST, err: Any) -> NoReturn:
        """Raise an error at a piece of syntax."""
        raise self.error(node, err)

    @contextmanager
    def with_diag_source(self, source: Source) -> Iterator[None]:
        """Let errors show another source."""
        saved, self.source = self.source, source.as_parsed()
        try:
            yield
        finally:
            self.source = saved

    def visit_body(self, node: list[ast.stmt]) -> Any:
        """Parse a block of statements."""
        return self.body(node)

    def get_dispatch_token(self, node: ast.FunctionDef) -> str:
        """Return the token of the dialect of a function."""
        letter = str(self.decorator_of(node).dialect_letter)
        return {"T": "tir", "R": "relax"}.get(letter, letter)

    @contextmanager
    def with_dispatch_token(self, token: str) -> Iterator[None]:
        """Let the dialect of a token handle statements."""
        letter = {"tir": "T", "relax": "R"}.get(token, token)
        with self.in_dialect(parsing.DIALECTS.get(letter)):
            yield

    def visit_tvm_annotation(self, node: ast.expr) -> Any:
        """Return what an annotation means in the dialect of the function around it."""
        return self.annotation(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Parse a function, or a local one inside a function."""
        return self.parse_function(node) if self.dialect is None else self.visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Parse a module."""
        return parse_node(self, node)

    def visit_tvm_declare_function(self, node: ast.FunctionDef) -> Any:
        """Declare a function of the module, before any of them is parsed."""
        return self.declare(node)

    def visit_arguments(self, node: ast.arguments) -> NoReturn:
        """Raise UnsupportedError: the dialects read parameters together with their function."""
        raise UnsupportedError(
            "parameters are not parsed by themselves",
            notes=("visit the FunctionDef; a parameter's annotation: visit_tvm_annotation",),
        )

    visit_For = visit_While = visit_With = visit_Assign = visit_AnnAssign = parsing.Parser.visit
    visit_Expr = visit_If = visit_AugAssign = visit_Assert = parsing.Parser.visit
    visit_Return = visit_Nonlocal = parsing.Parser.visit
