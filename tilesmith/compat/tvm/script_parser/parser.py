"""Defines the parser, and its table of names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from tilesmith.compat.tvm.script_parser.diagnostics import Diagnostics, Source
from tilesmith.compat.tvm.script_parser.evaluator import eval_assign, eval_expr
from tilesmith.script import parsing
from tilesmith.script.definitions import parse_node, run_parser
from tilesmith.script.entry import default_variables, parse_program
from tilesmith.script.macros import ScriptMacro

__all__ = ["Parser", "ScriptMacro", "VarTable", "VarTableFrame"]


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


class Parser(parsing.Parser):
    """Parses one source::

        Parser(Source(text)).parse({"T": T})

    ``function_annotations`` is accepted; annotations are read from the text.
    """

    def __init__(
        self, source: Source, function_annotations: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(source.as_parsed(), {})
        self.diag = Diagnostics(source)
        self.function_annotations = function_annotations

    def parse(self, extra_vars: Mapping[str, Any] | None = None) -> Any:
        """Return the function or module that the source defines."""
        self.known = {**default_variables(), **(extra_vars or {})}
        whole = isinstance(self.source.tree, ast.Module)
        return run_parser(self, parse_program if whole else parse_node)

    def eval_expr(self, node: ast.AST, extra_vars: Mapping[str, Any] | None = None) -> Any:
        """Return the value of an expression."""
        return eval_expr(self, node, extra_vars)

    def eval_assign(self, target: ast.expr, source: ast.expr, bind_value: Any) -> dict[str, Any]:
        """Bind what an assignment binds; ``bind_value(node, name, value)`` may change values."""
        names = eval_assign(self, target, self.evaluate(source))
        for name, value in names.items():
            names[name] = bind_value(target, name, value)
            self.define(name, names[name])
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
