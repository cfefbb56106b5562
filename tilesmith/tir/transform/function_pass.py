"""Passes over the PrimFuncs of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir.transform import FunctionLevelPass, PassInfo, pass_decorator
from tilesmith.tir.function import PrimFunc

__all__ = ["CreatePrimFuncPass", "PrimFuncPass", "prim_func_pass"]


class PrimFuncPass(FunctionLevelPass):
    """A pass that works on each PrimFunc by itself; a function that becomes None is removed."""

    function_class = PrimFunc


prim_func_pass = pass_decorator(PrimFuncPass, "transform_function", "prim_func_pass")


def CreatePrimFuncPass(
    pass_func: Callable[[PrimFunc, Any, Any], PrimFunc | None], pass_info: PassInfo
) -> PrimFuncPass:
    """Return a pass made of a function of ``(func, mod, ctx)``."""
    return PrimFuncPass(pass_func, pass_info)
