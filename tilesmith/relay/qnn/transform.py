"""``relay.qnn.transform``: passes that write the dialect's operators as others.

`Legalize` applies what programs registered (``register_qnn_legalize``); `CanonicalizeOps` writes
each call as the integer arithmetic that it means. ``relay.build`` needs neither.
"""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Op
from tilesmith.relay.expr import Call
from tilesmith.relay.op.view import View
from tilesmith.relay.qnn.op.op import CANONICALIZE, LEGALIZE
from tilesmith.relay.transform.legalize import legalized, registered
from tilesmith.relay.transform.pass_classes import relay_pass
from tilesmith.relay.transform.to_relay import as_relay

__all__ = ["CanonicalizeOps", "Legalize"]


def _of_dialect(node: Any) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name.startswith("qnn.")


@relay_pass("qnn.Legalize", 1, ["InferType"])
def Legalize(mod: IRModule) -> IRModule:
    """Replace calls of the dialect by what is registered for their operator."""
    return legalized(mod, lambda call: registered(call, LEGALIZE) if _of_dialect(call) else None)


def _canonical(call: Call) -> Any:
    if not _of_dialect(call):
        return None
    made = registered(call, CANONICALIZE)
    if made is not None:
        return made
    view: Any = call.op.spec
    if not isinstance(view, View) or view.translate is None:
        return None  # computed by a program of its own
    return as_relay(view.translate(call.attrs, *call.args), call.args)


@relay_pass("qnn.CanonicalizeOps", 1, ["InferType"])
def CanonicalizeOps(mod: IRModule) -> IRModule:
    """Write calls of the dialect as the operators of integers that they mean."""
    return legalized(mod, _canonical)
