"""Holds source text and positions in it, and raises errors that show them."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections import deque
from typing import Any

from tilesmith.ir.span import Span
from tilesmith.support.caller import frame_of_caller
from tilesmith.support.errors import DiagnosticError, ScriptError, TilesmithError
from tilesmith.support.recursion import deep_recursion

__all__ = ["Source", "error_at_caller", "guilty_argument", "nearest", "without_text"]


def nearest(name: str, known: Any) -> tuple[str, ...]:
    """Return the advice "did you mean …" when a known name is close, else nothing."""
    import difflib

    near = difflib.get_close_matches(name, [text for text in known if isinstance(text, str)], n=1)
    return (f"did you mean '{near[0]}'?",) if near else ()


def without_text(filename: str) -> tuple[str, ...]:
    """Return what to do where Python keeps no text of a program: at the prompt, in ``exec``."""
    where = "put the program into a file or notebook"
    if filename == "<stdin>":
        where += ", type it in IPython or at the prompt of Python 3.13"
    return (f"{where}, or give its text to tilesmith.script.from_source",)


class Source:
    """A syntax tree with the place that it was read from.

    ``shift`` is added to the tree's line numbers to get those of the file.
    """

    def __init__(self, tree: ast.AST, filename: str, shift: int = 0) -> None:
        self.tree = tree
        self.filename = filename
        self.shift = shift

    @property
    def is_text(self) -> bool:
        """True if the program was given as text, not as a file, cell or prompt."""
        return self.filename.startswith("<script ")

    @staticmethod
    def from_text(text: str) -> Source:
        """Return the source of a program given as text; error messages show lines of it."""
        from hashlib import blake2b

        name = f"<script {blake2b(text.encode(), digest_size=4).hexdigest()}>"
        _remember_text(name, text)
        try:
            with deep_recursion():
                return Source(ast.parse(text, name), name)
        except SyntaxError as error:
            raise _syntax_error(error, name, 0) from None

    @staticmethod
    def from_block(filename: str, line: int, module_globals: dict | None = None) -> Source:
        """Return the definition (function or class) that begins at a line of a file, cell or
        prompt.
        """
        linecache.checkcache(filename)
        lines = linecache.getlines(filename, module_globals)
        if not 0 < line <= len(lines):
            raise ScriptError(
                f"the source text of '{filename}' is not available",
                notes=without_text(filename),
            )
        indented = lines[line - 1][:1].isspace()
        shift = line - (2 if indented else 1)
        try:
            tree = _parse_block(_block_by_indentation(lines, line - 1), filename, indented)
        except SyntaxError:  # a string at the margin: Python's tokens say where the definition ends
            try:
                tree = _parse_block(inspect.getblock(lines[line - 1 :]), filename, indented)
            except SyntaxError as error:
                raise _syntax_error(error, filename, shift) from None
        return Source(tree, filename, shift)

    def span(self, node: ast.AST) -> Span | None:
        """Return the position of a piece of syntax."""
        line = getattr(node, "lineno", None)
        if line is None:
            return None
        line, end_line = line + self.shift, node.end_lineno + self.shift  # type: ignore[attr-defined]
        column, end_column = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        return Span(
            self.filename,
            line,
            end_line,
            self._characters(line, column) + 1,
            self._characters(end_line, end_column) + 1,
        )

    def line(self, number: int) -> str:
        """Return the text of a line of the file."""
        return linecache.getline(self.filename, number).rstrip("\n")

    def _characters(self, line: int, column: int) -> int:
        """Convert a column from bytes, which the tree counts, to characters."""
        text = linecache.getline(self.filename, line)
        if text.isascii():
            return column
        return len(text.encode()[:column].decode(errors="replace"))

    def error(self, node: ast.AST, problem: Any, notes: tuple[str, ...] = ()) -> ScriptError:
        """Return the error to raise for a problem (a text or an exception) at a piece of syntax."""
        if isinstance(problem, ScriptError) and problem.span is not None:
            return problem
        if isinstance(problem, TilesmithError):
            notes = (*(_advice(problem) or problem.notes), *notes)
            return ScriptError(problem.message, span=self.span(node), notes=notes)
        if isinstance(problem, BaseException):
            text = str(problem) or type(problem).__name__
            if not isinstance(problem, (TypeError, ValueError, DiagnosticError)):
                text = f"{type(problem).__name__}: {text}"
            problem = text
        return ScriptError(problem, span=self.span(node), notes=notes)


def _parse_block(block: list[str], filename: str, indented: bool) -> ast.AST:
    """Parse a definition. An indented one is read as the body of an ``if``: columns stay those of
    the file.
    """
    tree = ast.parse(("if True:\n" if indented else "") + "".join(block), filename).body[0]
    return tree.body[0] if indented else tree  # type: ignore[attr-defined]


def _block_by_indentation(lines: list[str], first: int) -> list[str]:
    """Return the lines of a definition: up to the next one that is not indented more than its head.

    Where that is wrong (a string over several lines that reaches the margin), the result is not
    valid Python. This takes a tenth of the time of ``inspect.getblock``.
    """
    head = len(lines[first]) - len(lines[first].lstrip())
    inside = False
    for number in range(first, len(lines)):
        text = lines[number].lstrip()
        if not inside:  # decorators, which may take several lines
            inside = text.startswith(("def ", "class ", "async "))
        elif text and text[0] not in "#)]}" and len(lines[number]) - len(text) <= head:
            return lines[first:number]
    return lines[first:]


_TEXTS: deque[str] = deque()
_KEPT_TEXTS = 256


def _remember_text(name: str, text: str) -> None:
    """Keep the lines of a text for error messages; the oldest texts are dropped."""
    if name not in linecache.cache:
        _TEXTS.append(name)
        if len(_TEXTS) > _KEPT_TEXTS:
            linecache.cache.pop(_TEXTS.popleft(), None)
    lines = [line + "\n" for line in text.split("\n")]
    linecache.cache[name] = (len(text), None, lines, name)


def guilty_argument(node: ast.Call, message: str) -> ast.AST | None:
    """Return the argument of a call that an error message quotes."""
    for keyword in node.keywords:
        if f"unexpected keyword argument '{keyword.arg}'" in message:
            return keyword
    for argument in [*node.args, *[keyword.value for keyword in node.keywords]]:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            if f"'{argument.value}'" in message:
                return argument
    return None


def error_at_caller(problem: TilesmithError) -> TilesmithError:
    """Return the error with the position of the call in the user's file, for words that Python runs
    itself.

    Annotations of parameters are evaluated by Python before the decorator parses the function.
    """
    frame = frame_of_caller()
    if frame is None or problem.span is not None:
        return problem
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = positions
    if line is None or end_line is None or column is None or end_column is None:
        return problem
    place = ast.Name("", lineno=line, end_lineno=end_line)
    place.col_offset, place.end_col_offset = column, end_column
    source = Source(place, frame.f_code.co_filename)
    written = linecache.getline(source.filename, line).encode()[column:end_column].decode()
    try:
        call = ast.parse(written, mode="eval").body if line == end_line else None
    except SyntaxError:
        call = None
    argument = guilty_argument(call, problem.message) if isinstance(call, ast.Call) else None
    if argument is not None:
        place.end_col_offset = column + argument.end_col_offset  # type: ignore[attr-defined]
        place.col_offset = column + argument.col_offset  # type: ignore[attr-defined]
    return source.error(place, problem)


_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "bfloat16", "handle", "void",
)  # fmt: skip


def _advice(problem: TilesmithError) -> tuple[str, ...]:
    if problem.message.startswith("unknown data type '"):
        return nearest(problem.message.split("'")[1], _DTYPES)
    return ()


def _syntax_error(error: SyntaxError, filename: str, shift: int) -> ScriptError:
    line, column = (error.lineno or 1) + shift, error.offset or 1
    end = error.end_offset if error.end_offset and error.end_lineno == error.lineno else column + 1
    end = max(end or 0, column + 1)
    span = Span(filename, line, line, column, end)
    return ScriptError(f"not valid Python: {error.msg}", span=span, notes=_advice_on(error))


_SYNTAX_ADVICE = (
    ("expected ':'", "end the line that begins a block with a colon"),
    ("was never closed", "close the bracket, or look for a quote that is missing before it"),
    ("unmatched", "take the bracket away, or open it before"),
    ("does not match opening", "close brackets in the order in which they were opened"),
    ("unexpected indent", "let the lines of one block begin in the same column"),
    ("unindent does not match", "let the lines of one block begin in the same column"),
    ("expected an indented block", "indent what belongs to the block, or write pass"),
    ("unterminated", "end the text with the quote that it begins with"),
    ("null bytes", "take the character with the number 0 out of the text"),
)
"""What Python's parser says → what to do."""


def _advice_on(error: SyntaxError) -> tuple[str, ...]:
    for text, advice in _SYNTAX_ADVICE:
        if text in error.msg:
            return (advice,)
    return ("a script is written in Python: look at the marked place and right before it",)
