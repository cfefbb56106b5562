"""Defines rules of constants, and of calls by the operator's own rule."""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.c_family.pieces import ATOM, UNARY, Piece
from tilesmith.codegen.c_family.rules import handles_node
from tilesmith.codegen.c_family.values import CommonValues
from tilesmith.ir import Call, FloatImm, GlobalVar, IntImm, Node, StringImm

__all__ = ["no_translation", "text_argument"]


def no_translation(emit: CommonValues[Any], node: Node) -> Exception:
    """Return the error for a node that lowering ought to have removed."""
    return emit.out.unsupported(
        f"{type(node).__name__} has no translation into {emit.dialect.title}",
        "lowering removes blocks and tensor expressions before code is generated",
    )


@handles_node(Node)
def _unknown(emit: CommonValues[Any], node: Node) -> Piece:
    raise no_translation(emit, node)


@handles_node(IntImm)
def _intimm(emit: CommonValues[Any], expr: IntImm) -> Piece:
    return emit.dialect.constant_text(expr.value, expr.dtype), ATOM if expr.value >= 0 else UNARY


@handles_node(FloatImm)
def _floatimm(emit: CommonValues[Any], expr: FloatImm) -> Piece:
    emit.file.use(expr.dtype)
    written = emit.dialect.constant_text(expr.value, expr.dtype)
    return written, UNARY if written[0] in "-(" else ATOM


@handles_node(Call)
def _call(emit: CommonValues[Any], call: Call) -> Piece:
    if isinstance(call.op, GlobalVar):
        return emit.call_function(call)
    rule = emit.operator_rule(call.op.name)
    if rule is None:
        raise emit.out.unsupported(
            f"operator '{call.op.name}' has no translation into {emit.dialect.title}"
        )
    return rule(emit, call)


def text_argument(emit: CommonValues[Any], arg: Any) -> str:
    """Return a name given as an argument of a call."""
    if not isinstance(arg, StringImm):
        raise emit.out.unsupported(f"a name must be a text, got {arg!r}")
    return arg.value
