"""AnnotateTIROpPattern: each PrimFunc says how it fuses with its neighbours."""

from __future__ import annotations

from tilesmith.ir import IRModule
from tilesmith.ir.transform import Pass
from tilesmith.relax.analysis.op_pattern import tir_op_pattern
from tilesmith.relax.transform.function_pass import whole_module
from tilesmith.tir import PrimFunc


def AnnotateTIROpPattern() -> Pass:  # noqa: N802
    """PrimFuncs get the attribute ``op_pattern`` (see ``FusionKind``), unless they have one."""

    def annotate(mod: IRModule) -> IRModule:
        for name, function in list(mod.functions.items()):
            if isinstance(function, PrimFunc) and "op_pattern" not in function.attrs:
                mod[name] = function.with_attr("op_pattern", int(tir_op_pattern(function)))
        return mod

    return whole_module("AnnotateTIROpPattern", annotate)
