"""Texts of a module at each stage of compilation, for ``tilesmith inspect``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.codegen import build as generate
from tilesmith.driver.model import import_model
from tilesmith.driver.relax_build import graph_pipeline
from tilesmith.driver.schedule import schedule_function
from tilesmith.ir import IRModule
from tilesmith.lowering import lower_kernels
from tilesmith.support.errors import ConfigError
from tilesmith.support.recursion import deep_recursion
from tilesmith.target import Target
from tilesmith.tir import PrimFunc

__all__ = ["STAGES", "stages"]

_FORMATS = {"source": "", "llvm": "ll", "asm": "asm"}
STAGES = ("graph", "fused", "tir", "lowered", *_FORMATS)


def stages(
    model: Any,
    target: Any = "llvm",
    stage: str = "graph",
    *,
    input_shapes: Mapping[str, Any] | None = None,
    function: str | None = None,
) -> str:
    """Return a model as text at one of ``STAGES``; ``function`` picks one kernel.

    "graph": as imported; "fused": after the graph passes; "tir": kernels as scheduled; "lowered":
    as flat loops; "source": what the target's back end writes; "llvm": LLVM text; "asm": machine
    code.
    """
    if stage not in STAGES:
        raise ConfigError(f"there is no stage '{stage}'", notes=("stages: " + ", ".join(STAGES),))
    chosen = Target(target)
    with deep_recursion(), chosen:
        module = import_model(model, input_shapes)
        if stage == "graph":
            return str(module)
        module = graph_pipeline(module, chosen)
        if stage == "fused":
            return str(module)
        kernels = IRModule()
        for variable, value in module.items():
            if isinstance(value, PrimFunc) and function in (None, variable.name_hint):
                # Without a public name the code generator would drop an uncalled function.
                named = value.with_attr("global_symbol", variable.name_hint)
                kernels[variable.name_hint] = schedule_function(named, chosen)
        if stage == "tir":
            return str(kernels)
        lowered = lower_kernels(kernels, chosen)
        if stage == "lowered":
            return str(lowered)
        return generate(lowered, chosen).get_source(_FORMATS[stage])
