"""Passes over the PrimFuncs of a module."""

from __future__ import annotations

from tilesmith.ir.transform import FunctionLevelPass, pass_decorator
from tilesmith.tir.function import PrimFunc

__all__ = ["PrimFuncPass", "prim_func_pass"]


class PrimFuncPass(FunctionLevelPass):
    """A pass that works on each PrimFunc by itself; a function that becomes None is removed."""

    function_class = PrimFunc


prim_func_pass = pass_decorator(PrimFuncPass, "transform_function", "prim_func_pass")
