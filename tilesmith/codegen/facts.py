"""Finds cheap facts about index expressions: signs, multiples, faults, and the variables of a loop
body.

They choose between equivalent forms (a shift instead of a division, `zext` instead of `sext`, an
aligned load); where nothing is known the general form is written. The simplifier of `arith` has run
before.
"""

from __future__ import annotations

from collections.abc import Callable
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
)
from tilesmith.ir import expr as ir
from tilesmith.ir.intrinsics import effect_of
from tilesmith.ir.queries import called_name, is_call
from tilesmith.tir import stmt as tir
from tilesmith.tir.buffer import Buffer
from tilesmith.tir.expr import BufferLoad


class Facts:
    """The known facts about the variables in scope. A child scope copies its parent's."""

    def __init__(self) -> None:
        self.non_negative: set[Var] = set()
        self.multiple: dict[Var, int] = {}
        self.below: dict[Var, int] = {}
        """Bounds of variables that are at least zero: each is less than its own."""
        self._signs: dict[
            int, tuple[PrimExpr, bool]
        ] = {}  # keeps the expressions alive: the keys are their ids
        self._multiples: dict[int, tuple[PrimExpr, int]] = {}

    def forget(self) -> None:
        """Drop what was found about expressions, because variables have become known since."""
        if self._signs or self._multiples:
            self._signs, self._multiples = {}, {}

    def copy(self) -> Facts:
        """Return a copy that can be extended."""
        made = Facts()
        made.non_negative = set(self.non_negative)
        made.multiple = dict(self.multiple)
        made.below = dict(self.below)
        return made

    def is_non_negative(self, expr: PrimExpr) -> bool:
        """True if an integer expression is known to be at least zero (in every lane)."""
        if expr.dtype.is_uint:
            return True
        rule = _NON_NEGATIVE.get(expr.__class__)
        if rule is None:
            return False
        known = self._signs.get(id(expr))
        if known is None:
            known = self._signs[id(expr)] = (expr, rule(self, expr))
        return known[1]

    def multiple_of(self, expr: PrimExpr) -> int:
        """Return the largest known number that divides a scalar expression; 0 for the constant
        zero.
        """
        if isinstance(expr, IntImm):
            return abs(expr.value)
        if isinstance(expr, Var):
            return self.multiple.get(expr, 1)
        known = self._multiples.get(id(expr))
        if known is None:
            known = self._multiples[id(expr)] = (expr, self._multiple_of(expr))
        return known[1]

    def _multiple_of(self, expr: PrimExpr) -> int:
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
        return bool(expr.dtype.bits > 1)
    if source.is_uint:
        return bool(expr.dtype.bits > source.bits)
    return source.is_int and expr.dtype.bits >= source.bits and facts.is_non_negative(expr.value)


def _call(facts: Facts, expr: Any) -> bool:
    name = called_name(expr)
    if name == "tir.bitwise_and":
        return bool([arg for arg in expr.args if facts.is_non_negative(arg)])
    if name == "tir.shift_right":
        return facts.is_non_negative(expr.args[0])
    if name in ("tir.clz", "tir.popcount"):
        return True
    if name in ("tir.likely", "tir.checked"):
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


def may_fault(expr: PrimExpr) -> bool:
    """True if evaluating `expr` speculatively could do harm: it has a load that may be out of
    bounds, a call with side effects, or an integer division by an unknown value.
    """
    return _some_node(expr, _is_risky)


def has_load(expr: PrimExpr) -> bool:
    """True if an expression reads a buffer: its value is data, not an index."""
    return _some_node(expr, lambda node: isinstance(node, BufferLoad))


def _some_node(expr: PrimExpr, holds: Callable[[Any], bool]) -> bool:
    """True if a condition holds for a node at or below `expr`; shared nodes are looked at once."""
    waiting: list[Any] = [expr]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, PrimExpr):
            continue
        if holds(node):
            return True
        seen.add(id(node))
        if is_call(node, "tir.address_of") and isinstance(node.args[0], BufferLoad):
            waiting += node.args[0].indices  # the element is not read
        else:
            node.for_each_child(waiting.append)
    return False


def _is_risky(node: Any) -> bool:
    if isinstance(node, BufferLoad):
        return True
    if isinstance(node, Call):
        if effect_of(node) not in _HARMLESS:
            return True
        return is_call(node, "tir.call_pure_extern")
    if isinstance(node, _INTEGER_DIVISIONS) and not node.dtype.is_float:
        divisor = node.b.value if isinstance(node.b, Broadcast) else node.b
        return not isinstance(divisor, IntImm) or divisor.value in (0, -1)
    return False


def volatile_pointer(stmt: tir.AttrStmt) -> Var | None:
    """Return the pointer whose memory an attribute declares volatile: devices or other threads may
    read and write it at any time. None for other attributes.
    """
    if stmt.attr_key != "volatile_scope":
        return None
    pointer = stmt.node.data if isinstance(stmt.node, Buffer) else stmt.node
    return pointer if isinstance(pointer, Var) else None


def constant_value(expr: PrimExpr) -> int | None:
    """Return the value of an integer constant, also of a broadcast one; None for anything else."""
    if isinstance(expr, Broadcast):
        expr = expr.value
    return expr.value if isinstance(expr, IntImm) else None


def constant_bytes(allocation: tir.Allocate) -> int | None:
    """Return the bytes of an allocation whose extents are constants; None for others."""
    dtype = allocation.dtype
    size = (8 if dtype.is_handle else dtype.element.nbytes) * dtype.lanes
    for extent in allocation.extents:
        if not isinstance(extent, IntImm):
            return None
        size *= extent.value
    return size
