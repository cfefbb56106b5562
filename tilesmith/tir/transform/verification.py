"""Passes that change nothing: VerifyMemory, VerifySSA and VerifyVTCMLimit raise VerifyError where
a program breaks their rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.transform import ModulePass, Pass, PassContext, PassInfo
from tilesmith.support.errors import VerifyError
from tilesmith.tir.analysis.cost import calculate_allocated_bytes
from tilesmith.tir.analysis.memory_access import check_memory
from tilesmith.tir.analysis.variables import verify_ssa
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.registration import register_pass

__all__ = ["VTCM_SCOPE", "VerifyMemory", "VerifySSA", "VerifyVTCMLimit"]

VTCM_SCOPE = "global.vtcm"


def _verifier(name: str, check: Callable[[PrimFunc, str], None]) -> Pass:
    def verify(mod: IRModule, ctx: Any) -> IRModule:
        for variable, func in mod.functions.items():
            if isinstance(func, PrimFunc):
                check(func, variable.name_hint)
        return mod

    return ModulePass(verify, PassInfo(0, name))


@register_pass("tir.VerifyMemory")
def VerifyMemory() -> Pass:  # noqa: N802
    """The pass that refuses programs in which the host touches a device's memory."""
    return _verifier("tir.VerifyMemory", check_memory)


def _check_ssa(func: PrimFunc, name: str) -> None:
    if not verify_ssa(func):
        raise VerifyError(
            f"the function '{name}' binds a variable in more than one place",
            span=func.span,
            notes=("ConvertSSA gives each binding a variable of its own",),
        )


@register_pass("tir.VerifySSA")
def VerifySSA() -> Pass:  # noqa: N802
    """The pass that refuses programs in which a variable is bound twice."""
    return _verifier("tir.VerifySSA", _check_ssa)


def _vtcm_limit(func: PrimFunc, given: Any) -> int:
    """The bytes that a function may use: as given, else of its target, else of the option."""
    if isinstance(given, int):
        return given
    target = given if given is not None else func.attrs.get("target")
    if target is not None and target.vtcm_capacity:
        return target.vtcm_capacity
    return int(PassContext.current().get_config("tir.vtcm_capacity", 0) or 0)


@register_pass("tir.VerifyVTCMLimit")
def VerifyVTCMLimit(limit: Any = None) -> Pass:  # noqa: N802
    """The pass that refuses programs that need more tightly coupled memory than there is.

    ``limit`` is a number of bytes or a target with ``vtcm-capacity``; without one the function's
    target counts, else the option ``tir.vtcm_capacity``. A limit of 0 is none.
    """

    def check(func: PrimFunc, name: str) -> None:
        capacity = _vtcm_limit(func, limit)
        used = calculate_allocated_bytes(func).get(VTCM_SCOPE, 0)
        if capacity and used > capacity:
            raise VerifyError(
                f"the function '{name}' needs {used} bytes in '{VTCM_SCOPE}', there are {capacity}",
                span=func.span,
            )

    return _verifier("tir.VerifyVTCMLimit", check)
