"""Puts the bodies of functions in the place of their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.relay.expr import Call
from tilesmith.relay.function import Function
from tilesmith.relay.rewriting import renewed, rewrite, substitute
from tilesmith.relay.transform.clean_up import called_functions
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of

__all__ = ["DefuseOps", "Inline"]


def _inlined(call: Call, function: Function) -> Any:
    """Return the body of a function with variables of its own, its parameters replaced."""
    copy: Any = renewed(function)
    return substitute(copy.body, dict(zip(copy.params, call.args)))


def _reaches_itself(mod: IRModule, variable: GlobalVar) -> bool:
    seen: set[str] = set()
    pending = called_functions(mod[variable])
    while pending:
        one = pending.pop()
        if one.name_hint == variable.name_hint:
            return True
        if one.name_hint not in seen and one in mod:
            seen.add(one.name_hint)
            pending += called_functions(mod[one])
    return False


@relay_pass("Inline", 1)
def Inline(mod: IRModule) -> IRModule:
    """Put the bodies of functions with the attribute ``Inline`` in the place of their calls, and
    remove these functions. Functions that call themselves stay.
    """
    chosen = [
        variable
        for variable, function in functions_of(mod)
        if function.attrs.get("Inline") and not _reaches_itself(mod, variable)
    ]
    names = {variable.name_hint for variable in chosen}
    done: dict[str, Any] = {}

    def body_of(name: str) -> Any:
        if name not in done:
            done[name] = rewrite(mod[name], change)
        return done[name]

    def change(node: Any) -> Any:
        is_call = isinstance(node, Call) and isinstance(node.op, GlobalVar)
        if is_call and node.op.name_hint in names:
            return _inlined(node, body_of(node.op.name_hint))
        return node

    for variable, _ in functions_of(mod):
        mod[variable] = body_of(variable.name_hint)
    used = {
        one.name_hint for _, function in functions_of(mod) for one in called_functions(function)
    }
    for variable in chosen:
        if variable.name_hint not in used and variable.name_hint != "main":
            del mod[variable]
    return mod


def _each(mod: IRModule, change: Callable[[Any], Any]) -> IRModule:
    for variable, function in functions_of(mod):
        mod[variable] = rewrite(function, change)
    return mod


@relay_pass("DefuseOps", 1)
def DefuseOps(mod: IRModule) -> IRModule:
    """Put the bodies of primitive functions, which FuseOps makes, in the place of their calls."""

    def change(node: Any) -> Any:
        is_call = isinstance(node, Call) and isinstance(node.op, Function)
        return _inlined(node, node.op) if is_call and node.op.attrs.get("Primitive") else node

    return _each(mod, change)
