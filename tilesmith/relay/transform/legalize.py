"""Legalize: replaces calls by what programs registered for their operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relax.type_views import type_of
from tilesmith.relay.expr import Call
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.rewriting import rewrite_typed
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.walks import functions_of, is_closed

__all__ = ["Legalize", "legalized", "registered"]


def registered(call: Call, key: str) -> Any:
    """Return what the rule of a call's operator gives for it, None if there is no rule. Rules get
    the attributes, the arguments, and the types of these and of the result.
    """
    rule = call.op.get_attr(key) if isinstance(call.op, Op) else None
    if rule is None:
        return None
    types = [type_of(one.struct_info) for one in (*call.args, call)]
    return rule(call.attrs, call.args, types)


def legalized(mod: IRModule, change: Callable[[Call], Any]) -> IRModule:
    """Return a module with calls of operators replaced by what ``change`` gives (None: kept)."""
    mod = infer_module(mod)

    def changed(node: Any) -> Any:
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return node
        made = change(node)
        return node if made is None else made

    for variable, function in functions_of(mod):
        if not is_closed(function):
            mod[variable] = rewrite_typed(function, changed)
    return infer_module(mod)


@relay_pass("Legalize", 1, ["InferType"])
def Legalize(mod: IRModule, legalize_map_attr_name: str = "FTVMLegalize") -> IRModule:
    """Replace each call by what the rule gives that is registered for its operator under a name
    (``register_legalize``): ``(attrs, inputs, types)`` → an expression of the same type, or None.
    """
    return legalized(mod, lambda call: registered(call, legalize_map_attr_name))
