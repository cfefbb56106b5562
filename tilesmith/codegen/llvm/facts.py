"""Cheap facts about index expressions: signs, multiples, faults, and what a loop body uses.

They decide between forms of the same meaning (a shift instead of a division, `zext` instead of
`sext`, an aligned load); where nothing is known the general form is written. The simplifier of
`arith` has done the real work before.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from tilesmith.ir import (
    Add,
    Broadcast,
    Call,
    CallEffectKind,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    GlobalVar,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    SizeVar,
    Sub,
    Var,
    Visitor,
)
from tilesmith.ir import expr as ir
from tilesmith.tir import stmt as tir
from tilesmith.tir.expr import BufferLoad


class Facts:
    """What is known about the variables in scope. A child scope copies its parent's."""

    def __init__(self) -> None:
        self.non_negative: set[Var] = set()
        self.multiple: dict[Var, int] = {}

    def copy(self) -> Facts:
        """The same facts, free to grow."""
        made = Facts()
        made.non_negative = set(self.non_negative)
        made.multiple = dict(self.multiple)
        return made

    def is_non_negative(self, expr: PrimExpr) -> bool:
        """Whether an integer expression is known to be at least zero (in every lane)."""
        rule = _NON_NEGATIVE.get(expr.__class__)
        return expr.dtype.is_uint or (rule is not None and rule(self, expr))

    def multiple_of(self, expr: PrimExpr) -> int:
        """The largest known number that divides a scalar expression; 0 for the constant zero."""
        if isinstance(expr, IntImm):
            return abs(expr.value)
        if isinstance(expr, Var):
            return self.multiple.get(expr, 1)
        if isinstance(expr, (Add, Sub)):
            return gcd(self.multiple_of(expr.a), self.multiple_of(expr.b))
        if isinstance(expr, Mul):
            return self.multiple_of(expr.a) * self.multiple_of(expr.b)
        if isinstance(expr, Cast) and expr.value.dtype.is_integer:
            if expr.dtype.bits >= expr.value.dtype.bits:
                return self.multiple_of(expr.value)
        if isinstance(expr, (Min, Max)):
            return gcd(self.multiple_of(expr.a), self.multiple_of(expr.b))
        if isinstance(expr, Ramp):
            return gcd(self.multiple_of(expr.base), self.multiple_of(expr.stride))
        return 1


def _both(facts: Facts, expr: Any) -> bool:
    return facts.is_non_negative(expr.a) and facts.is_non_negative(expr.b)


def _either(facts: Facts, expr: Any) -> bool:
    return facts.is_non_negative(expr.a) or facts.is_non_negative(expr.b)


def _cast(facts: Facts, expr: Any) -> bool:
    source = expr.value.dtype
    if source.is_bool:
        return expr.dtype.bits > 1
    if source.is_uint:
        return expr.dtype.bits > source.bits
    return source.is_int and expr.dtype.bits >= source.bits and facts.is_non_negative(expr.value)


def _call(facts: Facts, expr: Any) -> bool:
    name = getattr(expr.op, "name", "")
    if name == "tir.bitwise_and":
        return any([facts.is_non_negative(arg) for arg in expr.args])
    if name == "tir.shift_right":
        return facts.is_non_negative(expr.args[0])
    if name in ("tir.clz", "tir.popcount"):
        return True
    if name == "tir.likely":
        return facts.is_non_negative(expr.args[0])
    if name == "tir.if_then_else":
        return facts.is_non_negative(expr.args[1]) and facts.is_non_negative(expr.args[2])
    return False


# Addition and multiplication of signed 32 and 64 bit numbers do not overflow in index arithmetic.
_NON_NEGATIVE: dict[type, Any] = {
    IntImm: lambda facts, expr: expr.value >= 0,
    Var: lambda facts, expr: expr in facts.non_negative,
    SizeVar: lambda facts, expr: True,
    Add: _both,
    Mul: _both,
    Div: _both,
    FloorDiv: _both,
    FloorMod: lambda facts, expr: facts.is_non_negative(expr.b),
    Mod: lambda facts, expr: facts.is_non_negative(expr.a),
    Min: _both,
    Max: _either,
    Cast: _cast,
    Ramp: lambda facts, expr: (
        facts.is_non_negative(expr.base) and facts.is_non_negative(expr.stride)
    ),
    Broadcast: lambda facts, expr: facts.is_non_negative(expr.value),
    Select: lambda facts, expr: (
        facts.is_non_negative(expr.true_value) and facts.is_non_negative(expr.false_value)
    ),
    ir.Let: lambda facts, expr: facts.is_non_negative(expr.body),
    Call: _call,
}

