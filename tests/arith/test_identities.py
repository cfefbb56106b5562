"""Identities of divisions, remainders, minima and choices: whatever the constants in them are and
wherever the variables lie, simplification keeps the value.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arith.meaning import meaning, same
from tests.arith.test_facts import Known, read

SHAPES = [
    # offsets, scaled
    "y * K - DIV(y + z, C) * (C * K) + A",
    "DIV(y + z, C) * (C * K) - y * K + z * B",
    "x - DIV(x + A, C) * C",
    "MOD(x * A + y, C) * K - x * (A * K) - y * B",
    "DIV(x, C) * C + MOD(x, C) * B",
    "DIV(DIV(x, C), D) + MOD(MOD(x, C * D), D)",
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
        shape = shape.replace(name, f"({value})")
    return shape


@pytest.mark.parametrize("shape", SHAPES)
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
