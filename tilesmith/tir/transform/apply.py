"""Apply and Filter: passes that apply a user's function or predicate to each PrimFunc."""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.tir.function import PrimFunc

__all__ = ["apply_function", "filter_functions"]


@compiler_pass("tir.Apply")
def apply_function(
    func: PrimFunc, ftransform: Callable[[PrimFunc], PrimFunc | None]
) -> PrimFunc | None:
    """Replaces each PrimFunc by the result of ``ftransform`` for it."""
    return ftransform(func)


@compiler_pass("tir.Filter")
def filter_functions(func: PrimFunc, fcond: Callable[[PrimFunc], bool]) -> PrimFunc | None:
    """Removes the PrimFuncs for which ``fcond`` is false."""
    return func if fcond(func) else None
