"""Defines rules of arithmetic, comparisons and logic.

* `Min(a, b)` and `Max(a, b)` of floats give `a` unless `b` is smaller (greater), as Python's `min`
  and `max` do: one instruction (`minps`, `maxps`). A NaN in `a` is kept, one in `b` is dropped.
* Float additions and multiplications carry the flag `contract`: `a * b + c` may be rounded once
  (FMA). Nothing is reordered unless the target says `-fast-math`.
* Signed arithmetic of indices does not overflow (`nsw`); arithmetic of data wraps.
"""

from __future__ import annotations

from typing import Any

from tilesmith.codegen.facts import constant_value
from tilesmith.codegen.llvm import dtypes
from tilesmith.codegen.llvm.dot_products import dot_product
from tilesmith.codegen.llvm.dtypes import register_type
from tilesmith.codegen.llvm.operations import bool_type, compare, float_operation, intrinsic
from tilesmith.codegen.llvm.rules import handles_node
from tilesmith.codegen.llvm.values import Values
from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    CompareOp,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Sub,
)  # fmt: skip
from tilesmith.runtime.dtype import DataType
from tilesmith.tir.queries import reads_memory, uses_variable

__all__ = ["any_lane", "arithmetic", "note_wrapping"]

_INTEGER_DIVISION = {"sdiv": "udiv", "srem": "urem"}
_BOOLEAN = {"add": "or", "sub": "xor", "mul": "and"}


def arithmetic(emit: Values, integer: str, floating: str, a: str, b: str, dtype: DataType) -> str:
    """Write `add`, `sub` or `mul`, or their counterparts for floats."""
    if dtype.is_float:
        return float_operation(emit.out, f"{floating}{emit.machine.float_flags}", [a, b], dtype)
    if dtype.is_bool:
        return emit.define(f"{_BOOLEAN[integer]} {register_type(dtype)} {a}, {b}")
    if not dtype.is_integer:
        raise emit.out.unsupported(f"no arithmetic on values of '{dtype}'")
    return emit.define(f"{integer}{emit.no_wrap(dtype)} {register_type(dtype)} {a}, {b}")


@handles_node(Add)
def _add(emit: Values, expr: Add) -> str:
    for total, product in ((expr.a, expr.b), (expr.b, expr.a)):
        added = dot_product(emit.machine.features, total, product)
        if added is not None:
            return emit.value(added)
    return arithmetic(emit, "add", "fadd", emit.value(expr.a), emit.value(expr.b), expr.dtype)


@handles_node(Sub)
def _sub(emit: Values, expr: Sub) -> str:
    return arithmetic(emit, "sub", "fsub", emit.value(expr.a), emit.value(expr.b), expr.dtype)


@handles_node(Mul)
def _mul(emit: Values, expr: Mul) -> str:
    return arithmetic(emit, "mul", "fmul", emit.value(expr.a), emit.value(expr.b), expr.dtype)


@handles_node(Div)
def _div(emit: Values, expr: Div) -> str:
    if expr.dtype.is_float:
        values = [emit.value(expr.a), emit.value(expr.b)]
        return float_operation(emit.out, f"fdiv{emit.machine.float_flags}", values, expr.dtype)
    return _truncated(emit, "sdiv", expr)


@handles_node(Mod)
def _mod(emit: Values, expr: Mod) -> str:
    if expr.dtype.is_float:
        return float_operation(
            emit.out, "frem", [emit.value(expr.a), emit.value(expr.b)], expr.dtype
        )
    if _power_of_two(expr.b) is not None:
        note_wrapping(emit, expr.a)
    return _truncated(emit, "srem", expr)


def _truncated(emit: Values, operation: str, expr: BinaryOp) -> str:
    """Write a division that rounds toward zero; unsigned where both operands are not negative."""
    a, b = emit.value(expr.a), _divisor(emit, expr)
    dtype = expr.dtype
    unsigned = dtype.is_uint or (
        emit.facts.is_non_negative(expr.a) and emit.facts.is_non_negative(expr.b)
    )
    if unsigned:
        return emit.define(f"{_INTEGER_DIVISION[operation]} {register_type(dtype)} {a}, {b}")
    return _signed(emit, operation, expr, a, b)


