"""Passes that substitute values for parameters and symbolic sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.ir.pass_declaration import compiler_pass
from tilesmith.relax.binding import bind_params, bind_symbolic_vars
from tilesmith.relax.expr import Function
from tilesmith.relax.relations import symbolic_vars
from tilesmith.support.errors import UnknownNameError


@compiler_pass("BindParams")
def bind_params_in_module(mod: IRModule, func_name: str, params: Mapping[Any, Any]) -> IRModule:
    """Replaces parameters of a function (by variable or name) by constants."""
    mod[func_name] = bind_params(mod[func_name], params)
    return mod


@compiler_pass("BindSymbolicVars")
def bind_symbolic_vars_in_module(
    mod: IRModule, binding_map: Mapping[Any, Any], func_name: str | None = None
) -> IRModule:
    """Replaces symbolic sizes (by variable or name) of a function, or of all, by values."""
    bound: set[Any] = set()
    for name, function in list(mod.functions.items()):
        if not isinstance(function, Function) or func_name not in (None, name.name_hint):
            continue
        sizes = {var for param in function.params for var in symbolic_vars(param.struct_info)}
        own = {}
        for key, value in binding_map.items():
            if key in {var.name for var in sizes} if isinstance(key, str) else key in sizes:
                own[key] = value
                bound.add(key)
        if own:
            mod[name] = bind_symbolic_vars(function, own)
    missing = [key for key in binding_map if key not in bound]
    if missing:
        shown = ", ".join([str(getattr(key, "name", key)) for key in missing])
        raise UnknownNameError(f"BindSymbolicVars: no function has a symbolic size {shown}")
    return mod
