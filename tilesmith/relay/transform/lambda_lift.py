"""LambdaLift: makes functions of the module of functions that are values."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import GlobalVar, GlobalVarSupply, IRModule
from tilesmith.relay.analysis import free_type_vars, free_vars
from tilesmith.relay.expr import Call, Let, Var
from tilesmith.relay.function import Function
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.rewriting import renewed, substitute
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, parts, post_order, with_parts

__all__ = ["LambdaLift"]


class _Lifter:
    """Lifts the functions inside of one function of a module."""

    def __init__(self, mod: IRModule, outer: Function, supply: Any) -> None:
        self.mod = mod
        self.outer = outer
        self.supply = supply
        self.names: dict[int, Var] = {}  # functions that a let names
        for node in post_order(outer):
            if isinstance(node, Let) and isinstance(node.value, Function):
                self.names[id(node.value)] = node.var

    def run(self) -> Any:
        """Return the function without functions inside."""
        done: dict[int, Any] = {}
        for node in post_order(self.outer.body, _is_open):
            new = node
            if _is_open(node):
                new = with_parts(node, [done[id(part)] for part in parts(node)])
            done[id(node)] = self.lifted(new, self.names.get(id(node))) if _lifts(node) else new
        return self.outer.with_fields(body=done[id(self.outer.body)])

    def lifted(self, function: Function, name: Var | None) -> Any:
        """Add a function to the module and return what stands for it: its variable, or a call that
        fixes the variables that it takes from around.
        """
        taken = [var for var in free_vars(function) if var is not name]
        hint = "lifted" if name is None else f"lifted_{name.name_hint}"
        variable: GlobalVar = self.supply.fresh_global(hint, add_prefix=False)
        stands_for: Any = Call(variable, taken) if taken else variable
        inner = substitute(function, {} if name is None else {name: stands_for})
        if taken:
            inner = Function(taken, inner, None, free_type_vars(function), {"Closure": 1})
        elif free_type_vars(function):
            types = [*free_type_vars(function), *function.type_params]
            inner = inner.with_fields(type_params=types)
        self.mod[variable] = _typed(renewed(inner), inner.params)
        return stands_for


def _typed(function: Any, known: tuple[Var, ...]) -> Any:
    """Return the function with the types of its parameters, which ``known`` have, written."""
    values = {}
    for param, var in zip(function.params, known):
        if param.struct_info is None:
            values[param] = Var(param.name_hint, var.checked_type, param.span, "relay")
    if not values:
        return function
    params = [values.get(param, param) for param in function.params]
    return function.with_fields(params=params, body=substitute(function.body, values))


def _lifts(node: Any) -> bool:
    return isinstance(node, Function) and not node.attrs.get("Primitive")


def _is_open(node: Any) -> bool:
    return not (isinstance(node, Function) and node.attrs.get("Primitive"))


@relay_pass("LambdaLift", 1, ["InferType"])
def LambdaLift(mod: IRModule) -> IRModule:
    """Move functions that are values to the module. One that uses variables from around becomes a
    function of these variables that returns it, with the attribute ``Closure``.
    """
    mod = infer_module(mod)
    supply = GlobalVarSupply(mod)
    for variable, function in functions_of(mod):
        mod[variable] = _Lifter(mod, function, supply).run()
    return mod
