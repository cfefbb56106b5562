"""The rules of expressions other than loads."""

from __future__ import annotations

from typing import Any

from tilesmith.ir import (
    Add,
    BinaryOp,
    Broadcast,
    Call,
    CallEffectKind,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    GlobalVar,
    IntImm,
    Let,
    Mod,
    Mul,
    Node,
    Not,
    Op,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
    const,
)
from tilesmith.ir import operators as ops
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.queries import called_name
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.transform.loops.vectorizer.lanes import VECTORS_ALREADY, NeedsLanes
from tilesmith.tir.transform.loops.vectorizer.rules import EXPRESSION_RULES
from tilesmith.tir.transform.loops.vectorizer.values import Values

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


@EXPRESSION_RULES.handles(Node)
def _node(values: Values, node: Any) -> Any:
    return node.map_children(values.visit)


@EXPRESSION_RULES.handles(Op, GlobalVar, Buffer)
def _leaf(values: Values, node: Any) -> Any:
    return node


@EXPRESSION_RULES.handles(PrimExpr, Ramp, Broadcast, Shuffle)
def _shared(values: Values, expr: PrimExpr) -> PrimExpr:
    return expr.map_children(values.same)


@EXPRESSION_RULES.handles(Var)
def _var(values: Values, var: Var) -> PrimExpr:
    return values.of_variable(var)


# -- operators


@EXPRESSION_RULES.handles(BinaryOp)
def _binary(values: Values, expr: BinaryOp) -> PrimExpr:
    a, b = values.visit(expr.a), values.visit(expr.b)
    if a is expr.a and b is expr.b:
        return expr
    if expr.a.dtype.lanes > 1:
        raise NeedsLanes(VECTORS_ALREADY)
    if a.dtype.lanes == 1 and b.dtype.lanes == 1:
        return type(expr)(a, b)
    if isinstance(expr, _DIVISIONS):
        return _division(values, type(expr), a, b)
    if expr.a.dtype.is_integer and isinstance(expr, (Add, Sub, Mul)):
        found = values.lanes.combined(type(expr), a, b)
        if found is not None:
            return found
    return type(expr)(values.lanes.wide(a), values.lanes.wide(b))


