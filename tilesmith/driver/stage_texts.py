"""Texts of a module at each stage of compilation, for ``tilesmith inspect``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from tilesmith.codegen import build as generate
from tilesmith.driver.model import import_model
from tilesmith.driver.relax_build import graph_pipeline
from tilesmith.driver.schedule import schedule_function
from tilesmith.ir import IRModule
from tilesmith.lowering import lower_kernels
from tilesmith.lowering.device_models import lower_for_device
from tilesmith.support.errors import ConfigError, UnknownNameError
from tilesmith.support.recursion import deep_recursion
from tilesmith.target import Target
from tilesmith.target.back_end import back_end_of
from tilesmith.tir import PrimFunc

__all__ = ["GRAPH_STAGES", "STAGES", "check_kernel_name", "graph_module", "stages"]

_FORMATS = {"source": "", "llvm": "ll", "asm": "asm"}
GRAPH_STAGES = ("graph", "fused")
STAGES = (*GRAPH_STAGES, "tir", "lowered", *_FORMATS)


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
    as flat loops; "source": what the target's back end writes; "llvm": LLVM text; "asm": the
    target's assembly, or its source where the back end leaves the rest to another compiler. A
    function that is given, but not there, raises UnknownNameError.
    """
    if stage not in STAGES:
        raise ConfigError(f"there is no stage '{stage}'", notes=("stages: " + ", ".join(STAGES),))
    chosen = Target(target)
    module = graph_module(model, chosen, stage, input_shapes)
    with deep_recursion(), chosen:
        if stage in GRAPH_STAGES:
            return str(module)
        kernels = IRModule()
        check_kernel_name(function, module)
        for variable, value in module.items():
            if isinstance(value, PrimFunc) and function in (None, variable.name_hint):
                # Without a public name the code generator would drop an uncalled function.
                named = value.with_attr("global_symbol", variable.name_hint)
                kernels[variable.name_hint] = schedule_function(named, chosen)
        if stage == "tir":
            return str(kernels)
        is_device = back_end_of(chosen).is_device
        lowered = lower_for_device(kernels, chosen) if is_device else lower_kernels(kernels, chosen)
        if stage == "lowered":
            return str(lowered)
        built = generate(lowered, chosen)
        form = _FORMATS[stage]
        # what a back end without assembly of this name writes is its last text: PTX, C
        return built.get_source("" if form == "asm" and form not in built.formats else form)


def graph_module(
    model: Any, target: Any, stage: str, input_shapes: Mapping[str, Any] | None = None
) -> IRModule:
    """Return a model as a module: as imported ("graph"), or after the graph passes."""
    chosen = Target(target)
    with deep_recursion(), chosen:
        module = import_model(model, input_shapes)
        return module if stage == "graph" else graph_pipeline(module, chosen)


def check_kernel_name(function: str | None, module: IRModule) -> None:
    """Raise UnknownNameError, with the nearest name, if the module has no kernel of this name."""
    names = [v.name_hint for v, value in module.items() if isinstance(value, PrimFunc)]
    if function is None or function in names:
        return
    near = difflib.get_close_matches(function, names, n=1)
    advice = f"did you mean '{near[0]}'?" if near else f"kernels: {', '.join(names[:20])}"
    raise UnknownNameError(f"the model has no kernel '{function}'", notes=(advice,))
