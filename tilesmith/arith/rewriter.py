"""Simplifies any expression: integers through normal forms, other expressions by rules.

Integer subexpressions become sums and come back as expressions. Comparisons are questions about the
sign of one sum. What is opaque (loads, calls, floats) keeps its node unless a child changed.
Floats get no rule that could change rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tilesmith.arith.assumptions import NEGATED, Assumptions
from tilesmith.arith.bounds import Bounds
from tilesmith.arith.comparisons import Comparisons
from tilesmith.arith.connectives import Connectives
from tilesmith.arith.facts import Facts
from tilesmith.arith.form_writer import FormWriter
from tilesmith.arith.forms import is_index, same_expression
from tilesmith.arith.interfaces import Expr, NormalForms
from tilesmith.arith.numbering import Numbering
from tilesmith.arith.residues import Residues
from tilesmith.arith.vectors import VectorRewriter
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
    CompareOp,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Node,
    Not,
    Op,
    Or,
    PrimExpr,
    Ramp,
    Range,
    Select,
    SizeVar,
    StringImm,
    Sub,
    Var,
)  # fmt: skip
from tilesmith.ir import operators as op
from tilesmith.ir.operators import is_const
from tilesmith.ir.queries import called_name, is_call

_FOLD: dict[type, Callable[..., PrimExpr]] = {
    Add: op.add, Sub: op.subtract, Mul: op.multiply, Div: op.divide, Min: op.minimum, Max:
    op.maximum,
    EQ: op.equal, NE: op.not_equal, LT: op.less, LE: op.less_equal, GT: op.greater, GE:
    op.greater_equal,
}  # fmt: skip
_BITS: dict[str, Callable[..., PrimExpr]] = {
    "tir.bitwise_and": op.bitwise_and, "tir.bitwise_or": op.bitwise_or, "tir.bitwise_xor":
    op.bitwise_xor,
    "tir.shift_left": op.shift_left, "tir.shift_right": op.shift_right,
}  # fmt: skip
_EXACT_LOG2 = {"float32": 16, "float64": 40}
"""Powers up to which the logarithm of the next integer is rounded to more than that power."""
_SCALAR = (Var, IntImm, FloatImm, BinaryOp, Not, Cast, Select, Let, Ramp, Broadcast)

__all__ = ["Rewriter", "simplifies"]


class Rewriter:
    """Simplifies expressions."""

    __slots__ = (
        "__weakref__", "applies_branches", "assumptions", "bounds", "caches", "comparisons",
        "connectives", "facts", "normalizer", "numbering", "residues", "vectors", "writer",
    )  # fmt: skip

    def __init__(
        self,
        facts: Facts,
        numbering: Numbering,
        writer: FormWriter,
        bounds: Bounds,
        residues: Residues,
        normalizer: NormalForms,
        assumptions: Assumptions,
        comparisons: Comparisons,
        connectives: Connectives,
        vectors: VectorRewriter,
    ) -> None:
        self.facts = facts
        self.numbering = numbering
        self.writer = writer
        self.bounds = bounds
        self.residues = residues
        self.normalizer = normalizer
        self.assumptions = assumptions
        self.comparisons = comparisons
        self.connectives = connectives
        self.vectors = vectors
        self.applies_branches = False  # each part of a connective simplified under the others
        self.caches = facts.caches

    def rewrite(self, expr: PrimExpr) -> PrimExpr:
        """Returns the simplified expression; the same object if nothing changed."""
        dtype = expr.dtype
        if dtype.is_integer and dtype.lanes == 1:
            return self._integer(expr)
        found = self.caches.rewritten.get(id(expr))
        if found is not None:
            return found[1]
        if dtype.lanes == 1:
            rule = _RULES.get(expr.__class__)
            result = self.rewrite_children(expr) if rule is None else rule(self, expr)
        else:
            result = self.vectors.rewrite(expr)
        self.caches.rewritten[id(expr)] = (expr, result)
        return result

    def _integer(self, expr: PrimExpr) -> PrimExpr:
        form = self.normalizer.normal(expr)
        result = form.expr
        if result is None:
            result = self.writer.to_expr(form)
        if result is expr:
            return expr
        if same_expression(result, expr):
            form.expr = expr
            return expr
        return result

    def rewrite_leaf(self, expr: PrimExpr) -> PrimExpr:
        """Simplifies the children of an integer expression that is opaque to normal forms."""
        rule = _LEAF_RULES.get(expr.__class__)
        return self.rewrite_children(expr) if rule is None else rule(self, expr)

    def rewrite_children(self, expr: Expr) -> Expr:
        """Returns the same node with simplified children."""
        mapped: Expr = expr.map_children(self._child)
        return mapped

    def _child(self, node: Any) -> Any:
        if isinstance(node, PrimExpr):
            return self.rewrite(node)
        if node.is_leaf or isinstance(node, Op) or not isinstance(node, Node):
            return node
        return node.map_children(self._child)

    def _same(self, expr: PrimExpr) -> PrimExpr:
        return expr

    def _variable_expr(self, expr: Var) -> PrimExpr:
        found = self.facts.replacements.get(expr)
        if found is not None:
            return found
        if expr.dtype.is_bool and self.facts.literals:
            truth = self.facts.literals.get(self.numbering.number(expr))
            if truth is not None:
                return op.const(truth, "bool")
        return expr

    # Floats, and integers of several lanes that nothing is known about

    def fold(self, expr: BinaryOp) -> PrimExpr:
        """Folds constants, and applies identities of floats that are exact under any rounding: x *
        1, x / 1, x - 0.
        """
        new = self.rewrite_children(expr)
        kind, a, b = new.__class__, new.a, new.b
        if is_const(a) and is_const(b) and kind in _FOLD:
            divides_by_zero = kind is Div and is_const(b, 0)
            return new if divides_by_zero else _FOLD[kind](a, b)
        if kind is Mul and is_const(b, 1) or kind is Div and is_const(b, 1):
            return a
        if kind is Mul and is_const(a, 1):
            return b
        if kind is Sub and is_const(b, 0) and not str(_scalar(b)).startswith("-"):
            return a
        if kind in (Min, Max) and self.numbering.number(a) == self.numbering.number(b):
            return a
        return new

    # Logic

    def _and(self, expr: And) -> PrimExpr:
        a, b = self.rewrite(expr.a), self.rewrite(expr.b)
        if is_const(a) or is_const(b):
            return op.logical_and(a, b)
        result = self.connectives.joined(And, expr, a, b)
        if self.applies_branches and result.__class__ is And:
            return self.connectives.under_each_other(And, result)
        return result

    def _or(self, expr: Or) -> PrimExpr:
        a, b = self.rewrite(expr.a), self.rewrite(expr.b)
        if is_const(a) or is_const(b):
            return op.logical_or(a, b)
        result = self.connectives.joined(Or, expr, a, b)
        if self.applies_branches and result.__class__ is Or:
            return self.connectives.under_each_other(Or, result)
        return result

    def _not(self, expr: Not) -> PrimExpr:
        a = self.rewrite(expr.a)
        if isinstance(a, Not):
            return a.a
        if isinstance(a, IntImm):
            return op.logical_not(a)
        if isinstance(a, And):
            return self.rewrite(Or(Not(a.a), Not(a.b)))
        if isinstance(a, Or):
            return self.rewrite(And(Not(a.a), Not(a.b)))
        if isinstance(a, CompareOp):
            negated = NEGATED[type(a)]
            # not (x < y) is not x >= y where one may be NaN
            if not a.a.dtype.is_float or negated in (EQ, NE):
                return self.rewrite(negated(a.a, a.b))
        if self.facts.literals:
            truth = self.facts.literals.get(self.numbering.number(a))
            if truth is not None:
                return op.const(not truth, "bool")
        return expr if a is expr.a else Not(a)

    # Choices

    def _select(self, expr: Select) -> PrimExpr:
        condition = self.rewrite(expr.condition)
        if isinstance(condition, IntImm):
            return self.rewrite(expr.true_value if condition.value else expr.false_value)
        if isinstance(condition, Not):
            return self.rewrite(Select(condition.a, expr.false_value, expr.true_value))
        if self.numbering.number(expr.true_value) == self.numbering.number(expr.false_value):
            return self.rewrite(expr.true_value)
        # All three operands are evaluated: a load must not lose the guard that is inside of it
        guarded = (
            condition.dtype.lanes == 1
            and is_scalar(expr.true_value)
            and is_scalar(expr.false_value)
        )
        yes, no = self._branches(condition, expr.true_value, expr.false_value, guarded)
        found = self._decided(condition, yes, no)
        if found is not None:
            return found
        if condition is expr.condition and yes is expr.true_value and no is expr.false_value:
            return expr
        return Select(condition, yes, no)

    def if_then_else(self, call: Call) -> PrimExpr:
        condition = self.rewrite(call.args[0])
        if isinstance(condition, IntImm):
            return self.rewrite(call.args[1] if condition.value else call.args[2])
        if isinstance(condition, Not):
            return self.rewrite(
                Call(call.dtype, call.op, (condition.a, call.args[2], call.args[1]))
            )
        if self.numbering.number(call.args[1]) == self.numbering.number(call.args[2]):
            return self.rewrite(call.args[1])
        yes, no = self._branches(condition, call.args[1], call.args[2], True)
        found = self._decided(condition, yes, no)
        if found is not None:
            return found
        if condition is call.args[0] and yes is call.args[1] and no is call.args[2]:
            return call
        return Call(call.dtype, call.op, (condition, yes, no))

    def _branches(
        self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr, guarded: bool
    ) -> tuple[PrimExpr, PrimExpr]:
        if not guarded or condition.dtype.lanes != 1:
            return self.rewrite(yes), self.rewrite(no)
        return self.rewrite_under(condition, yes), self.rewrite_under(Not(condition), no)

    def rewrite_under(self, condition: PrimExpr, expr: PrimExpr) -> PrimExpr:
        """Returns ``expr`` simplified under the assumption that ``condition`` holds."""
        if isinstance(expr, (Var, IntImm, FloatImm)):
            return self.rewrite(expr)
        saved = self.facts.open_layer()
        try:
            self.assumptions.assume(condition)
            return self.rewrite(expr)
        finally:
            self.facts.close_layer(saved)

    def rewrite_in_ranges(
        self, ranges: Mapping[Var, Range], condition: PrimExpr, exprs: Sequence[PrimExpr]
    ) -> tuple[PrimExpr, tuple[PrimExpr, ...]]:
        """Returns ``condition`` simplified where the variables lie in their ranges, and ``exprs``
        simplified where it holds besides.
        """
        saved = self.facts.open_layer()
        try:
            for var, range_ in ranges.items():
                if is_index(var.dtype):
                    self.assumptions.bind_range(var, range_)
            condition = self.rewrite(condition)
            if isinstance(condition, IntImm):
                return condition, tuple([self.rewrite(expr) for expr in exprs])
            return condition, tuple([self.rewrite_under(condition, expr) for expr in exprs])
        finally:
            self.facts.close_layer(saved)

    def _decided(self, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> PrimExpr | None:
        if yes is no or self.numbering.number(yes) == self.numbering.number(no):
            return yes
        if yes.dtype.is_bool and is_const(yes) and is_const(no) and yes.dtype.lanes == 1:
            return condition if is_const(yes, 1) else self.rewrite(Not(condition))
        return None

    # Calls, casts, let

    def _call(self, call: Call) -> PrimExpr:
        name = called_name(call)
        if name == "tir.if_then_else":
            return self.if_then_else(call)
        new = self.rewrite_children(call)
        if name == "tir.likely" and is_const(new.args[0]):
            return new.args[0]
        if name == "tir.checked" and is_const(new.args[1], 1):
            return new.args[0]
        if name == "tir.clz" and isinstance(new.args[0], IntImm) and new.args[0].dtype.bits >= 32:
            zeros = leading_zeros(new.args[0])
            return op.const(zeros, new.dtype)
        if name == "tir.bitwise_not" and isinstance(new.args[0], IntImm):
            return op.bitwise_not(new.args[0])
        fold = _BITS.get(name)
        if fold is not None and is_const(new.args[0]) and is_const(new.args[1]):
            if new.dtype.lanes == 1:
                return fold(new.args[0], new.args[1])
        return new

    def _cast_value(self, expr: Cast) -> PrimExpr:
        value = self.rewrite(expr.value)
        if value.dtype is expr.dtype:
            return value
        if is_const(value) and expr.dtype.lanes == 1:
            return op.cast(expr.dtype, value)
        power = self._rounded_log2(value) if expr.dtype.is_int else None
        if power is not None:
            return op.const(power, expr.dtype)
        return expr if value is expr.value else Cast(expr.dtype, value)

    def _rounded_log2(self, value: PrimExpr) -> int | None:
        """Returns ``ceil(log2(x))`` where the bounds of the integer ``x`` lie between the same two
        powers of two, and are small enough for the float to tell them from these powers.
        """
        if not is_call(value, "tir.ceil") or not is_call(value.args[0], "tir.log2"):
            return None
        given = value.args[0].args[0]
        exact = _EXACT_LOG2.get(given.dtype)
        if isinstance(given, FloatImm) and given.value.is_integer():
            low = high = int(given.value)
        elif isinstance(given, Cast) and given.value.dtype.is_integer:
            bounds = self.bounds.of_expr(given.value)
            if not 1 <= bounds[0] <= bounds[1] <= 1 << 53:
                return None
            low, high = int(bounds[0]), int(bounds[1])
        else:
            return None
        if exact is None or low < 1 or high > 1 << exact:
            return None
        power = (low - 1).bit_length()
        return power if power == (high - 1).bit_length() else None

    def _let(self, expr: Let) -> PrimExpr:
        value = self.rewrite(expr.value)
        saved = self.facts.open_layer()
        try:
            if isinstance(value, (Var, IntImm, FloatImm)):
                self.assumptions.bind_value(expr.var, value)
                return self.rewrite(expr.body)
            if value.dtype.is_integer and value.dtype.lanes == 1:
                form = self.normalizer.normal(value)
                self.facts.var_bounds[expr.var] = self.bounds.of(form)
                self.facts.var_modular[expr.var] = self.residues.of(form)
            elif value.dtype.is_bool and value.dtype.lanes == 1:
                self.facts.definitions[expr.var] = value
            body = self.rewrite(expr.body)
        finally:
            self.facts.close_layer(saved)
        if value is expr.value and body is expr.body:
            return expr
        return Let(expr.var, value, body)

    def _comparison(self, expr: Any) -> PrimExpr:
        return self.comparisons.comparison(expr)


def is_scalar(expr: PrimExpr) -> bool:
    """Returns True if evaluating an expression cannot fail: variables, constants and arithmetic; no
    memory, and no division by a value that may be zero.
    """
    stack: list[Any] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, (FloorDiv, FloorMod, Div, Mod)) and not is_const(node.b):
            return False
        if isinstance(node, _SCALAR):
            stack.extend(node.children() if not isinstance(node, Var) else ())
        elif is_call(node, "tir.likely"):
            stack.extend(node.args)
        else:
            return False
    return True


def leading_zeros(expr: IntImm) -> int:
    """Counts the zero bits before the first one; all bits of zero."""
    bits = expr.dtype.bits
    return bits - (expr.value & ((1 << bits) - 1)).bit_length()


def _scalar(expr: Any) -> Any:
    value = expr.value
    return getattr(value, "value", value)  # of a broadcast, that of its lanes


_RULES: dict[type, Callable[[Any, Any], PrimExpr]] = {
    Var: Rewriter._variable_expr,
    SizeVar: Rewriter._variable_expr,
    IntImm: Rewriter._same,
    FloatImm: Rewriter._same,
    StringImm: Rewriter._same,
    And: Rewriter._and,
    Or: Rewriter._or,
    Not: Rewriter._not,
    Select: Rewriter._select,
    Call: Rewriter._call,
    Cast: Rewriter._cast_value,
    Let: Rewriter._let,
    **dict.fromkeys((Add, Sub, Mul, Div, Mod, Min, Max, FloorDiv, FloorMod), Rewriter.fold),
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), Rewriter._comparison),
}


_LEAF_RULES: dict[type, Callable[[Any, Any], PrimExpr]] = {
    Select: Rewriter._select,
    Call: Rewriter._call,
    Cast: Rewriter._cast_value,
    Let: Rewriter._let,
}


NodeRule = TypeVar("NodeRule", bound=Callable[[Rewriter, Any], PrimExpr])


def simplifies(kind: type[PrimExpr]) -> Callable[[NodeRule], NodeRule]:
    """Registers how a node that is defined above this floor is simplified.

    The function takes the rewriter and the node, and returns the same node if nothing changes.
    """

    def register(rule: NodeRule) -> NodeRule:
        _RULES[kind] = _LEAF_RULES[kind] = rule
        return rule

    return register
