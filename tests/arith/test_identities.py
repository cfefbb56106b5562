"""Identities of divisions, remainders, minima and choices: whatever the constants in them are and
wherever the variables lie, simplification keeps the value.
"""

from __future__ import annotations

import random
import re

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arith.meaning import meaning, same
from tests.arith.test_facts import Known, read
from tilesmith.arith import Analyzer, ConstIntBound
from tilesmith.ir import EQ, Cast, Let, Range, Select, Var, const, structural_equal
from tilesmith.ir.operators import all_of, floordiv, floormod, minimum, truncdiv, truncmod
from tilesmith.tir import ceil, clz, log2, vscale

SHAPES = [
    # offsets, scaled
    "y * K - DIV(y + z, C) * (C * K) + A",
    "DIV(y + z, C) * (C * K) - y * K + z * B",
    "x - DIV(x + A, C) * C",
    "MOD(x * A + y, C) * K - x * (A * K) - y * B",
    "DIV(x, C) * C + MOD(x, C) * B",
    "DIV(DIV(x, C), D) + MOD(MOD(x, C * D), D)",
    "(x % D * A + y) // C * C + (x * A + y) % C",
    # numbers that differ by a constant
    "(x + A) // C * K - (x + B) // C * K",
    "(x + A) % 2 * K + (x + B) % 2 * K",
    "(x + A) // 2 * K + (x + B) % 2 * K",
    "(x + A) // 2 * K - (x + B) % 2 * K",
    "(x % 2 * A + B) // C * C + (x % 2 * A + B) % C",
    # padding, coefficients
    "(x + A * (x % C)) % C",
    "(x * B + A * (x % C)) // C",
    "(x + B * (-x % C)) // C * C + (x + B * (-x % C)) % C",
    "(x + A * (x % y)) % y",
    "(x + A * (x % y)) // y",
    "(x * A + y * B + K) % C",
    "(x * A + y * B) // C * C + (x * A + y * B) % C",
    # minima
    "min(x * A + B, y) // C",
    "max(y, x * (C * K) + B) // C * C",
    "min(DIV(x, C), DIV(y, C))",
    "max(DIV(x, -C), DIV(y, D))",
    "min(x, y) * max(x, y) * A - x * y * B",
    "min(max(x, A), DIV(x + B, C) * C)",
    # choices
    "Select(x < A, y, z) * K + Select(x < A, z, y + B) * K",
    "Select(x < A, y, z) * K - Select(x < A, z, y + B) * K",
    "Select(x < A, y * B + z, z) * K - y * (B * K) - z * K",
    "x * K - Select(x < A, x + B, y) * K",
    # products
    "DIV(x * y, y) + MOD(x * y * A, y)",
    "DIV(x * y + z, y)",
    "DIV(x * y * A, y * z)",
    "MOD(x * y * A, y * z)",
]
CONDITIONS = [
    "And(x // C == y, x % C < B)",
    "And(B <= x % C, y == x // C)",
    "And(x // C == A, x % C == B)",
    "And(x < A, x % C < B)",
    "And(A <= x + y, (x + y) % C >= B)",
    "And(x <= A, (x + B) % C <= K)",
    "truncdiv(x, C) * K >= A",
    "truncdiv(x, C) < B",
    "x * y * x == 0",
    "x * y * K < (x + y) * A + B",
    "x * y * K + x * z - y * A <= C",
    "And(Or(x < A, y == B), Or(x < K, y == B))",
    "Or(And(x < A, And(y == B, z > 0)), And(y == B, x >= A))",
    "And(Or(x % C == 1, y // C < B), Or(x % C != 1, y // C < B))",
    "And(y > K, x * y < z * y * A)",
    "And(y > K, x * y + B * y <= z * y)",
    "And(x != y, And(x * K <= y * K, x == z))",
    "And(x != y, And(y == z, x != z))",
    "And(y * C <= x, x < y * C + C)",
    "And(x - y * C >= A, x - y * C < A + C)",
    "And(0 <= x * K - y * C, And(z < B, x * K - y * C < C))",
    "And(y * C - x <= 0, -C < y * C - x)",
]
RANGES = ["", "x in 0 9", "x in -5 4, y in 0 2", "y in 1 7, z in 0 3", "x in 0 2", "x in -7 0"]


def filled(shape: str, rng: random.Random) -> str:
    """The shape with numbers for its capital letters, and one of the two divisions."""
    rounding = rng.choice(("floor", "trunc"))
    shape = shape.replace("DIV", rounding + "div").replace("MOD", rounding + "mod")
    numbers = {
        "A": rng.randint(-9, 17),
        "B": rng.randint(-9, 9),
        "K": rng.choice((-3, -1, 1, 1, 2)),
    }
    numbers |= {"C": rng.choice((1, 2, 3, 4, 7, 8)), "D": rng.choice((1, 2, 3, 4))}
    for name, value in numbers.items():
        shape = re.sub(rf"\b{name}\b", f"({value})", shape)
    return shape


