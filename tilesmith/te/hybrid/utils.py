"""What the parts of hybrid script share: kinds of arguments, source text, small statements."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from tilesmith.ir import FloatImm, IntImm, PrimExpr, StringImm, const
from tilesmith.ir.span import Span
from tilesmith.support.errors import ScriptError, TypeMismatchError
from tilesmith.te.bodies import replace_tensors
from tilesmith.te.tensor import Tensor
from tilesmith.tir.stmt import Evaluate, Stmt

__all__ = [
    "Source", "are_symbolic", "halide_imm_types", "is_docstring", "make_nop", "np_arg_types",
    "replace_io", "source_of", "tvm_arg_types",
]  # fmt: skip

np_arg_types = (np.ndarray, np.generic, bool, int, float)
"""Arguments with which a hybrid script runs as Python."""

tvm_arg_types = (Tensor, PrimExpr)
"""Arguments with which a hybrid script becomes an operation."""

halide_imm_types = (IntImm, FloatImm, StringImm)
"""Constants."""


@dataclass(frozen=True)
class Source:
    """The text of a function, and where it stands: for errors at the user's line."""

    text: str
    file: str = ""
    first_line: int = 1
    indent: int = 0

    def span(self, node: ast.AST) -> Span | None:
        """Return the place of a part of the syntax tree; None where the file is not known."""
        line = getattr(node, "lineno", None)
        if not self.file or line is None:
            return None
        end = getattr(node, "end_lineno", line)
        columns = [getattr(node, name, 0) + 1 for name in ("col_offset", "end_col_offset")]
        return Span(
            self.file, line + self.first_line - 1, end + self.first_line - 1,
            *[column + self.indent for column in columns],
        )  # fmt: skip


def source_of(function: FunctionType) -> Source:
    """Return the source of a function; raises ScriptError where there is none."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise ScriptError(
            f"the source of '{function.__name__}' is not known, which hybrid script is parsed from",
            notes=("write the function into a file or a notebook's cell",),
        ) from None
    text = textwrap.dedent("".join(lines))
    indent = len(lines[0]) - len(lines[0].lstrip())
    file = inspect.getsourcefile(function) or function.__code__.co_filename
    linecache.checkcache(file)
    return Source(text, file, first, indent)


def are_symbolic(args: Any, name: str) -> bool:
    """Return whether a hybrid script is called with tensors (or expressions), to become an
    operation; refuse arrays among them.
    """
    flat = [part for one in args for part in (one if isinstance(one, (list, tuple)) else [one])]
    if not any(isinstance(one, tvm_arg_types) for one in flat):
        return False
    for one in flat:
        if not isinstance(one, (*tvm_arg_types, bool, int, float, str)):
            raise TypeMismatchError(
                f"hybrid script '{name}' is called with tensors and with {type(one).__name__}",
                notes=("give arrays only, to run it as Python, or tensors only",),
            )
    return True


def make_nop() -> Stmt:
    """Return a statement that does nothing."""
    return Evaluate(const(0, "int32"))


def is_docstring(node: ast.AST) -> bool:
    """Return whether a statement is a text that stands alone."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text and isinstance(node.value.value, str)  # type: ignore[attr-defined]


def replace_io(body: Stmt, rmap: Mapping[Any, Tensor]) -> Stmt:
    """Return a statement with other tensors in the place of some (given as tensors, or as the
    operations that make them).
    """
    tensors = {
        (key if isinstance(key, Tensor) else key.output(0)): value for key, value in rmap.items()
    }
    return replace_tensors(body, tensors)
