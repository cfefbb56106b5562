"""Runs the hooks by which a kind of target lowers its own parts of programs.

    @module_pass(opt_level=0)
    def to_loops(mod, ctx):          # functions with Compiler="my_unit" become PrimFuncs
        …

    register_kind_attr("my_unit", "RelayToTIR", to_loops)

The pass gets the whole program after partitioning; it puts a PrimFunc, with the inputs and then the
outputs as parameters, in the place of each function of its compiler, and may add functions that
these call. They are compiled with the program's kernels, with the loops that they have. Where the
kind has the attribute ``TIRToRuntime``, (module, target) → runtime module, that makes their code
instead. The registered function ``relay.ext.NAME.relay_to_tir`` does the same for a compiler that
is no kind of target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.relay.translate import LOWERED_AS, is_external
from tilesmith.relay.walks import functions_of
from tilesmith.runtime.registry import get_global_func
from tilesmith.support.errors import TypeMismatchError
from tilesmith.target import Target
from tilesmith.target.kind import KINDS
from tilesmith.tir import PrimFunc

__all__ = ["has_hook", "lower_by_hooks"]

RELAY_TO_TIR, TIR_TO_RUNTIME = "RelayToTIR", "TIRToRuntime"
_OPAQUE = 8  # of TOpPattern: it is fused with nothing


def has_hook(compiler: str) -> bool:
    """Return whether a compiler, or the kind of target of its name, lowers its parts itself."""
    return _hook(compiler) is not None


def _hook(compiler: str) -> Callable[[IRModule], Any] | None:
    kind = KINDS.get(compiler, None)
    found = None if kind is None else kind.attrs.get(RELAY_TO_TIR)
    if found is None:
        found = get_global_func(f"relay.ext.{compiler}.relay_to_tir", allow_missing=True)
    return found


def lower_by_hooks(mod: IRModule) -> tuple[IRModule, list[Any]]:
    """Return a module whose functions for compilers with hooks name the PrimFuncs that compute
    them, and the runtime modules that hooks have made.

    Raises TypeMismatchError for a hook that leaves a function as it was.
    """
    wanted: dict[str, list[GlobalVar]] = {}
    for variable, function in functions_of(mod):
        if is_external(function) and "Extern" not in function.attrs:
            wanted.setdefault(str(function.attrs["Compiler"]), []).append(variable)
    modules: list[Any] = []
    for compiler, variables in wanted.items():
        hook = _hook(compiler)
        if hook is not None:
            mod = _lowered(mod, compiler, variables, hook, modules)
    return mod, modules


def _lowered(
    mod: IRModule,
    compiler: str,
    variables: list[GlobalVar],
    hook: Callable[[IRModule], Any],
    modules: list[Any],
) -> IRModule:
    """Lower the functions of one compiler."""
    kind = KINDS.get(compiler, None)
    target = None if kind is None else Target(compiler)
    given = mod.shallow_copy()
    if target is None:
        made = hook(given)
    else:
        with target:
            made = hook(given)
    if not isinstance(made, IRModule):
        raise TypeMismatchError(
            f"the hook RelayToTIR of '{compiler}' gave {type(made).__name__}, not an IRModule",
            notes=("it is a pass: it gets the program and returns it with PrimFuncs",),
        )
    names = [one.name_hint for one in variables]
    functions = {name: _checked(mod[name], made, name, compiler) for name in names}
    known = {one.name_hint for one in mod.functions}
    helpers = {
        variable.name_hint: function
        for variable, function in made.functions.items()
        if isinstance(function, PrimFunc) and variable.name_hint not in known
    }
    to_runtime = None if kind is None else kind.attrs.get(TIR_TO_RUNTIME)
    result = mod.shallow_copy()
    if to_runtime is not None:
        symbols = {name: str(mod[name].attrs.get("global_symbol", name)) for name in names}
        prims = {
            symbols[name]: function.with_attr("global_symbol", symbols[name])
            for name, function in functions.items()
        }
        modules.append(to_runtime(IRModule({**helpers, **prims}), target))
        for name in names:
            attrs = {"Extern": 1, "global_symbol": symbols[name]}
            result[name] = result[name].with_attrs(attrs)
        return result
    for name, function in helpers.items():
        result[name] = function
    for name, function in functions.items():
        lowered = _free_name(result, f"{name}_lowered")
        attrs = {"tir.is_scheduled": True, "op_pattern": _OPAQUE, "global_symbol": lowered}
        result[lowered] = function.with_attrs(attrs).without_attr("target")
        result[name] = result[name].with_attrs({"Extern": 1, LOWERED_AS: lowered})
    return result


def _checked(function: Any, made: IRModule, name: str, compiler: str) -> PrimFunc:
    """Return what a hook has put in the place of a function."""
    found = made[name] if name in made else None
    if not isinstance(found, PrimFunc):
        words = "has removed" if found is None else "leaves"
        raise TypeMismatchError(
            f"the hook RelayToTIR of '{compiler}' {words} the function '{name}', it has to put a "
            "PrimFunc in its place",
            notes=("mod[name] = prim_func, with the inputs and then the outputs as parameters",),
        )
    if len(found.params) <= len(function.params):
        raise TypeMismatchError(
            f"the PrimFunc for '{name}' has {len(found.params)} parameters: {len(function.params)} "
            "are the inputs, the outputs follow",
        )
    return found


def _free_name(mod: IRModule, base: str) -> str:
    name, number = base, 0
    while name in mod:
        number += 1
        name = f"{base}_{number}"
    return name
