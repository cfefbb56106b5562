"""FastMath: replaces functions by approximations that need no library."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule
from tilesmith.relax.transform.fast_math import FAST, has_fast_form
from tilesmith.relay.transform.calls import dtype_of, is_call, make, rewrite_functions
from tilesmith.relay.transform.pass_classes import relay_pass

__all__ = ["FastMath"]


def _fast(node: Any) -> Any:
    if not is_call(node, *FAST) or not has_fast_form(dtype_of(node)):
        return node
    attrs = {} if node.attrs is None else dict(node.attrs.items())
    return make(FAST[node.op.name], *node.args, **attrs).with_fields(span=node.span)


@relay_pass("FastMath", 4, ["InferType"])
def FastMath(mod: IRModule) -> IRModule:
    """Replace exp, tanh, erf and softmax of float32 by approximations."""
    return rewrite_functions(mod, _fast)
