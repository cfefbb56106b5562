"""A schedule as hybrid script: text that can be read, changed, saved, loaded and run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilesmith.support.errors import FileError, ScriptError, TypeMismatchError
from tilesmith.te.create_prim_func import create_prim_func
from tilesmith.te.hybrid.parser import source_to_op
from tilesmith.te.hybrid.printer import hybrid_source
from tilesmith.te.hybrid.utils import Source, are_symbolic
from tilesmith.te.operation import placeholder
from tilesmith.te.schedule.bounds import infer_bound
from tilesmith.te.schedule.schedule_ops import schedule_ops
from tilesmith.tir import interpreter

__all__ = ["HybridModule", "build"]


class HybridModule:
    """A hybrid script that is not a Python function: its text, with what calls it.

    Called with tensors it gives tensors, like a decorated function; called with arrays it is
    interpreted, and gives arrays.
    """

    def __init__(self, src: str | None = None, name: str | None = None) -> None:
        self.src_ = src
        self.name = name
        self.file = ""
        if src is not None:
            self.name = name or _function(src, "").name

    @property
    def func_(self) -> Callable[..., Any]:
        """The function that the text describes."""
        return self.__call__

    def __call__(self, *args: Any) -> Any:
        """Compute the results for some arguments."""
        source = Source(self.get_source(), self.file)
        if are_symbolic(args, str(self.name)):
            return source_to_op(source, args, {}, {})
        arrays = [one for one in args if isinstance(one, np.ndarray)]
        if len(arrays) < len([one for one in args if not isinstance(one, (bool, int, float))]):
            raise TypeMismatchError(
                f"hybrid script '{self.name}' takes arrays of numpy, or tensors"
            )
        tensors = [
            one if isinstance(one, (bool, int, float)) else placeholder(one.shape, one.dtype.name)
            for one in args
        ]
        made = source_to_op(source, tensors, {}, {})
        outputs = made if isinstance(made, list) else [made]
        results = [np.zeros([int(n) for n in one.shape], str(one.dtype)) for one in outputs]
        inputs = [one for one in tensors if not isinstance(one, (bool, int, float))]
        interpreter.run(create_prim_func([*inputs, *outputs]), *arrays, *results)
        return results[0] if len(results) == 1 else tuple(results)

    def get_source(self) -> str:
        """Return the text."""
        if self.src_ is None:
            raise ScriptError(
                "the module has no source yet", notes=("load one: module.load(path)",)
            )
        return self.src_

    def save(self, path: str) -> None:
        """Write the text to a file, whose name ends in .py."""
        file = path if str(path).endswith(".py") else f"{path}.py"
        try:
            Path(file).write_text(self.get_source())
        except OSError as error:
            raise FileError(f"{file} cannot be written: {error.strerror}", reason=error) from None

    def load(self, path: str) -> None:
        """Read a file that holds one function."""
        try:
            text = Path(path).read_text()
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror}", reason=error) from None
        self.name = _function(text, str(path)).name
        self.src_, self.file = text, str(path)


def _function(text: str, file: str) -> ast.FunctionDef:
    """Return the one function of a text."""
    try:
        root = ast.parse(text)
    except SyntaxError as error:
        raise ScriptError(f"{file or 'the text'} is not Python: {error}") from None
    found = [one for one in root.body if isinstance(one, ast.FunctionDef)]
    if len(found) != 1:
        raise ScriptError(f"{file or 'the text'} has {len(found)} functions, one is needed")
    return found[0]


def build(
    sch: Any, inputs: Sequence[Any], outputs: Sequence[Any], name: str = "hybrid_func"
) -> HybridModule:
    """Return the loops of a schedule as a hybrid script, to be read and changed."""
    normal = sch.normalize()
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    made: list[Any] = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    statement = schedule_ops(normal, infer_bound(normal))
    return HybridModule(hybrid_source(statement, given, made, name), name)
