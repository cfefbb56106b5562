"""Hands functions with the attribute ``Compiler`` to their code generators.

    @register_func("relay.ext.mine")
    def generate(func):                                  # a relay.Function
        name = func.attrs["global_symbol"]
        return runtime.module_from_functions({name: lambda a, b, out: ...})

The function of the module gets the inputs, then the outputs. What
``relay.ext.mine.constant_updater(func, symbol)`` gives, constants by name, is kept beside the code;
before the first call ``__init_SYMBOL`` of the module gets a list of those that its function
``get_const_vars`` names (all without it). Compilers that lower their parts to loops instead are
those of `target_hooks`.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relay.backend.target_hooks import lower_by_hooks
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.transform.compiler_functions import (
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
)
from tilesmith.relay.translate import is_external
from tilesmith.relay.walks import functions_of, post_order
from tilesmith.runtime.registry import get_global_func, list_global_func_names
from tilesmith.support.errors import TypeMismatchError, UnknownNameError

__all__ = ["EXTERNAL_KINDS", "generate_external_code"]

EXTERNAL_KINDS = {"ext_dev"}
"""Kinds of targets without a back end: what they stand for is compiled by a code generator."""

_PREFIX = "relay.ext."


def generate_external_code(mod: IRModule) -> IRModule:
    """Return a module whose attribute ``external_mods`` has what code generators made of its
    functions with ``Compiler``; ``external_constants`` has the constants of each of them.

    Raises UnknownNameError for a code generator that is not registered, TypeMismatchError for one
    that gives no module.
    """
    if any(_has_literal(function) for _, function in functions_of(mod)):
        mod = OutlineCompilerFunctionsWithExistingGlobalSymbols()(mod)
    functions = [
        function
        for _, function in functions_of(mod)
        if is_external(function) and "Extern" not in function.attrs
    ]
    if not functions:
        return mod
    mod, made = lower_by_hooks(infer_module(mod))
    modules = [*mod.attrs.get("external_mods", ()), *made]
    constants: dict[str, dict[str, Any]] = {}
    for variable, function in functions_of(mod):
        if not is_external(function) or "Extern" in function.attrs:
            continue
        if "global_symbol" not in function.attrs:
            function = function.with_attr("global_symbol", variable.name_hint)
            mod[variable] = function
        name, symbol = str(function.attrs["Compiler"]), str(function.attrs["global_symbol"])
        modules.append(_generated(name, function))
        updater = get_global_func(f"{_PREFIX}{name}.constant_updater", allow_missing=True)
        if updater is not None:
            given = updater(function, symbol)
            constants[symbol] = {str(key): value for key, value in given.items()}
    if not modules:
        return mod
    return mod.with_attrs({"external_mods": modules, "external_constants": constants})


def _has_literal(function: Function) -> bool:
    return any(
        is_external(node) for node in post_order(function.body, lambda one: not is_external(one))
    )


def _generated(name: str, function: Function) -> Any:
    generator = get_global_func(_PREFIX + name, allow_missing=True)
    if generator is None:
        known = [
            one[len(_PREFIX) :]
            for one in list_global_func_names()
            if one.startswith(_PREFIX) and "." not in one[len(_PREFIX) :]
        ]
        raise UnknownNameError(
            f"there is no code generator for functions of the compiler '{name}'",
            notes=(
                f"register it: @register_func('{_PREFIX}{name}')",
                f"registered: {', '.join(known) or 'none'}",
            ),
        )
    made = generator(function)
    if not hasattr(made, "implements_function"):
        raise TypeMismatchError(
            f"the code generator '{_PREFIX}{name}' gave {type(made).__name__}, not a module",
            notes=("runtime.module_from_functions({name: function}) makes one",),
        )
    return made
