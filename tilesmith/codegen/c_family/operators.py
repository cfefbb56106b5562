"""Defines rules of operators that all dialects write alike: mathematics, bits, choices, hints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilesmith.codegen.c_family.dialect import is_narrow
from tilesmith.codegen.c_family.library import MATH_H
from tilesmith.codegen.c_family.memory import pointer_space
from tilesmith.codegen.c_family.pieces import (
    ATOM,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    PRODUCT,
    SHIFT,
    SUM,
    UNARY,
    Piece,
)  # fmt: skip
from tilesmith.codegen.c_family.rules import handles
from tilesmith.codegen.c_family.values import CommonValues
from tilesmith.ir import Call, PrimExpr
from tilesmith.runtime.dtype import DataType

__all__ = ["call_math", "lazy_choice", "math_operator"]

_OF_BITS = {"and": ("&", BIT_AND), "or": ("|", BIT_OR), "xor": ("^", BIT_XOR)}


def call_math(
    emit: CommonValues[Any], name: str, args: Sequence[PrimExpr], dtype: DataType
) -> Piece:
    """Call a mathematical function on floats."""
    arguments = ", ".join([emit.widened(arg) for arg in args])
    return emit.shortened(f"{emit.math_name(name, dtype)}({arguments})", dtype)


@handles(*MATH_H)
def math_operator(emit: CommonValues[Any], call: Call) -> Piece:
    """Write an operator that is a function of the same name."""
    return call_math(emit, call.op.name[4:], call.args, call.dtype)


@handles("sigmoid")
def _sigmoid(emit: CommonValues[Any], call: Call) -> Piece:
    one = "1.0" if call.dtype.bits == 64 else "1.0f"
    exp = emit.math_name("exp", call.dtype)
    inner = f"{one} / ({one} + {exp}(-{emit.widened(call.args[0], UNARY)}))"
    return emit.shortened(inner, call.dtype)[0], ATOM if is_narrow(call.dtype) else PRODUCT


@handles("pow")
def _pow(emit: CommonValues[Any], call: Call) -> Piece:
    if call.dtype.is_float:
        return call_math(emit, "pow", call.args, call.dtype)
    helper = emit.file.helper("pow", call.dtype.element)
    return f"{helper}({emit.text(call.args[0])}, {emit.text(call.args[1])})", ATOM


@handles("ldexp")
def _ldexp(emit: CommonValues[Any], call: Call) -> Piece:
    value, power = emit.widened(call.args[0]), emit.text(call.args[1])
    return emit.shortened(f"{emit.math_name('ldexp', call.dtype)}({value}, {power})", call.dtype)


@handles("bitwise_and", "bitwise_or", "bitwise_xor")
def _bitwise(emit: CommonValues[Any], call: Call) -> Piece:
    operator, precedence = _OF_BITS[call.op.name.rpartition("_")[2]]
    a, b = emit.text(call.args[0], UNARY), emit.text(call.args[1], UNARY)
    return emit.narrowed((f"{a} {operator} {b}", precedence), call.dtype)


@handles("bitwise_not")
def _bitwise_not(emit: CommonValues[Any], call: Call) -> Piece:
    operator = "!" if call.dtype.is_bool else "~"
    return emit.narrowed((f"{operator}{emit.text(call.args[0], UNARY)}", UNARY), call.dtype)


@handles("shift_left", "shift_right")
def _shift(emit: CommonValues[Any], call: Call) -> Piece:
    operator = "<<" if call.op.name == "tir.shift_left" else ">>"
    a, b = emit.text(call.args[0], UNARY), emit.text(call.args[1], UNARY)
    return emit.narrowed((f"{a} {operator} {b}", SHIFT), call.dtype)


@handles("large_uint_imm")
def _large_uint(emit: CommonValues[Any], call: Call) -> Piece:
    low, high = [arg.value for arg in call.args]  # type: ignore[attr-defined]
    return emit.dialect.constant_text((high << 32) | low, DataType("uint64")), ATOM


@handles("q_multiply_shift")
def _q_multiply_shift(emit: CommonValues[Any], call: Call) -> Piece:
    x, y, q, s = [emit.text(arg, SUM) for arg in call.args]
    helper = emit.file.helper("scale_rounded")
    return f"({emit.type(call.dtype)}){helper}({x}, {y}, {q} + {s})", UNARY


@handles("q_multiply_shift_per_axis")
def _q_multiply_shift_per_axis(emit: CommonValues[Any], call: Call) -> Piece:
    x, y, left, right, q, is_left, is_right = [emit.text(arg, UNARY) for arg in call.args]
    helper = emit.file.helper("scale_rounded")
    value = f"({emit.dialect.types['i64']}){x} << ({is_left} ? {left} : 0)"
    shift = f"{q} + ({is_right} ? {right} : 0)"
    return f"({emit.type(call.dtype)}){helper}({value}, {y}, {shift})", UNARY


@handles("likely", "tvm_thread_invariant")
def _hint(emit: CommonValues[Any], call: Call) -> Piece:
    return emit.piece(call.args[0])


@handles("assume", "undef", "type_annotation")
def _nothing(emit: CommonValues[Any], call: Call) -> Piece:
    return "0", ATOM


@handles("handle_add_byte_offset")
def _add_bytes(emit: CommonValues[Any], call: Call) -> Piece:
    space, _ = pointer_space(emit, call.args[0])
    base, offset = emit.text(call.args[0], UNARY), emit.text(call.args[1], SUM)
    return f"({space}void*)(({space}char*){base} + {offset})", UNARY


@handles("if_then_else")
def _if_then_else(emit: CommonValues[Any], call: Call) -> Piece:
    condition, true, false = call.args
    return lazy_choice(emit, call.dtype, condition, true, false)


def lazy_choice(
    emit: CommonValues[Any],
    dtype: DataType,
    condition: PrimExpr,
    true: PrimExpr,
    false: PrimExpr,
    name: str = "",
) -> Piece:
    """Write a choice: lines that an arm needs are executed only if the arm is taken. ``name`` is
    that of the variable with the value, if there has to be one.
    """
    chosen = emit.text(condition)
    arms = [emit.in_branch(lambda: emit.text(true)), emit.in_branch(lambda: emit.text(false))]
    if not arms[0][0] and not arms[1][0]:
        return emit.choice(condition, true, false)
    name = name or emit.out.fresh("chosen")
    emit.out.write(f"{emit.type(dtype)} {name};")
    emit.out.write(f"if ({chosen}) {{")
    for number, (lines, value) in enumerate(arms):
        emit.out.lines += lines
        emit.out.write(f"  {name} = {value};")
        emit.out.write("} else {" if number == 0 else "}")
    return name, ATOM
