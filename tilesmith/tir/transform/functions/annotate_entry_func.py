"""AnnotateEntryFunc: marks the only public function of a module as its entry.

With the option ``tir.is_entry_func``, several public functions are an error.
"""

from __future__ import annotations

from tilesmith.ir import IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.ir.transform import PassContext
from tilesmith.support.errors import ConfigError
from tilesmith.tir.function import PrimFunc

__all__ = ["annotate_entry_func"]


@compiler_pass("tir.AnnotateEntryFunc")
def annotate_entry_func(mod: IRModule) -> IRModule:
    """Marks the only public function of a module as its entry."""
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
