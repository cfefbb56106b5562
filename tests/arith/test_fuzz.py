"""Random expressions keep their values when simplified; bounds and residues hold for all values."""

from __future__ import annotations

import random

import pytest

from tests.arith.expressions import RandomExpressions, environments, value_or_none
from tilesmith.arith import Analyzer, ConstIntBound
from tilesmith.ir import And, Range, Var

DTYPES = ("int32", "int32", "int64", "int8", "uint8")


def _case(seed: int) -> tuple:
    rng = random.Random(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    variables = [Var(name, dtype) for name in ("x", "y", "z")]
    lowest = 0 if dtype.startswith("u") or rng.random() < 0.6 else -9
    domains = {v: Range(rng.randint(lowest, 3), rng.randint(4, 20)) for v in variables}
    domains = {
        v: Range.from_min_extent(d.min.value, max(d.extent.value, 1)) for v, d in domains.items()
    }
    domains = {
        v: Range(r.min.astype(dtype), (r.min + r.extent).astype(dtype)) for v, r in domains.items()
    }
    return rng, dtype, variables, domains


def _bound(domains: dict) -> Analyzer:
    analyzer = Analyzer()
    for var, domain in domains.items():
        analyzer.bind(var, domain)
        if var.dtype not in ("int32", "int64"):
            low = domain.min.value
            analyzer.update(var, ConstIntBound(low, low + domain.extent.value - 1))
    return analyzer


@pytest.mark.parametrize("seed", range(40))
def test_values_survive(seed: int) -> None:
    rng, dtype, variables, domains = _case(seed)
    made = RandomExpressions(rng, variables, dtype)
    analyzer = _bound(domains)
    points = environments(domains, 60)
    for _ in range(25):
        expr = made.boolean(4) if rng.random() < 0.4 else made.integer(4)
        simple = analyzer.simplify(expr)
        assert simple.dtype == expr.dtype
        bound = analyzer.const_int_bound(expr)
        residue = analyzer.modular_set(expr)
        for env in points:
            before = value_or_none(expr, env)
            if before is None:
                continue
            after = value_or_none(simple, env)
            assert after == before, (show(expr), show(simple), {v.name: k for v, k in env.items()})
            assert bound.min_value <= before <= bound.max_value, (show(expr), bound)
            off = before - residue.base
            assert off % residue.coeff == 0 if residue.coeff else off == 0, (show(expr), residue)


@pytest.mark.parametrize("seed", range(20))
def test_values_survive_under_constraints(seed: int) -> None:
    rng, dtype, variables, domains = _case(seed + 1000)
    made = RandomExpressions(rng, variables, dtype)
    analyzer = _bound(domains)
    points = environments(domains, 150)
    for _ in range(12):
        condition = made.boolean(3)
        if rng.random() < 0.5:
            condition = And(condition, made.boolean(2))
        inside = [env for env in points if value_or_none(condition, env) == 1]
        with analyzer.constraint_scope(condition):
            for _ in range(6):
                expr = made.boolean(3) if rng.random() < 0.6 else made.integer(3)
                simple = analyzer.simplify(expr)
                bound = analyzer.const_int_bound(expr)
                for env in inside:
                    before = value_or_none(expr, env)
                    if before is None:
                        continue
                    assert value_or_none(simple, env) == before, (
                        show(condition),
                        show(expr),
                        show(simple),
                        env,
                    )
                    assert bound.min_value <= before <= bound.max_value


def show(expr) -> str:
    return str(expr)
