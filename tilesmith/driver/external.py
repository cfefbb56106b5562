"""Joins what external code generators made (``mod.attrs["external_mods"]``) to a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilesmith import relax
from tilesmith.contrib.cplusplus import is_cplusplus, link_cplusplus
from tilesmith.ir import IRModule
from tilesmith.relax.expr_functor import PyExprMutator
from tilesmith.runtime.external import ExternalModules, key_of, qualified
from tilesmith.runtime.shared_library import shared_library

__all__ = ["join_external"]


def join_external(module: IRModule) -> tuple[IRModule, ExternalModules | None, list[bytes]]:
    """Return a module that calls the functions of its external modules by their full names, these
    modules, and their object code.
    """
    modules = [_loaded_by_the_system(one) for one in module.attrs.get("external_mods", ())]
    if not modules:
        return module, None, []
    called = _called(module)
    symbols = [name for name in called if any(m.implements_function(name, True) for m in modules)]
    linked = [
        name for name in symbols if any(m.objects and m.implements_function(name) for m in modules)
    ]
    constants, initial = _constants(module, modules)
    key = key_of(modules, constants)
    external = ExternalModules.open(key, modules, symbols, linked, constants, initial)
    renamed = _Rename(module, {name: qualified(key, name) for name in symbols}).run()
    for name in ("external_mods", "external_constants", "const_name_to_constant"):
        renamed = renamed.without_attr(name)
    return renamed, external, [code for one in modules for code in one.objects]


def _loaded_by_the_system(module: Any) -> Any:
    """Return a module of C++ as a shared library: its variables may end with the program."""
    if not module.objects or not is_cplusplus(module.objects):
        return module
    names = ", ".join(module.function_names[:5]) or "an external module"
    return shared_library(link_cplusplus(module.objects, name=names))


def _constants(module: IRModule, modules: list[Any]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the constants that code generators gave, and which function begins with which."""
    values: dict[str, Any] = {}
    initial: dict[str, list[str]] = {}
    named = dict(module.attrs.get("const_name_to_constant", {}))
    given: Mapping[str, Any] = module.attrs.get("external_constants", {})
    for one in modules:
        for symbol in one.function_names:
            if not one.implements_function("__init_" + symbol):
                continue
            own = dict(given.get(symbol, {})) or named
            wanted = list(own)
            if one.implements_function("get_const_vars"):
                wanted = [str(name) for name in one.get_function("get_const_vars")()]
            initial[symbol] = wanted
            values.update({name: _array(own[name]) for name in wanted})
    return values, initial


def _array(value: Any) -> Any:
    import numpy

    data = getattr(value, "data", value)
    return data.numpy() if hasattr(data, "numpy") else numpy.asarray(data)


def _called(module: IRModule) -> list[str]:
    """Return the names of the registered functions that a module calls, each once."""
    from tilesmith.ir.queries import nodes

    found: dict[str, None] = {}
    for function in module.functions.values():
        if isinstance(function, relax.Function) and function.body is not None:
            names = [one.global_symbol for one in nodes(function.body, relax.ExternFunc)]
            found.update(dict.fromkeys(names))
    return list(found)


class _Rename(PyExprMutator):
    def __init__(self, module: IRModule, names: Mapping[str, str]) -> None:
        super().__init__(module)
        self.module = module
        self.names = names

    def run(self) -> IRModule:
        """Return the module with functions called by other names."""
        result = self.module.shallow_copy()
        for variable, function in self.module.items():
            if isinstance(function, relax.Function) and function.body is not None:
                result[variable] = self.visit_expr(function)
        return result

    def visit_extern_func_(self, op: relax.ExternFunc) -> Any:
        """Rename a function."""
        name = self.names.get(op.global_symbol)
        return op if name is None else relax.ExternFunc(name, op.struct_info, op.span)
