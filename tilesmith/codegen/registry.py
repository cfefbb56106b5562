"""Back ends by kind of target: functions `build(module, target, opt_level) -> runtime.Module`."""

from __future__ import annotations

from collections.abc import Callable

from tilesmith.runtime.module import Module
from tilesmith.support.registry import Registry

BackEnd = Callable[..., Module]
BACK_ENDS: Registry[BackEnd] = Registry(
    "back end",
    {
        "llvm": "tilesmith.codegen.llvm",
        "c": "tilesmith.codegen.c",
        "nvptx": "tilesmith.codegen.llvm.nvptx",
    },
)
