"""VerifyGPUCode: raises VerifyError for functions whose kernels exceed the limits of a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.support.errors import VerifyError
from tilesmith.tir.analysis.verify_gpu_code import gpu_violations
from tilesmith.tir.function import PrimFunc

__all__ = ["refuse_oversized", "refuse_what_does_not_fit"]


@compiler_pass("tir.VerifyGPUCode")
def refuse_what_does_not_fit(func: PrimFunc, constraints: Mapping[str, Any]) -> PrimFunc:
    """Raises VerifyError for a kernel that exceeds a limit (see
    ``tir.analysis.verify_gpu_code``).
    """
    refuse_oversized(func, constraints)
    return func


def refuse_oversized(
    func: PrimFunc, constraints: Mapping[str, Any], may_depend_on_launch: bool = False
) -> None:
    """Raise VerifyError for a kernel that exceeds a limit, with the launch and what to do; sizes
    that only a launch says are refused unless they may be.
    """
    found = gpu_violations(func, constraints)
    if may_depend_on_launch:
        found = [one for one in found if not one.is_of_launch]
    if found:
        name = func.attrs.get("global_symbol", "the function")
        notes = [text for one in found for text in (one.text, f"  {one.advice}")]
        span = found[0].span or func.span
        raise VerifyError(f"{name} does not fit on the device", span=span, notes=notes)