@pytest.mark.parametrize("shape", [*SHAPES, *CONDITIONS])
@settings(max_examples=40)
@given(rng=st.randoms(use_true_random=False))
def test_identity(shape: str, rng: random.Random) -> None:
    before, known = read(filled(shape, rng)), Known(rng.choice(RANGES))
    (after,) = known.simplified(before)
    for _ in range(20):
        env = known.environment(rng)
        value = meaning(before, env) if known.holds(env) else None
        if value is not None:
            assert same(value, meaning(after, env, strict=False)), (
                str(before),
                str(after),
                str(env),
            )


@settings(max_examples=200)
@given(rng=st.randoms(use_true_random=False))
def test_bounds_of_quotients(rng: random.Random) -> None:
    """The divisor is any number but zero; narrow and unsigned integers wrap around."""
    dtype = rng.choice(("int32", "int64", "int8", "uint32", "uint8"))
    x, y = Var("x", dtype), Var("y", dtype)
    expr = rng.choice((floordiv, floormod, truncdiv, truncmod))(x, y)
    analyzer, ranges = Analyzer(), []
    for var in (x, y):
        low = rng.randint(0 if dtype.startswith("u") else -12, 6)
        if dtype == "int8" and rng.random() < 0.3:
            low = -128
        ranges.append(range(low, low + rng.randint(1, 12)))
        analyzer.update(var, ConstIntBound(ranges[-1][0], ranges[-1][-1]))
    bound, residue = analyzer.const_int_bound(expr), analyzer.modular_set(expr)
    for a in ranges[0]:
        for b in ranges[1]:
            value = meaning(expr, {x: a, y: b})
            if value is not None:
                assert bound.min_value <= value <= bound.max_value, (str(expr), a, b, str(bound))
                off = value - residue.base
                assert (off % residue.coeff if residue.coeff else off) == 0


