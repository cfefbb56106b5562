"""How the passes of this package are made from functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tilesmith.ir.transform import Pass, PassInfo, register_pass
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.function_pass import PrimFuncPass

__all__ = ["function_pass", "register_pass"]


def function_pass(
    transform: Callable[[PrimFunc], PrimFunc | None],
    name: str,
    opt_level: int = 0,
    required: Iterable[str] = (),
) -> Pass:
    """The pass ``name`` that applies ``transform`` to each PrimFunc of a module by itself."""

    def apply(func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc | None:
        return transform(func)

    return PrimFuncPass(apply, PassInfo(opt_level, name, required))