def _division(values: Values, kind: type[BinaryOp], a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Simplify a division whose lanes agree, or whose remainders are evenly spaced."""
    lanes = values.lanes
    rounding = kind in (FloorDiv, FloorMod) and lanes.freely
    known = isinstance(b, IntImm) and b.value > 0
    if rounding and known and isinstance(a, Ramp) and lanes.stays_even(a):
        assert isinstance(b, IntImm)
        stride = a.stride
        if isinstance(stride, IntImm) and stride.value % b.value == 0:
            quotient = lanes.ramp(a.base // b, const(stride.value // b.value, stride.dtype))
            return quotient if kind is FloorDiv else a.base % b
        if isinstance(stride, IntImm) and stride.value > 0 and not lanes.is_scalable:
            last = a.base % b + stride.value * (lanes.count - 1)
            if lanes.analyzer.can_prove(last < b):
                return a.base // b if kind is FloorDiv else lanes.ramp(a.base % b, stride)
    mask = values.masks.present
    if (
        mask is not None
        and not a.dtype.is_float
        and not (ops.is_const(b) and not ops.is_const(b, 0))
    ):
        # Masked lanes must not divide by undefined values.
        b = Select(mask, lanes.wide(b), const(1, a.dtype.with_lanes(lanes.count)))
    return kind(lanes.wide(a), lanes.wide(b))


@EXPRESSION_RULES.handles(Not)
def _not(values: Values, expr: Not) -> PrimExpr:
    a = values.visit(expr.a)
    return expr if a is expr.a else Not(a)


@EXPRESSION_RULES.handles(Cast)
def _cast(values: Values, expr: Cast) -> PrimExpr:
    value = values.visit(expr.value)
    if value is expr.value:
        return expr
    if expr.dtype.lanes > 1:
        raise NeedsLanes(VECTORS_ALREADY)
    if isinstance(value, Ramp) and expr.dtype.is_integer:
        # Dropping upper bits keeps the lanes evenly spaced; so does widening what does not wrap.
        if expr.dtype.bits <= value.dtype.bits or values.lanes.stays_even(value):
            base, stride = ops.cast(expr.dtype, value.base), ops.cast(expr.dtype, value.stride)
            return Ramp(base, stride, values.lanes.count)
    return Cast(expr.dtype.with_lanes(value.dtype.lanes), value)


@EXPRESSION_RULES.handles(Select)
def _select(values: Values, expr: Select) -> PrimExpr:
    condition = values.visit(expr.condition)
    true, false = values.visit(expr.true_value), values.visit(expr.false_value)
    return _choice(values, expr, condition, true, false)


def _choice(
    values: Values, expr: PrimExpr, condition: PrimExpr, true: PrimExpr, false: PrimExpr
) -> PrimExpr:
    if expr.dtype.lanes > 1:
        raise NeedsLanes(VECTORS_ALREADY)
    if condition.dtype.lanes > 1 or true.dtype.lanes > 1 or false.dtype.lanes > 1:
        true, false = values.lanes.wide(true), values.lanes.wide(false)
    return Select(condition, true, false)


@EXPRESSION_RULES.handles(Let)
def _let(values: Values, let: Let) -> PrimExpr:
    value = values.visit(let.value)
    var = values.bind(let.var, value.dtype)
    body = values.visit(let.body)
    if value is let.value and body is let.body:
        return let
    return Let(var, value, body)


# -- calls


@EXPRESSION_RULES.handles(Call)
def _call(values: Values, call: Call) -> PrimExpr:
    name = called_name(call)
    if name == "tir.if_then_else":
        return _if_then_else(values, call)
    if name == "tir.likely":
        value = values.visit(call.args[0])
        if value is call.args[0]:
            return call
        return value if values.lanes.freely else Call(value.dtype, call.op, (value,))
    if name == "tir.checked":
        return _checked(values, call)
    if effect_of(call) not in (CallEffectKind.Pure, CallEffectKind.ExprAnnotation):
        raise NeedsLanes(f"the call of '{name}' has effects")
    if name == "" or not call.op.get_attr("TVectorizable", False):
        return call.map_children(values.same)
    args = [values.visit(arg) for arg in call.args]
    if all(new is old for new, old in zip(args, call.args)):
        return call
    if call.dtype.lanes > 1:
        raise NeedsLanes(VECTORS_ALREADY)
    if all(arg.dtype.lanes == 1 for arg in args):
        return Call(call.dtype, call.op, tuple(args))
    lanes = values.lanes
    wide = [arg if isinstance(arg, StringImm) else lanes.wide(arg) for arg in args]
    return Call(call.dtype.with_lanes(lanes.count), call.op, tuple(wide))


def _checked(values: Values, call: Call) -> PrimExpr:
    """Check all lanes that take part."""
    value, condition, *message = [values.visit(arg) for arg in call.args]
    lanes, mask = values.lanes, values.masks.present
    is_same = all(new is old for new, old in zip((value, condition, *message), call.args))
    if is_same and mask is None:
        return call
    if call.dtype.lanes > 1 or lanes.is_scalable:
        raise NeedsLanes(VECTORS_ALREADY if call.dtype.lanes > 1 else "it checks its values")
    if mask is not None:
        condition = Or(Not(mask), lanes.wide(condition))
    elif value.dtype.lanes > 1:
        condition = lanes.wide(condition)
    return Call(value.dtype, call.op, (value, condition, *message))


def _if_then_else(values: Values, call: Call) -> PrimExpr:
    condition = values.visit(call.args[0])
    if condition.dtype.lanes == 1:
        true, false = values.visit(call.args[1]), values.visit(call.args[2])
        if condition is call.args[0] and true is call.args[1] and false is call.args[2]:
            return call
        if true.dtype.lanes > 1 or false.dtype.lanes > 1:
            true, false = values.lanes.wide(true), values.lanes.wide(false)
        return Call(true.dtype, call.op, (condition, true, false))
    if not values.lanes.freely:
        raise NeedsLanes("an operand may be read only where a condition holds")
    with values.masks.under(condition):
        true = values.visit(call.args[1])
    with values.masks.under(Not(condition)):
        false = values.visit(call.args[2])
    return _choice(values, call, condition, true, false)
