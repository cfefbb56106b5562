"""AnnotateEntryFunc: the only public function of a module is its entry."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.transform import ModulePass, Pass, PassInfo
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.registration import register_pass

__all__ = ["AnnotateEntryFunc"]


def _annotate(mod: IRModule, ctx: Any) -> IRModule:
    public = [
        variable
        for variable, func in mod.functions.items()
        if isinstance(func, PrimFunc) and "global_symbol" in func.attrs
    ]
    if len(public) == 1 and not mod[public[0]].attrs.get("tir.is_entry_func"):
        mod[public[0]] = mod[public[0]].with_attr("tir.is_entry_func", True)
    return mod


@register_pass("tir.AnnotateEntryFunc")
def AnnotateEntryFunc() -> Pass:  # noqa: N802
    """The pass that marks the only public function of a module as its entry."""
    return ModulePass(_annotate, PassInfo(0, "tir.AnnotateEntryFunc"))
