"""Random expressions over all operators and dtypes, with environments to evaluate them in.

Variables of int32 and int64 are indices: they stay far from the limits of their dtype. All other
variables, and data (pure calls), take every value, the extreme ones often.
"""

from __future__ import annotations

import random
from typing import Any

import numpy

from tilesmith.arith import Analyzer, ConstIntBound, ModularSet
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
    PrimExpr,
    Ramp,
    Range,
    Select,
    SizeVar,
    Sub,
    Var,
    const,
)  # fmt: skip
from tilesmith.ir import operators as op
from tilesmith.runtime.dtype import DataType

INDEX = ("int32", "int64")
INTEGERS = (*INDEX, "int8", "int16", "uint8", "uint16", "uint32", "uint64")
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.1, 3.5, 1e30, -1e-40, float("inf"), float("-inf"), float("nan"))
_COMPARISONS = (LT, LE, GT, GE, EQ, NE)


def extremes_of(dtype: DataType) -> list[int]:
    """Values near the limits of a dtype and its powers of two."""
    low, high = dtype.min_value, dtype.max_value
    half = 1 << (dtype.bits - 2)
    return [low, low + 1, high, high - 1, half, half - 1]


class Drawn:
    """Makes expressions and environments out of a source of randomness."""

    def __init__(self, rng: random.Random, lanes: int = 1) -> None:
        self.rng = rng
        self.main = DataType(rng.choice(("int32", "int32", "int32", *INTEGERS)))
        self.lanes = lanes
        self.variables: dict[str, list[Var]] = {}
        self.data: dict[str, DataType] = {}
        self.bound: dict[Var, PrimExpr] = {}
        self.extreme_constants = rng.random() < 0.25

    # Leaves

    def variable(self, dtype: DataType) -> Var:
        """One of three variables of a dtype."""
        known = self.variables.setdefault(str(dtype), [])
        position = self.rng.randrange(3)
        while len(known) <= position:
            name = f"{'abcdefgh'[len(self.variables) % 8]}{len(known)}_{dtype}"
            kind = SizeVar if len(known) == 2 and str(dtype) in INDEX else Var
            known.append(kind(name, dtype))
        return known[position]

    def opaque(self, dtype: DataType) -> Call:
        """Data: a value from elsewhere, of which nothing is known."""
        name = f"data{self.rng.randrange(2)}_{dtype}"
        self.data[name] = dtype
        return Call(dtype, "tir.call_pure_extern", (name,))

    def constant(self, dtype: DataType) -> PrimExpr:
        """A constant, mostly a small one."""
        if dtype.is_float:
            return FloatImm(dtype, self.rng.choice(_FLOATS[:8]))
        if self.extreme_constants and self.rng.random() < 0.4:
            return IntImm(dtype, self.rng.choice(extremes_of(dtype)))
        low = 0 if dtype.is_uint else -9
        return const(self.rng.choice([self.rng.randint(low, 17), 1, 2, 4, 8, 16]), dtype)

    def factor(self, dtype: DataType) -> PrimExpr:
        """A constant to multiply by; none that brings an index near to its limits."""
        if str(dtype) in INDEX:
            return const(self.rng.choice((self.rng.randint(-9, 17), 2, 4, 8, 16)), dtype)
        return self.constant(dtype)

    def divisor(self, dtype: DataType, depth: int) -> PrimExpr:
        """Mostly a positive constant."""
        chance = self.rng.random()
        if chance < 0.8:
            return const(self.rng.choice([1, 2, 2, 3, 4, 4, 5, 8, 16, 32]), dtype)
        return self.constant(dtype) if chance < 0.9 else self.integer(dtype, depth)

    # Expressions

    def any(self, depth: int) -> PrimExpr:
        """An expression of any dtype."""
        kind = self.rng.choice("iiiibbbf")
        if kind == "b":
            return self.boolean(depth)
        return self.integer(self.main, depth) if kind == "i" else self.floating(depth)

    def integer(self, dtype: DataType, depth: int) -> PrimExpr:
        """A scalar integer expression."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.08:
            chance = rng.random()
            if chance < 0.25:
                return self.constant(dtype)
            return self.opaque(dtype) if chance > 0.93 else self.variable(dtype)
        kind = rng.choice("++++--****///%%%mMMDRsilcccbB")
        a = self.integer(dtype, depth - 1) if kind != "c" else None
        if kind in "/%DR":
            made = {"/": FloorDiv, "%": FloorMod, "D": Div, "R": Mod}[kind]
            return made(a, self.divisor(dtype, depth - 2))
        if kind == "*":
            constant = rng.random() < 0.85
            return Mul(a, self.factor(dtype) if constant else self.integer(dtype, depth - 2))
        if kind in "si":
            no = self.integer(dtype, depth - 1)
            return self.choice(kind, self.boolean(depth - 1), a, no)
        if kind == "l":
            var = Var("let", dtype)
            body = Add(Mul(var, self.factor(dtype)), self.integer(dtype, depth - 2))
            return Let(var, a, body)
        if kind == "c":
            source = DataType(rng.choice((*INTEGERS, *INDEX, "bool", "float32")))
            return Cast(dtype, self.of(source, depth - 1))
        if kind in "bB":
            return self.bits(dtype, a, depth)
        return {"+": Add, "-": Sub, "m": Min, "M": Max}[kind](a, self.integer(dtype, depth - 1))

    def of(self, dtype: DataType, depth: int) -> PrimExpr:
        """An expression of a given dtype."""
        if dtype.is_bool:
            return self.boolean(depth)
        return self.floating(depth) if dtype.is_float else self.integer(dtype, depth)

    def choice(self, kind: str, condition: PrimExpr, yes: PrimExpr, no: PrimExpr) -> PrimExpr:
        """A Select, or a call that evaluates one branch only."""
        if kind == "s":
            return Select(condition, yes, no)
        return Call(yes.dtype, "tir.if_then_else", (condition, yes, no))

    def bits(self, dtype: DataType, a: PrimExpr, depth: int) -> PrimExpr:
        """Operations on bits."""
        name = self.rng.choice(("and", "and", "or", "xor", "not", "left", "right", "right"))
        if name == "not":
            return Call(dtype, "tir.bitwise_not", (a,))
        if name in ("left", "right"):
            by = self.rng.randint(0, min(dtype.bits - 1, 9))
            return Call(dtype, "tir.shift_" + name, (a, const(by, dtype)))
        chance = self.rng.random()
        mask = const(self.rng.choice((1, 3, 7, 15, 12, 6)), dtype)
        b = mask if chance < 0.6 else self.integer(dtype, depth - 2)
        return Call(dtype, "tir.bitwise_" + name, (a, b))

    def boolean(self, depth: int) -> PrimExpr:
        """A condition."""
        kind = self.rng.choice("ccccc&&|~elvsF") if depth > 1 else self.rng.choice("cccv")
        if kind in "&|":
            a, b = self.boolean(depth - 1), self.boolean(depth - 1)
            return And(a, b) if kind == "&" else Or(a, b)
        if kind == "~":
            return Not(self.boolean(depth - 1))
        if kind == "e":
            made = EQ if self.rng.random() < 0.5 else NE
            return made(self.boolean(depth - 1), self.boolean(depth - 2))
        if kind == "l":
            return Call("bool", "tir.likely", (self.boolean(depth - 1),))
        if kind == "v":
            return self.variable(DataType("bool"))
        if kind == "s":
            branches = self.boolean(depth - 1), self.boolean(depth - 2)
            return self.choice(self.rng.choice("si"), self.boolean(depth - 1), *branches)
        made = self.rng.choice(_COMPARISONS)
        if kind == "F":
            return made(self.floating(depth - 1), self.floating(depth - 2))
        return made(self.integer(self.main, depth - 1), self.integer(self.main, depth - 1))

    def floating(self, depth: int) -> PrimExpr:
        """An expression of float32."""
        dtype = DataType("float32")
        rng = self.rng
        if depth <= 0 or rng.random() < 0.2:
            return self.constant(dtype) if rng.random() < 0.4 else self.variable(dtype)
        kind = rng.choice("+-*/mMsic")
        if kind == "c":
            return Cast(dtype, self.integer(self.main, depth - 1))
        a, b = self.floating(depth - 1), self.floating(depth - 1)
        if kind in "si":
            return self.choice(kind, self.boolean(depth - 1), a, b)
        return {"+": Add, "-": Sub, "*": Mul, "/": Div, "m": Min, "M": Max}[kind](a, b)

    def vector(self, depth: int) -> PrimExpr:
        """A vector of the main dtype, of four lanes."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            base = self.integer(self.main, min(depth, 1))
            if rng.random() < 0.5:
                return Broadcast(base, 4)
            return Ramp(base, self.constant(self.main), 4)
        kind = rng.choice("++--**//%%mMDRsc")
        a = self.vector(depth - 1)
        if kind in "/%DR":
            made = {"/": FloorDiv, "%": FloorMod, "D": Div, "R": Mod}[kind]
            return made(a, Broadcast(self.divisor(self.main, 0), 4))
        b = self.vector(depth - 1)
        if kind == "s":
            return Select(self.mask(depth - 1), a, b)
        if kind == "c":
            return Cast(a.dtype, Cast(DataType(rng.choice(INTEGERS)).with_lanes(4), a))
        return {"+": Add, "-": Sub, "*": Mul, "m": Min, "M": Max}[kind](a, b)

    def mask(self, depth: int) -> PrimExpr:
        """A vector of conditions."""
        kind = self.rng.choice("ccc&|~B") if depth > 0 else "c"
        if kind in "&|":
            a, b = self.mask(depth - 1), self.mask(depth - 1)
            return And(a, b) if kind == "&" else Or(a, b)
        if kind == "~":
            return Not(self.mask(depth - 1))
        if kind == "B":
            return Broadcast(self.boolean(1), 4)
        return self.rng.choice(_COMPARISONS)(self.vector(depth - 1), self.vector(depth - 1))

    # What is known, and environments

    def analyzer(self) -> tuple[Analyzer, dict[Var, list[int]]]:
        """An analyzer that knows ranges and residues of some variables, and their values."""
        analyzer = Analyzer()
        values: dict[Var, list[int]] = {}
        for known in self.variables.values():
            for var in known:
                if var.dtype.is_integer and self.rng.random() < 0.6:
                    values[var] = self._restricted(analyzer, var)
        return analyzer, values

    def _restricted(self, analyzer: Analyzer, var: Var) -> list[int]:
        rng, dtype = self.rng, var.dtype
        low = rng.choice((0, 0, 0, 3, -7)) if not dtype.is_uint else rng.choice((0, 0, 3))
        low = max(low, 0) if isinstance(var, SizeVar) else low
        extent = rng.choice((1, 2, 4, 8, 16, 5, 30, 100))
        step = rng.choice((1, 1, 1, 4, 3))
        values = [v for v in range(low, low + extent) if v % step == step - 1 or step == 1]
        if not values:
            step, values = 1, list(range(low, low + extent))
        if str(dtype) in INDEX:
            analyzer.bind(var, Range.from_min_extent(const(low, dtype), const(extent, dtype)))
        else:
            analyzer.update(var, ConstIntBound(low, low + extent - 1))
        if step != 1:
            analyzer.update(var, ModularSet(step, step - 1))
        return values

    def environment(self, restricted: dict[Var, list[int]]) -> dict[Any, Any]:
        """A value for everything that occurs."""
        env: dict[Any, Any] = {}
        for known in self.variables.values():
            for var in known:
                values = restricted.get(var)
                env[var] = self.rng.choice(values) if values else self._value(var)
        for name, dtype in self.data.items():
            env[name] = self._any_value(dtype)
        return env

    def _value(self, var: Var) -> Any:
        if str(var.dtype) not in INDEX:
            return self._any_value(var.dtype)
        low = 0 if isinstance(var, SizeVar) else -20
        if self.rng.random() < 0.8:
            return self.rng.randint(low, 40)
        return self.rng.randint(-(1 << 20) if low else 0, 1 << 20)

    def _any_value(self, dtype: DataType) -> Any:
        rng = self.rng
        if dtype.is_bool:
            return rng.randrange(2)
        if dtype.is_float:
            chosen = rng.choice(_FLOATS) if rng.random() < 0.6 else rng.uniform(-9, 9)
            return numpy.float32(chosen)
        chance = rng.random()
        if chance < 0.3:
            return rng.choice(extremes_of(dtype))
        if chance < 0.7:
            return op.wrap(rng.randint(-20, 40), dtype)
        return rng.randint(dtype.min_value, dtype.max_value)
