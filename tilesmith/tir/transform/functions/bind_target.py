"""BindTarget: each function says for which target it is compiled (attribute ``target``)."""

from __future__ import annotations

from typing import Any

from tilesmith.ir.transform import Pass
from tilesmith.target import Target
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.registration import function_pass

__all__ = ["BindTarget", "bind_target"]


def bind_target(func: PrimFunc, target: Any) -> PrimFunc:
    """``func`` with the attribute ``target``, unless it has one already."""
    return func if "target" in func.attrs else func.with_attr("target", Target(target))


def BindTarget(target: Any) -> Pass:  # noqa: N802
    """A pass that gives all functions without a target this one."""
    target = Target(target)
    return function_pass(lambda func: bind_target(func, target), "tir.BindTarget")
