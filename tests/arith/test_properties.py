"""Properties that hold for every expression: values survive, bounds hold, proofs are true.

Signed 32 and 64 bit values that overflow have no meaning, so that such environments are left out;
everything else is compared bit by bit.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arith.drawn import Drawn
from tests.arith.meaning import meaning, same
from tilesmith.arith import Analyzer, eval_set
from tilesmith.ir import Not, PrimExpr, Range, Var, const
from tilesmith.ir.operators import all_of

randomness = st.randoms(use_true_random=False)
KINDS = ["scalar", "vector", "mask"]
SIMPLIFIERS = ["simplify", "rewrite_simplify", "canonical_simplify"]


def drawn(rng: random.Random, kind: str) -> tuple[Drawn, PrimExpr]:
    made = Drawn(rng)
    if kind == "scalar":
        return made, made.any(rng.choice((2, 3, 3, 4)))
    return made, made.vector(3) if kind == "vector" else made.mask(3)


def check_value(before: PrimExpr, after: PrimExpr, env: dict[Any, Any]) -> Any:
    """The value of the original, None where it has none."""
    value = meaning(before, env)
    if value is not None:
        found = meaning(after, env, strict=False)
        assert same(value, found), (str(before), str(after), value, found, shown(env))
    return value


def check_facts(analyzer: Analyzer, expr: PrimExpr, values: list[Any]) -> None:
    """Bounds and residues hold for all values, in all lanes."""
    if expr.dtype.is_float:
        return
    if expr.dtype.lanes != 1:
        values = [lane for value in values for lane in value]
    bound = analyzer.const_int_bound(expr)
    residue = analyzer.modular_set(expr) if expr.dtype.is_integer else None
    for value in values:
        low_enough = bound.min_value <= value or bound.min_value == bound.NEG_INF
        assert low_enough and (value <= bound.max_value or bound.max_value == bound.POS_INF), (
            str(expr),
            str(bound),
            value,
        )
        if residue is not None:
            off = value - residue.base
            assert (off % residue.coeff if residue.coeff else off) == 0, (str(expr), residue, value)


def shown(env: dict[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in env.items()}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=200)
@given(rng=randomness)
def test_values_survive(kind: str, rng: random.Random) -> None:
    made, expr = drawn(rng, kind)
    analyzer, known = made.analyzer()
    simple = getattr(analyzer, rng.choice(SIMPLIFIERS))(expr)
    assert simple.dtype == expr.dtype
    values = [check_value(expr, simple, made.environment(known)) for _ in range(25)]
    check_facts(analyzer, expr, [value for value in values if value is not None])


@settings(max_examples=200)
@given(rng=randomness)
def test_values_survive_under_a_condition(rng: random.Random) -> None:
    made, expr = drawn(rng, "scalar")
    condition = made.boolean(2)
    analyzer, known = made.analyzer()
    environments = [made.environment(known) for _ in range(40)]
    inside = [env for env in environments if meaning(condition, env)]
    with analyzer.constraint_scope(condition):
        simple = analyzer.simplify(expr)
        values = [check_value(expr, simple, env) for env in inside]
        check_facts(analyzer, expr, [value for value in values if value is not None])
    simple = analyzer.simplify(expr)  # nothing of it is left
    for env in environments:
        check_value(expr, simple, env)


@settings(max_examples=200)
@given(rng=randomness)
def test_what_is_proved_is_true(rng: random.Random) -> None:
    made = Drawn(rng)
    claim = made.boolean(3)
    a, b = made.integer(made.main, 3), made.integer(made.main, 2)
    analyzer, known = made.analyzer()
    proved = analyzer.can_prove(claim)
    refuted = analyzer.can_prove(Not(claim))
    equal = analyzer.can_prove_equal(a, b)
    limit = rng.randint(-5, 40)
    above = analyzer.can_prove_greater_equal(a, limit)
    below = analyzer.can_prove_less(a, limit)
    for _ in range(25):
        env = made.environment(known)
        truth = meaning(claim, env)
        if truth is not None:
            assert not (proved and not truth) and not (refuted and truth), (str(claim), shown(env))
        value, other = meaning(a, env), meaning(b, env)
        if value is not None:
            assert not (above and value < limit) and not (below and value >= limit)
            assert not (equal and other is not None and other != value), (str(a), str(b))


@settings(max_examples=200)
@given(rng=randomness)
def test_what_digits_of_unknown_sizes_prove_is_true(rng: random.Random) -> None:
    """Fused loops: ``x // m < n`` and ``x % m < m`` say that ``x < n * m``; sizes of any sign."""
    x, n, m, k = [Var(name, "int32") for name in "xnmk"]
    parts = [
        x // m < n, x // m >= k, x % m < m, x % m >= 0, x % m < k, m > n, x >= 0, x // m <= n,
        x % m - m < -2, m - x % m > k, x % n < n,
    ]  # fmt: skip
    known = rng.sample(parts, rng.randint(1, 4))
    claims = [x < n * m, x < n * m + m, x >= k * m, m > 0, m > 2, n > 0, m >= n, x // m < n + 1]
    analyzer = Analyzer()
    with analyzer.constraint_scope(all_of(*known)):
        proved = [claim for claim in claims if analyzer.can_prove(claim)]
    for _ in range(200):
        env = {var: rng.randint(-6, 12) for var in (x, n, m, k)}
        if all(meaning(one, env) for one in known):
            for claim in proved:
                assert meaning(claim, env) is not False, (str(known), str(claim), shown(env))


@settings(max_examples=200)
@given(rng=randomness)
def test_sets_hold_all_values(rng: random.Random) -> None:
    """Whatever the variables outside of the domains are: the ends may be written in them."""
    made = Drawn(rng)
    expr = made.integer(made.main, 3)
    domains, values = {}, {}
    for var in made.variables.get(str(made.main), []):
        low, extent = rng.randint(0, 5), rng.randint(1, 12)
        values[var] = list(range(low, low + extent))
        if rng.random() < 0.7:
            domains[var] = Range.from_min_extent(const(low, made.main), const(extent, made.main))
    found = eval_set(expr, domains)
    for _ in range(25):
        env = made.environment(values)
        value = meaning(expr, env)
        if value is None:
            continue
        for end, sign in ((found.min_value, 1), (found.max_value, -1)):
            if not end.dtype.is_handle:
                limit = meaning(end, env)
                assert limit is None or (value - limit) * sign >= 0, (str(expr), str(found), value)
