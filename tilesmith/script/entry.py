"""Parses texts, functions and classes into programs: the public entry points."""

from __future__ import annotations

import ast
import base64
import inspect
import linecache
import re
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any

from tilesmith.script import ir as script_ir
from tilesmith.script.diagnostics import Source
from tilesmith.script.header import apply_header, imported_words
from tilesmith.script.parsing import DIALECTS, Parser
from tilesmith.support.errors import ScriptError
from tilesmith.support.knobs import knobs
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "definition_of", "from_source", "is_part_of_module", "parse", "parse_definition", "parse_now",
    "variables_around",
]  # fmt: skip


# Where a definition is.


def _code_of(program: Any) -> CodeType | None:
    """Return a piece of compiled code that knows its file and line."""
    code = getattr(program, "__code__", None)
    return code if isinstance(code, CodeType) else None


def definition_of(program: Any) -> Source:
    """Return the source of a function or class."""
    code = _code_of(program)
    if code is not None:
        return Source.from_block(
            code.co_filename, code.co_firstlineno, getattr(program, "__globals__", None)
        )
    raise ScriptError(f"no function or class to parse: {program!r}")


def _class_definition(program: type, frame: FrameType) -> Source:
    """Return the source of a class: around its first function, else below the line being
    executed.
    """
    codes = [code for code in [_code_of(value) for value in vars(program).values()] if code]
    filename = codes[0].co_filename if codes else frame.f_code.co_filename
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, frame.f_globals)
    if not lines:
        raise ScriptError(
            f"the source text of class '{program.__name__}' is not available",
            notes=("put the program into a file or notebook, or give its text to from_source",),
        )
    header = re.compile(rf"class\s+{program.__name__}\b")
    if codes:
        candidates = range(min(codes[0].co_firstlineno, len(lines)), 0, -1)
    else:
        candidates = range(frame.f_lineno, len(lines) + 1)
    for line in candidates:
        if header.match(lines[line - 1].lstrip()):
            return Source.from_block(filename, _first_decorator(lines, line), frame.f_globals)
    return _class_from_inspect(program)


def _first_decorator(lines: list[str], line: int) -> int:
    """Return the line where the decorators of a definition begin; each may span several lines."""

    def indentation(text: str) -> int:
        return len(text) - len(text.lstrip())

    own, start = indentation(lines[line - 1]), line
    for above in range(line - 1, 0, -1):
        text = lines[above - 1]
        if not text.strip():
            break
        if indentation(text) == own and text.lstrip().startswith("@"):
            start = above
        elif indentation(text) <= own and text.lstrip()[0] not in ")]}#":
            break
    return start


def _class_from_inspect(program: type) -> Source:
    """Return the source of a class that is decorated after it is defined."""
    try:
        _, line = inspect.getsourcelines(program)
        filename = inspect.getsourcefile(program) or inspect.getfile(program)
    except (OSError, TypeError):
        raise ScriptError(
            f"the source text of class '{program.__name__}' is not available",
            notes=("put the program into a file or notebook, or give its text to from_source",),
        ) from None
    return Source.from_block(filename, line)


def is_part_of_module(frame: FrameType) -> bool:
    """True if a decorator is inside the body of a class that is parsed as a module itself."""
    if "__qualname__" not in frame.f_locals or "__module__" not in frame.f_locals:
        return False
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    for text in lines[frame.f_code.co_firstlineno - 1 :]:
        text = text.strip()
        if text.startswith("@") and "ir_module" in text:
            return True
        if text.startswith("class "):
            return False
    return False


def variables_around(program: Any, frame: FrameType) -> dict[str, Any]:
    """Return the variables that a definition sees: globals, those of the functions around it, its
    own closure and, for a class, those of its methods.
    """
    known = dict(frame.f_globals)
    known.update(getattr(program, "__globals__", {}))
    outer, chain = frame, []
    while outer is not None and outer.f_locals is not outer.f_globals:
        chain.append(outer.f_locals)
        # Only bodies of classes are skipped on the way out: the functions around them are visible.
        if "__qualname__" not in outer.f_locals or outer.f_back is None:
            break
        outer = outer.f_back
    for names in reversed(chain):
        known.update(names)
    functions = list(vars(program).values()) if isinstance(program, type) else [program]
    for function in functions:
        code = _code_of(function)
        if code is None:
            continue
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                known[name] = cell.cell_contents
            except ValueError:
                continue  # not assigned yet
    return known


def parse_now(function: Any, frame: FrameType, options: dict) -> Any:
    """Parse a decorated function, or leave it to the module around it."""
    return function if is_part_of_module(frame) else parse_definition(function, frame)


def parse_definition(program: Any, frame: FrameType) -> Any:
    """Parse a decorated function or class; options are read from the text."""
    if isinstance(program, type):
        source = _class_definition(program, frame)
    else:
        source = definition_of(program)
    return _parse_tree(source, variables_around(program, frame))


def _parse_tree(source: Source, known: Mapping[str, Any]) -> Any:
    return run_parser(Parser(source, known), parse_node)


def run_parser(parser: Parser, parse_tree: Callable[[Parser, Any], Any]) -> Any:
    """Parse; an error shows the user's lines, not those of the parser."""
    try:
        with deep_recursion():
            return parse_tree(parser, parser.source.tree)
    except ScriptError as error:
        if knobs.traceback == "full":
            raise
        cause = error.__cause__
        if cause is not None and _raised_inside(cause):
            error.__cause__ = None
        error.__suppress_context__ = True
        raise error.with_traceback(None)  # noqa: B904 - the cause stays where the user wrote it


def _raised_inside(error: BaseException) -> bool:
    """True if an error comes from Tilesmith itself and not from a function of the user's."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return True
    return traceback.tb_frame.f_globals.get("__name__", "").startswith("tilesmith.")


def parse_node(parser: Parser, node: Any) -> Any:
    if isinstance(node, ast.FunctionDef):
        return parser.parse_function(node)
    if isinstance(node, ast.ClassDef):
        return parser.parse_module(node)
    raise parser.error(node, "a function or a class is needed here")


# Programs given as text.


def default_variables() -> dict[str, Any]:
    """Return the names that a text may use without importing them."""
    from tilesmith.script import tir

    return {"T": tir, "I": script_ir, "tir": tir}


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
        import sys

        frame = sys._getframe(1)
        known = {**variables_around(program, frame), **(extra_vars or {})}
        source = (
            _class_from_inspect(program) if isinstance(program, type) else definition_of(program)
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
