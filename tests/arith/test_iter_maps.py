"""Shapes of what the analysis of iterators gives, on small maps."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arith.meaning import meaning
from tilesmith.arith import (
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    detect_clip_bound,
    detect_iter_map,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)  # fmt: skip
from tilesmith.arith.iter_nodes import sum_of_digits
from tilesmith.ir import And, Not, Range, Var, const
from tilesmith.ir import operators as op
from tilesmith.ir.operators import maximum
from tilesmith.ir.structural import structural_equal
from tilesmith.support.errors import TilesmithError

i, j, k, n = [Var(name, "int32") for name in "ijkn"]
DOMAINS = {i: Range(0, 4), j: Range(0, 8), k: Range(0, 16)}


def text(node: Any) -> str:
    """A sum, digit or iterator in short."""
    if isinstance(node, IterSumExpr):
        return " + ".join([*[text(arg) for arg in node.args], str(node.base)])
    if isinstance(node, IterSplitExpr):
        return f"{text(node.source)}/{node.lower_factor}%{node.extent}*{node.scale}"
    if isinstance(node, IterMark):
        return f"({text(node.source)}:{node.extent})"
    return str(node)


MAPS = [
    (i, True, "((i:4)/1%4*1 + 0:4)/1%4*1 + 0"),
    (k // 4, True, "((k:16)/4%4*1 + 0:4)/1%4*1 + 0"),
    (i * 8 + j, True, "((i:4)/1%4*8 + (j:8)/1%8*1 + 0:32)/1%32*1 + 0"),
    (i, i < 3, "((i:3)/1%3*1 + 0:3)/1%3*1 + 0"),
    (i, i >= 1, "((i - 1:3)/1%3*1 + 0:3)/1%3*1 + 1"),
    (i + j, True, "((i:4)/1%4*1 + (j:8)/1%8*1 + 0:11)/1%11*1 + 0"),
    (i * 7 + j, True, "((i:4)/1%4*7 + (j:8)/1%8*1 + 0:29)/1%29*1 + 0"),
]


@pytest.mark.parametrize("case", MAPS, ids=[str(index) for index, _, _ in MAPS])
def test_indices_are_whole_iterators(case: tuple[Any, Any, str]) -> None:
    index, predicate, expected = case
    found = detect_iter_map([index], DOMAINS, predicate)
    assert [text(form) for form in found.indices] == [expected]


def test_sums_that_wrap_around_are_not_digits() -> None:
    narrow = op.cast("int16", i)
    for offset, count in [(100, 1), (32766, 0)]:
        moved = narrow + const(offset, "int16")
        assert len(detect_iter_map([moved], DOMAINS, True).indices) == count
        found = detect_iter_map([i], DOMAINS, moved < const(offset + 1, "int16"))
        assert len(found.indices) == count


WI, WJ, WN = [Var(name, "int64") for name in ("wi", "wj", "wn")]


def long(number: int) -> Any:
    return const(number, "int64")


@pytest.mark.parametrize("steps", [3 << 10, 3 << 40])  # 3 << 40 is 0 in 32 bits
def test_a_narrow_digit_is_taken_in_the_type_of_its_iterator(steps: int) -> None:
    digit = op.cast("int32", (WI * 256 + WJ) // 8 % 3)
    domains = {WI: Range(long(0), long(steps)), WJ: Range(long(0), long(256))}
    (found,) = detect_iter_map([digit], domains).indices
    assert found.dtype == "int32" and found.args[0].extent.dtype == "int32"
    for written in (sum_of_digits(found), normalize_iter_map_to_expr(found)):
        for values in [(steps - 1, 200), (steps // 2 + 1, 77)]:
            env = dict(zip((WI, WJ), values))
            assert meaning(written, env) == meaning(digit, env), str(written)


WIDE = [  # indices, and what they are in short
    (
        [op.cast("int32", WI % 37), WI // 37],
        ["(wi:wn * 37)/1%37*1 + 0", "(wi:wn * 37)/37%wn*1 + 0"],
    ),
    (
        [op.cast("int32", WI // WN), WI % WN],
        ["(wi:wn * 37)/wn%37*1 + 0", "(wi:wn * 37)/1%wn*1 + 0"],
    ),
    (
        [op.cast("int32", WI % 37) * 4 + 3, op.cast("int64", op.cast("int32", WI % 37)) + WN],
        ["(wi:wn * 37)/1%37*4 + 3", "(wi:wn * 37)/1%37*1 + wn"],
    ),
]


@pytest.mark.parametrize("indices, expected", WIDE, ids=[str(case[0]) for case in WIDE])
def test_digits_of_symbolic_iterators_keep_their_type(indices: Any, expected: Any) -> None:
    domains = {WI: Range(long(0), WN * 37)}
    for index, text_of_index in zip(indices, expected):
        form = normalize_to_iter_sum(index, domains)
        assert re.sub(r"T\.int64\((\d+)\)", r"\1", text(form)) == text_of_index
        again = normalize_to_iter_sum(sum_of_digits(form), domains)
        assert form.dtype == index.dtype and structural_equal(form, again)
        assert structural_equal(
            form, normalize_to_iter_sum(normalize_iter_map_to_expr(form), domains)
        )
        for size in (1, 1 << 20, 1 << 40):
            env = {WN: size, WI: size * 37 - 5}
            assert meaning(sum_of_digits(form), env) == meaning(index, env)


def test_narrow_sums_of_wide_digits_have_an_inverse() -> None:
    a, b = Var("a", "int32"), Var("b", "int64")
    domains = {WI: Range(long(0), WN * 37)}
    found = detect_iter_map([op.cast("int32", WI % 37), WI // 37], domains, True, "bijective")
    inverse = inverse_affine_iter_map(found.indices, [a, b])
    assert meaning(inverse[WI], {a: 36, b: 1 << 40}) == (37 << 40) + 36


def test_narrow_digits_of_one_iterator_are_joined_and_told_apart() -> None:
    domains = {WI: Range(long(0), WN * 48)}
    low, high = [op.cast("int32", one) for one in (WI % 4, WI // 4 % 12)]
    assert text(normalize_to_iter_sum(high * 4 + low, domains)).endswith("%48*1 + 0")
    assert detect_iter_map([low, high, WI // 48], domains, True, "bijective").indices
    assert not detect_iter_map([low, WI % 12 // 2], domains).indices  # both have a bit


def test_sums_that_their_type_does_not_hold_are_no_iterators() -> None:
    size = 1 << 20
    found = detect_iter_map([i * size + j], {i: Range(0, size), j: Range(0, size)})
    assert not found.indices and "does not hold" in found.errors[0]
    domains = {WI: Range(long(0), WN * (1 << 40))}
    low, high = [op.cast("int32", one) for one in (WI % size, WI // size % size)]
    assert not detect_iter_map([high * size + low], domains).indices
    form = normalize_to_iter_sum(high * size + low, domains)
    assert [int(arg.extent) for arg in form.args] == [size, size]


@pytest.mark.parametrize("limit", [WN * 37, long(100)])
def test_predicates_bound_wide_sums_of_narrow_digits(limit: Any) -> None:
    domains = {WI: Range(long(0), (limit + 7) // 8), WJ: Range(long(0), long(8))}
    index = op.cast("int32", (WI * 8 + WJ) % 37)
    (written,) = iter_map_simplify([index], domains, WI * 8 + WJ < limit)
    for env in [{WI: 11, WJ: 3, WN: 5}, {WI: 1 << 30, WJ: 7, WN: 1 << 40}]:
        if not meaning(WI * 8 + WJ < limit, env):
            continue
        assert meaning(written, env) == meaning(index, env)


def test_subspaces_of_narrow_digits() -> None:
    index = op.cast("int32", (WI * 48 + WJ) % 96 // 12)
    domains = {WI: Range(long(0), WN * 2), WJ: Range(long(0), long(48))}
    (outer, inner), _ = subspace_divide([index], domains, [WJ])
    assert op.is_const(inner.extent, 4)
    for env in [{WI: 3, WJ: 40}, {WI: (1 << 40) + 1, WJ: 47}]:
        values = [meaning(normalize_iter_map_to_expr(one.source), env) for one in (outer, inner)]
        assert values[0] * 4 + values[1] == meaning(index, env)


@pytest.mark.parametrize("level", ["surjective", "nocheck"])
def test_digits_may_leave_no_gap(level: str) -> None:
    assert not detect_iter_map([i * 9 + j], DOMAINS, True, level).indices
    assert not detect_iter_map([i + j], {i: DOMAINS[i], j: DOMAINS[j]}, True, "bijective").indices


def test_overlapping_digits_have_no_inverse() -> None:
    found = detect_iter_map([i + j], DOMAINS)
    with pytest.raises(TilesmithError, match="not a bijective map"):
        inverse_affine_iter_map(found.indices, [n])


def test_a_predicate_that_never_holds() -> None:
    domains = {i: Range(2, 4), j: Range(0, 8)}
    assert not detect_iter_map([i, j], domains, i < 2).indices
    assert estimate_region_strict_bound([Range(i, i + 1)], domains, i < 2) is None


def test_sums_of_digits_that_do_not_come_out_even() -> None:
    form = normalize_to_iter_sum(k // 3, DOMAINS)
    assert text(form) == "(k:16)/3%6*1 + 0"
    form = normalize_to_iter_sum(k % 3 + i * 3, DOMAINS)
    assert text(form) == "(i:4)/1%4*3 + (k:16)/1%3*1 + 0"
    form = normalize_to_iter_sum((k + 1) // 3 + i * 3, DOMAINS)
    assert text(form) == "(i:4)/1%4*3 + (k + 1) // 3"


def test_sums_with_terms_that_are_no_digits() -> None:
    form = normalize_to_iter_sum(maximum(i, j) + i * 4 - maximum(n, 3), DOMAINS)
    assert text(form) == "(i:4)/1%4*4 + T.max(i, j) - T.max(n, 3)"


def test_scales_are_ordered_by_size() -> None:
    form = normalize_to_iter_sum(j + i * n + k * n * 4, DOMAINS)
    assert text(form) == "(k:16)/1%16*n * 4 + (i:4)/1%4*n + (j:8)/1%8*1 + 0"


POSITIVE = [  # a divisor, and the numbers of iterations that say that it is positive
    (n * 1280, (n * 10, 256)),
    ((n + 2) // 3 * 1280, ((n + 2) // 3 * 10, 256)),
    ((n - 2) * 8, ((n - 2) * 10, 4)),
    (n * 6, (n * k * 9, 4)),
    (n * k, (n, k)),
]


@pytest.mark.parametrize("case", POSITIVE, ids=[str(divisor) for divisor, _ in POSITIVE])
def test_divisors_are_positive_where_loops_have_iterations(case: tuple[Any, Any]) -> None:
    divisor, (outer, inner) = case
    domains = {i: Range(0, outer), j: Range(0, inner)}
    index = i * inner + j
    assert detect_iter_map([index // divisor, index % divisor], domains).indices
    found = detect_iter_map([index // -divisor], domains)
    assert not found.indices and "negative" in found.errors[0]


def test_subspaces() -> None:
    outer_inner = subspace_divide([i * 8 + j, k], DOMAINS, [j, k])
    found = [[text(mark) for mark in pair] for pair in outer_inner]
    assert found == [
        ["((i:4)/1%4*1 + 0:4)", "((j:8)/1%8*1 + 0:8)"],
        ["(0:1)", "((k:16)/1%16*1:16)"],
        ["(0:T.bool(True))", "(0:T.bool(True))"],
    ]
    *_, (outer, inner) = subspace_divide([i * 8 + j], DOMAINS, [i, j], i * 8 + j < 20)
    assert op.is_const(outer.extent, 1) and structural_equal(inner.extent, i * 8 + j < 20)


def test_simplified_indices_keep_iterators_of_one_value_on_request() -> None:
    domains = {i: Range(0, 1), j: Range(0, 8)}
    assert structural_equal(iter_map_simplify([i * 8 + j], domains)[0], j)
    (kept,) = iter_map_simplify([i * 8 + j], domains, simplify_trivial_iterators=False)
    assert structural_equal(kept, i * 8 + j)


def test_iterators_of_one_value_are_numbers_unless_asked_for() -> None:
    domains = {i: Range(3, 4), j: Range(0, 8)}
    found = detect_iter_map([i, j], domains).indices
    assert [text(one) for one in found] == ["3", "((j:8)/1%8*1 + 0:8)/1%8*1 + 0"]
    kept = detect_iter_map([i, j], domains, simplify_trivial_iterators=False).indices
    assert text(kept[0]) == "((i - 3:1)/1%1*1 + 0:1)/1%1*1 + 3"


def test_bounds_of_regions_of_any_extent() -> None:
    domains = {i: Range(0, n), j: Range(0, 8)}
    (found,) = estimate_region_upper_bound([Range(i * 2, i * 2 + 2)], domains, i * 8 + j < 20)
    assert op.is_const(found.min_value, 0)


def test_clip_bounds_are_the_whole_condition() -> None:
    assert detect_clip_bound(And(And(i >= 0, i < 10), j < 3), [i]) == []
    assert detect_clip_bound(i < 4, [j]) == []
    low, high = detect_clip_bound(Not(i < 3), [i])
    assert op.is_const(low, 3) and high is None


@pytest.mark.parametrize(
    "size, offset, make, is_full",
    [
        (100, 28, lambda n: [n // 16, n % 16], False),  # 100 of 7 * 16 points
        (100, 28, lambda n: [n // 16], True),
        (100, 28, lambda n: [n % 16], True),
        (15, 0, lambda n: [n // 8, n % 2], True),
        (9, 0, lambda n: [n // 8, n % 2], False),
        (4, 13, lambda n: [n // 2 % 4], False),
        (112, 32, lambda n: [n // 16, n % 16], True),
    ],
)
def test_a_padded_iterator_fills_what_its_digits_can_reach(size, offset, make, is_full):
    y = Var("y", "int32")
    found = detect_iter_map(make(y + offset), {y: Range(0, size)}, check_level="surjective")
    assert bool(found.indices) == is_full, found


def test_numbers_are_extents_factors_and_bases():
    x = Var("x", "int64")
    mark = IterMark(x, 16)
    digit = IterSplitExpr(mark, 4, 4, 2)
    total = IterSumExpr([digit], 3)
    parts = (mark.extent, digit.lower_factor, digit.extent, digit.scale, total.base)
    assert [int(part) for part in parts] == [16, 4, 4, 2, 3]
    assert all(part.dtype == "int64" for part in parts)


def test_conditions_on_free_variables_say_nothing_of_iterators():
    x, n = Var("x", "int32"), Var("n", "int32")
    found = detect_iter_map([x // 4, x % 4], {x: Range(0, 16)}, n < 10)
    assert len(found.indices) == 2


@pytest.mark.parametrize("simplify", [True, False])
def test_iterators_of_one_value_need_no_index(simplify):
    domains = {i: Range(0, 4), j: Range(0, 1), k: Range(0, 2)}
    assert not detect_iter_map([i], domains, True, "bijective", simplify).indices
    del domains[k]
    assert detect_iter_map([i], domains, True, "bijective", simplify).indices


@settings(max_examples=200)
@given(rng=st.randoms(use_true_random=False))
def test_what_overlapping_iterators_cover(rng: random.Random) -> None:
    """Each value of the lower bound is reached, and of quotients of sums one is found."""
    first, second = [rng.randint(1, 9) for _ in "ij"]
    low = rng.randint(-5, 5)
    domains = {i: Range(low, low + first), j: Range(0, second)}
    factors = [rng.randint(1, 6) for _ in "ij"]
    divisor, extent = rng.randint(1, 8), rng.randint(1, 3)
    index = (i * factors[0] + j * factors[1] + rng.randint(-9, 9)) // divisor
    if rng.random() < 0.5:
        index = index * 2 + 1
    found = estimate_region_lower_bound([Range.from_min_extent(index, extent)], domains, True)
    reached = set()
    for x in range(low, low + first):
        for y in range(second):
            start = meaning(index, {i: x, j: y})
            reached |= set(range(start, start + extent))
    if found is not None:
        box = range(found[0].min_value.value, found[0].max_value.value + 1)
        assert reached >= set(box), (str(index), domains)
    elif factors == [1, 1]:
        assert reached != set(range(min(reached), max(reached) + 1))


def test_a_quotient_of_overlapping_iterators() -> None:
    domains = {i: Range(0, 16), j: Range(0, 5), k: Range(0, 3)}
    region = [Range.from_min_extent((i + j) // 8, 1), Range.from_min_extent(k * 2, 2)]
    found = estimate_region_lower_bound(region, domains, True)
    ends = [(str(one.min_value), str(one.max_value)) for one in found or ()]
    assert ends == [("0", "2"), ("0", "5")]
    assert estimate_region_lower_bound([region[0], region[0]], domains, True) is None


@pytest.mark.parametrize("value, expected", [
    (i * 8 + j, "i * 8 + j"), (i * 8 + j + 3, "i * 8 + j + 3"), (j, "j"), (const(5), "5"),
])  # fmt: skip
def test_sums_of_digits_are_written_out(value: Any, expected: str) -> None:
    found = detect_iter_map([value], {i: Range(0, 4), j: Range(0, 8)}).indices
    assert [text(sum_of_digits(form)) for form in found] == [expected]
