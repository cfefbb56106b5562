"""Defines rules of arithmetic, comparisons, logic and conversions."""

from __future__ import annotations

from tilesmith.codegen.c.helpers import FLOAT32, c_type, is_narrow, short
from tilesmith.codegen.c.rules import (
    AND,
    ATOM,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    COMPARE,
    EQUAL,
    OR,
    PRODUCT,
    SUM,
    UNARY,
    Piece,
    handles_node,
)  # fmt: skip
from tilesmith.codegen.c.values import Values
from tilesmith.codegen.facts import constant_value
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
    Cast,
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
    Select,
    Sub,
)  # fmt: skip
from tilesmith.runtime.dtype import DataType
from tilesmith.runtime.packed_elements import is_packed

_OPERATORS = {"Add": ("+", SUM), "Sub": ("-", SUM), "Mul": ("*", PRODUCT)}
_COMPARE = {
    "EQ": ("==", EQUAL), "NE": ("!=", EQUAL), "LT": ("<", COMPARE), "LE": ("<=", COMPARE),
    "GT": (">", COMPARE), "GE": (">=", COMPARE),
}  # fmt: skip


def binary(emit: Values, expr: BinaryOp, operator: str, precedence: int) -> Piece:
    """Write `a operator b`; the right operand is bracketed where it binds as weakly."""
    a, b = emit.widened(expr.a, precedence), emit.widened(expr.b, precedence + 1)
    if is_narrow(expr.a.dtype) and is_narrow(expr.dtype):
        return emit.shortened(f"{a} {operator} {b}", expr.dtype)
    return emit.narrowed((f"{a} {operator} {b}", precedence), expr.dtype)


@handles_node(Add, Sub, Mul)
def _arithmetic(emit: Values, expr: BinaryOp) -> Piece:
    name = type(expr).__name__
    if expr.dtype.is_bool:
        operator, precedence = {
            "Add": ("|", BIT_OR),
            "Sub": ("^", BIT_XOR),
            "Mul": ("&", BIT_AND),
        }[name]
        return binary(emit, expr, operator, precedence)
    return binary(emit, expr, *_OPERATORS[name])


@handles_node(Div)
def _div(emit: Values, expr: Div) -> Piece:
    return binary(emit, expr, "/", PRODUCT) if expr.dtype.is_float else _truncated(emit, expr)


@handles_node(Mod)
def _mod(emit: Values, expr: Mod) -> Piece:
    if expr.dtype.is_float:
        return emit.function("fmod", [expr.a, expr.b], expr.dtype)
    return _truncated(emit, expr)


def _truncated(emit: Values, expr: Div | Mod) -> Piece:
    """Write a division of integers that rounds toward zero."""
    name, operator = ("truncdiv", "/") if isinstance(expr, Div) else ("truncmod", "%")
    is_known = expr.dtype.is_uint or constant_value(expr.b) is not None
    if is_known or emit.facts.is_non_negative(expr.b):
        return binary(emit, expr, operator, PRODUCT)
    helper = emit.file.helper(name, expr.dtype)
    return f"{helper}({emit.text(expr.a)}, {emit.text(expr.b)})", ATOM


@handles_node(FloorDiv)
def _floordiv(emit: Values, expr: FloorDiv) -> Piece:
    if expr.dtype.is_float:
        return _floored_quotient(emit, expr), ATOM
    return _floor(emit, expr, "floordiv", "/")


@handles_node(FloorMod)
def _floormod(emit: Values, expr: FloorMod) -> Piece:
    if expr.dtype.is_float:
        a, b = emit.widened(expr.a, PRODUCT), emit.widened(expr.b, UNARY)
        product = f"{_rounded(emit, _floored_quotient(emit, expr), expr.dtype)} * {b}"
        written, _ = emit.shortened(f"{a} - {_step(emit, product, expr.dtype)}", expr.dtype)
        return written, ATOM if is_narrow(expr.dtype) else SUM
    return _floor(emit, expr, "floormod", "%")


