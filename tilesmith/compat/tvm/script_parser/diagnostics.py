"""Holds source text with its position, and raises errors that show it."""

from __future__ import annotations

import ast
import inspect
from typing import Any, NoReturn, cast

from tilesmith.compat.tvm.script_parser.doc import to_doc
from tilesmith.script import diagnostics
from tilesmith.script.definitions import definition_of
from tilesmith.support.errors import ScriptError

__all__ = ["Diagnostics", "Source", "findsource", "getsourcelines"]


def findsource(obj: Any) -> tuple[list[str], int]:
    """Return all lines of the file of a function or class, and the number (from 0) of its first
    line.
    """
    try:
        return inspect.findsource(obj)
    except (OSError, TypeError) as error:
        raise ScriptError(
            f"the source text of {obj!r} is not available: {error}",
            notes=("put the program into a file or notebook",),
        ) from None


def getsourcelines(obj: Any) -> tuple[list[str], int]:
    """Return the lines of a function or class, and the number (from 1) of the first."""
    lines, first = findsource(obj)
    return inspect.getblock(lines[first:]), first + 1


class Source:
    """The source of a program: a text, a function, a class, or a syntax tree."""

    def __init__(self, program: Any) -> None:
        if isinstance(program, str):
            text = inspect.cleandoc(program) if program[:1].isspace() else program
            parsed = diagnostics.Source.from_text(text)
        elif isinstance(program, ast.AST):
            parsed = diagnostics.Source(program, "<syntax tree>")
        elif isinstance(program, type):
            _, line = getsourcelines(program)
            parsed = diagnostics.Source.from_block(inspect.getfile(program), line)
        else:
            parsed = definition_of(program)
        self._hold(parsed)

    @classmethod
    def of(cls, parsed: diagnostics.Source) -> Source:
        """Return the source that a parser is reading."""
        made = object.__new__(cls)
        made._hold(parsed)
        return made

    def _hold(self, parsed: diagnostics.Source) -> None:
        self._parsed = parsed
        self.source_name = parsed.filename
        self.start_line = getattr(self.definition, "lineno", 1) + parsed.shift
        self.start_column = getattr(self.definition, "col_offset", 0)

    @property
    def definition(self) -> ast.AST:
        """The function or class; for a text, its only definition, else the whole."""
        tree = self._parsed.tree
        if isinstance(tree, ast.Module) and len(tree.body) == 1:
            return tree.body[0]
        return tree

    @property
    def source(self) -> str:
        """The text of the program."""
        first, last = self.start_line, getattr(self.definition, "end_lineno", 1)
        lines = [self._parsed.line(n) for n in range(first, last + self._parsed.shift + 1)]
        return "\n".join(lines)

    def as_ast(self) -> ast.AST:
        """Return the syntax tree as a ``doc``: a module that holds the program."""
        tree = self._parsed.tree
        if isinstance(tree, ast.stmt):
            tree = ast.Module(body=[tree], type_ignores=[])
        return cast(ast.AST, to_doc(tree))

    def as_parsed(self) -> diagnostics.Source:
        """Return the form that the parser uses."""
        return self._parsed


class Diagnostics:
    """Raises errors at pieces of a source."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def error(self, node: ast.AST, message: str) -> NoReturn:
        """Raise an error at a piece of syntax: file, line, and a marker under it."""
        raise self.source.as_parsed().error(node, message)
