"""``relay.qnn.op.op``: rules by which a program replaces calls of the dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.ir import Op

__all__ = ["CANONICALIZE", "LEGALIZE", "register_qnn_canonicalize", "register_qnn_legalize"]

LEGALIZE, CANONICALIZE = "FTVMQnnLegalize", "FTVMQnnCanonicalize"
"""The attributes of operators that `relay.qnn.transform` asks for."""


def _register(op_name: str, key: str, rule: Any, level: int) -> Any:
    def publish(written: Callable[..., Any]) -> Callable[..., Any]:
        Op.get(op_name).set_attr(key, written, level)
        return written

    return publish if rule is None else publish(rule)


def register_qnn_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Register ``rule(attrs, inputs, types)``, which gives what replaces a call in
    `qnn.transform.Legalize`, or None; a decorator without ``legal_op``.
    """
    return _register(op_name, LEGALIZE, legal_op, level)


def register_qnn_canonicalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Register ``rule(attrs, inputs, types)``, which gives what replaces a call in
    `qnn.transform.CanonicalizeOps`; a decorator without ``legal_op``.
    """
    return _register(op_name, CANONICALIZE, legal_op, level)
