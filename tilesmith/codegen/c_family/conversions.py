"""Defines rules of casts."""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.c_family.dialect import is_narrow, short
from tilesmith.codegen.c_family.pieces import ATOM, EQUAL, UNARY, Piece
from tilesmith.codegen.c_family.rules import handles_node
from tilesmith.codegen.c_family.values import CommonValues
from tilesmith.ir import Cast
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed


@handles_node(Cast)
def _cast(emit: CommonValues[Any], expr: Cast) -> Piece:
    source, target = expr.value.dtype.element, expr.dtype.element
    if source is target:
        return emit.piece(expr.value)
    if is_narrow(target):
        inner = emit.widened(expr.value, UNARY)
        if source.bits >= 32 and source != "float32":  # a float would round a first time
            emit.file.use(DataType("float64"))
            odd = emit.file.helper("f64_to_odd_f32")
            inner = f"{odd}({inner if source.is_float else '(double)' + inner})"
        elif not source.is_float:
            inner = f"(float){inner}"
        return emit.shortened(inner, expr.dtype)
    if is_narrow(source):
        inner = emit.widened(expr.value)
        return (inner, ATOM) if target == "float32" else _converted(emit, target, inner)
    return _converted(emit, target, emit.text(expr.value, UNARY))


def _converted(emit: CommonValues[Any], target: DataType, inner: str) -> Piece:
    if target.is_bool:
        return f"{inner} != 0", EQUAL
    if is_packed(target):
        kind = emit.dialect.types["i32"]
        return f"{emit.file.helper('wrap_' + short(target))}(({kind}){inner})", ATOM
    return f"({emit.type(target)}){inner}", UNARY
