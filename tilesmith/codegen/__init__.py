"""Generates code from lowered modules: `build(module, target)` calls the back end of the target's
kind.

Each back end is a package here, with its record in `record.py`.
"""

from __future__ import annotations

from tilesmith.ir import IRModule
from tilesmith.runtime.library import FUNCTION_PREFIX
from tilesmith.runtime.module import Module
from tilesmith.target import Target
from tilesmith.target.back_end import (
    BACK_ENDS,
    BackEnd,
    Code,
    back_end_of,
    part,
    register_back_end,
)

__all__ = ["BACK_ENDS", "BackEnd", "Code", "build", "generate", "module_of", "register_back_end"]


def build(module: IRModule, target: Target, opt_level: int | None = None) -> Module:
    """Compile a lowered module for a target.

    Raises UnsupportedError when there is no back end for the target's kind, CodegenError for code
    that the back end cannot translate.
    """
    target = Target(target)
    return module_of(generate(module, target, opt_level), module, target)


def generate(module: IRModule, target: Target, opt_level: int | None = None) -> Code:
    """Return the code of a lowered module as the target's back end generates it."""
    return part(back_end_of(target).generate)(module, target, opt_level)


def module_of(code: Code, module: IRModule, target: Target) -> Module:
    """Return the runtime's module with the code that was generated for a lowered one."""
    record = back_end_of(target)
    objects = code.objects() if code.objects is not None else ()
    functions = code.functions() if code.functions is not None else {}
    runs_here = record.runs_here is None or part(record.runs_here)(target)
    names, entries = _function_names(module, record.is_device)
    spelled = _spelled(names, record)
    return Module(
        record.name,
        objects=objects,
        functions=functions,
        function_names=names,
        entry_name=entries[0] if entries else None,
        formats=code.formats,
        runnable=bool(objects or functions) and runs_here,
        symbols=spelled,
        load=part(record.load),
        is_device=record.is_device,
        advice=code.advice,
    )


def _spelled(names: list[str], record: BackEnd) -> dict[str, str]:
    """Return the symbols of functions whose names the code does not allow, without the prefix."""
    if record.symbol is None:
        return {}
    spell = part(record.symbol)
    symbols = {name: spell(FUNCTION_PREFIX + name).removeprefix(FUNCTION_PREFIX) for name in names}
    return {name: symbol for name, symbol in symbols.items() if symbol != name}


def _function_names(module: IRModule, is_device: bool) -> tuple[list[str], list[str]]:
    """Return the names of the functions that a user can call, and of the entry functions."""
    if is_device:
        named = {str(f.attrs.get("global_symbol", v.name_hint)): f for v, f in module.items()}
    else:
        symbols = {str(f.attrs.get("global_symbol", "")): f for f in module.functions.values()}
        named = {
            symbol.removeprefix(FUNCTION_PREFIX): function
            for symbol, function in symbols.items()
            if symbol.startswith(FUNCTION_PREFIX)
        }
    return list(named), [n for n, f in named.items() if f.attrs.get("tir.is_entry_func")]
