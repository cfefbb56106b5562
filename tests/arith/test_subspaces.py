"""Subspaces: bindings of fused and split loops, divided into an outer and an inner part."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arith.meaning import meaning
from tilesmith.arith import IterMapLevel, normalize_iter_map_to_expr, subspace_divide
from tilesmith.ir import And, PrimExpr, Range, Var, const
from tilesmith.ir.queries import variables

a, b, c = Var("a", "int32"), Var("b", "int32"), Var("c", "int32")
SIZES = {a: 2, b: 6, c: 8}
FUSED = a * 6 + b


def plain(source: Any) -> PrimExpr:
    return normalize_iter_map_to_expr(source)


def check(
    bindings: list[PrimExpr], sizes: dict[Var, int], inner: list[Var], predicate: Any
) -> list[Any]:
    """Divides, and compares with the bindings at each point; returns what was found."""
    domains = {var: Range(0, size) for var, size in sizes.items()}
    found = subspace_divide(bindings, domains, inner, predicate)
    if not found:
        return found
    outer_condition, inner_condition = [mark.extent for mark in found[-1]]
    parts = [[(plain(mark.source), mark.extent.value) for mark in row] for row in found[:-1]]
    outside = [outer_condition, *[row[0][0] for row in parts]]
    inside = [inner_condition, *[row[1][0] for row in parts]]
    assert not set(variables(outside)) & set(inner), [str(part) for part in outside]
    assert set(variables(inside)) <= set(inner), [str(part) for part in inside]
    reached = [set(), set()]
    for point in itertools.product(*[range(size) for size in sizes.values()]):
        env = dict(zip(sizes, point))
        holds = meaning(And(outer_condition, inner_condition), env)
        assert bool(holds) == bool(meaning(predicate, env)), env
        if holds:
            for binding, ((outer, _), (last, extent)) in zip(bindings, parts):
                value = meaning(outer, env) * extent + meaning(last, env)
                assert value == meaning(binding, env), (str(binding), str(outer), str(last), env)
            for side, into in enumerate(reached):
                into.add(tuple([meaning(row[side][0], env) for row in parts]))
    for side, values in enumerate(reached):  # the extents are those of what is reached
        for place, row in enumerate(parts):
            seen = {value[place] for value in values}
            assert len(seen) == row[side][1] == max(seen) - min(seen) + 1
    return found


TRUE = const(True, "bool")
DIVIDED = [
    ([FUSED * 8 + c], [c], FUSED < 10),
    ([FUSED, c], [c], And(FUSED < 10, c < 4)),
    ([a, b, c], [b, c], And(And(a < 1, b < 4), c < 1)),
    ([c, FUSED], [a, b], FUSED < 10),
    ([FUSED // 3, FUSED % 3 * 8 + c], [b, c], TRUE),
    ([FUSED // 3, FUSED % 3 * 8 + c], [c], FUSED < 9),
    ([FUSED // 3, FUSED % 3 * 8 + c], [c], TRUE),
    ([FUSED // 6, FUSED % 6 * 8 + c], [b, c], TRUE),
    ([FUSED // 3 % 2 * 8 + c, FUSED // 6, FUSED % 3], [b, c], TRUE),
    ([FUSED // 3 * 8 + c, FUSED % 3], [b, c], TRUE),
    ([FUSED // 3 + 4, FUSED % 3, c], [b, c], TRUE),
]


@pytest.mark.parametrize("case", range(len(DIVIDED)))
def test_divided(case: int) -> None:
    bindings, inner, predicate = DIVIDED[case]
    assert check(bindings, SIZES, inner, predicate)


def test_what_mixes_both_parts_is_refused() -> None:
    for bindings, inner, predicate in (
        ([FUSED // 4, FUSED % 4 * 8 + c], [b, c], TRUE),
        ([FUSED, c], [b, c], FUSED < 10),
        ([b * 2 + a, c], [b, c], TRUE),
    ):
        assert not check(bindings, SIZES, inner, predicate)


@settings(max_examples=150)
@given(rng=st.randoms(use_true_random=False))
def test_random_subspaces(rng: random.Random) -> None:
    """Loops are fused and split at random; the inner ones are those from a position on."""
    sizes = {Var(f"i{k}", "int32"): rng.choice((2, 3, 4, 6)) for k in range(rng.randint(2, 4))}
    first = rng.randint(0, len(sizes))
    digits: list[tuple[PrimExpr, int]] = list(sizes.items())
    predicate: PrimExpr = TRUE
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(digits))
        value, size = digits[place]
        if rng.random() < 0.5 and place + 1 < len(digits):
            other, width = digits.pop(place + 1)
            digits[place] = value * width + other, size * width
            if rng.random() < 0.2 and predicate is TRUE:
                size = rng.randint(1, size * width)
                digits[place] = digits[place][0], size
                predicate = digits[place][0] < size
        else:
            width = rng.choice([k for k in range(1, size + 1) if size % k == 0])
            digits[place : place + 1] = [(value // width, size // width), (value % width, width)]
    bindings = [value for value, _ in digits]
    check(bindings, sizes, list(sizes)[first:], predicate)


@pytest.mark.parametrize(
    ("limit", "level", "divided"),
    [
        (20, IterMapLevel.NoCheck, False),  # neither side can say it, and nothing else would
        (20, IterMapLevel.Surjective, False),
        (16, IterMapLevel.NoCheck, True),  # i < 2 says the same
        (16, IterMapLevel.Surjective, True),
    ],
)
def test_a_predicate_across_both_sides_is_not_lost(limit, level, divided):
    i, j = Var("i", "int32"), Var("j", "int32")
    domains = {i: Range(0, 8), j: Range(0, 8)}
    found = subspace_divide([i, j], domains, [j], i * 8 + j < limit, level)
    assert bool(found) == divided
    if divided:
        assert str(found[-1][0].extent) == "i < 2" and str(found[-1][1].extent) == "T.bool(True)"
