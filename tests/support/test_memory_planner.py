"""The planner of memory: what lives together does not overlap, and little is wasted."""

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesmith.support.errors import ConfigError
from tilesmith.support.memory_planner import (
    ALGORITHMS,
    Allocation,
    LiveRanges,
    peak_bytes,
    plan_offsets,
)

WAYS = [None, *ALGORITHMS]
# How far from the best plan the best of the orders may be, for up to six allocations.
BOUND = 1.25


def stretches(steps):
    pairs = st.tuples(st.integers(0, steps), st.integers(0, steps))
    return pairs.map(lambda pair: (min(pair), max(pair)))


def allocations(steps=12, most=16, smallest=0, largest=700, pieces=3):
    sizes = st.integers(smallest, largest)
    lives = st.lists(stretches(steps), min_size=1, max_size=pieces).map(tuple)
    return st.lists(st.builds(Allocation, sizes, lives), max_size=most)


def live_together(a, b):
    return any(f <= m and g <= last for f, last in a.live for g, m in b.live)


def rounded(size, alignment):
    return -(-size // alignment) * alignment


def check(given_allocations, plan, alignment):
    placed = list(zip(given_allocations, plan.offsets, strict=True))
    for one, offset in placed:
        assert offset >= 0 and offset % alignment == 0
        assert offset + one.size <= plan.total
    for (a, at), (b, bt) in itertools.combinations(placed, 2):
        if live_together(a, b) and a.size and b.size:
            assert at + a.size <= bt or bt + b.size <= at
    assert plan.total <= sum(rounded(one.size, alignment) for one in given_allocations)
    assert plan.total >= max([0, *[rounded(one.size, alignment) for one in given_allocations]])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("alignment", [1, 16, 64])
@given(given_allocations=allocations())
def test_what_lives_together_does_not_overlap(way, alignment, given_allocations):
    plan = plan_offsets(given_allocations, alignment, way)
    check(given_allocations, plan, alignment)
    assert plan_offsets(list(given_allocations), alignment, way) == plan  # deterministic


@given(allocations())
def test_the_peak_is_a_lower_bound(given_allocations):
    peak = peak_bytes(given_allocations)
    steps = {step for one in given_allocations for stretch in one.live for step in stretch}
    by_step = [
        sum(rounded(one.size, 64) for one in given_allocations if live_together(one, at))
        for at in [Allocation(0, ((step, step),)) for step in steps]
    ]
    assert peak == max(by_step, default=0)
    assert all(plan_offsets(given_allocations, 64, way).total >= peak for way in WAYS)


@given(allocations())
def test_the_best_of_all_is_chosen(given_allocations):
    best = plan_offsets(given_allocations).total
    assert best == min(plan_offsets(given_allocations, 64, way).total for way in ALGORITHMS)


def lowest_total(given_allocations, order):
    placed, total = [], 0
    for one in order:
        offset = 0
        for other, start in sorted(placed, key=lambda row: row[1]):
            if live_together(one, other) and start < offset + one.size:
                offset = max(offset, start + other.size)
        placed.append((one, offset))
        total = max(total, offset + one.size)
    return total


@settings(max_examples=150)
@given(allocations(steps=5, most=6, smallest=1, largest=12, pieces=1))
def test_small_cases_are_close_to_the_best_plan(given_allocations):
    # Pushed down one by one in the order of its offsets, the best plan stays the best.
    best = min(
        lowest_total(given_allocations, order)
        for order in itertools.permutations(given_allocations)
    )
    assert best <= plan_offsets(given_allocations, 1).total <= BOUND * best


@pytest.mark.parametrize("way", ALGORITHMS)
def test_nested_and_equal_ranges_need_the_peak(way):
    nested = [Allocation(64 * (n + 1), ((n, 40 - n),)) for n in range(20)]
    equal = [Allocation(100 + n, ((0, 3),)) for n in range(20)]
    for case in (nested, equal):
        assert plan_offsets(case, 64, way).total == peak_bytes(case)


def test_several_stretches_leave_their_holes_to_others():
    around, within = Allocation(64, ((0, 1), (4, 5))), Allocation(64, ((2, 3),))
    assert plan_offsets([around, within]).offsets == (0, 0)
    assert plan_offsets([around, Allocation(64, ((2, 4),))]).total == 128


def test_what_takes_no_bytes_or_never_lives_takes_no_place():
    plan = plan_offsets([Allocation(0, ((0, 9),)), Allocation(8, ()), Allocation(8, ((1, 2),))])
    assert plan.offsets == (0, 0, 0) and plan.total == 64
    assert plan_offsets([]).total == 0


def test_unknown_algorithms_are_refused():
    with pytest.raises(ConfigError, match="'hill_climb'") as caught:
        plan_offsets([], 64, "hill_climb")
    assert "greedy_by_size" in str(caught.value)


@pytest.mark.parametrize("kind", ["short", "any"])
def test_ten_thousand_ranges_are_planned_quickly(kind):
    source, count = random.Random(7), 10_000
    cases = []
    for step in range(count):
        last = step + source.randrange(30) if kind == "short" else source.randrange(step, count)
        cases.append(Allocation(64 * source.randrange(1, 1000), ((step, last),)))
    begin = time.process_time()
    plan = plan_offsets(cases, 64, "greedy_by_size")
    assert time.process_time() - begin < 15  # about one second on a quiet machine
    assert plan.total <= 1.25 * peak_bytes(cases)


# Live ranges.


def test_uses_of_views_keep_their_roots_alive():
    ranges = LiveRanges()
    ranges.use("a", 1)
    ranges.use("b", 2)
    ranges.view("choice", ["a", "b"])
    ranges.view("reshaped", ["choice"])
    ranges.use("reshaped", 7)
    ranges.use("b", 0, 3)
    assert ranges.roots(["reshaped", "a", "c"]) == ("a", "b", "c")
    assert ranges.of("a") == ((1, 7),) and ranges.of("b") == ((0, 7),)
    assert ranges.of("choice") == () and ranges.of("c") == ()


def test_what_may_be_new_or_a_view_is_both():
    ranges = LiveRanges()
    ranges.use("a", 0)
    ranges.view("result", ["a", "result"])
    ranges.use("result", 2)
    ranges.use("result", 5)
    assert ranges.of("a") == ((0, 5),) and ranges.of("result") == ((2, 5),)
