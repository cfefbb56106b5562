"""Intervals, regions, and conditions solved for a variable: by example and against enumeration."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.arith.expressions import RandomExpressions, environments, value_or_none
from tilesmith.arith import (
    Analyzer,
    IntervalSet,
    IntSet,
    covers,
    deduce_bound,
    detect_clip_bound,
    detect_common_subexpr,
    detect_linear_equation,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    eval_set,
    intersect,
    neg_inf,
    pos_inf,
    region_union,
    solve_linear_equations,
    solve_linear_inequalities,
    union,
    union_lower_bound,
)  # fmt: skip
from tilesmith.ir import EQ, IntImm, Ramp, Range, SizeVar, Var, const
from tilesmith.ir import operators as op
from tilesmith.ir.call_intrinsics import vscale
from tilesmith.ir.structural import structural_equal

x, y, z, n, m = (Var(name, "int32") for name in "x y z n m".split())
size = SizeVar("size", "int32")


def check(found: IntervalSet, low: Any, high: Any) -> None:
    analyzer = Analyzer()
    for end, expected in ((found.min_value, low), (found.max_value, high)):
        if isinstance(expected, Var) and expected.dtype.is_handle:
            assert end is expected
        else:
            assert analyzer.can_prove_equal(end, expected), (str(found), str(expected))


@pytest.mark.parametrize(
    "expr, domains, low, high",
    [
        (x + y, {x: Range(0, 10)}, y, y + 9),
        (x - y, {x: Range(0, 10), y: Range(0, 4)}, -3, 9),
        (x * 4 + y, {x: Range(0, 8)}, y, y + 28),
        (x * -2, {x: Range(1, 8)}, -14, -2),
        (x * 4 + 3 - x * 4, {x: Range(0, n)}, 3, 3),
        (x // 4, {x: Range(0, n)}, 0, (n - 1) // 4),
        ((x * 16 + y) // 16, {y: Range(0, 16)}, x, x),
        ((x * 16 + y) % 16, {x: Range(0, 8), y: Range(0, 16)}, 0, 15),
        (y % 8, {y: Range(0, 5)}, 0, 4),
        (y % 8, {y: Range(z * 8, z * 8 + 5)}, 0, 4),
        (y % 8, {y: Range(3, 30)}, 0, 7),
        ((x + y) % n, {y: Range(0, 1)}, x % n, x % n),
        ((x + y) % size, {y: Range(0, 2)}, 0, size - 1),
        ((x * n + y) % n, {y: Range(2, 3)}, (x * n + 2) % n, (x * n + 2) % n),
        (op.minimum(x, y), {x: Range(0, 8)}, op.minimum(y, 0), op.minimum(y, 7)),
        (op.maximum(x, 3), {x: Range(0, 8)}, 3, 7),
        (x, {x: IntervalSet(neg_inf(), 5)}, neg_inf(), 5),
        (x * -1, {x: IntervalSet(neg_inf(), 5)}, -5, pos_inf()),
        (Ramp(x, 2, 4), {x: Range(0, 3)}, 0, 8),
        (x + y, {x: Range(0, y), y: Range(1, 5)}, 1, 7),
        (x * n + y, {x: Range(0, 3), y: Range(0, n)}, op.minimum(n * 2, 0), None),
    ],
)
def test_eval_set(expr: Any, domains: dict, low: Any, high: Any) -> None:
    found = eval_set(expr, domains)
    check(found, low, found.max_value if high is None else high)


@pytest.mark.parametrize("seed", range(25))
def test_eval_set_covers(seed: int) -> None:
    """Every value lies between the ends, whatever the variables outside of the domains are."""
    rng = random.Random(seed)
    made = RandomExpressions(rng, [x, y, z])
    ranges = {var: Range(rng.randint(-4, 2), rng.randint(3, 12)) for var in (x, y, z)}
    inner = {var: ranges[var] for var in rng.sample([x, y, z], rng.randint(1, 3))}
    points = environments(ranges, 120)
    for _ in range(20):
        expr = made.integer(4)
        found = eval_set(expr, inner)
        for env in points:
            value = value_or_none(expr, env)
            if value is None:
                continue
            for end, sign in ((found.min_value, 1), (found.max_value, -1)):
                if not end.dtype.is_handle:
                    limit = value_or_none(end, env)
                    assert limit is None or (value - limit) * sign >= 0, (
                        str(expr),
                        str(found),
                        env,
                    )


def test_sets() -> None:
    assert IntSet.everything().is_everything() and IntSet.nothing().is_nothing()
    point = IntSet.single_point(x)
    assert point.is_single_point() and point.point_value() is x
    check(IntSet.vector(Ramp(x, 1, 8)), x, x + 7)
    scalable = IntSet.vector(Ramp(x, 2, vscale() * 4))
    assert scalable.min_value is x and not scalable.has_upper_bound()
    scalable = IntSet.vector(Ramp(x, -1, vscale() * 4))
    assert scalable.max_value is x and not scalable.has_lower_bound()
    check(union([IntSet.interval(0, 3), IntSet.interval(8, 9)]), 0, 9)
    check(intersect([IntSet.interval(0, 5), IntSet.interval(3, 9)]), 3, 5)
    assert intersect([IntSet.interval(0, 2), IntSet.interval(3, 9)]).is_nothing()
    check(
        union_lower_bound([IntSet.interval(0, 3), IntSet.interval(4, 9), IntSet.interval(20, 21)]),
        0,
        9,
    )
    assert covers(IntSet.interval(0, n), IntSet.interval(1, n - 1))
    assert not covers(IntSet.interval(0, n), IntSet.interval(1, n + 1))
    boxes = region_union([[Range(0, 4), Range(x, x + 2)], [Range(2, 8), Range(x + 1, x + 5)]])
    check(boxes[0], 0, 7)
    check(boxes[1], x, x + 4)


REGIONS = [
    ([(x * 8 + y * 4, 4)], {x: 4, y: 2}, True, [(0, 31)]),
    ([(x * 8, 4)], {x: 4}, True, None),
    ([(x * 4, 6)], {x: 4}, True, [(0, 17)]),
    ([(x, 1), (y, 2)], {x: 4, y: 3}, True, [(0, 3), (0, 3)]),
    ([(x, 1), (x, 1)], {x: 4}, True, None),
    ([(x * 4 + y, 1)], {x: 4, y: 4}, x * 4 + y < 10, [(0, 9)]),
]


@pytest.mark.parametrize("region, sizes, predicate, expected", REGIONS)
def test_regions(region: list, sizes: dict, predicate: Any, expected: list | None) -> None:
    ranges = [Range.from_min_extent(low, const(extent, "int32")) for low, extent in region]
    domains = {var: Range(0, size) for var, size in sizes.items()}
    for estimate in (estimate_region_lower_bound, estimate_region_strict_bound):
        found = estimate(ranges, domains, predicate)
        assert (found is None) == (expected is None)
        for item, (low, high) in zip(found or [], expected or []):
            check(item, low, high)
    upper = estimate_region_upper_bound(ranges, domains, predicate)
    for item, (low, high) in zip(upper, expected or []):
        check(item, low, high)
    for env in environments(domains):
        if predicate is True or value_or_none(predicate, env):
            for item, (low, extent) in zip(upper, region):
                first = value_or_none(low, env)
                assert item.min_value.value <= first <= item.max_value.value - extent + 1


@pytest.mark.parametrize("count", [16, 20, n], ids=str)
@pytest.mark.parametrize("low, end", [(y, z), (const(0), const(100))], ids=str)
def test_tile_that_is_cut_at_both_ends(count: Any, low: Any, end: Any) -> None:
    """The bound is that of the whole tile, cut: for any tile ``m``, not for those inside only."""
    index = m * 16 + x
    inside = op.logical_and(low <= index, index < end)
    region, domain = [Range.from_min_extent(index, 1)], {x: Range(0, count)}
    found = estimate_region_lower_bound(region, domain, inside)
    assert found is not None
    check(found[0], op.maximum(m * 16, low), op.minimum(m * 16 + count, end) - 1)


def test_deduce_bound() -> None:
    everything = IntSet.everything()
    relax = {y: IntSet.interval(1, 20), z: IntSet.interval(3, 5), m: IntSet.interval(2, 9)}
    condition = (y * -1 + x) * -1 + z - m >= 0
    check(deduce_bound(x, condition, relax, {}), everything.min_value, y + z - m)
    check(deduce_bound(x, condition, {}, relax), everything.min_value, -5)
    check(deduce_bound(x, x // 4 < n, {}, {}), everything.min_value, n * 4 - 1)
    check(deduce_bound(x, x * 3 >= 10, {}, {}), 4, everything.max_value)
    check(deduce_bound(x, op.logical_and(x * 3 >= 10, x < 9), {}, {}), 4, 8)
    assert deduce_bound(x, x % 3 > 1, {}, {}).is_nothing()


@pytest.mark.parametrize("seed", range(15))
def test_deduced_values_satisfy(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        a, b, c = rng.choice([-3, -1, 1, 2, 4]), rng.randint(-3, 3), rng.randint(-20, 20)
        left = x * a + y * b if rng.random() < 0.6 else x // rng.choice([2, 3]) * a + y * b
        condition = rng.choice([left < c, op.less_equal(left, c), left > c, op.equal(left, c)])
        ranges = {y: Range(-2, 4)}
        found = deduce_bound(x, condition, {}, ranges)
        for env in environments({x: Range(-30, 30), **ranges}, 500):
            low, high = found.min_value, found.max_value
            inside = not found.is_nothing()
            if isinstance(low, IntImm):
                inside = inside and env[x] >= low.value
            if isinstance(high, IntImm):
                inside = inside and env[x] <= high.value
            assert not inside or value_or_none(condition, env), (str(condition), str(found), env)


def test_linear_equations_of_expressions() -> None:
    found = detect_linear_equation(x * 4 + y * 6 + 7, [x])
    assert structural_equal(found[0], const(4, "int32")) and structural_equal(found[1], y * 6 + 7)
    found = detect_linear_equation(x * n + y, [x, y])
    assert found[0] is n and structural_equal(found[1], const(1, "int32"))
    assert detect_linear_equation(x * x, [x]) == []
    assert detect_linear_equation(x * y, [x, y]) == []


_SMALL = op.cast("int16", x) + const(32766, "int16")  # wraps around from x == 2 on


def test_conditions_that_may_wrap_around_are_not_solved() -> None:
    condition = _SMALL >= const(-16384, "int16")
    assert deduce_bound(x, condition, {}, {}).is_nothing()
    assert detect_clip_bound(condition, [x]) == []
    assert detect_linear_equation(_SMALL, [x]) == []
    y16 = Var("y16", "int16")
    assert deduce_bound(y16, y16 + const(1, "int16") < const(9, "int16"), {}, {}).is_nothing()
    check(deduce_bound(x, op.cast("int64", x) < const(9, "int64"), {}, {}), neg_inf(), 8)
    assert deduce_bound(x, x < -(2**31), {}, {}).is_nothing()  # up to a value that is no int32


@pytest.mark.parametrize("limit, solved", [(10, True), (2**15 - 1, False), (2**16 - 1, False)])
def test_differences_are_taken_where_nothing_wraps_around(limit: int, solved: bool) -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, limit))
    found = analyzer.difference(op.cast("int16", x) + const(3, "int16"), const(1, "int16"))
    assert (found is not None) == solved
    if found is not None:
        assert structural_equal(found, op.cast("int64", x) + const(2, "int64"))
    assert analyzer.difference(x, const(2**31 - 1, "int32")) is None  # one more would overflow
    assert structural_equal(analyzer.difference(x, const(1, "int32")), x - 1)


def test_clip_bounds_and_common_parts() -> None:
    found = detect_clip_bound(op.all_of(x * 1 < y * 6, x - 1 > 0), [x])
    assert structural_equal(found[0], const(2, "int32")) and structural_equal(found[1], y * 6 - 1)
    assert detect_clip_bound(x % 4 < 3, [x]) == []
    assert detect_clip_bound(op.all_of(x < 3), [x])[0] is None
    shared = (x + y) * 2
    counts = detect_common_subexpr(shared + (x + y) // 3, 2)
    assert [(str(expr), count) for expr, count in counts.items()] == [(str(x + y), 2)]


def test_linear_systems() -> None:
    solved = solve_linear_equations([EQ(x + y, 20), EQ(x - y, 10)], [x, y])
    assert {var: value.value for var, value in solved.src_to_dst.items()} == {x: 15, y: 5}
    assert not solved.dst.variables and not solved.dst.relations
    domains = {var: Range(0, 10) for var in (x, y, z)}
    solved = solve_linear_equations(EQ(x + y * 2 + z * 3, 20), [x, y, z], domains)
    ranges = solved.dst.ranges
    assert len(solved.dst.variables) == 2
    images = set()
    for env in environments(ranges, 10_000):
        if all(value_or_none(relation, env) for relation in solved.dst.relations):
            images.add(tuple([value_or_none(solved.src_to_dst[var], env) for var in (x, y, z)]))
    expected = {
        (a, b, c)
        for a in range(10)
        for b in range(10)
        for c in range(10)
        if a + 2 * b + 3 * c == 20
    }
    assert images == expected
    contradiction = solve_linear_equations([EQ(x + y, 1), EQ(x + y, 2)], [x, y])
    assert any(op.is_const(relation, 0) for relation in contradiction.dst.relations)
    odd = solve_linear_equations([EQ(x * 2, 3)], [x])
    assert any(op.is_const(relation, 0) for relation in odd.dst.relations)


@pytest.mark.parametrize("seed", range(10))
def test_equations_against_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    domains = {var: Range(-4, 5) for var in (x, y, z)}
    conditions = []
    for _ in range(rng.randint(1, 3)):
        a, b, c, d = (rng.randint(-4, 4) for _ in range(4))
        conditions.append(EQ(x * a + y * b + z * c + 0 * n, const(d, "int32")))
    conditions = [c for c in conditions if not isinstance(c.a, IntImm)]
    if not conditions:
        return
    solved = solve_linear_equations(conditions, [x, y, z], domains)
    images = set()
    for env in environments(solved.dst.ranges, 10**7):
        if all(value_or_none(relation, env) for relation in solved.dst.relations):
            images.add(tuple([value_or_none(solved.src_to_dst[var], env) for var in (x, y, z)]))
    expected = {
        tuple(env.values())
        for env in environments(domains, 10**6)
        if all(value_or_none(condition, env) for condition in conditions)
    }
    assert images == expected


def test_linear_inequalities() -> None:
    solved = solve_linear_inequalities(
        [x >= 0, op.less_equal(x, n), op.less_equal(y, x), y >= 0], [y, x]
    )
    analyzer = Analyzer()
    assert analyzer.can_prove_equal(solved.ranges[y].extent, x + 1)
    assert analyzer.can_prove_equal(solved.ranges[x].extent, n + 1)
    moved = solve_linear_inequalities([x >= 3, x < 10], [x], {}, True)
    (new,) = moved.dst.variables
    assert analyzer.can_prove_equal(moved.src_to_dst[x], new + 3)
    assert moved.dst.ranges[new].extent.value == 7


@pytest.mark.parametrize("compare", [op.less, op.equal, op.not_equal])
def test_conditions_on_floats_bound_no_region(compare):
    variable = Var("i", "int32")
    condition = compare(op.cast("float32", variable), const(2.0, "float32"))
    (found,) = estimate_region_upper_bound(
        [Range.from_min_extent(variable, 1)], {variable: Range(0, 4)}, condition
    )
    assert (found.min_value.value, found.max_value.value) == (0, 3)
