"""Draws integer expressions with what is known about their variables, and checks what the analyzer
says about them: against the values for all small numbers, and against what it must be able to show.

A program shows a fault of the analyzer only where it decides something; here each answer is
checked. An analyzer may say less than is true, but not less than follows in one step (`Demands`):
an assumption in another spelling, bounds of a sum of variables with constant ranges, two
inequalities that add up, digits of a number.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy

from tilesmith import tir
from tilesmith.arith import Analyzer
from tilesmith.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    Select,
    Sub,
    Var,
    const,
    structural_equal,
)
from tilesmith.ir.operators import is_const
from tilesmith.testing.fuzz.checks import Checker, Finding

__all__ = ["check_arithmetic", "draw_arithmetic", "values_of"]

_COMPARISONS: dict[Any, str] = {LT: "less", LE: "less_equal", GT: "greater", GE: "greater_equal",
                EQ: "equal", NE: "not_equal"}  # fmt: skip
_BINARY: dict[Any, str] = {
    Add: "add", Sub: "subtract", Mul: "multiply", FloorDiv: "floor_divide", FloorMod: "remainder",
    Min: "minimum", Max: "maximum", And: "logical_and", Or: "logical_or", **_COMPARISONS,
}  # fmt: skip
_MOST_POINTS = 400


def values_of(expr: Any, points: dict[Var, numpy.ndarray]) -> numpy.ndarray:
    """Return the values of an expression for all values of its variables."""
    if isinstance(expr, Var):
        return points[expr]
    if isinstance(expr, IntImm):
        count = len(next(iter(points.values())))
        return numpy.full(count, bool(expr.value) if expr.dtype.is_bool else expr.value)
    parts = [values_of(one, points) for one in expr.children() if isinstance(one, PrimExpr)]
    if isinstance(expr, Cast):
        return parts[0]  # numbers stay far below the limits of each dtype
    if isinstance(expr, Not):
        return ~parts[0]
    if isinstance(expr, Select):
        return numpy.where(parts[0], parts[1], parts[2])
    made: numpy.ndarray = getattr(numpy, _BINARY[type(expr)])(*parts)
    return made


def draw_arithmetic(rng: random.Random) -> dict[str, Any]:
    """Return what a case is made of: numbers of situations, each with a seed of its own."""
    return {"seeds": [rng.randrange(1 << 30) for _ in range(15)]}


def check_arithmetic(checker: Checker, case: dict[str, Any]) -> None:
    """Check all situations of a case."""
    for seed in case["arithmetic"]["seeds"]:
        with checker.guarded("arithmetic", "analyzer"):
            situation = _Situation(random.Random(seed))
            checker.counts["arithmetic"] += 1
            situation.check()


class _Situation:
    """Some variables, what is known about them, and all their values under which it holds."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.dtype = rng.choice(["int32", "int32", "int32", "int64"])
        self.analyzer = Analyzer()
        self.known: list[str] = []
        self.variables: list[Var] = []
        self.ranges: dict[Var, tuple[int, int]] = {}  # the constant ones, the ends included
        self.digits: list[tuple[Var, PrimExpr]] = []  # a variable from 0 to below a size
        self.free: list[Var] = []
        self.values: set[Var] = set()  # variables that equal an expression of others
        self.points: dict[Var, numpy.ndarray] = {}
        for number in range(rng.choice([2, 3, 3, 4])):
            self._bind(Var("xyzw"[number], self.dtype))
        self.assumed = [self._assumption() for _ in range(rng.choice([0, 1, 1, 2]))]

    def check(self) -> None:
        """Check answers about the variables, then those under assumptions."""
        self.check_values()
        self.check_inside_casts()
        for one, other in self.same():
            simple, again = self.analyzer.simplify(one), self.analyzer.simplify(other)
            if not structural_equal(simple, again):
                raise self.wrong("not simplified to the same", one, other, simple, again)
        self.check_demands([*self.within_bounds(), *self.of_digits(), *self.of_both()])
        for one in self.assumed:
            holds = values_of(one, self.points)
            if not holds.any():
                return
            self._keep(holds)
            with self.analyzer.constraint_scope(one):
                self.known.append(str(one))
                self.check_demands([*self.spellings(one), *self.of_extremes()])
                self.check_values()
                self.known.pop()

    # What is known.

    def number(self, value: int) -> PrimExpr:
        return const(value, self.dtype)

    def _bind(self, var: Var) -> None:
        """Give a variable a range, whose ends may depend on the variables before, or a value."""
        rng, kinds = self.rng, ["constant", "constant", "free"]
        kinds += ["from", "size", "value", "between"] if self.variables else []
        kind = rng.choice(kinds)
        first: PrimExpr = self.number(rng.choice([0, 0, 1, -3, 4]))
        extent: PrimExpr = self.number(rng.choice([1, 2, 2, 3, 4, 6, 7]))
        if kind == "free":  # anything; some numbers stand for all
            self._extend(var, first - 4, self.number(6))
            self.free.append(var)
        elif kind == "value":
            value = self.linear()
            self.analyzer.bind(var, value)
            self.known.append(f"{var.name} = {value}")
            self.values.add(var)
            self._extend(var, value, self.number(1))
        else:
            if kind != "constant":
                other = rng.choice(self.variables)
                if kind != "size":
                    first = other + rng.choice([0, 0, 1, -2])
                if kind != "from":
                    size = rng.choice(self.variables)
                    positive = values_of(size, self.points) > 0
                    if (
                        positive.any()
                        and size not in self.ranges
                        and size is not other
                        or (kind == "size" and positive.any())
                    ):
                        extent = size
                        self._keep(positive)
            self.analyzer.bind(var, Range.from_min_extent(first, extent))
            self.known.append(f"{var.name} in {first} + [0, {extent})")
            self._extend(var, first, extent)
            if isinstance(first, IntImm) and isinstance(extent, IntImm):
                self.ranges[var] = first.value, first.value + extent.value - 1
            elif isinstance(first, IntImm) and first.value == 0:
                self.digits.append((var, extent))
        self.variables.append(var)

    def _keep(self, holds: numpy.ndarray) -> None:
        self.points = {var: values[holds] for var, values in self.points.items()}

    def _extend(self, var: Var, first: PrimExpr, extent: PrimExpr) -> None:
        """Add a variable to the points: all values from an expression on."""
        if not self.points:
            zero = {var: numpy.zeros(1, "int64")}
            begin, count = values_of(first, zero)[0], values_of(extent, zero)[0]
            self.points = {var: numpy.arange(begin, begin + count)}
            return
        begin, count = values_of(first, self.points), values_of(extent, self.points)
        places = numpy.repeat(numpy.arange(len(count)), count)
        offsets = numpy.concatenate([numpy.arange(one) for one in count])
        made = {one: values[places] for one, values in self.points.items()}
        made[var] = begin[places] + offsets
        step = -(-len(offsets) // _MOST_POINTS)
        start = self.rng.randrange(step)
        self.points = {one: values[start::step] for one, values in made.items()}

    def _assumption(self) -> PrimExpr:
        """Return a comparison of sums that may be assumed."""
        rng = self.rng
        kind = rng.choice([LT, LE, GT, GE, LT, LE, EQ, NE])
        if rng.random() < 0.4:
            return kind(rng.choice(self.variables), self.number(rng.randint(-2, 6)))
        return kind(self.linear(), self.linear())

    # Expressions.

    def linear(self) -> PrimExpr:
        """Return a sum of few variables."""
        rng = self.rng
        if not self.variables:
            return self.number(rng.randint(-3, 6))
        made: PrimExpr = rng.choice(self.variables)
        if rng.random() < 0.3:
            made = made * self.number(rng.choice([2, 3, 4, -1, -2]))
        if rng.random() < 0.4:
            other = rng.choice(self.variables)
            made = made + other if rng.random() < 0.6 else made - other
        return made + rng.choice([1, 2, -1, -3]) if rng.random() < 0.4 else made

    def integer(self, depth: int) -> PrimExpr:
        """Return any expression of numbers."""
        rng = self.rng
        drawn = rng.random()
        if depth <= 0 or drawn < 0.1:
            return self.linear()
        one = self.integer(depth - 1)
        if drawn < 0.35:
            return rng.choice([Add, Sub, Add])(one, self.integer(depth - 1))
        if drawn < 0.5:
            return rng.choice([Min, Max])(one, self.integer(depth - 1))
        number = self.number(rng.choice([2, 3, 4, 4, 8]))
        if drawn < 0.75:
            return rng.choice([FloorDiv, FloorMod])(one, number)
        if drawn < 0.85:
            return Mul(one, number if rng.random() < 0.7 else rng.choice(self.variables))
        if drawn < 0.93:
            return Select(self.boolean(depth - 1), one, self.integer(depth - 1))
        return _there_and_back(one)

    def boolean(self, depth: int) -> PrimExpr:
        """Return any condition."""
        rng = self.rng
        if depth > 0 and rng.random() < 0.4:
            if rng.random() < 0.25:
                return Not(self.boolean(depth - 1))
            return rng.choice([And, Or])(self.boolean(depth - 1), self.boolean(depth - 1))
        kind = rng.choice(list(_COMPARISONS))
        other = self.number(rng.randint(-3, 9)) if rng.random() < 0.5 else self.integer(depth - 1)
        made: PrimExpr = kind(self.integer(depth - 1), other)
        return made

    # Checks.

    def wrong(self, failure: str, *parts: Any) -> Finding:
        """Return a finding with what is known."""
        known = "; ".join(self.known)
        return Finding(
            "", "", failure, f"{' | '.join(map(str, parts))}, where {known or 'nothing is known'}"
        )

    def check_values(self) -> None:
        """Check that simplified expressions have the same values, and bounds hold."""
        for _ in range(5):
            expr = self.boolean(2) if self.rng.random() < 0.5 else self.integer(3)
            simple, want = self.analyzer.simplify(expr), values_of(expr, self.points)
            got = values_of(simple, self.points)
            if not (got == want).all():
                raise self.wrong("another value when simplified", expr, simple)
            if not expr.dtype.is_bool:
                self.check_bounds(expr, want)

    def check_inside_casts(self) -> None:
        """Check that what is cast is simplified as it is alone."""
        expr, more = FloorDiv(self.linear() + self.linear(), self.number(11)), self.linear()
        wide = "int64" if self.dtype == "int32" else "int32"
        simple = self.analyzer.simplify(expr)
        one, other = [
            self.analyzer.simplify(tir.Cast(wide, given) + tir.Cast(wide, more))
            for given in (expr, simple)
        ]
        if not structural_equal(one, other):
            raise self.wrong("not simplified inside a cast", expr, simple, more, one)

    def check_bounds(self, expr: PrimExpr, values: numpy.ndarray) -> None:
        """Check the bounds and the residue of an expression."""
        bound, residue = self.analyzer.const_int_bound(expr), self.analyzer.modular_set(expr)
        if values.min() < bound.min_value or values.max() > bound.max_value:
            raise self.wrong("a bound that is wrong", expr, bound)
        off = values - residue.base
        if (off % residue.coeff if residue.coeff else off).any():
            raise self.wrong("a residue that is wrong", expr, residue)

    def check_demands(self, demands: list[PrimExpr]) -> None:
        """Check that what follows in one step is shown, and nothing that is wrong."""
        for expr in demands:
            if not values_of(expr, self.points).all():
                raise self.wrong("a demand that does not hold", expr)  # the fuzzer is wrong
            if not self.analyzer.can_prove(expr):
                raise self.wrong("is not proven", expr)
            opposite = expr.a if isinstance(expr, Not) else Not(expr)
            if not is_const(self.analyzer.simplify(opposite), 0):
                raise self.wrong("is not refuted", opposite)

    def spellings(self, given: Any) -> Iterator[PrimExpr]:
        """Yield an inequality of sums in other words, and weaker ones."""
        a, b, kind, rng = given.a, given.b, type(given), self.rng
        more = rng.choice(self.variables) + 1
        if kind in (GT, GE):
            a, b, kind = b, a, {GT: LT, GE: LE}[kind]
        yield kind(a + more, b + more)
        yield kind(a * 3, b * 3)
        yield kind(a - b, self.number(0))
        if kind in (LT, LE):
            yield {LT: GT, LE: GE}[kind](b, a)
            yield kind(-b, -a)
            yield LE(a, b + rng.randint(0, 2))
            yield Not({LT: GE, LE: GT}[kind](a, b))
        if kind is LT:
            yield LE(a + 1, b)
            yield NE(a, b)
            yield NE(b, a)

    def within_bounds(self) -> Iterator[PrimExpr]:
        """Yield comparisons of a sum of variables with constant ranges with its bounds."""
        rng = self.rng
        if not self.ranges:
            return
        chosen = rng.sample(list(self.ranges), rng.randint(1, len(self.ranges)))
        total, low, high = self.number(0), 0, 0
        for var in chosen:
            factor = rng.choice([1, 1, 2, -1, -3])
            ends = [factor * end for end in self.ranges[var]]
            total, low, high = total + var * factor, low + min(ends), high + max(ends)
        yield LE(total, self.number(high))
        yield GE(total, self.number(low))
        yield LT(total, self.number(high + rng.randint(1, 3)))
        yield NE(total, self.number(high + rng.randint(1, 3)))
        yield LT(Min(total, self.number(high + 9)), self.number(high + 1))
        yield GT(Max(self.number(low - 9), total), self.number(low - 1))

    def of_digits(self) -> Iterator[PrimExpr]:
        """Yield what is true of numbers with two digits, the lower one from 0 to below a size."""
        fixed = [
            (var, self.number(high + 1)) for var, (low, high) in self.ranges.items() if not low
        ]
        for var, size in [*self.digits, *fixed]:
            high = self.rng.choice(self.variables)
            if high is var or high in self.values:
                continue
            whole = high * size + var
            yield LT(var, size)
            yield EQ(FloorDiv(whole, size), high)
            yield EQ(FloorMod(whole, size), var)
            if isinstance(size, IntImm):
                yield EQ(whole, FloorDiv(whole, size) * size + FloorMod(whole, size))

    def of_both(self) -> Iterator[PrimExpr]:
        """Yield conditions that hold whatever the variables are."""
        if not self.free:
            return
        var, number = self.rng.choice(self.free), self.number(self.rng.randint(-2, 6))
        yield Or(LT(var, number), GE(var, number))
        yield Not(And(LT(var, number), GT(var, number)))
        yield Or(LT(var, number), LT(number - 3, var))
        yield Not(And(LT(var, number), EQ(var, number + 1)))

    def same(self) -> Iterator[tuple[PrimExpr, PrimExpr]]:
        """Yield conditions of which one is the other in fewer words."""
        rng, base = self.rng, self.rng.randint(-2, 6)
        plain = [var for var in self.variables if var not in self.values]
        a, low, high = rng.choice(plain), self.number(base), self.number(base + rng.randint(1, 4))
        ends = rng.choice([[a, high], [high, a]])
        yield LT(Min(*ends), low), LT(a, low)
        yield GE(Min(*ends), low), GE(a, low)
        ends = rng.choice([[a, low], [low, a]])
        yield GT(Max(*ends), high), GT(a, high)
        yield LE(Max(*ends), high), LE(a, high)
        yield And(LT(a, low), LT(a, high)), LT(a, low)
        yield Or(GE(a, low), GE(a, high)), GE(a, low)

    def of_extremes(self) -> Iterator[PrimExpr]:
        """Yield what is true of minima and maxima of sums."""
        a, b = self.linear(), self.linear()
        yield LE(Min(a, b), a)
        yield GE(Max(a, b), b)
        yield LE(Min(b, a), Max(b, a))
        yield EQ(Min(a, b) + Max(a, b), a + b)
        yield LE(b - 3, Max(a, b) - 3)
        yield GE(self.number(2) - Min(a, b), self.number(2) - b)
        yield LE(Min(a, b) * 3, a * 3)
        yield GE(Max(Max(a, b), self.variables[0]), a)
        yield LE(Min(self.variables[0], Min(a, b)), b)


def _there_and_back(expr: PrimExpr) -> PrimExpr:
    """Return an expression that goes through another dtype."""
    wide = "int64" if str(expr.dtype) == "int32" else "int32"
    made: PrimExpr = tir.Cast(expr.dtype, tir.Cast(wide, expr))
    return made
