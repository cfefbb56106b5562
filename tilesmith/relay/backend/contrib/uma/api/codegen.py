"""Makes code of the lowered functions of a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.codegen.c.source_module import c_source_module
from tilesmith.ir import StringImm
from tilesmith.ir.queries import calls
from tilesmith.lowering import build
from tilesmith.runtime.module import Module
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import PrimFunc

__all__ = ["UMACodegen"]


class UMACodegen:
    """How a backend writes code: as C, with lines of its own at the begin of the file, or by LLVM.

    ``includes`` (or ``gen_includes``) is a text, or a function that gives it: it declares the C
    functions that the backend's passes call.
    """

    def __init__(self, target_name: str, fmt: str = "c", **kwargs: Any) -> None:
        self.target_name = target_name
        self.fmt = fmt
        includes = kwargs.pop("includes", None) or kwargs.pop("gen_includes", None) or ""
        if fmt not in ("c", "llvm"):
            raise UnsupportedError(
                f"'{target_name}': code is written as 'c' or 'llvm', not as '{fmt}'"
            )
        if kwargs:
            raise UnsupportedError(
                f"'{target_name}': unknown options of the code: {', '.join(kwargs)}",
                notes=("known: includes",),
            )
        if includes and fmt != "c":
            raise UnsupportedError(f"'{target_name}': only C code has includes")
        self.includes: str | Callable[[], str] = includes

    def generate(self, prim: PrimFunc) -> Module:
        """Return the module of a lowered function."""
        symbol = str(prim.attrs["global_symbol"])
        built: Module = build(prim, target=Target(self.fmt))
        text = self.includes() if callable(self.includes) else self.includes
        if not text:
            return built
        called = _called(prim)
        source = "\n".join(
            [line for line in built.get_source("c").splitlines() if not _declares(line, called)]
        )
        return c_source_module(f"{text}\n{source}\n", "c", [symbol])


def _called(prim: PrimFunc) -> set[str]:
    """Return the names of the C functions that a function calls: the includes declare them, with
    types that pointers of loops do not tell.
    """
    return {
        str(call.args[0].value)
        for call in calls(prim.body)
        if call.op.name in ("tir.call_extern", "tir.call_pure_extern")
        and isinstance(call.args[0], StringImm)
    }


def _declares(line: str, names: set[str]) -> bool:
    words = line.partition("(")[0].split()
    return bool(words) and words[0] == "extern" and words[-1].lstrip("*") in names
