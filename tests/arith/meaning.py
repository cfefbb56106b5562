"""What scalar expressions mean, exactly: the oracle of the property tests.

Integers are taken over the whole numbers and checked against their dtype: a signed 32 or 64 bit
value that does not fit is `Undefined` (as in C), narrower and unsigned ones wrap around. A division
by zero, a shift by too much and a float that no integer holds are `Undefined` too. `And`, `Or`
and ``if_then_else`` leave alone what they do not need; `Select` evaluates all it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
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
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    Var,
)  # fmt: skip
from tilesmith.ir.operators import wrap
from tilesmith.runtime.dtype import DataType


class Undefined(Exception):
    """The program has no meaning here."""


def settled(value: int, dtype: DataType, strict: bool) -> int:
    """A whole number as a value of an integer dtype."""
    found = wrap(value, dtype)
    if strict and found != value and dtype.is_int and dtype.bits >= 32:
        raise Undefined("signed overflow")
    return found


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise Undefined("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _floor_quotient(a: int, b: int) -> int:
    if b == 0:
        raise Undefined("division by zero")
    return a // b


_WHOLE: dict[type, Callable[[int, int], int]] = {
    Add: lambda a, b: a + b, Sub: lambda a, b: a - b, Mul: lambda a, b: a * b,
    FloorDiv: _floor_quotient, FloorMod: lambda a, b: a - b * _floor_quotient(a, b),
    Div: _quotient, Mod: lambda a, b: a - b * _quotient(a, b),
}  # fmt: skip
_ORDER: dict[type, Callable[[Any, Any], bool]] = {
    EQ: lambda a, b: a == b, NE: lambda a, b: a != b, LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b, GT: lambda a, b: a > b, GE: lambda a, b: a >= b,
}  # fmt: skip
_FLOATS: dict[type, Callable[[Any, Any], Any]] = {
    Add: lambda a, b: a + b, Sub: lambda a, b: a - b, Mul: lambda a, b: a * b, Div: numpy.divide,
}  # fmt: skip
_EXTREMES = {Min: lambda a, b: b if b < a else a, Max: lambda a, b: b if b > a else a}


class Meaning:
    """Evaluates expressions in one environment: values by variable, and by name of a call.

    ``strict`` marks the original, which must not overflow. What simplification made of it may
    overflow on the way, for the machine wraps around, and must still end at the same value.
    """

    def __init__(self, env: dict[Any, Any], strict: bool = True) -> None:
        self.env = env
        self.strict = strict

    def value(self, expr: Any) -> Any:
        """An int, a float, or a tuple of lanes."""
        if isinstance(expr, (IntImm, FloatImm)):
            return (
                numpy.dtype(str(expr.dtype)).type(expr.value) if expr.dtype.is_float else expr.value
            )
        if isinstance(expr, Var):
            return self.env[expr]
        if isinstance(expr, (Ramp, Broadcast)):
            return self.lanes(expr)
        if isinstance(expr, (And, Or)):
            return self.logic(expr)
        if isinstance(expr, Not):
            found = self.value(expr.a)
            return tuple([1 - v for v in found]) if isinstance(found, tuple) else 1 - found
        if isinstance(expr, Select):
            return self.select(expr)
        if isinstance(expr, Let):
            return Meaning({**self.env, expr.var: self.value(expr.value)}, self.strict).value(
                expr.body
            )
        if isinstance(expr, Cast):
            return self.each(
                expr,
                lambda v: self.cast(v, expr.value.dtype.element, expr.dtype.element),
                expr.value,
            )
        if isinstance(expr, Call):
            return self.call(expr)
        return self.each(expr, lambda a, b: self.binary(expr, a, b), expr.a, expr.b)

    def each(self, expr: Any, function: Callable[..., Any], *args: Any) -> Any:
        """A function of scalars, lane by lane."""
        values = [self.value(arg) for arg in args]
        if expr.dtype.lanes == 1:
            return function(*values)
        return tuple([function(*lane) for lane in zip(*values)])

    def lanes(self, expr: Any) -> tuple[Any, ...]:
        if isinstance(expr, Broadcast):
            return (self.value(expr.value),) * expr.lanes
        base, stride = self.value(expr.base), self.value(expr.stride)
        element = expr.dtype.element
        return tuple(
            [settled(base + lane * stride, element, self.strict) for lane in range(expr.lanes)]
        )

    def logic(self, expr: Any) -> Any:
        a = self.value(expr.a)
        if not isinstance(a, tuple):
            return a if bool(a) == isinstance(expr, Or) else self.value(expr.b)
        b = self.value(expr.b)
        return tuple([x | y if isinstance(expr, Or) else x & y for x, y in zip(a, b)])

    def select(self, expr: Select) -> Any:
        condition = self.value(expr.condition)
        yes, no = self.value(expr.true_value), self.value(expr.false_value)
        if isinstance(condition, tuple):
            return tuple([a if c else b for c, a, b in zip(condition, yes, no)])
        return yes if condition else no

    def cast(self, value: Any, source: DataType, target: DataType) -> Any:
        if target.is_float:
            return numpy.dtype(str(target)).type(value)
        if target.is_bool:
            return int(value != 0)
        if source.is_float:
            if not math.isfinite(value):
                raise Undefined("no integer")
            whole = int(value)
            if wrap(whole, target) != whole:
                raise Undefined("no integer of that size")
            return whole
        return wrap(int(value), target)

    def call(self, expr: Call) -> Any:
        name = expr.op.name
        if name == "tir.if_then_else":
            return self.value(expr.args[1 if self.value(expr.args[0]) else 2])
        if name == "tir.likely":
            return self.value(expr.args[0])
        if name == "tir.call_pure_extern":
            return self.env[expr.args[0].value]
        if name == "tir.bitwise_not":
            return self.each(expr, lambda v: wrap(~v, expr.dtype.element), expr.args[0])
        return self.each(expr, lambda a, b: self.bits(name, expr.dtype.element, a, b), *expr.args)

    def bits(self, name: str, dtype: DataType, a: int, b: int) -> int:
        if name in ("tir.shift_left", "tir.shift_right"):
            if not 0 <= b < dtype.bits:
                raise Undefined("shift by too much")
            return settled(a << b, dtype, self.strict) if name == "tir.shift_left" else a >> b
        both = {"tir.bitwise_and": a & b, "tir.bitwise_or": a | b, "tir.bitwise_xor": a ^ b}
        return both[name]

    def binary(self, expr: Any, a: Any, b: Any) -> Any:
        kind = type(expr)
        if kind in _ORDER:
            return int(_ORDER[kind](a, b))
        if kind in _EXTREMES:
            return _EXTREMES[kind](a, b)
        if kind in (And, Or):
            return a & b if kind is And else a | b
        if expr.dtype.is_float:
            with numpy.errstate(all="ignore"):
                return _FLOATS[kind](a, b)
        return settled(_WHOLE[kind](a, b), expr.dtype.element, self.strict)


def meaning(expr: Any, env: dict[Any, Any], strict: bool = True) -> Any:
    """The value of an expression, or None where it has none."""
    try:
        return Meaning(env, strict).value(expr)
    except Undefined:
        return None


def same(a: Any, b: Any) -> bool:
    """Equal values: bit by bit, where all NaNs count as one."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if b is None:
        return False
    if isinstance(a, (float, numpy.floating)):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return int(a) == int(b)
