"""Parses programs that are given as text: the public entry points."""

from __future__ import annotations

import ast
import base64
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from tilesmith.script import ir as script_ir
from tilesmith.script import tir as script_tir
from tilesmith.script.definitions import (
    class_from_inspect,
    definition_of,
    parse_node,
    run_parser,
    variables_around,
)
from tilesmith.script.diagnostics import Source
from tilesmith.script.header import apply_header, imported_words
from tilesmith.script.parsing import DIALECTS, Parser
from tilesmith.support.errors import ScriptError

__all__ = [
    "default_variables", "from_source", "parse", "parse_program",
]  # fmt: skip


def default_variables() -> dict[str, Any]:
    """Return the names that a text may use without importing them."""
    return {"T": script_tir, "I": script_ir, "tir": script_tir}


class _Names(dict):
    """Variables around a text; a dialect is looked up when its letter is used."""

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        if isinstance(name, str) and len(name) == 1 and name.isupper() and name in DIALECTS:
            self[name] = DIALECTS.get(name).namespace
            return True
        return False


def from_source(
    program: Any, extra_vars: Mapping[str, Any] | None = None, check_well_formed: bool = True
) -> Any:
    """Return the module or function that a text defines, or that a Python function or class stands
    for.

    ``extra_vars``: names that the text may use besides ``T``, ``I`` and ``R``. A text may hold
    several definitions (the last one is returned), assignments, and imports of the dialects.
    ``check_well_formed``: refuse functions that break the rules, such as undefined variables.
    """
    if not isinstance(program, str):
        frame = sys._getframe(1)
        known = {**variables_around(program, frame), **(extra_vars or {})}
        source = (
            class_from_inspect(program) if isinstance(program, type) else definition_of(program)
        )
        return run_parser(Parser(source, known, check_well_formed), parse_node)
    text, blobs = _take_out_arrays(inspect.cleandoc(program) if program[:1].isspace() else program)
    known = _Names({**default_variables(), **(extra_vars or {})})
    if blobs:
        known["I"] = _WithArrays(blobs)
    parser = Parser(Source.from_text(text), known, check_well_formed)
    if text.startswith("#"):
        for word, module in imported_words(text).items():
            if word not in parser.known and module in _DIALECT_NAMES:
                parser.define(word, _namespace(module))
        apply_header(parser, text)
    return run_parser(parser, parse_program)


def parse(program: Any, extra_vars: Any = None, check_well_formed: bool = True) -> Any:
    """Do what ``from_source`` does, under another name."""
    return from_source(program, extra_vars, check_well_formed)


def parse_program(parser: Parser, tree: Any) -> Any:
    """Parse a text of definitions, values and imports; return the last definition."""
    result = None
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            result = parse_node(parser, node)
            parser.define(node.name, result)
        elif isinstance(node, ast.Assign):
            value = parser.evaluate(node.value)
            for target in node.targets:
                parser.bind_target(target, value)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            _import(parser, node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            raise parser.error(node, "a program holds definitions, values and imports")
    if result is None:
        raise ScriptError(
            "the text defines neither a function nor a module",
            notes=("begin with @T.prim_func, @R.function or @I.ir_module",),
        )
    return result


_DIALECT_NAMES = {"tir": "T", "relax": "R", "ir": "I"}


def _namespace(module: str) -> Any:
    """Return the words of a dialect by the name of its module."""
    letter = _DIALECT_NAMES[module]
    return script_ir if letter == "I" else DIALECTS.get(letter).namespace


def _import(parser: Parser, node: Any) -> None:
    """Handle ``from tilesmith.script import tir as T``; other packages come through
    ``extra_vars``.
    """
    module = getattr(node, "module", None) or ""
    if isinstance(node, ast.ImportFrom) and module.endswith("script"):
        for alias in node.names:
            if alias.name not in _DIALECT_NAMES:
                raise parser.error(node, f"'{module}' has no dialect '{alias.name}'")
            parser.define(alias.asname or alias.name, _namespace(alias.name))
        return
    if module != "__future__":
        raise parser.error(
            node, "a text imports only dialects", ("give other names in extra_vars",)
        )


class _WithArrays:
    """``I`` for a text whose arrays were taken out before parsing: the text refers to them by
    number.
    """

    def __init__(self, blobs: list[bytes]) -> None:
        self._blobs = blobs

    def array(self, dtype: str, shape: tuple[int, ...], data: Any) -> Any:
        """Return the array with that number."""
        return script_ir.array(dtype, shape, self._blobs[data] if isinstance(data, int) else data)

    def __getattr__(self, name: str) -> Any:
        return getattr(script_ir, name)


def _take_out_arrays(text: str) -> tuple[str, list[bytes]]:
    """Decode the base64 of large constants without sending it through Python's parser.

    Only whole lines in the printed form are replaced.
    """
    start = text.find("metadata = I.metadata({")
    if start < 0:
        return text, []
    end = text.find("\n})", start)
    blobs: list[bytes] = []
    pieces, position = [text[:start]], start
    while True:
        found = text.find("        I.array(", position, end)
        if found < 0:
            break
        opening = text.find('), "', found, end)
        closing = text.find('"),\n', opening + 4, end + 1)
        if opening < 0 or closing < 0:
            break
        pieces.append(f"{text[position : opening + 3]}{len(blobs)}),\n")
        blobs.append(base64.b64decode(text[opening + 4 : closing]))
        position = closing + 4
    pieces.append(text[position:])
    return "".join(pieces), blobs
