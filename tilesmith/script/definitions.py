"""Parses functions and classes that a decorator marks: finds their text and what they see."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any

from tilesmith.ir.diagnostics import report
from tilesmith.script.diagnostics import Source, without_text
from tilesmith.script.parsing import MODULES, Parser
from tilesmith.support.caller import is_internal
from tilesmith.support.errors import ScriptError
from tilesmith.support.knobs import knobs
from tilesmith.support.recursion import deep_recursion

__all__ = [
    "class_from_inspect", "definition_of", "is_part_of_module", "parse_definition", "parse_node",
    "parse_now", "run_parser", "variables_around",
]  # fmt: skip


# Where a definition is.


def _code_of(program: Any) -> CodeType | None:
    """Return a piece of compiled code that knows its file and line."""
    code = getattr(program, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _keep_text_of_prompt(code: CodeType) -> None:
    """Store the text of a definition that is typed at the prompt of newer Pythons, which know it by
    its code, under the name of its file, where errors look for lines.
    """
    find = getattr(linecache, "_getlines_from_code", None)
    lines = find(code) if find is not None and code.co_filename.startswith("<") else None
    if lines:
        text = "".join(lines)
        linecache.cache[code.co_filename] = (len(text), None, list(lines), code.co_filename)


def definition_of(program: Any) -> Source:
    """Return the source of a function or class."""
    code = _code_of(program)
    if code is not None:
        _keep_text_of_prompt(code)
        return Source.from_block(
            code.co_filename, code.co_firstlineno, getattr(program, "__globals__", None)
        )
    raise ScriptError(
        f"no function or class to parse: {program!r}",
        notes=("give a text, or a function or class that is written in a file",),
    )


def _class_definition(program: type, frame: FrameType) -> Source:
    """Return the source of a class: around its first function, else below the line being
    executed.
    """
    codes = [code for code in [_code_of(value) for value in vars(program).values()] if code]
    filename = codes[0].co_filename if codes else frame.f_code.co_filename
    _keep_text_of_prompt(codes[0] if codes else frame.f_code)
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, frame.f_globals)
    if not lines:
        raise ScriptError(
            f"the source text of class '{program.__name__}' is not available",
            notes=without_text(filename),
        )
    header = re.compile(rf"class\s+{program.__name__}\b")
    if codes:
        candidates = range(min(codes[0].co_firstlineno, len(lines)), 0, -1)
    else:
        candidates = range(frame.f_lineno, len(lines) + 1)
    for line in candidates:
        if header.match(lines[line - 1].lstrip()):
            return Source.from_block(filename, _first_decorator(lines, line), frame.f_globals)
    return class_from_inspect(program)


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


def class_from_inspect(program: type) -> Source:
    """Return the source of a class that is decorated after it is defined."""
    try:
        _, line = inspect.getsourcelines(program)
        filename = inspect.getsourcefile(program) or inspect.getfile(program)
    except (OSError, TypeError):
        raise ScriptError(
            f"the source text of class '{program.__name__}' is not available",
            notes=without_text("<unknown>"),
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
        report(error)
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
    return is_internal(traceback.tb_frame)


def parse_node(parser: Parser, node: Any) -> Any:
    """Parse a definition: a function, or a class as a module."""
    if isinstance(node, ast.FunctionDef):
        return parser.parse_function(node)
    if isinstance(node, ast.ClassDef):
        return MODULES.statements[ast.ClassDef](parser, node)
    raise parser.error(
        node,
        "a function or a class is needed here",
        ("write `def name(parameters): ...`, not a lambda or an async function",),
    )
