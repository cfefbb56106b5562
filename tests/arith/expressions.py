"""Values of scalar expressions over Python integers, and random expressions: the oracle of these
tests."""

from __future__ import annotations

import itertools
import random
from typing import Any

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
    PrimExpr,
    Ramp,
    Range,
    Select,
    Sub,
    Var,
    const,
)  # fmt: skip
from tilesmith.ir.operators import wrap


class NoValue(Exception):
    """Division by zero."""


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_BINARY = {
    Add: lambda a, b: a + b, Sub: lambda a, b: a - b, Mul: lambda a, b: a * b,
    FloorDiv: lambda a, b: a // b, FloorMod: lambda a, b: a % b,
    Div: _truncated, Mod: lambda a, b: a - b * _truncated(a, b), Min: min, Max: max,
    EQ: lambda a, b: int(a == b), NE: lambda a, b: int(a != b), LT: lambda a, b: int(a < b),
    LE: lambda a, b: int(a <= b), GT: lambda a, b: int(a > b), GE: lambda a, b: int(a >= b),
    And: lambda a, b: a & b, Or: lambda a, b: a | b,
}  # fmt: skip


def evaluate(expr: Any, env: dict[Var, int]) -> Any:
    """The value of a scalar (an int) or of a vector (a tuple); wraps around as the dtype does."""
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return env[expr]
    if isinstance(expr, Ramp):
        base, stride = evaluate(expr.base, env), evaluate(expr.stride, env)
        return tuple([wrap(base + k * stride, expr.base.dtype) for k in range(expr.lanes)])
    if isinstance(expr, Broadcast):
        return (evaluate(expr.value, env),) * expr.lanes
    if isinstance(expr, Let):
        return evaluate(expr.body, {**env, expr.var: evaluate(expr.value, env)})
    if isinstance(expr, Select):
        condition = evaluate(expr.condition, env)
        yes, no = evaluate(expr.true_value, env), evaluate(expr.false_value, env)
        if isinstance(condition, tuple):
            return tuple([a if c else b for c, a, b in zip(condition, yes, no)])
        return yes if condition else no
    if isinstance(expr, Call):
        name = expr.op.name
        if name == "tir.if_then_else":
            return evaluate(expr.args[1 if evaluate(expr.args[0], env) else 2], env)
        if name == "tir.likely":
            return evaluate(expr.args[0], env)
        a, b = (evaluate(arg, env) for arg in expr.args)
        return {"tir.bitwise_and": a & b, "tir.shift_right": a >> b, "tir.shift_left": a << b}[name]
    if isinstance(expr, Cast):
        value = evaluate(expr.value, env)
        if isinstance(value, tuple):
            return tuple([wrap(item, expr.dtype.element) for item in value])
        return wrap(value, expr.dtype)
    if isinstance(expr, Not):
        value = evaluate(expr.a, env)
        return tuple([1 - v for v in value]) if isinstance(value, tuple) else 1 - value
    a, b = evaluate(expr.a, env), evaluate(expr.b, env)
    if isinstance(a, tuple):
        return tuple([_apply(expr, x, y) for x, y in zip(a, b)])
    return _apply(expr, a, b)


def _apply(expr: Any, a: int, b: int) -> int:
    if isinstance(expr, (FloorDiv, FloorMod, Div, Mod)) and b == 0:
        raise NoValue
    result = _BINARY[type(expr)](a, b)
    return result if expr.dtype.is_bool else wrap(result, expr.dtype.element)


def value_or_none(expr: Any, env: dict[Var, int]) -> Any:
    """The value, or None where a division by zero gives it none."""
    try:
        return evaluate(expr, env)
    except NoValue:
        return None


def environments(domains: dict[Var, Range], most: int = 400) -> list[dict[Var, int]]:
    """All assignments of variables in their (constant) ranges; a sample where there are many."""
    axes = [range(d.min.value, d.min.value + d.extent.value) for d in domains.values()]
    count = 1
    for axis in axes:
        count *= len(axis)
    if count <= most:
        points = itertools.product(*axes)
    else:
        rng = random.Random(0)
        points = [[rng.choice(axis) for axis in axes] for _ in range(most)]
    return [dict(zip(domains, point)) for point in points]


class RandomExpressions:
    """Makes random integer and boolean expressions over some variables."""

    def __init__(self, rng: random.Random, variables: list[Var], dtype: str = "int32") -> None:
        self.rng = rng
        self.variables = variables
        self.dtype = dtype

    def constant(self, low: int = -9, high: int = 17) -> PrimExpr:
        """A small constant."""
        if self.dtype.startswith("uint"):
            low = 0
        return const(self.rng.choice([self.rng.randint(low, high), 2, 4, 8, 16]), self.dtype)

    def divisor(self) -> PrimExpr:
        """A positive constant, mostly a power of two."""
        return const(self.rng.choice([1, 2, 2, 3, 4, 4, 5, 8, 16, 32]), self.dtype)

    def integer(self, depth: int) -> PrimExpr:
        """An integer expression."""
        if depth <= 0 or self.rng.random() < 0.1:
            return self.constant() if self.rng.random() < 0.25 else self.rng.choice(self.variables)
        kind = self.rng.choice("++++--*****//////%%%%%mMMDRsi")
        a = self.integer(depth - 1)
        if kind in "/%DR":
            b = self.divisor() if self.rng.random() < 0.9 else self.integer(depth - 2)
            return {"/": FloorDiv, "%": FloorMod, "D": Div, "R": Mod}[kind](a, b)
        if kind == "*":
            return (
                Mul(a, self.constant())
                if self.rng.random() < 0.85
                else Mul(a, self.integer(depth - 2))
            )
        if kind == "s":
            return Select(self.boolean(depth - 1), a, self.integer(depth - 1))
        if kind == "i":
            return Call(
                self.dtype,
                "tir.if_then_else",
                (self.boolean(depth - 1), a, self.integer(depth - 1)),
            )
        b = self.integer(depth - 1)
        return {"+": Add, "-": Sub, "m": Min, "M": Max}[kind](a, b)

    def boolean(self, depth: int) -> PrimExpr:
        """A condition."""
        kind = self.rng.choice("<<<lg=!&&|~") if depth > 1 else self.rng.choice("<lg=!")
        if kind == "&":
            return And(self.boolean(depth - 1), self.boolean(depth - 1))
        if kind == "|":
            return Or(self.boolean(depth - 1), self.boolean(depth - 1))
        if kind == "~":
            return Not(self.boolean(depth - 1))
        made = {"<": LT, "l": LE, "g": GE, "=": EQ, "!": NE}[kind]
        return made(self.integer(depth - 1), self.integer(depth - 1))
