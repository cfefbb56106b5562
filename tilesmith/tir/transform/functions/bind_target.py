"""BindTarget: sets the target for which each function is compiled (attribute ``target``)."""

from __future__ import annotations

from typing import Any

from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc

__all__ = ["bind_target"]


@compiler_pass("tir.BindTarget")
def bind_target(func: PrimFunc, target: Any) -> PrimFunc:
    """Sets the target of all functions that have none.

    Returns ``func`` with the attribute ``target``, unless it has one already.
    """
    return func if "target" in func.attrs else func.with_attr("target", Target(target))
