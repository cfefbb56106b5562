"""VerifyGPUCode: a pass that refuses functions whose kernels do not fit on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir.transform import Pass
from tilesmith.support.errors import VerifyError
from tilesmith.tir.analysis.verify_gpu_code import gpu_code_violations
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.registration import function_pass

__all__ = ["VerifyGPUCode"]


def VerifyGPUCode(constraints: Mapping[str, Any]) -> Pass:  # noqa: N802
    """The pass that raises VerifyError where a kernel exceeds a limit (see
    ``tir.analysis.verify_gpu_code``)."""

    def transform(func: PrimFunc) -> PrimFunc:
        found = gpu_code_violations(func, constraints)
        if found:
            name = func.attrs.get("global_symbol", "the function")
            raise VerifyError(f"{name} does not fit on the device", span=func.span, notes=found)
        return func

    return function_pass(transform, "tir.VerifyGPUCode")
