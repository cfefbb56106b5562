"""AnnotateTIROpPattern: records on each PrimFunc how it fuses with its neighbours."""

from __future__ import annotations

from tilesmith.ir import IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.analysis.op_pattern import tir_op_pattern
from tilesmith.tir import PrimFunc


@compiler_pass("AnnotateTIROpPattern")
def annotate_tir_op_pattern(mod: IRModule) -> IRModule:
    """Sets the attribute ``op_pattern`` (see ``FusionKind``) of PrimFuncs that have none."""
    for name, function in list(mod.functions.items()):
        if isinstance(function, PrimFunc) and "op_pattern" not in function.attrs:
            mod[name] = function.with_attr("op_pattern", int(tir_op_pattern(function)))
    return mod
