"""Passes over functions for external code generators: those with the attribute ``Compiler``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilesmith.ir import GlobalVar, IRModule
from tilesmith.relay.expr import Call, Let, Var
from tilesmith.relay.function import Function
from tilesmith.relay.rewriting import renewed, rewrite, substitute
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, post_order
from tilesmith.support.errors import ConfigError

__all__ = [
    "InlineCompilerFunctionsBoundTo", "MarkCompilerFunctionsAsExtern",
    "OutlineCompilerFunctionsWithExistingGlobalSymbols",
]  # fmt: skip


def _is_for(node: Any, compiler_filter: str) -> bool:
    if not isinstance(node, Function):
        return False
    compiler = node.attrs.get("Compiler")
    return bool(compiler) and compiler_filter in ("", compiler)


def _calling_outlined(body: Any) -> Any:
    """Let calls of a variable that is bound to a function of the module call that function."""
    bound = {
        node.var: node.value
        for node in post_order(body)
        if isinstance(node, Let) and isinstance(node.value, GlobalVar)
    }

    def called(node: Any) -> Any:
        if isinstance(node, Let) and node.var in bound:
            return node.body
        return bound.get(node, node) if isinstance(node, Var) else node

    return rewrite(body, called) if bound else body


@relay_pass("OutlineCompilerFunctionsWithExistingGlobalSymbols", 0, ["InferType"])
def OutlineCompilerFunctionsWithExistingGlobalSymbols(
    mod: IRModule, compiler_filter: str = ""
) -> IRModule:
    """Make functions of the module of those inside of others that have a ``Compiler`` (the given
    one, if any) and a ``global_symbol``, which becomes the name.
    """
    made: dict[str, tuple[GlobalVar, Function]] = {}

    def outlined(node: Any) -> Any:
        symbol = node.attrs.get("global_symbol") if _is_for(node, compiler_filter) else None
        if symbol is None:
            return node
        name = str(symbol)
        if name in made and made[name][1] is not node:
            raise ConfigError(f"two functions have the global_symbol '{name}'", span=node.span)
        made.setdefault(name, (GlobalVar(name), node))
        return made[name][0]

    for variable, function in functions_of(mod):
        own = variable.name_hint
        body = rewrite(function.body, outlined)
        if own in made:
            raise ConfigError(f"the module has a function '{own}' already")
        body = _calling_outlined(body)
        mod[variable] = function if body is function.body else function.with_fields(body=body)
    for variable, function in made.values():
        mod[variable] = function
    return mod


@relay_pass("MarkCompilerFunctionsAsExtern", 0, ["InferType"])
def MarkCompilerFunctionsAsExtern(mod: IRModule, compiler_filter: str = "") -> IRModule:
    """Mark the functions of the module that have a ``Compiler`` (the given one, if any) as defined
    elsewhere: their only attribute is then ``Extern``.
    """
    for variable, function in functions_of(mod):
        if _is_for(function, compiler_filter):
            mod[variable] = function.with_fields(attrs={"Extern": 1})
    return mod


@relay_pass("InlineCompilerFunctionsBoundTo", 0, ["InferType"])
def InlineCompilerFunctionsBoundTo(mod: IRModule, global_vars: Iterable[Any]) -> IRModule:
    """Put the bodies of functions with a ``Compiler``, which are named by their variables, in the
    place of their calls, and with them those of the ``Composite`` functions inside. These functions
    then are removed: a partition is undone.
    """
    names = {getattr(one, "name_hint", one) for one in global_vars}
    chosen = {
        variable.name_hint: function
        for variable, function in functions_of(mod)
        if variable.name_hint in names and _is_for(function, "")
    }

    def body_of(call: Call, function: Function) -> Any:
        copy: Any = renewed(function)
        return substitute(copy.body, dict(zip(copy.params, call.args)))

    def without_composites(node: Any) -> Any:
        callee = node.op if isinstance(node, Call) else None
        is_composite = isinstance(callee, Function) and callee.attrs.get("Composite")
        return body_of(node, callee) if is_composite else node  # type: ignore[arg-type]

    plain = {name: rewrite(function, without_composites) for name, function in chosen.items()}

    def inlined(node: Any) -> Any:
        callee = node.op if isinstance(node, Call) else None
        function = plain.get(callee.name_hint) if isinstance(callee, GlobalVar) else None
        return node if function is None else body_of(node, function)

    for variable, function in functions_of(mod):
        if variable.name_hint not in chosen:
            mod[variable] = rewrite(function, inlined)
    for variable in mod.get_global_vars():
        if variable.name_hint in chosen:
            del mod[variable]
    return mod
