"""Padding of iterators by offsets that are unknown, and by several offsets, against enumeration."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from tests.arith.meaning import meaning
from tilesmith.arith import detect_iter_map, normalize_iter_map_to_expr
from tilesmith.ir import PrimExpr, Range, Var, const
from tilesmith.ir.operators import floordiv, floormod

x, y, z = Var("x", "int32"), Var("y", "int32"), Var("z", "int32")


def check_claims(
    indices: list[PrimExpr], domains: dict[Var, Range], level: str, unknown: dict[Var, int]
) -> bool:
    """Checks one map for some values of its free variables; returns whether it was detected."""
    result = detect_iter_map(indices, domains, True, level)
    assert bool(result.indices) != bool(result.errors)
    if not result.indices:
        return False
    forms = result.indices
    ranges = [range(domain.extent.value) for domain in domains.values()]
    image = set()
    for point in itertools.product(*ranges):
        env = {**unknown, **dict(zip(domains, point))}
        values = tuple([meaning(index, env) for index in indices])
        image.add(values)
        again = [meaning(normalize_iter_map_to_expr(form), env) for form in forms]
        assert list(values) == again, (indices, env)
        assert not meaning(result.padding_predicate, env)  # what is given is no padding
    axes = []
    for form in forms:
        ends = [
            [meaning(arg.scale, unknown) * n for n in range(meaning(arg.extent, unknown))]
            for arg in form.args
        ]
        base = meaning(form.base, unknown)
        axes.append([base + sum(digits) for digits in itertools.product(*ends)])
    box = set(itertools.product(*axes))
    assert image <= box, (indices, unknown)
    if level == "surjective":
        assert image == box, (indices, unknown)
    return True


@pytest.mark.parametrize(
    "indices, extent, level",
    [
        ([(x * 3 + y) // 4], 16, "surjective"),
        ([floormod(x * 3 + y, 4)], 16, "surjective"),
        ([(x * 6 + z + y) // 8], 5, "surjective"),
        ([(x * 6 + y) // 8], 5, "surjective"),
        ([(x * 6 + z + y) // 8, (x * 6 + z + y) % 8], 1, "surjective"),
        ([(y - x) // 4 % 2, (y - x) % 4], 16, "surjective"),
        ([(x + y) // 4, (x + y) % 4], 16, "nocheck"),
        ([(y + 1) // 4 % 2, (y + 5) % 4], 16, "surjective"),
        ([(y + 8) // 16 % 2, y % 4], 64, "surjective"),
        ([y % 4, (y + 8) // 16 % 2], 64, "surjective"),
        ([(y + 1) // 8, (y + 9) // 4 % 2, (y + 5) % 4], 16, "nocheck"),
        ([(y + 8) // 16, (y + 12) % 8 // 4, y % 4], 50, "nocheck"),
    ],
)
def test_padding_is_found(indices: list[PrimExpr], extent: int, level: str) -> None:
    for first, second in itertools.product(range(-5, 6), (0, 3)):
        unknown = {x: first, z: second}
        assert check_claims(indices, {y: Range(0, extent)}, level, unknown)


@pytest.mark.parametrize(
    "indices, extent",
    [
        ([(x + y) // 4, (x + y) % 4], 16),  # the corners of the box are not hit
        ([(y + 1) // 4, (y + 3) % 4], 16),
        ([(y + 1) // 4 % 2, (y + 3) % 4], 4),
        ([(x + y) % 4], 3),
        ([y // 4, (x + y) % 4], 16),
    ],
)
def test_what_is_not_surjective_is_refused(indices: list[PrimExpr], extent: int) -> None:
    assert not detect_iter_map(indices, {y: Range(0, extent)}, True, "surjective").indices


def random_indices(rng: random.Random) -> tuple[list[PrimExpr], dict[Var, Range]]:
    """Digits of one iterator or of two fused ones, each with an offset that may be unknown."""
    inner = rng.choice((3, 4, 6, 8))
    domains = {y: Range(0, rng.choice((2, 3, 5, 8, 16, 20)))}
    whole: PrimExpr = y
    if rng.random() < 0.4:
        inner_var = Var("j", "int32")
        domains[inner_var] = Range(0, inner)
        whole = y * inner + inner_var
    unknown: list[Any] = [0, 0, x, x * 3, x * 4, x * 2 + z, x * 6 + z, -x, x * 8]
    shared = rng.choice(unknown)
    period = rng.choice((4, 8, 16))
    indices = []
    for _ in range(rng.randint(1, 3)):
        offset = rng.choice((0, 1, 5, 9, rng.randint(-9, 20), period, period + 1))
        term = whole + (shared if rng.random() < 0.85 else rng.choice(unknown)) + offset
        size = rng.choice((2, 3, 4, 4, 8, 16))
        kind = rng.randrange(3)
        if kind == 0:
            indices.append(floordiv(term, size))
        elif kind == 1:
            indices.append(floormod(term, size))
        else:
            indices.append(floormod(floordiv(term, const(size)), rng.choice((2, 4))))
    return indices, domains


@pytest.mark.parametrize("level", ["surjective", "nocheck", "bijective"])
@pytest.mark.parametrize("seed", range(3))
def test_claims_hold(seed: int, level: str) -> None:
    rng = random.Random(seed)
    detected = 0
    for _ in range(25):
        indices, domains = random_indices(rng)
        for _ in range(3):
            unknown = {x: rng.randint(-9, 9), z: rng.randint(-9, 9)}
            found = check_claims(indices, domains, level, unknown)
            if not found:
                break
            detected += 1
    assert detected or level == "bijective"
