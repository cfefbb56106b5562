"""AnnotateEntryFunc: the only public function of a module is its entry.

The option ``tir.is_entry_func`` insists on it: with several public functions it is an error.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.transform import ModulePass, Pass, PassContext, PassInfo
from tilesmith.support.errors import ConfigError
from tilesmith.tir.function import PrimFunc
from tilesmith.tir.transform.registration import register_pass

__all__ = ["AnnotateEntryFunc"]


def _annotate(mod: IRModule, ctx: Any) -> IRModule:
    public = [
        variable
        for variable, func in mod.functions.items()
        if isinstance(func, PrimFunc) and "global_symbol" in func.attrs
    ]
    if len(public) > 1 and PassContext.current().get_config("tir.is_entry_func", False):
        names = ", ".join([variable.name_hint for variable in public])
        raise ConfigError(
            "the option 'tir.is_entry_func' says that the module has one function",
            notes=(f"it has: {names}",),
        )
    if len(public) == 1 and not mod[public[0]].attrs.get("tir.is_entry_func"):
        mod[public[0]] = mod[public[0]].with_attr("tir.is_entry_func", True)
    return mod


@register_pass("tir.AnnotateEntryFunc")
def AnnotateEntryFunc() -> Pass:  # noqa: N802
    """The pass that marks the only public function of a module as its entry."""
    return ModulePass(_annotate, PassInfo(0, "tir.AnnotateEntryFunc"))
