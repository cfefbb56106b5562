"""Makes code of the lowered functions of a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.codegen.c.source_module import c_source_module
from tilesmith.lowering import build
from tilesmith.runtime.module import Module
from tilesmith.support.errors import UnsupportedError
from tilesmith.target import Target
from tilesmith.tir import PrimFunc

__all__ = ["UMACodegen"]


class UMACodegen:
    """How a backend writes code: as C, with lines of its own at the begin of the file, or by LLVM.

    ``includes`` (or ``gen_includes``) is a text, or a function that gives it.
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
        return c_source_module(f"{text}\n{built.get_source('c')}", "c", [symbol])