def _rounded(emit: Values, written: str, dtype: DataType) -> str:
    """Return a value of a narrow dtype as the float that it represents."""
    if not is_narrow(dtype):
        return written
    return f"{emit.file.helper(short(dtype) + '_to_f32')}({written})"


def _step(emit: Values, written: str, dtype: DataType) -> str:
    """Round an intermediate result of a narrow dtype, as each operation is."""
    return _rounded(emit, emit.shortened(written, dtype)[0], dtype)


def _floored_quotient(emit: Values, expr: BinaryOp) -> str:
    quotient = f"{emit.widened(expr.a, PRODUCT)} / {emit.widened(expr.b, UNARY)}"
    floored = f"floor{emit.suffix(expr.dtype)}({_step(emit, quotient, expr.dtype)})"
    return emit.shortened(floored, expr.dtype)[0]


def _floor(emit: Values, expr: BinaryOp, name: str, operator: str) -> Piece:
    simple = emit.facts.is_non_negative(expr.a) and emit.facts.is_non_negative(expr.b)
    if expr.dtype.is_uint or simple:
        return binary(emit, expr, operator, PRODUCT)
    helper = emit.file.helper(name, expr.dtype)
    return f"{helper}({emit.text(expr.a)}, {emit.text(expr.b)})", ATOM


@handles_node(Min)
def _min(emit: Values, expr: Min) -> Piece:
    return _extreme(emit, expr, "min")


@handles_node(Max)
def _max(emit: Values, expr: Max) -> Piece:
    return _extreme(emit, expr, "max")


def _extreme(emit: Values, expr: BinaryOp, name: str) -> Piece:
    dtype = FLOAT32 if is_narrow(expr.dtype) else expr.dtype.element
    helper = emit.file.helper(name, dtype)
    return emit.shortened(f"{helper}({emit.widened(expr.a)}, {emit.widened(expr.b)})", expr.dtype)


@handles_node(EQ, NE, LT, LE, GT, GE)
def _compareop(emit: Values, expr: CompareOp) -> Piece:
    operator, precedence = _COMPARE[type(expr).__name__]
    a = emit.widened(expr.a, precedence + 1)
    return f"{a} {operator} {emit.widened(expr.b, precedence + 1)}", precedence


@handles_node(And)
def _and(emit: Values, expr: And) -> Piece:
    return f"{emit.text(expr.a, AND)} && {emit.text(expr.b, AND)}", AND


@handles_node(Or)
def _or(emit: Values, expr: Or) -> Piece:
    # brackets around && inside ||: compilers and readers like them
    return f"{emit.text(expr.a, EQUAL)} || {emit.text(expr.b, EQUAL)}", OR


@handles_node(Not)
def _not(emit: Values, expr: Not) -> Piece:
    return f"!{emit.text(expr.a, UNARY)}", UNARY


@handles_node(Select)
def _select(emit: Values, expr: Select) -> Piece:
    return emit.choice(expr.condition, expr.true_value, expr.false_value)


# -- conversions


@handles_node(Cast)
def _cast(emit: Values, expr: Cast) -> Piece:
    source, target = expr.value.dtype.element, expr.dtype.element
    if source is target:
        return emit.piece(expr.value)
    if is_narrow(target):
        inner = emit.widened(expr.value, UNARY)
        if source.bits >= 32 and source != "float32":  # a float would round a first time
            odd = emit.file.helper("f64_to_odd_f32")
            inner = f"{odd}({inner if source.is_float else '(double)' + inner})"
        return emit.shortened(inner, expr.dtype)
    if is_narrow(source):
        inner = emit.widened(expr.value)
        return (inner, ATOM) if target == "float32" else _converted(emit, target, inner)
    return _converted(emit, target, emit.text(expr.value, UNARY))


def _converted(emit: Values, target: DataType, inner: str) -> Piece:
    if target.is_bool:
        return f"{inner} != 0", EQUAL
    if is_packed(target):
        return f"{emit.file.helper('wrap_' + short(target))}((int32_t){inner})", ATOM
    return f"({c_type(target)}){inner}", UNARY
