"""``relay.qnn.transform``: passes that write the dialect's operators as others.

`Legalize` applies what programs registered (``register_qnn_legalize``); `CanonicalizeOps` writes
each call as the integer arithmetic that it means. ``relay.build`` needs neither.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relax.type_views import type_of
from tilesmith.relay.expr import Call
from tilesmith.relay.infer_type import infer_module
from tilesmith.relay.op.view import View
from tilesmith.relay.qnn.op.op import CANONICALIZE, LEGALIZE
from tilesmith.relay.rewriting import rewrite
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.transform.to_relay import as_relay
from tilesmith.relay.walks import functions_of

__all__ = ["CanonicalizeOps", "Legalize"]


def _registered(call: Any, key: str) -> Any:
    """Return what a registered rule gives for a call, None if there is no rule."""
    rule = call.op.get_attr(key)
    if rule is None:
        return None
    types = [type_of(one.struct_info) for one in (*call.args, call)]
    return rule(call.attrs, call.args, types)


def _of_dialect(node: Any) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name.startswith("qnn.")


@relay_pass("qnn.Legalize", 1, ["InferType"])
def Legalize(mod: IRModule) -> IRModule:
    """Replace calls of the dialect by what is registered for their operator."""
    mod = infer_module(mod)

    def change(node: Any) -> Any:
        if not _of_dialect(node):
            return node
        made = _registered(node, LEGALIZE)
        return node if made is None else made

    for variable, function in functions_of(mod):
        mod[variable] = rewrite(function, change)
    return infer_module(mod)


@relay_pass("qnn.CanonicalizeOps", 1, ["InferType"])
def CanonicalizeOps(mod: IRModule) -> IRModule:
    """Write calls of the dialect as the operators of integers that they mean."""
    mod = infer_module(mod)

    def change(node: Any) -> Any:
        if not _of_dialect(node):
            return node
        made = _registered(node, CANONICALIZE)
        if made is not None:
            return made
        view = node.op.spec
        if not isinstance(view, View) or view.translate is None:
            return node  # computed by a program of its own
        return as_relay(view.translate(node.attrs, *node.args), node.args)

    for variable, function in functions_of(mod):
        mod[variable] = rewrite(function, change)
    return infer_module(mod)