def test_bounds_take_a_divisor_to_be_other_than_zero() -> None:
    x, y = Var("x", "int32"), Var("y", "int32")
    analyzer = Analyzer()
    analyzer.update(x, ConstIntBound(-9, 4))
    analyzer.update(y, ConstIntBound(-4, 0))
    assert_bound(analyzer.const_int_bound(x // y), -4, 9)
    assert_bound(analyzer.const_int_bound(truncdiv(x, y)), -4, 9)
    u, v = Var("u", "uint32"), Var("v", "uint32")
    analyzer.update(u, ConstIntBound(1, 20))
    analyzer.update(v, ConstIntBound(0, 4))
    assert_bound(analyzer.const_int_bound(u // v), 0, 20)
    assert_bound(analyzer.const_int_bound(u % v), 0, 3)


def assert_bound(bound: ConstIntBound, low: int, high: int) -> None:
    assert (bound.min_value, bound.max_value) == (low, high)


def test_residues_from_truncating_remainders_and_lets() -> None:
    x, y = Var("x", "int32"), Var("y", "int32")
    analyzer = Analyzer()
    with analyzer.constraint_scope(all_of(truncmod(x, 3).equal(1), truncmod(x, 5).equal(2))):
        found = analyzer.modular_set(x + 1)
        assert (found.coeff, found.base) == (15, 8)
    with analyzer.constraint_scope(truncdiv(x, 4) < 3):
        assert analyzer.can_prove(x < 12)
    with analyzer.constraint_scope(truncdiv(x, 4) >= 0):
        assert analyzer.can_prove(x > -4)
        assert not analyzer.can_prove(x >= 0)
    found = analyzer.modular_set(Let(x, y * 10, x + 1))
    assert (found.coeff, found.base) == (10, 1)


def test_a_let_bound_condition_holds_inside() -> None:
    x, flag = Var("x", "int32"), Var("flag", "bool")
    inner = Select(x // 4 > 2, x, x + 1)
    found = Analyzer().simplify(Let(flag, x >= 12, Select(flag, inner, x - 1)))
    assert isinstance(found, Let)
    assert found.body.true_value is x
    found = Analyzer().simplify(Let(flag, x >= 12, Select(flag, x, inner)))
    assert Analyzer().can_prove_equal(found.body.false_value, x + 1)


def test_functions_of_constants() -> None:
    simplify = Analyzer().simplify
    for dtype, width in (("int32", 32), ("int64", 64)):
        for value in (0, 1, 5, 1 << 20, -1, -(1 << 30)):
            zeros = width - (value % (1 << width)).bit_length()
            assert simplify(clz(const(value, dtype))).value == zeros
    n = Var("n", "int64")
    analyzer = Analyzer()
    analyzer.bind(n, Range(9, 17))
    rounds = Cast("int64", ceil(log2(Cast("float64", n))))
    assert analyzer.simplify(rounds).value == 4
    assert isinstance(Analyzer().simplify(rounds), Cast)
    for value in range(1, 70):
        exact = simplify(Cast("int32", ceil(log2(const(float(value), "float32")))))
        assert exact.value == int(numpy.ceil(numpy.log2(numpy.float32(value))))


def test_the_length_of_scalable_registers() -> None:
    x, y = Var("x", "int32"), Var("y", "int32")
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, 8))
    assert analyzer.simplify(minimum(y + vscale() * 4, y)) is y
    assert analyzer.simplify(x // (vscale() * 8)).value == 0
    assert analyzer.can_prove_equal(vscale() * x <= vscale() * y, x <= y)
    assert not analyzer.can_prove(vscale() < 16)


def test_what_holds_for_each_length_of_scalable_registers():
    analyzer, v = Analyzer(), vscale()
    x, y = Var("x", "int32"), Var("y", "int32")
    with analyzer.constraint_scope(x < v * 4):
        assert analyzer.can_prove((y + v * 4 - 1) // (v * 4) * (v * 4) >= y)
        assert analyzer.can_prove(v * v + 16 <= v * 17)
        assert analyzer.can_prove(v * v != 3)
        assert analyzer.can_prove(128 // v * v > 128 - v)
        assert analyzer.can_prove((x + 1) * v <= v * v * 4)
        assert not analyzer.can_prove(v * v != 9)
        assert not analyzer.can_prove((y + v * 4 - 1) // (v * 4) * (v * 4) > y)
        assert not analyzer.can_prove((x + 2) * v <= v * v * 4)
    assert not analyzer.can_prove((x + 1) * v <= v * v * 4)  # nothing of it is left
    assert not analyzer.can_prove(v >= 2)


@pytest.mark.parametrize(
    "condition, simple",
    [
        ("And(0 <= x - y * 7, x - y * 7 < 7)", "y == x // 7"),
        ("And(y * 7 <= x, x < y * 7 + 7)", "y == x // 7"),
        ("And(x < 4 * y + 4, And(z < 3, y * 4 <= x))", "And(y == x // 4, z < 3)"),
        ("And(y * 7 + 14 <= x, x < y * 7 + 21)", "y == x // 7 - 2"),
        ("And(0 <= 2 * x - 14 * y, 2 * x - 14 * y < 14)", "y == x // 7"),
        ("And(y * 7 <= x, x < y * 7 + 6)", "And(y * 7 <= x, x < y * 7 + 6)"),
        ("And(y * 7 <= x, x < y * 7 + 8)", "And(y * 7 <= x, x < y * 7 + 8)"),
    ],
)
def test_a_tile_is_a_quotient(condition: str, simple: str) -> None:
    after = Analyzer().simplify(read(condition))
    assert structural_equal(after, read(simple)), str(after)
    assert Analyzer().simplify(after) is after


@settings(max_examples=100)
@given(rng=st.randoms(use_true_random=False))
def test_what_a_tile_tells(rng: random.Random) -> None:
    """Where ``y == x // C`` holds (however it is written, however the division rounds), each
    comparison that is proved is true, and bounds of ``x`` and ``y`` tell about each other.
    """
    x, y = Var("x", "int32"), Var("y", "int32")
    size, shift = rng.randint(1, 9), rng.randint(-3, 3)
    divide = rng.choice((floordiv, floordiv, truncdiv))
    equation = EQ(y * rng.choice((1, -1)), divide(x + rng.randint(-4, 4), const(size)) + shift)
    pair = all_of(y * size <= x + size * shift, x + size * shift < y * size + size)
    condition = rng.choice((equation, pair))
    low, count = rng.randint(-6, 6), rng.randint(1, 5)
    analyzer = Analyzer()
    analyzer.bind(y, Range(low, low + count))
    points = [
        {x: a, y: b}
        for a in range(-90, 90)
        for b in range(low, low + count)
        if meaning(condition, {x: a, y: b})
    ]
    with analyzer.constraint_scope(condition):
        bound = analyzer.const_int_bound(x)
        goals = [x < rng.randint(-90, 90), x - y * size >= rng.randint(-9, 9), x >= y, y * 2 <= x]
        proved = [analyzer.can_prove(goal) for goal in goals]
        end = (low + count - shift) * size
        if condition is pair:
            assert analyzer.can_prove(x < end)
            assert analyzer.can_prove(x >= (low - shift) * size)
    for env in points:
        assert bound.min_value <= env[x] <= bound.max_value
        for goal, holds in zip(goals, proved):
            assert meaning(goal, env) or not holds, (str(condition), str(goal), str(env))
