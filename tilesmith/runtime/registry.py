"""Registers global functions: Python functions that compiled code finds by name, and the reverse.

The table is tvm-ffi's own, so that generated code finds an entry by `TVMFFIFunctionGetGlobal`.
Our own functions are named `tilesmith.…`; some are registered when they are first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from tilesmith.runtime.ffi import Function, tvm_ffi
from tilesmith.runtime.packed_func import convert_to_packed
from tilesmith.support.errors import ConfigError, TypeMismatchError, UnknownMemberError

PROVIDERS: dict[str, str] = {
    "tilesmith.runtime.": "tilesmith.runtime.builtins",
    "runtime.CSourceModuleCreate": "tilesmith.codegen.c.source_module",
    **{
        f"relay.ext.{name}": f"tilesmith.relay.backend.contrib.{name}"
        for name in ("cblas", "ccompiler", "dnnl", "examplejson")
    },
    **{
        f"relax.ext.{name}": f"tilesmith.relax.backend.contrib.{name}" for name in ("cblas", "dnnl")
    },
    "runtime.": "tilesmith.runtime.builtins",
    **{
        f"vm.builtin.{name}": "tilesmith.runtime.builtins_nn"
        for name in ("attention_kv", "debug_print", "invoke_debug_func", "kv_state", "paged_")
    },
    "vm.builtin.": "tilesmith.runtime.vm_builtins",
    "tvm.contrib.": "tilesmith.runtime.builtins",
    "cache_flush_cpu_non_first_arg": "tilesmith.runtime.builtins",
}
"""Prefix of a global function → module that registers it when imported; the first one counts."""

Registered = TypeVar("Registered", bound=Callable[..., Any])


@overload
def register_func(
    func_name: str, f: None = None, override: bool = False
) -> Callable[[Registered], Registered]: ...


@overload
def register_func(func_name: str, f: Callable[..., Any], override: bool = False) -> Function: ...


@overload
def register_func(func_name: Registered) -> Registered: ...


def register_func(
    func_name: str | Callable[..., Any],
    f: Callable[..., Any] | None = None,
    override: bool = False,
) -> Any:
    """Register a function under a global name; without `f`, act as a decorator.

        @register_func("env.add")
        def add(x, y, out): ...

    The function receives NDArrays for tensors. Returns the Python function (as a decorator) or the
    packed function. Raises ConfigError when the name is taken and `override` is false.
    """
    if callable(func_name):
        return register_func(func_name.__name__)(func_name)
    if not isinstance(func_name, str):
        raise TypeMismatchError(f"register_func expects a name, got {type(func_name).__name__}")
    if f is None:

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            register_func(func_name, function, override)
            return function

        return decorate
    if not override and tvm_ffi.get_global_func(func_name, allow_missing=True) is not None:
        raise ConfigError(
            f"the global function '{func_name}' is registered already",
            notes=("pass override=True to replace it",),
        )
    packed = convert_to_packed(f)
    tvm_ffi.register_global_func(func_name, packed, override=override)
    return packed


@overload
def get_global_func(name: str, allow_missing: Literal[False] = False) -> Function: ...


@overload
def get_global_func(name: str, allow_missing: bool) -> Function | None: ...


def get_global_func(name: str, allow_missing: bool = False) -> Function | None:
    """Return the function of a global name. If there is none, return None (`allow_missing`) or
    raise UnknownMemberError.
    """
    found = tvm_ffi.get_global_func(name, allow_missing=True)
    if found is None:
        for prefix, module in PROVIDERS.items():
            if name.startswith(prefix):
                importlib.import_module(module)
                found = tvm_ffi.get_global_func(name, allow_missing=True)
    if found is None and not allow_missing:
        import difflib

        near = difflib.get_close_matches(name, list_global_func_names(), n=1)
        advice = f"did you mean '{near[0]}'?" if near else "register it with register_func"
        raise UnknownMemberError(f"unknown global function '{name}'", notes=(advice,))
    return found


def list_global_func_names() -> list[str]:
    """Return the names of all global functions, sorted."""
    return sorted(str(name) for name in tvm_ffi.registry.list_global_func_names())


def remove_global_func(name: str) -> None:
    """Remove a global function; a name that is not registered is not an error."""
    if tvm_ffi.get_global_func(name, allow_missing=True) is not None:
        tvm_ffi.remove_global_func(name)
