"""Registers how LegalizeOps replaces an operator's call, as ``tvm.relax.transform.legalize_ops``
does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import Op
from tilesmith.relax import BlockBuilder, Call, Expr
from tilesmith.te import Tensor

__all__ = ["LegalizeFunc", "TEFunc", "register_legalize"]

TEFunc = Callable[..., Tensor]
LegalizeFunc = Callable[[BlockBuilder, Call], Expr]


def register_legalize(op_name: str, legal_func: LegalizeFunc | None = None) -> Any:
    """Let a function make what replaces the calls of an operator; without one, act as a
    decorator.
    """
    if legal_func is None:
        return lambda function: register_legalize(op_name, function)
    Op.get(op_name).set_attr("FLegalize", legal_func)
    return legal_func
