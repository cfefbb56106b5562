"""Simplifies expressions of several lanes: ``Ramp`` and ``Broadcast`` instead of arithmetic on
lanes.

Ramp(x, 1, 4) + Broadcast(y, 4)  ->  Ramp(x + y, 1, 4)
Ramp(x * 4, 1, 4) // Broadcast(4, 4)  ->  Broadcast(x, 4)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilesmith.arith.bounds import Bounds
from tilesmith.arith.division import Divider
from tilesmith.arith.form_writer import FormWriter
from tilesmith.arith.forms import (
    Sum,
    coefficient_gcd,
    exact_quotient,
    is_index,
    plus,
    shifted,
    times,
)
from tilesmith.arith.interfaces import ExpressionRewriter, NormalForms
from tilesmith.arith.like_terms import LikeTerms
from tilesmith.arith.numbering import Numbering
from tilesmith.arith.prover import Prover
from tilesmith.arith.residues import Residues
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
from tilesmith.ir.queries import called_name
from tilesmith.runtime.dtype import ScalableLanes

Affine = tuple[PrimExpr, PrimExpr | None]
"""Base and stride of a vector; no stride where all lanes are equal."""


class VectorRewriter:
    """Simplifies expressions of several lanes."""

    __slots__ = (
        "bounds", "divider", "normalizer", "numbering", "prover", "residues", "rewriter", "terms",
        "writer",
    )  # fmt: skip

    rewriter: ExpressionRewriter
    """Simplifies the scalars of a vector; set by the engine."""

    def __init__(
        self,
        numbering: Numbering,
        writer: FormWriter,
        bounds: Bounds,
        residues: Residues,
        terms: LikeTerms,
        prover: Prover,
        divider: Divider,
        normalizer: NormalForms,
    ) -> None:
        self.numbering = numbering
        self.writer = writer
        self.bounds = bounds
        self.residues = residues
        self.terms = terms
        self.prover = prover
        self.divider = divider
        self.normalizer = normalizer

    def rewrite(self, expr: PrimExpr) -> PrimExpr:
        """Returns the simplified expression."""
        rule = _RULES.get(expr.__class__)
        return self.rewriter.rewrite_children(expr) if rule is None else rule(self, expr)

    def _made(self, base: PrimExpr, stride: PrimExpr | None, lanes: int) -> PrimExpr:
        base = self.rewriter.rewrite(base)
        if stride is not None:
            stride = self.rewriter.rewrite(stride)
        if stride is None or is_const(stride, 0):
            return Broadcast(base, lanes)
        return Ramp(base, stride, lanes)

    def _broadcast(self, expr: Broadcast) -> PrimExpr:
        value = self.rewriter.rewrite(expr.value)
        return expr if value is expr.value else Broadcast(value, expr.lanes)

    def _ramp(self, expr: Ramp) -> PrimExpr:
        base, stride = self.rewriter.rewrite(expr.base), self.rewriter.rewrite(expr.stride)
        if is_const(stride, 0):
            return Broadcast(base, expr.lanes)
        return (
            expr if base is expr.base and stride is expr.stride else Ramp(base, stride, expr.lanes)
        )

    def _binary(self, expr: BinaryOp) -> PrimExpr:
        new = self.rewriter.rewrite_children(expr)
        a, b = _affine(new.a), _affine(new.b)
        if a is None or b is None:
            return _without_form(new)
        lanes, kind = expr.dtype.lanes, expr.__class__
        if a[1] is None and b[1] is None:
            return Broadcast(self.rewriter.rewrite(kind(a[0], b[0])), lanes)
        # a float ramp plus a constant would be rounded in another order
        rule = _AFFINE.get(kind) if new.a.dtype.is_integer else None
        result = None if rule is None else rule(self, kind, a, b, lanes)
        return new if result is None else result

    def _sum(self, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr:
        zero = op.const(0, a[0].dtype)
        stride = kind(zero if a[1] is None else a[1], zero if b[1] is None else b[1])
        return self._made(kind(a[0], b[0]), stride, lanes)

    def _product(self, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr | None:
        if a[1] is None:
            a, b = b, a
        if a[1] is None or b[1] is not None:
            return None
        return self._made(Mul(a[0], b[0]), Mul(a[1], b[0]), lanes)

    def _division(self, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr | None:
        """Simplifies ``Ramp // c`` and ``Ramp % c`` where all lanes have the same quotient, or the
        stride is a multiple of ``c``.
        """
        base, stride = a
        if stride is None or b[1] is not None or not isinstance(b[0], IntImm) or b[0].value <= 0:
            return None
        if isinstance(lanes, ScalableLanes):
            return None  # the last lane is not known
        if not isinstance(stride, IntImm) or not is_index(base.dtype):
            return None
        divisor, form = b[0].value, self.normalizer.normal(base)
        last = stride.value * (lanes - 1)
        if kind in (Div, Mod):  # rounding toward zero is rounding down where nothing is negative
            low = self.bounds.of(form)[0]
            if low < 0 or low + min(last, 0) < 0:
                return self._exact_lanes(kind, form, stride.value, divisor, lanes)
        scalar = FloorDiv if kind in (Div, FloorDiv) else FloorMod
        divided = self.rewriter.rewrite(scalar(base, b[0]))
        if stride.value % divisor == 0:
            if scalar is FloorMod:
                return Broadcast(divided, lanes)
            return self._made(divided, op.const(stride.value // divisor, base.dtype), lanes)
        rest = self.divider.divide(form, divisor)[1]
        low, high = self.bounds.of(rest)
        coeff, residue = self.residues.of(form)
        if coeff % divisor == 0:
            low = high = residue % divisor
        elif divisor % max(coeff, 1) == 0:  # the remainder is one of residue, residue + coeff, ...
            low, high = max(low, residue % coeff), min(high, divisor - coeff + residue % coeff)
        if low + min(last, 0) >= 0 and high + max(last, 0) < divisor:
            if scalar is FloorDiv:
                return Broadcast(divided, lanes)
            return self._made(divided, stride, lanes)
        if scalar is FloorMod and form.terms and not rest.terms:  # multiples of the divisor go out
            inside = self._made(self.writer.to_expr(rest), stride, lanes)
            whole: PrimExpr = kind(inside, Broadcast(b[0], lanes))
            return whole
        return None

    def _exact_lanes(
        self, kind: type, base: Sum, stride: int, divisor: int, lanes: int
    ) -> PrimExpr | None:
        """Divides by what divides the base and the stride: there is nothing to round."""
        if stride % divisor or base.const % divisor or coefficient_gcd(base) % divisor:
            return None
        if kind is Mod:
            return Broadcast(op.const(0, base.dtype), lanes)
        first = self.writer.to_expr(exact_quotient(base, divisor))
        return self._made(first, op.const(stride // divisor, base.dtype), lanes)

    def _extreme(self, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr | None:
        order = self._lane_order(a, b, lanes)
        if order is None:
            return None
        chosen = a if (order == "<=") == (kind is Min) else b
        return self._made(chosen[0], chosen[1], lanes)

    def _lane_ends(self, a: Affine, b: Affine, lanes: int) -> list[Any] | None:
        """Returns ``b - a`` in the first and in the last lane (the others lie between), and its
        step from lane to lane.
        """
        if not is_index(a[0].dtype) or isinstance(lanes, ScalableLanes):
            return None
        first = self.terms.combine(
            plus(self.normalizer.normal(b[0]), self.normalizer.normal(a[0]), -1)
        )
        step = times(first, 0)
        if b[1] is not None:
            step = plus(step, self.normalizer.normal(b[1]))
        if a[1] is not None:
            step = plus(step, self.normalizer.normal(a[1]), -1)
        return [first, self.terms.combine(plus(first, step, lanes - 1)), step]

    def _lane_order(self, a: Affine, b: Affine, lanes: int) -> str | None:
        ends = self._lane_ends(a, b, lanes)
        if ends is None:
            return None
        if self.prover.prove(ends[0]) and self.prover.prove(ends[1]):
            return "<="
        if self.prover.prove(times(ends[0], -1)) and self.prover.prove(times(ends[1], -1)):
            return ">="
        return None

    def _comparison(self, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr | None:
        if kind in (GT, GE):
            return self._comparison(LT if kind is GT else LE, b, a, lanes)
        ends = self._lane_ends(a, b, lanes)
        if ends is None:
            return None
        first, last, step = ends
        if not step.terms and step.const == 0:
            return Broadcast(self.rewriter.rewrite(kind(a[0], b[0])), lanes)
        shift = -1 if kind is LT else 0
        if self.prover.prove(shifted(first, shift)) and self.prover.prove(shifted(last, shift)):
            return Broadcast(op.const(True, "bool"), lanes)
        opposite = -1 - shift
        if self.prover.prove(shifted(times(first, -1), opposite)):
            if self.prover.prove(shifted(times(last, -1), opposite)):
                return Broadcast(op.const(False, "bool"), lanes)
        return self._uniform_comparison(kind, first, step, lanes)

    def _uniform_comparison(self, kind: type, first: Any, step: Any, lanes: int) -> PrimExpr | None:
        """Decides comparisons like ``Ramp(4 * x, 1, 4) < Broadcast(4 * n, 4)``, whose lanes are all
        equal.
        """
        if step.terms:
            return None
        block = abs(step.const) * lanes
        coeff, base = self.residues.of(first)
        if coeff % block:
            return None
        span = step.const * (lanes - 1)
        # holds where difference >= low; all lanes of one block must agree
        low = 1 if kind is LT else 0
        residues = sorted([(base - low) % block, (base - low) % block + span])
        if residues[0] < 0 or residues[1] >= block:
            return None
        holds = LE(op.const(low, first.dtype), self.writer.to_expr(first))
        return Broadcast(self.rewriter.rewrite(holds), lanes)

    def _equality(self, kind: type, a: Affine, b: Affine, lanes: int) -> PrimExpr | None:
        ends = self._lane_ends(a, b, lanes)
        if ends is None:
            return None
        first, last, step = ends
        if not step.terms and step.const == 0:
            return Broadcast(self.rewriter.rewrite(kind(a[0], b[0])), lanes)
        for sign in (1, -1):
            if self.prover.prove(shifted(times(first, sign), -1)):
                if self.prover.prove(shifted(times(last, sign), -1)):
                    return Broadcast(op.const(kind is NE, "bool"), lanes)
        return None

    def _not(self, expr: Not) -> PrimExpr:
        new = self.rewriter.rewrite_children(expr)
        if isinstance(new.a, Broadcast):
            return Broadcast(self.rewriter.rewrite(Not(new.a.value)), new.a.lanes)
        return new

    def _cast(self, expr: Cast) -> PrimExpr:
        new = self.rewriter.rewrite_children(expr)
        inner = _affine(new.value)
        if inner is None:
            return new.value if new.value.dtype is new.dtype else new
        element, lanes = new.dtype.element, new.dtype.lanes
        if inner[1] is None:
            return Broadcast(self.rewriter.rewrite(Cast(element, inner[0])), lanes)
        if is_index(inner[0].dtype) and element.is_int and element.bits >= inner[0].dtype.bits:
            return self._made(Cast(element, inner[0]), Cast(element, inner[1]), lanes)
        return new

    def _select(self, expr: Select) -> PrimExpr:
        new = self.rewriter.rewrite_children(expr)
        condition = new.condition
        if is_const(condition):
            return new.true_value if is_const(condition, 1) else new.false_value
        if self.numbering.number(new.true_value) == self.numbering.number(new.false_value):
            return new.true_value
        if isinstance(condition, Broadcast):
            yes, no = new.true_value, new.false_value
            if isinstance(yes, Broadcast) and isinstance(no, Broadcast):
                chosen = Select(condition.value, yes.value, no.value)
                return Broadcast(self.rewriter.rewrite(chosen), condition.lanes)
            return Select(condition.value, yes, no)
        return new

    def _call(self, call: Call) -> PrimExpr:
        name = called_name(call)
        if name == "tir.if_then_else":
            return self.rewriter.if_then_else(call)
        new = self.rewriter.rewrite_children(call)
        if name == "tir.likely" and is_const(new.args[0]):
            return new.args[0]
        if name == "tir.checked" and is_const(new.args[1], 1):
            return new.args[0]
        return new


def _affine(expr: PrimExpr) -> Affine | None:
    if isinstance(expr, Ramp):
        return expr.base, expr.stride
    if isinstance(expr, Broadcast):
        return expr.value, None
    return None


def _without_form(new: BinaryOp) -> PrimExpr:
    """Applies identities that hold whatever the form of the operands: ``x + 0``, ``x * 1``."""
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


_AFFINE: dict[type, Callable[..., PrimExpr | None]] = {
    Mul: VectorRewriter._product,
    **dict.fromkeys((Add, Sub), VectorRewriter._sum),
    **dict.fromkeys((FloorDiv, FloorMod, Div, Mod), VectorRewriter._division),
    **dict.fromkeys((Min, Max), VectorRewriter._extreme),
    **dict.fromkeys((LT, LE, GT, GE), VectorRewriter._comparison),
    **dict.fromkeys((EQ, NE), VectorRewriter._equality),
}

_RULES: dict[type, Callable[[VectorRewriter, Any], PrimExpr]] = {
    Broadcast: VectorRewriter._broadcast,
    Ramp: VectorRewriter._ramp,
    Not: VectorRewriter._not,
    Cast: VectorRewriter._cast,
    Select: VectorRewriter._select,
    Call: VectorRewriter._call,
    **dict.fromkeys((And, Or, *_AFFINE), VectorRewriter._binary),
}
"""What is done to a vector expression, by its class."""
