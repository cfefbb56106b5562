"""InferType, under the names that users know."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import IRModule, Type
from tilesmith.ir.transform import register_pass
from tilesmith.relay.infer_type import infer_expr, infer_module
from tilesmith.relay.transform.pass_classes import relay_pass

__all__ = ["InferType", "InferTypeLocal"]


@relay_pass("InferType", 0)
def InferType(mod: IRModule) -> IRModule:
    """Find the type of each expression, which shows it as ``checked_type``; write the types of
    results at functions.
    """
    return infer_module(mod)


register_pass("InferType", InferType)


def InferTypeLocal(expr: Any) -> Type:
    """Return the type of an expression, whose variables have types."""
    found: Type = infer_expr(expr).checked_type
    return found