def _signed(emit: Values, operation: str, expr: BinaryOp, a: str, b: str) -> str:
    """Write `sdiv` or `srem`; a divisor -1 that is not a constant is left out, because the smallest
    number divided by it would trap.
    """
    dtype = expr.dtype
    kind = register_type(dtype)
    if constant_value(expr.b) is not None or emit.facts.is_non_negative(expr.b):
        return emit.define(f"{operation} {kind} {a}, {b}")
    ones = [emit.out.broadcast(number, dtype) for number in ("-1", "1")]
    flags = bool_type(dtype)
    negates = emit.define(f"icmp eq {kind} {b}, {ones[0]}")
    safe = emit.define(f"select {flags} {negates}, {kind} {ones[1]}, {kind} {b}")
    result = emit.define(f"{operation} {kind} {a}, {safe}")
    if operation == "srem":
        return result  # the remainder of a division by one is zero as well
    negative = emit.define(f"sub {kind} {emit.out.broadcast('0', dtype)}, {a}")
    return emit.define(f"select {flags} {negates}, {kind} {negative}, {kind} {result}")


def _divisor(emit: Values, expr: BinaryOp) -> str:
    """Return the divisor, with ones in inactive lanes: those must not trap."""
    divisor = emit.value(expr.b)
    if emit.scope.mask is None or constant_value(expr.b) is not None:
        return divisor
    dtype, (mask, lanes) = expr.dtype, emit.scope.mask
    one = emit.out.broadcast("1", dtype)
    if dtype.lanes != lanes:
        mask, lanes = any_lane(emit), 1
    condition = f"<{lanes} x i1> {mask}" if lanes > 1 else f"i1 {mask}"
    kind = register_type(dtype)
    return emit.define(f"select {condition}, {kind} {divisor}, {kind} {one}")


def any_lane(emit: Values) -> str:
    """Write whether some lane of the current mask is active."""
    assert emit.scope.mask is not None
    mask, lanes = emit.scope.mask
    return emit.define(f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {mask})")


@handles_node(FloorDiv)
def _floordiv(emit: Values, expr: FloorDiv) -> str:
    dtype = expr.dtype
    if dtype.is_float:
        quotient = _div(emit, Div(expr.a, expr.b))
        return intrinsic(emit.out, "floor", [quotient], dtype)
    shift = _power_of_two(expr.b)
    if shift is not None:
        name = "lshr" if emit.facts.is_non_negative(expr.a) else "ashr"
        amount = emit.out.broadcast(str(shift), dtype)
        return emit.define(f"{name} {register_type(dtype)} {emit.value(expr.a)}, {amount}")
    if _is_simple(emit, expr):
        return _truncated(emit, "sdiv", expr)
    kind = register_type(dtype)
    a, b = emit.value(expr.a), _divisor(emit, expr)
    quotient = _signed(emit, "sdiv", expr, a, b)
    wrong = _has_wrong_sign(emit, expr, _signed(emit, "srem", expr, a, b), b)
    minus_one = emit.define(f"sext {bool_type(dtype)} {wrong} to {kind}")
    return emit.define(f"add {kind} {quotient}, {minus_one}")


def note_wrapping(emit: Values, dividend: PrimExpr) -> None:
    """Record loop variables that are reduced by a mask. LLVM 22 takes such addresses, which wrap
    around, for consecutive and merges them into one wide load, also when it vectorises an outer
    loop after unrolling the inner ones.
    """
    if emit.scope.wrapping.issuperset(emit.scope.loop_vars) or reads_memory(dividend):
        return
    emit.scope.wrapping.update(
        [one for one in emit.scope.loop_vars if uses_variable(dividend, {one})]
    )


@handles_node(FloorMod)
def _floormod(emit: Values, expr: FloorMod) -> str:
    dtype = expr.dtype
    if dtype.is_float:
        a, b = emit.value(expr.a), emit.value(expr.b)
        quotient = _floordiv(emit, FloorDiv(expr.a, expr.b))
        # not fused: the result of 1.0 % 0.1 on other systems depends on the rounded product
        product = float_operation(emit.out, "fmul", [quotient, b], dtype)
        return float_operation(emit.out, "fsub", [a, product], dtype)
    shift = _power_of_two(expr.b)
    if shift is not None:
        note_wrapping(emit, expr.a)
        mask = emit.out.broadcast(dtypes.integer_constant((1 << shift) - 1, dtype.element), dtype)
        return emit.define(f"and {register_type(dtype)} {emit.value(expr.a)}, {mask}")
    if _is_simple(emit, expr):
        return _truncated(emit, "srem", expr)
    kind = register_type(dtype)
    a, b = emit.value(expr.a), _divisor(emit, expr)
    remainder = _signed(emit, "srem", expr, a, b)
    wrong = _has_wrong_sign(emit, expr, remainder, b)
    zero = emit.out.broadcast("0", dtype)
    change = emit.define(f"select {bool_type(dtype)} {wrong}, {kind} {b}, {kind} {zero}")
    return emit.define(f"add {kind} {remainder}, {change}")


