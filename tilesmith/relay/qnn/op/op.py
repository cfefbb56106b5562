"""``relay.qnn.op.op``: rules by which a program replaces calls of the dialect."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import register_op_attr

__all__ = ["CANONICALIZE", "LEGALIZE", "register_qnn_canonicalize", "register_qnn_legalize"]

LEGALIZE, CANONICALIZE = "FTVMQnnLegalize", "FTVMQnnCanonicalize"
"""The attributes of operators that `relay.qnn.transform` asks for."""


def register_qnn_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Register ``rule(attrs, inputs, types)``, which gives what replaces a call in
    `qnn.transform.Legalize`, or None; a decorator without ``legal_op``.
    """
    return register_op_attr(op_name, LEGALIZE, legal_op, level)


def register_qnn_canonicalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Register ``rule(attrs, inputs, types)``, which gives what replaces a call in
    `qnn.transform.CanonicalizeOps`, or None for what the operator means; a decorator without
    ``legal_op``.
    """
    return register_op_attr(op_name, CANONICALIZE, legal_op, level)
