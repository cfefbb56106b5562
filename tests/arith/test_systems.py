"""Linear systems and bounds of variables against enumeration."""

from __future__ import annotations

import itertools
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arith.drawn import Drawn
from tests.arith.meaning import meaning
from tilesmith.arith import (
    IntGroupBounds,
    IntSet,
    deduce_bound,
    detect_clip_bound,
    detect_linear_equation,
    solve_linear_inequalities,
)
from tilesmith.ir import EQ, GE, GT, LE, LT, PrimExpr, Range, Var, const
from tilesmith.ir import operators as op

randomness = st.randoms(use_true_random=False)
x, y, z, n = (Var(name, "int32") for name in "xyzn")


def linear(rng: random.Random, variables: tuple[Var, ...], largest: int = 4) -> PrimExpr:
    total: Any = const(rng.randint(-9, 9), "int32")
    for var in variables:
        total = total + var * rng.randint(-largest, largest)
    return total


def comparison(rng: random.Random, variables: tuple[Var, ...]) -> PrimExpr:
    kind = rng.choice((LT, LE, GT, GE, LE, GE, EQ))
    return kind(linear(rng, variables), linear(rng, variables, 1))


def points(variables: tuple[Var, ...], reach: int) -> list[dict[Any, Any]]:
    values = range(-reach, reach + 1)
    return [dict(zip(variables, p)) for p in itertools.product(values, repeat=len(variables))]


def within(range_: Range, var: Var, env: dict[Any, Any]) -> bool:
    low, extent = meaning(range_.min, env), meaning(range_.extent, env)
    return low <= env[var] < low + extent


@settings(max_examples=200)
@given(rng=randomness)
def test_linear_equations_are_the_expression(rng: random.Random) -> None:
    made = Drawn(rng)
    expr = made.integer(made.main, rng.choice((1, 2, 2, 3)))
    variables = made.variables.get(str(made.main), [])
    chosen = [var for var in variables if rng.random() < 0.7]
    found = detect_linear_equation(expr, chosen)
    if not found:
        return
    assert len(found) == len(chosen) + 1
    total = found[-1]
    for var, factor in zip(chosen, found):
        total = total + factor * var
    for _ in range(15):
        env = made.environment({})
        value = meaning(expr, env)
        assert value is None or meaning(total, env, strict=False) == value, (str(expr), str(total))


@settings(max_examples=30)
@given(rng=randomness)
def test_solved_inequalities_have_the_same_points(rng: random.Random) -> None:
    variables = (x, y) if rng.random() < 0.6 else (x, y, z)
    conditions = [comparison(rng, variables) for _ in range(rng.randint(1, 4))]
    conditions = [c for c in conditions if not op.is_const(c)]
    ranges = {x: Range(-3, 4)} if rng.random() < 0.3 else {}
    solved = solve_linear_inequalities(conditions, variables, ranges)
    moved = solve_linear_inequalities(conditions, variables, ranges, deskew_range=True)
    for env in points(variables, 5):
        inside = all(meaning(condition, env) for condition in conditions)
        inside = inside and all(within(domain, var, env) for var, domain in ranges.items())
        claimed = all(within(domain, var, env) for var, domain in solved.ranges.items())
        claimed = claimed and all(meaning(relation, env) for relation in solved.relations)
        assert inside == claimed, ([str(c) for c in conditions], env)
        if inside:
            new = {var: meaning(value, env) for var, value in moved.dst_to_src.items()}
            assert {var: meaning(moved.src_to_dst[var], new) for var in variables} == env
            for var, domain in moved.dst.ranges.items():
                assert op.is_const(domain.min, 0) and within(domain, var, new)


@settings(max_examples=100)
@given(rng=randomness)
def test_clip_bounds_are_the_condition(rng: random.Random) -> None:
    conditions = [comparison(rng, (x,) if rng.random() < 0.5 else (x, n)) for _ in range(3)]
    conditions = [c for c in conditions[: rng.randint(1, 3)] if not op.is_const(c)]
    if not conditions:
        return
    condition = op.all_of(*conditions)
    found = detect_clip_bound(condition, [x])
    if not found:
        return
    low, high = found
    for env in points((x, n), 8):
        inside = (low is None or env[x] >= meaning(low, env)) and (
            high is None or env[x] <= meaning(high, env)
        )
        if meaning(condition, env):
            assert inside, (str(condition), str(low), str(high), env)


@settings(max_examples=200)
@given(rng=randomness)
def test_deduced_bounds_suffice(rng: random.Random) -> None:
    made = Drawn(rng)
    inner = linear(rng, (x, y))
    if rng.random() < 0.5:
        inner = op.floordiv(inner, rng.choice((2, 3, 4)))
    if rng.random() < 0.3:
        inner = x * n + y
    condition = rng.choice((LT, LE, GT, GE, EQ))(
        inner * rng.choice((1, 2, -3)), linear(rng, (y, n))
    )
    if op.is_const(condition):
        return
    relaxed = {y: IntSet.interval(-2, 3)} if rng.random() < 0.7 else {}
    hints = {n: IntSet.interval(1, 6)}
    hints |= {} if relaxed else {y: IntSet.interval(-2, 3)}
    found = deduce_bound(x, condition, hints, relaxed)
    if found.is_nothing():
        return
    for _ in range(60):
        env = {x: made.rng.randint(-30, 30), n: rng.randint(1, 6), y: rng.randint(-2, 3)}
        inside = not found.has_lower_bound() or env[x] >= meaning(found.min_value, env)
        inside = inside and (not found.has_upper_bound() or env[x] <= meaning(found.max_value, env))
        assert not inside or meaning(condition, env), (str(condition), str(found), env)


def test_group_bounds() -> None:
    bounds = IntGroupBounds.from_range(Range(2, 9))
    assert (len(bounds.lower), len(bounds.equal), len(bounds.upper)) == (1, 0, 1)
    found = bounds.find_best_range()
    assert found is not None and op.is_const(found.min, 2) and op.is_const(found.extent, 7)
    point = IntGroupBounds.from_range(Range(2, 3))
    assert len(point.equal) == 1
    bounds = IntGroupBounds(3, [const(4, "int32"), n], [], [const(14, "int32")])
    found = bounds.find_best_range({n: Range(0, 2)})
    assert found is not None and op.is_const(found.min, 2) and op.is_const(found.extent, 3)
    assert IntGroupBounds(1, [n], [], []).find_best_range() is None
