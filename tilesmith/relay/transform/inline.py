"""Puts the bodies of functions in the place of their calls."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.relay.expr import Call, Let, Var
from tilesmith.relay.function import Function
from tilesmith.relay.rewriting import renewed, rewrite, substitute
from tilesmith.relay.transform.clean_up import called_functions
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, parts, post_order

__all__ = ["DefuseOps", "Inline", "defused"]


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


def _is_fused(node: Any) -> bool:
    """Return whether a node is a function that FuseOps made."""
    return (
        isinstance(node, Function)
        and bool(node.attrs.get("Primitive"))
        and not node.attrs.get("Compiler")
    )


def defused(function: Any) -> Any:
    """Return an expression with the bodies of primitive functions in the place of their calls,
    also of those that a let gives a name to; a let that then is not needed goes.
    """
    bound = {
        node.var: node.value
        for node in post_order(function)
        if isinstance(node, Let) and _is_fused(node.value)
    }

    called: set[Any] = set()

    def change(node: Any) -> Any:
        callee: Any = node.op if isinstance(node, Call) else None
        if isinstance(callee, Var) and callee in bound:
            called.add(callee)
            callee = bound[callee]
        return _inlined(node, callee) if _is_fused(callee) else node

    changed = rewrite(function, change)
    if not called:
        return changed
    used = {part for node in post_order(changed) for part in parts(node) if isinstance(part, Var)}
    unused = called - used
    return rewrite(
        changed, lambda node: node.body if isinstance(node, Let) and node.var in unused else node
    )


@relay_pass("DefuseOps", 1)
def DefuseOps(mod: IRModule) -> IRModule:
    """Put the bodies of primitive functions, which FuseOps makes, in the place of their calls."""
    for variable, function in functions_of(mod):
        mod[variable] = defused(function)
    return mod
