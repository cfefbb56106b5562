"""Reads the comments at the head of a printed text: words for dialects, defaults of literals.

    # from tilesmith.script import tir as tensor
    # printed with int_dtype="int64", float_dtype="float32", buffer_dtype="float16"

A text that was printed with options of its own parses back with them. The package may have another
name: programs that say `import tvm` print `from tvm.script import …`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tilesmith.ir import const
from tilesmith.ir.module import plain_value
from tilesmith.runtime.dtype import DataType
from tilesmith.script.evaluator import Evaluator
from tilesmith.script.parsing import Parser
from tilesmith.script.tir_types import BufferWord, DTypeWord
from tilesmith.support.errors import ScriptError

__all__ = ["apply_header", "imported_words"]

_IMPORT = re.compile(r"# from \w+\.script import (\w+) as (\w+)\Z")
_OPTION = re.compile(r'(\w+)="([^"]*)"')
_PRINTED_WITH = "# printed with "


def _comments(text: str) -> list[str]:
    """Return the lines of comment that the text begins with."""
    found = []
    for line in text.split("\n"):
        if line.startswith("#"):
            found.append(line.rstrip())
        elif line.strip():
            break
    return found


def imported_words(text: str) -> dict[str, str]:
    """Return for each word the dialect's module (``ir``, ``tir``, ``relax``), from the comments of
    a text.
    """
    matches = [_IMPORT.match(line) for line in _comments(text)]
    return {match.group(2): match.group(1) for match in matches if match}


def apply_header(parser: Parser, text: str) -> None:
    """Configure a parser to read the literals of a text according to its header."""
    options: dict[str, str] = {}
    for line in _comments(text):
        if line.startswith(_PRINTED_WITH):
            options.update(_OPTION.findall(line))
    known = {"int_dtype", "float_dtype", "buffer_dtype", "module_alias"}
    for name in options.keys() - known:
        raise ScriptError(f"the head of the text has an unknown option '{name}'")
    if "module_alias" in options:
        parser.module_alias = options["module_alias"]
    literals = _literals(options.get("int_dtype"), options.get("float_dtype"))

    def prepare(evaluator: Evaluator) -> None:
        if literals is not None:
            evaluator.literal = literals
            evaluator.calls[DTypeWord] = _with_plain_numbers
        call = _with_dtype(options.get("buffer_dtype", "float32"))
        evaluator.calls[FunctionType] = evaluator.calls[BufferWord] = call

    if options.keys() - {"module_alias"}:
        parser.prepare_evaluator = prepare


def _literals(int_dtype: str | None, float_dtype: str | None) -> Callable[[Any], Any] | None:
    """Return the function that converts bare numbers to constants of the header's dtypes; None if
    they stay Python numbers.
    """
    if int_dtype is None and float_dtype is None:
        return None

    integer = DataType(int_dtype) if int_dtype is not None else None
    low, high = (integer.min_value, integer.max_value) if integer is not None else (0, -1)

    def literal(value: Any) -> Any:
        if value.__class__ is int and low <= value <= high:
            return const(value, int_dtype)
        if value.__class__ is float and float_dtype is not None:
            return const(value, float_dtype)
        return value

    return literal


def _with_plain_numbers(function: Any, arguments: list, named: dict) -> Any:
    """Call a function with plain Python numbers: in ``T.int8(5)``, the word itself determines the
    dtype.
    """
    return function(*[plain_value(value) for value in arguments], **named)


_PLAIN = {
    "align",
    "offset_factor",
    "axis_separators",
}  # numbers about a buffer, not values of a program
_BUFFERS = {"alloc_buffer": 1, "decl_buffer": 1, "match_buffer": 2}  # position of the dtype


def _with_dtype(dtype: str) -> Callable[[Any, list, dict], Any]:
    """Return a function that calls another one with this dtype for buffers without a dtype."""

    def call(function: Any, arguments: list, named: dict) -> Any:
        for name in _PLAIN & named.keys():
            named[name] = plain_value(named[name])
        place = 1 if isinstance(function, BufferWord) else _BUFFERS.get(function.__name__, -1)
        if 0 < place == len(arguments) and "dtype" not in named:
            named = {**named, "dtype": dtype}
        return function(*arguments, **named)

    return call
