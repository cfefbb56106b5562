"""Presburger sets against enumeration."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arith.meaning import meaning
from tilesmith.arith import IntSet, PresburgerSet
from tilesmith.arith.omega import System, has_solution
from tilesmith.ir import EQ, GE, LE, LT, NE, And, Not, Or, PrimExpr, Var, const
from tilesmith.ir import operators as op
from tilesmith.support.errors import TypeMismatchError, UnsupportedError

x, y, z = (Var(name, "int32") for name in "xyz")
BOX = op.all_of(*[op.logical_and(var >= -4, var <= 4) for var in (x, y, z)])


def sum_of(rng: random.Random) -> PrimExpr:
    total: Any = const(rng.randint(-8, 8), "int32")
    for var in rng.sample((x, y, z), rng.randint(1, 3)):
        part = var * rng.choice((-5, -3, -2, -1, 1, 2, 3, 4))
        chance = rng.random()
        if chance < 0.15:
            part = part // rng.choice((2, 3, 4))
        elif chance < 0.3:
            part = part % rng.choice((2, 3, 5))
        total = total + part
    return total


def condition_of(rng: random.Random, depth: int) -> PrimExpr:
    if depth and rng.random() < 0.7:
        kind = rng.choice("&&|~")
        a = condition_of(rng, depth - 1)
        if kind == "~":
            return Not(a)
        return (And if kind == "&" else Or)(a, condition_of(rng, depth - 1))
    return rng.choice((LT, LE, GE, EQ, NE))(sum_of(rng), sum_of(rng))


def inside(condition: PrimExpr) -> set[tuple[int, ...]]:
    points = itertools.product(range(-4, 5), repeat=3)
    return {point for point in points if meaning(condition, dict(zip((x, y, z), point)))}


@settings(max_examples=25)
@given(rng=st.randoms(use_true_random=False))
def test_against_enumeration(rng: random.Random) -> None:
    first, second = condition_of(rng, 2), condition_of(rng, 1)
    box = PresburgerSet(BOX, (x, y, z))
    a, b = (PresburgerSet(c, (x, y, z)).intersect(box) for c in (first, second))
    in_a, in_b = inside(first), inside(second)
    assert a.is_nothing() == (not in_a)
    assert a.intersect(b).is_nothing() == (not in_a & in_b)
    assert a.is_subset(b) == (in_a <= in_b)
    for position, var in enumerate((x, y, z)):
        found = a.interval(var)
        assert found.is_nothing() == (not in_a)
        if in_a:
            values = [point[position] for point in in_a]
            assert (found.min_value.value, found.max_value.value) == (min(values), max(values))
    for point in rng.sample(sorted(inside(const(True, "bool"))), 5):
        assert a.contains(point) == (point in in_a)


@settings(max_examples=60)
@given(rng=st.randoms(use_true_random=False))
def test_solutions_of_systems(rng: random.Random) -> None:
    """Against a box that is large enough for coefficients of that size, and unbounded."""
    rows = [[rng.randint(-4, 4), rng.randint(-4, 4), rng.randint(-9, 9)] for _ in range(4)]
    equal = [[rng.randint(-4, 4), rng.randint(-4, 4), rng.randint(-9, 9)]][: rng.randint(0, 1)]

    def holds(a: int, b: int) -> bool:
        zero = all(r[0] * a + r[1] * b + r[2] == 0 for r in equal)
        return zero and all(r[0] * a + r[1] * b + r[2] >= 0 for r in rows)

    system = System(2, tuple(map(tuple, equal)), tuple(map(tuple, rows)))
    expected = any(holds(a, b) for a in range(-90, 91) for b in range(-90, 91))
    assert has_solution(system) == expected


def test_points_and_algebra() -> None:
    even = PresburgerSet(EQ(x % 2, 0), [x])
    small = PresburgerSet(And(0 <= x, x < 10), [x])
    both = even.intersect(small)
    assert list(both.points()) == [(0,), (2,), (4,), (6,), (8,)]
    assert even.union(even.complement()).is_everything() and not even.is_everything()
    assert both.is_subset(small) and not small.is_subset(both)
    assert both.is_equal(PresburgerSet(And(EQ(x // 2 * 2, x), And(x > -1, x <= 9)), [x]))
    assert PresburgerSet(And(EQ(x, y * 2 + 1), EQ(x, z * 2))).is_nothing()
    triangle = PresburgerSet(op.all_of(x >= 0, y >= x, y <= 2), [x, y])
    assert list(triangle.points()) == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    assert isinstance(triangle, IntSet)


def test_unbounded() -> None:
    half = PresburgerSet(x * 3 >= 10, [x])
    found = half.interval(x)
    assert found.min_value.value == 4 and not found.has_upper_bound()
    with pytest.raises(UnsupportedError, match="not bounded"):
        list(half.points())
    with pytest.raises(TypeMismatchError, match="not a variable"):
        half.interval(y)


def test_dark_shadow_and_splinters() -> None:
    """``27 <= 11x + 13y <= 45, -10 <= 7x - 9y <= 4`` has real but no integer solutions."""
    a, b = x * 11 + y * 13, x * 7 - y * 9
    condition = op.all_of(a >= 27, a <= 45, b >= -10, b <= 4)
    assert PresburgerSet(condition).is_nothing()
    assert not PresburgerSet(op.all_of(a >= 27, a <= 46, b >= -10, b <= 5)).is_nothing()


@pytest.mark.parametrize(
    "condition",
    [x * y < 3, EQ(x // y, 2), op.minimum(x, y) + x < 3 + z, Var("p", "bool")],
)
def test_what_is_not_linear(condition: PrimExpr) -> None:
    with pytest.raises((UnsupportedError, TypeMismatchError)):
        PresburgerSet(condition).is_nothing()
