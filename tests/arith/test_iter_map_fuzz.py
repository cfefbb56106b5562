"""Maps of iterators against enumeration: what is called surjective or bijective is so."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from tests.arith.expressions import environments, evaluate
from tilesmith.arith import detect_iter_map, inverse_affine_iter_map, iter_map_simplify
from tilesmith.ir import Range, Var, const
from tilesmith.ir import operators as op


def random_map(rng: random.Random) -> tuple[list, dict, object]:
    """Indices as schedules make them: splits, fusions, permutations, offsets; now and then broken
    ones."""
    names = ["i", "j", "k"][: rng.randint(1, 3)]
    domains = {Var(name, "int32"): Range(0, rng.choice([1, 2, 3, 4, 6, 8])) for name in names}
    axes = [(var, domain.extent.value) for var, domain in domains.items()]
    for _ in range(rng.randint(0, 4)):
        action = rng.choice("fssrbo")
        if action == "f" and len(axes) > 1:
            first = rng.randrange(len(axes) - 1)
            (a, m), (b, n) = axes[first : first + 2]
            axes[first : first + 2] = [(a * n + b, m * n)]
        elif action == "s":
            position = rng.randrange(len(axes))
            expr, size = axes[position]
            factor = rng.choice([d for d in range(1, size + 1) if size % d == 0] + [2, 3])
            axes[position : position + 1] = [
                (expr // factor, -(-size // factor)),
                (expr % factor, min(factor, size)),
            ]
        elif action == "r":
            rng.shuffle(axes)
        elif action == "b":
            position = rng.randrange(len(axes))
            expr, size = axes[position]
            axes[position] = (expr * rng.choice([1, 2, -1]) + rng.randint(-2, 3), size)
        elif action == "o" and rng.random() < 0.3 and len(axes) > 1:
            axes.pop()
    if rng.random() < 0.15:
        axes.append((axes[0][0] + rng.choice(list(domains)), 1))
    predicate = const(True, "bool")
    if rng.random() < 0.4:
        total = 0
        for var, domain in list(domains.items())[: rng.randint(1, len(domains))]:
            total = var if isinstance(total, int) else total * domain.extent.value + var
        predicate = total < rng.randint(1, 40)
        if rng.random() < 0.3:
            predicate = op.logical_and(predicate, total >= rng.randint(0, 3))
    return [expr for expr, _ in axes], domains, predicate


def points_of(domains: dict, predicate: object) -> list[dict]:
    return [env for env in environments(domains, 10_000) if evaluate(predicate, env)]


@pytest.mark.parametrize("level", ["surjective", "bijective"])
@pytest.mark.parametrize("seed", range(15))
def test_claims_hold(seed: int, level: str) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        indices, domains, predicate = random_map(rng)
        result = detect_iter_map(indices, domains, predicate, level)
        if not result.indices:
            assert result.errors or not indices
            continue
        points = points_of(domains, predicate)
        if not points:
            continue
        image = Counter([tuple([evaluate(index, env) for index in indices]) for env in points])
        axes = []
        for form in result.indices:
            base = form.base.value
            if form.args:
                (arg,) = form.args
                axes.append([base + arg.scale.value * value for value in range(arg.extent.value)])
            else:
                axes.append([base])
        box = set(itertools.product(*axes))
        text = ([str(index) for index in indices], str(predicate), level)
        assert set(image) <= box, text
        assert set(image) == box, text
        if level == "bijective":
            assert max(image.values()) == 1, text
            check_inverse(result, indices, domains, points, text)


def check_inverse(result, indices, domains, points, text) -> None:
    outputs = [Var(f"o{position}", "int32") for position in range(len(indices))]
    inverse = inverse_affine_iter_map(result.indices, outputs)
    for env in points[:50]:
        values = dict(zip(outputs, [evaluate(index, env) for index in indices]))
        for var, domain in domains.items():
            if domain.extent.value > 1:
                assert evaluate(inverse[var], values) == env[var], text


@pytest.mark.parametrize("seed", range(8))
def test_simplified_indices_keep_their_values(seed: int) -> None:
    rng = random.Random(seed + 500)
    for _ in range(20):
        indices, domains, predicate = random_map(rng)
        points = points_of(domains, predicate)
        simple = iter_map_simplify(indices, domains, predicate)
        for env in points[:60]:
            for index, other in zip(indices, simple):
                assert evaluate(other, env) == evaluate(index, env), (
                    str(index),
                    str(other),
                    str(predicate),
                )
