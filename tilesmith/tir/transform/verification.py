"""VerifyMemory, VerifySSA, VerifyVTCMLimit: raise VerifyError for a program that breaks their
rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.pass_context import PassContext
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import VerifyError
from tilesmith.tir.analysis.cost import calculate_allocated_bytes
from tilesmith.tir.analysis.memory_access import check_memory
from tilesmith.tir.analysis.variables import verify_ssa
from tilesmith.tir.function import PrimFunc

__all__ = ["VTCM_SCOPE", "verify_memory_access", "verify_single_bindings", "verify_vtcm_limit"]

VTCM_SCOPE = "global.vtcm"


def _named_functions(mod: IRModule) -> Iterator[tuple[str, PrimFunc]]:
    for variable, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            yield variable.name_hint, func


@compiler_pass("tir.VerifyMemory")
def verify_memory_access(mod: IRModule) -> IRModule:
    """Raises VerifyError if the host accesses a device's memory."""
    for name, func in _named_functions(mod):
        check_memory(func, name)
    return mod


@compiler_pass("tir.VerifySSA")
def verify_single_bindings(mod: IRModule) -> IRModule:
    """Raises VerifyError if a variable is bound twice."""
    for name, func in _named_functions(mod):
        if not verify_ssa(func):
            raise VerifyError(
                f"the function '{name}' binds a variable in more than one place",
                span=func.span,
                notes=("ConvertSSA gives each binding a variable of its own",),
            )
    return mod


def _vtcm_limit(func: PrimFunc, given: Any, context: PassContext) -> int:
    """Return the limit in bytes: the given one, else that of the target, else of the option."""
    if isinstance(given, int):
        return given
    target = given if given is not None else func.attrs.get("target")
    if target is not None and target.vtcm_capacity:
        return int(target.vtcm_capacity)
    return int(context.get_config("tir.vtcm_capacity", 0) or 0)


@compiler_pass("tir.VerifyVTCMLimit")
def verify_vtcm_limit(mod: IRModule, context: PassContext, limit: Any = None) -> IRModule:
    """Raises VerifyError if a function needs more tightly coupled memory than the limit.

    ``limit`` is a number of bytes or a target with ``vtcm-capacity``; without one the function's
    target counts, else the option ``tir.vtcm_capacity``. A limit of 0 is none.
    """
    for name, func in _named_functions(mod):
        capacity = _vtcm_limit(func, limit, context)
        used = calculate_allocated_bytes(func).get(VTCM_SCOPE, 0)
        if capacity and used > capacity:
            raise VerifyError(
                f"the function '{name}' needs {used} bytes in '{VTCM_SCOPE}', there are {capacity}",
                span=func.span,
            )
    return mod
