"""Rules for expressions of several lanes: ``Ramp`` and ``Broadcast`` instead of arithmetic on
lanes.

Ramp(x, 1, 4) + Broadcast(y, 4)  ->  Ramp(x + y, 1, 4)
Ramp(x * 4, 1, 4) // Broadcast(4, 4)  ->  Broadcast(x, 4)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.arith.forms import plus, shifted, times
from tilesmith.arith.state import is_index
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
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Sub,
)  # fmt: skip
from tilesmith.ir import operators as op
from tilesmith.ir.operators import is_const
from tilesmith.runtime.dtype import ScalableLanes

Affine = tuple[PrimExpr, PrimExpr | None]
"""Base and stride of a vector; no stride where all lanes are equal."""


def _affine(expr: PrimExpr) -> Affine | None:
    if isinstance(expr, Ramp):
        return expr.base, expr.stride
    if isinstance(expr, Broadcast):
        return expr.value, None
    return None


def _made(analyzer: Any, base: PrimExpr, stride: PrimExpr | None, lanes: int) -> PrimExpr:
    base = analyzer.rewrite(base)
    if stride is not None:
        stride = analyzer.rewrite(stride)
    if stride is None or is_const(stride, 0):
        return Broadcast(base, lanes)
    return Ramp(base, stride, lanes)


def _broadcast(analyzer: Any, expr: Broadcast) -> PrimExpr:
    value = analyzer.rewrite(expr.value)
    return expr if value is expr.value else Broadcast(value, expr.lanes)


def _ramp(analyzer: Any, expr: Ramp) -> PrimExpr:
    base, stride = analyzer.rewrite(expr.base), analyzer.rewrite(expr.stride)
    if is_const(stride, 0):
        return Broadcast(base, expr.lanes)
    return expr if base is expr.base and stride is expr.stride else Ramp(base, stride, expr.lanes)


def _binary(analyzer: Any, expr: BinaryOp) -> PrimExpr:
    new = analyzer.rewrite_children(expr)
    a, b = _affine(new.a), _affine(new.b)
    if a is None or b is None:
        return _without_form(new)
    lanes, kind = expr.dtype.lanes, expr.__class__
    if a[1] is None and b[1] is None:
        return Broadcast(analyzer.rewrite(kind(a[0], b[0])), lanes)
    # a float ramp plus a constant would be rounded in another order
    rule = _AFFINE.get(kind) if new.a.dtype.is_integer else None
    result = None if rule is None else rule(analyzer, kind, a, b, lanes)
    return new if result is None else result


def _without_form(new: Any) -> PrimExpr:
    """Identities that need one side only."""
    kind, a, b = new.__class__, new.a, new.b
    if a.dtype.is_integer:
        if kind in (Add, Sub) and is_const(b, 0):
            return a
        if kind is Add and is_const(a, 0):
            return b
        if kind is Mul and (is_const(b, 0) or is_const(a, 1)):
            return b
        if kind is Mul and is_const(a, 0):
            return a
    if kind in (Mul, Div, FloorDiv) and is_const(b, 1):
        return a
    if kind is Mul and is_const(a, 1):
        return b
    if kind in (And, Or):
        for this, other in ((a, b), (b, a)):
            if is_const(this):
                return other if is_const(this, 1) == (kind is And) else this
    return new


def _sum(analyzer: Any, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr:
    zero = op.const(0, a[0].dtype)
    stride = kind(zero if a[1] is None else a[1], zero if b[1] is None else b[1])
    return _made(analyzer, kind(a[0], b[0]), stride, lanes)


def _product(analyzer: Any, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr | None:
    if a[1] is None:
        a, b = b, a
    if a[1] is None or b[1] is not None:
        return None
    return _made(analyzer, Mul(a[0], b[0]), Mul(a[1], b[0]), lanes)


def _division(analyzer: Any, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr | None:
    """``Ramp // c`` and ``Ramp % c`` where no lane, or every lane, leaves the block of size c."""
    base, stride = a
    if stride is None or b[1] is not None or not isinstance(b[0], IntImm) or b[0].value <= 0:
        return None
    if isinstance(lanes, ScalableLanes):
        return None  # the last lane is not known
    if not isinstance(stride, IntImm) or not is_index(base.dtype):
        return None
    divisor, form = b[0].value, analyzer.normal(base)
    last = stride.value * (lanes - 1)
    if kind in (Div, Mod):  # rounding toward zero is rounding down where nothing is negative
        low = analyzer.bounds(form)[0]
        if low < 0 or low + min(last, 0) < 0:
            return None
    scalar = FloorDiv if kind in (Div, FloorDiv) else FloorMod
    divided = analyzer.rewrite(scalar(base, b[0]))
    if stride.value % divisor == 0:
        if scalar is FloorMod:
            return Broadcast(divided, lanes)
        return _made(analyzer, divided, op.const(stride.value // divisor, base.dtype), lanes)
    rest = analyzer.divide(form, divisor)[1]
    low, high = analyzer.bounds(rest)
    coeff, residue = analyzer.modular(form)
    if coeff % divisor == 0:
        low = high = residue % divisor
    elif divisor % max(coeff, 1) == 0:  # the remainder is one of residue, residue + coeff, ...
        low, high = max(low, residue % coeff), min(high, divisor - coeff + residue % coeff)
    if low + min(last, 0) >= 0 and high + max(last, 0) < divisor:
        if scalar is FloorDiv:
            return Broadcast(divided, lanes)
        return _made(analyzer, divided, stride, lanes)
    if scalar is FloorMod and form.terms and not rest.terms:  # multiples of the divisor go out
        return kind(_made(analyzer, analyzer.expr_of(rest), stride, lanes), Broadcast(b[0], lanes))
    return None


def _extreme(analyzer: Any, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr | None:
    order = _lane_order(analyzer, a, b, lanes)
    if order is None:
        return None
    chosen = a if (order == "<=") == (kind is Min) else b
    return _made(analyzer, chosen[0], chosen[1], lanes)


def _lane_ends(analyzer: Any, a: Affine, b: Affine, lanes: int) -> list[Any] | None:
    """``b - a`` in the first and in the last lane; the other lanes lie between."""
    if not is_index(a[0].dtype) or isinstance(lanes, ScalableLanes):
        return None
    first = analyzer.tidy(plus(analyzer.normal(b[0]), analyzer.normal(a[0]), -1))
    step = times(first, 0)
    if b[1] is not None:
        step = plus(step, analyzer.normal(b[1]))
    if a[1] is not None:
        step = plus(step, analyzer.normal(a[1]), -1)
    return [first, analyzer.tidy(plus(first, step, lanes - 1)), step]


def _lane_order(analyzer: Any, a: Affine, b: Affine, lanes: int) -> str | None:
    ends = _lane_ends(analyzer, a, b, lanes)
    if ends is None:
        return None
    if analyzer.prove(ends[0]) and analyzer.prove(ends[1]):
        return "<="
    if analyzer.prove(times(ends[0], -1)) and analyzer.prove(times(ends[1], -1)):
        return ">="
    return None


def _comparison(analyzer: Any, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr | None:
    if kind in (GT, GE):
        return _comparison(analyzer, LT if kind is GT else LE, b, a, lanes)
    ends = _lane_ends(analyzer, a, b, lanes)
    if ends is None:
        return None
    first, last, step = ends
    if not step.terms and step.const == 0:
        return Broadcast(analyzer.rewrite(kind(a[0], b[0])), lanes)
    shift = -1 if kind is LT else 0
    if analyzer.prove(shifted(first, shift)) and analyzer.prove(shifted(last, shift)):
        return Broadcast(op.const(True, "bool"), lanes)
    opposite = -1 - shift
    if analyzer.prove(shifted(times(first, -1), opposite)):
        if analyzer.prove(shifted(times(last, -1), opposite)):
            return Broadcast(op.const(False, "bool"), lanes)
    return _uniform_comparison(analyzer, kind, first, step, lanes)


def _uniform_comparison(
    analyzer: Any, kind: type, first: Any, step: Any, lanes: int
) -> PrimExpr | None:
    """``Ramp(4 * x, 1, 4) < Broadcast(4 * n, 4)``: all lanes are on one side."""
    if step.terms:
        return None
    block = abs(step.const) * lanes
    coeff, base = analyzer.modular(first)
    if coeff % block:
        return None
    span = step.const * (lanes - 1)
    # holds where difference >= low; all lanes of one block must agree
    low = 1 if kind is LT else 0
    residues = sorted([(base - low) % block, (base - low) % block + span])
    if residues[0] < 0 or residues[1] >= block:
        return None
    holds = LE(op.const(low, first.dtype), analyzer.expr_of(first))
    return Broadcast(analyzer.rewrite(holds), lanes)


def _equality(analyzer: Any, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr | None:
    ends = _lane_ends(analyzer, a, b, lanes)
    if ends is None:
        return None
    first, last, step = ends
    if not step.terms and step.const == 0:
        return Broadcast(analyzer.rewrite(kind(a[0], b[0])), lanes)
    for sign in (1, -1):
        if analyzer.prove(shifted(times(first, sign), -1)):
            if analyzer.prove(shifted(times(last, sign), -1)):
                return Broadcast(op.const(kind is NE, "bool"), lanes)
    return None


def _not(analyzer: Any, expr: Not) -> PrimExpr:
    new = analyzer.rewrite_children(expr)
    if isinstance(new.a, Broadcast):
        return Broadcast(analyzer.rewrite(Not(new.a.value)), new.a.lanes)
    return new


def _cast(analyzer: Any, expr: Cast) -> PrimExpr:
    new = analyzer.rewrite_children(expr)
    inner = _affine(new.value)
    if inner is None:
        return new.value if new.value.dtype is new.dtype else new
    element, lanes = new.dtype.element, new.dtype.lanes
    if inner[1] is None:
        return Broadcast(analyzer.rewrite(Cast(element, inner[0])), lanes)
    if is_index(inner[0].dtype) and element.is_int and element.bits >= inner[0].dtype.bits:
        return _made(analyzer, Cast(element, inner[0]), Cast(element, inner[1]), lanes)
    return new


def _select(analyzer: Any, expr: Select) -> PrimExpr:
    new = analyzer.rewrite_children(expr)
    condition = new.condition
    if is_const(condition):
        return new.true_value if is_const(condition, 1) else new.false_value
    if analyzer.number(new.true_value) == analyzer.number(new.false_value):
        return new.true_value
    if isinstance(condition, Broadcast):
        yes, no = new.true_value, new.false_value
        if isinstance(yes, Broadcast) and isinstance(no, Broadcast):
            chosen = Select(condition.value, yes.value, no.value)
            return Broadcast(analyzer.rewrite(chosen), condition.lanes)
        return Select(condition.value, yes, no)
    return new


def _call(analyzer: Any, call: Call) -> PrimExpr:
    name = getattr(call.op, "name", "")
    if name == "tir.if_then_else":
        return analyzer._if_then_else(call)
    new = analyzer.rewrite_children(call)
    if name == "tir.likely" and is_const(new.args[0]):
        return new.args[0]
    return new


_AFFINE: dict[type, Callable[..., PrimExpr | None]] = {
    Add: _sum, Sub: _sum, Mul: _product, FloorDiv: _division, FloorMod: _division, Div: _division,
    Mod: _division, Min: _extreme, Max: _extreme, LT: _comparison, LE: _comparison, GT: _comparison,
    GE: _comparison, EQ: _equality, NE: _equality,
}  # fmt: skip

VECTOR_RULES: dict[type, Callable[..., PrimExpr]] = {
    Broadcast: _broadcast,
    Ramp: _ramp,
    Not: _not,
    Cast: _cast,
    Select: _select,
    Call: _call,
    **dict.fromkeys((And, Or, *_AFFINE), _binary),
}
"""What is done to a vector expression, by its class."""