_HARMLESS = (CallEffectKind.Pure, CallEffectKind.ExprAnnotation)
_INTEGER_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def effect_of(call: Call) -> CallEffectKind:
    """What evaluating a call may do; a function of the module may do anything."""
    if isinstance(call.op, GlobalVar):
        return CallEffectKind.UpdateState
    return call.op.get_attr("TCallEffectKind", CallEffectKind.UpdateState)


def may_fault(expr: PrimExpr) -> bool:
    """Whether evaluating `expr` where it is not wanted could do harm: a load that may lie outside
    of its buffer, a call with effects, an integer division by something unknown."""
    if isinstance(expr, BufferLoad):
        return True
    if isinstance(expr, Call):
        if effect_of(expr) not in _HARMLESS:
            return True
        name = expr.op.name
        if name in ("tir.call_pure_extern", "tir.if_then_else", "tir.address_of"):
            return name == "tir.call_pure_extern" or any([may_fault(arg) for arg in expr.args])
    if isinstance(expr, _INTEGER_DIVISIONS) and not expr.dtype.is_float:
        divisor = expr.b.value if isinstance(expr.b, Broadcast) else expr.b
        if not isinstance(divisor, IntImm) or divisor.value in (0, -1):
            return True
    found: list[bool] = []

    def look(node: Any) -> None:
        if not found and isinstance(node, PrimExpr) and may_fault(node):
            found.append(True)

    expr.for_each_child(look)
    return bool(found)


def has_load(expr: PrimExpr) -> bool:
    """Whether an expression reads a buffer: its value is data, not an index."""
    if isinstance(expr, BufferLoad):
        return True
    found: list[bool] = []

    def look(node: Any) -> None:
        if not found and isinstance(node, PrimExpr) and has_load(node):
            found.append(True)

    expr.for_each_child(look)
    return bool(found)


class _FreeVariables(Visitor):
    """Variables in order of their first use, without those that are bound inside."""

    def __init__(self) -> None:
        self.found: dict[Var, None] = {}
        self.bound: set[Var] = set()

    def use(self, var: Var) -> None:
        if var not in self.bound:
            self.found.setdefault(var)

    visit_Var = use

    def visit_Buffer(self, buffer: Any) -> None:
        self.use(buffer.data)

    def visit_Let(self, let: Any) -> None:
        self.visit(let.value)
        self.bound.add(let.var)
        self.visit(let.body)

    visit_LetStmt = visit_Let

    def visit_For(self, loop: tir.For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self.bound.add(loop.loop_var)
        self.visit(loop.body)

    def visit_Allocate(self, allocation: tir.Allocate) -> None:
        for extent in allocation.extents:
            self.visit(extent)
        self.visit(allocation.condition)
        self.bound.add(allocation.buffer_var)
        self.visit(allocation.body)

    def visit_AllocateConst(self, allocation: tir.AllocateConst) -> None:
        self.bound.add(allocation.buffer_var)
        self.visit(allocation.body)


def free_variables(node: Any) -> list[Var]:
    """Variables that `node` uses and does not bind itself, in order of first use."""
    visitor = _FreeVariables()
    visitor.visit(node)
    return list(visitor.found)


class FailureFinder(Visitor):
    """Whether a statement can fail (assertions, packed calls, memory from the system), and which
    functions it calls."""

    PACKED = frozenset(
        "tir." + name
        for name in (
            "tvm_call_packed", "tvm_call_cpacked", "tvm_call_trace_packed", "tvm_check_return",
            "tvm_throw_last_error",
        )
    )  # fmt: skip

    def __init__(self, is_on_stack: Any) -> None:
        self.is_on_stack = is_on_stack
        self.can_fail = False
        self.callees: set[str] = set()
        self.has_parallel = False

    def visit_AssertStmt(self, stmt: tir.AssertStmt) -> None:
        self.can_fail = True
        self.visit_children(stmt)

    def visit_Allocate(self, stmt: tir.Allocate) -> None:
        if not self.is_on_stack(stmt):
            self.can_fail = True
        self.visit_children(stmt)

    def visit_For(self, loop: tir.For) -> None:
        if loop.kind is tir.ForKind.PARALLEL:
            self.has_parallel = True
        self.visit_children(loop)

    def visit_Call(self, call: Call) -> None:
        if isinstance(call.op, GlobalVar):
            self.callees.add(call.op.name_hint)
        elif call.op.name in self.PACKED:
            self.can_fail = True
        self.visit_children(call)
