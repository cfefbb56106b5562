"""Functions that all importers share: parameters that travel with a module, names."""

from __future__ import annotations

import re
from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.expr import Function

__all__ = ["detach_params", "identifier"]


def detach_params(mod: IRModule) -> tuple[IRModule, dict[str, list[Any]]]:
    """Return the module without its functions' attached parameters, and these by function name.

    Importers with ``keep_params_in_input`` leave weights as parameters of the function, after its
    inputs, and attach their values (NDArrays in that order) as the attribute ``params``.
    """
    detached = mod.shallow_copy()
    params: dict[str, list[Any]] = {}
    for variable, function in mod.functions.items():
        if isinstance(function, Function) and "params" in function.attrs:
            params[variable.name_hint] = list(function.attrs["params"])
            detached[variable] = function.without_attr("params")
    return detached, params


def identifier(name: str) -> str:
    """Turn a name into a Python identifier."""
    found = re.sub(r"\W+", "_", name).strip("_")
    return found if found and not found[0].isdigit() else f"v_{found}" if found else "v"