def _is_simple(emit: Values, expr: BinaryOp) -> bool:
    """True if rounding down and rounding toward zero are the same."""
    if expr.dtype.is_uint:
        return True
    return emit.facts.is_non_negative(expr.a) and emit.facts.is_non_negative(expr.b)


def _has_wrong_sign(emit: Values, expr: BinaryOp, remainder: str, divisor: str) -> str:
    """Write whether a remainder of truncated division is not zero and has the opposite sign of the
    divisor.
    """
    kind, zero = register_type(expr.dtype), emit.out.broadcast("0", expr.dtype)
    if emit.facts.is_non_negative(expr.b):
        return emit.define(f"icmp slt {kind} {remainder}, {zero}")
    differs = emit.define(f"xor {kind} {remainder}, {divisor}")
    opposite = emit.define(f"icmp slt {kind} {differs}, {zero}")
    exists = emit.define(f"icmp ne {kind} {remainder}, {zero}")
    return emit.define(f"and {bool_type(expr.dtype)} {opposite}, {exists}")


@handles_node(Min)
def _min(emit: Values, expr: Min) -> str:
    return _extreme(emit, expr, "LT", "min")


@handles_node(Max)
def _max(emit: Values, expr: Max) -> str:
    return _extreme(emit, expr, "GT", "max")


def _extreme(emit: Values, expr: BinaryOp, better: str, name: str) -> str:
    dtype = expr.dtype
    a, b = emit.value(expr.a), emit.value(expr.b)
    kind = register_type(dtype)
    if dtype.is_integer:
        sign = "s" if dtype.is_int else "u"
        return emit.define(f"call {kind} @llvm.{sign}{name}({kind} {a}, {kind} {b})")
    if dtype.is_bool:
        return emit.define(f"{'and' if name == 'min' else 'or'} {kind} {a}, {b}")
    choice = compare(emit.out, better, b, a, dtype)
    return emit.define(f"select {bool_type(dtype)} {choice}, {kind} {b}, {kind} {a}")


# -- comparisons and logic


@handles_node(EQ, NE, LT, LE, GT, GE)
def _compareop(emit: Values, expr: CompareOp) -> str:
    if expr.a.dtype.is_scalable and _counts_up_to(expr):
        return _lanes_below(emit, expr)
    a, b = emit.value(expr.a), emit.value(expr.b)
    return compare(emit.out, type(expr).__name__, a, b, expr.a.dtype)


def _lanes_below(emit: Values, expr: Any) -> str:
    """Write which of several consecutive numbers are below a limit, as one special instruction."""
    emit.out.require_scalable_vectors()
    dtype, mask = expr.a.dtype.element, register_type(expr.dtype)
    kind = register_type(dtype)
    base, limit = emit.value(expr.a.base), emit.value(expr.b.value)
    below = "slt" if dtype.is_int else "ult"
    has_any = emit.define(f"icmp {below} {kind} {base}, {limit}")
    count = emit.define(f"sub{emit.no_wrap(dtype)} {kind} {limit}, {base}")
    intrinsic = f"@llvm.get.active.lane.mask.nxv{int(expr.dtype.lanes)}i1.{kind}"
    # the instruction takes unsigned numbers: a negative count would be a large one
    lanes = emit.define(f"call {mask} {intrinsic}({kind} 0, {kind} {count})")
    return emit.define(f"select i1 {has_any}, {mask} {lanes}, {mask} zeroinitializer")


@handles_node(And)
def _and(emit: Values, expr: And) -> str:
    return emit.define(f"and {emit.typed(expr.a)}, {emit.value(expr.b)}")


@handles_node(Or)
def _or(emit: Values, expr: Or) -> str:
    return emit.define(f"or {emit.typed(expr.a)}, {emit.value(expr.b)}")


@handles_node(Not)
def _not(emit: Values, expr: Not) -> str:
    return emit.define(f"xor {emit.typed(expr.a)}, {emit.out.broadcast('true', expr.dtype)}")


def _counts_up_to(expr: CompareOp) -> bool:
    """True if a comparison asks which of consecutive integers are below a number."""
    if not isinstance(expr, LT) or expr.a.dtype.element.bits not in (32, 64):
        return False
    if not (isinstance(expr.a, Ramp) and isinstance(expr.b, Broadcast)):
        return False
    return expr.a.dtype.is_integer and constant_value(expr.a.stride) == 1


def _power_of_two(expr: PrimExpr) -> int | None:
    """Return the exponent of a positive constant power of two."""
    value = constant_value(expr)
    if value is None or value <= 0 or value & (value - 1):
        return None
    return value.bit_length() - 1
