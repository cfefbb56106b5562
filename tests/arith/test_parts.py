"""Each part of the engine alone, with nothing but the parts that it is built from."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from tilesmith.arith import Analyzer, IterMapLevel
from tilesmith.arith.assumptions import Assumptions
from tilesmith.arith.bounds import Bounds
from tilesmith.arith.cases import Cases
from tilesmith.arith.comparisons import FALSE, TRUE, Comparisons
from tilesmith.arith.connectives import Connectives
from tilesmith.arith.division import Divider
from tilesmith.arith.engine import Engine
from tilesmith.arith.extremes import Extremes
from tilesmith.arith.facts import Facts
from tilesmith.arith.form_table import FormTable
from tilesmith.arith.form_writer import FormWriter
from tilesmith.arith.forms import Sum, of_atom, plus, shifted, times
from tilesmith.arith.iter_parts import IterParts
from tilesmith.arith.iter_sizes import NotAffine, PaddingChanged
from tilesmith.arith.like_terms import LikeTerms
from tilesmith.arith.normalizer import Normalizer
from tilesmith.arith.numbering import Numbering
from tilesmith.arith.prover import Prover
from tilesmith.arith.residues import Residues
from tilesmith.ir import (
    EQ,
    LE,
    LT,
    And,
    Max,
    Min,
    Or,
    PrimExpr,
    Ramp,
    Range,
    Select,
    Var,
    const,
)  # fmt: skip
from tilesmith.ir.call_intrinsics import call_extern


class SumParts:
    """The parts that work on sums; nothing here looks into expressions."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.numbering = Numbering()
        self.table = FormTable(self.numbering)
        self.writer = FormWriter(self.table)
        self.bounds = Bounds(self.facts)
        self.residues = Residues(self.facts, self.bounds)
        self.terms = LikeTerms(self.facts, self.table, self.writer, self.bounds, self.residues)
        self.prover = Prover(self.facts, self.table, self.bounds, self.terms)
        self.divider = Divider(
            self.facts, self.table, self.writer, self.bounds, self.residues, self.terms, self.prover
        )
        self.extremes = Extremes(
            self.facts, self.table, self.writer, self.bounds, self.terms, self.prover, self.divider
        )
        self.terms.digits, self.terms.minima = self.divider, self.extremes
        self.divider.minima = self.extremes

    def variable(self, name: str, low: float | None = None, high: float | None = None) -> Sum:
        """The sum that is one new variable, with bounds if they are given."""
        var = Var(name, "int32")
        if low is not None and high is not None:
            self.facts.var_bounds[var] = (low, high)
        return of_atom(self.table.variable(var))

    def text(self, form: Sum) -> str:
        return str(self.writer.to_expr(form))


class Unchanged:
    """Stands for the rewriter: leaves expressions as they are."""

    def rewrite(self, expr: PrimExpr) -> PrimExpr:
        return expr

    rewrite_leaf = rewrite_children = fold = if_then_else = rewrite

    def rewrite_under(self, condition: PrimExpr, expr: PrimExpr) -> PrimExpr:
        return expr


@pytest.fixture
def parts() -> SumParts:
    return SumParts()


@pytest.fixture
def normalizer(parts: SumParts) -> Normalizer:
    made = Normalizer(
        parts.facts, parts.numbering, parts.table, parts.writer, parts.bounds, parts.terms,
        parts.prover, parts.divider, parts.extremes,
    )  # fmt: skip
    made.rewriter = Unchanged()
    parts.bounds.normalizer = parts.residues.normalizer = parts.terms.normalizer = made
    return made


@pytest.fixture
def comparisons(parts: SumParts, normalizer: Normalizer) -> Comparisons:
    assumptions = Assumptions(
        parts.facts, parts.numbering, parts.table, parts.bounds, parts.terms, normalizer
    )
    cases = Cases(parts.facts, parts.bounds, parts.terms, normalizer, assumptions)
    made = Comparisons(
        parts.facts, parts.numbering, parts.table, parts.writer, parts.bounds, parts.residues,
        parts.terms, parts.prover, parts.divider, normalizer, cases,
    )  # fmt: skip
    made.rewriter = Unchanged()
    return made


x, y, n = Var("x", "int32"), Var("y", "int32"), Var("n", "int32")


# Facts


def test_a_layer_takes_facts_and_caches_with_it():
    facts = Facts()
    facts.learn_var_bounds(x, (0, 7), override=False)
    facts.caches.forms[1] = marker = (x, Sum(x.dtype, {}, 0))
    saved = facts.open_layer()
    assert not facts.caches.forms
    facts.learn_var_bounds(x, (4, 9), override=False)
    assert facts.var_bounds[x] == (4, 7)
    facts.close_layer(saved)
    assert facts.var_bounds[x] == (0, 7)
    assert facts.caches.forms[1] is marker


def test_new_facts_empty_the_caches():
    facts = Facts()
    facts.caches.rewritten[1] = (x, x)
    facts.learn_var_residue(x, (4, 1), override=False)
    assert not facts.caches.rewritten
    assert facts.has_residues()


def test_facts_about_sums(parts):
    difference = plus(parts.variable("a"), parts.variable("b"), -1)
    parts.facts.exclude_zero(difference)
    assert parts.facts.is_hole(times(difference, -2))
    assert not parts.facts.is_hole(shifted(difference, 1))
    parts.facts.narrow(difference, (2, 5))
    assert parts.bounds.of(times(difference, -1)) == (-5, -2)


@pytest.mark.parametrize(
    ("condition", "fact"),
    [(x < n, (1, 0)), (And(x >= 2, x < 9), (2, 8)), (x // 4 < 3, (None, 11))],
)
def test_assumptions_become_facts(parts, normalizer, condition, fact):
    assumptions = Assumptions(
        parts.facts, parts.numbering, parts.table, parts.bounds, parts.terms, normalizer
    )
    assumptions.assume(condition)
    if condition.__class__ is LT and condition.b is n:
        room = plus(normalizer.normal(n), normalizer.normal(x), -1)
        assert parts.prover.prove(shifted(room, -1))
        assert not parts.prover.prove(shifted(room, -2))
    else:
        low, high = parts.bounds.of(normalizer.normal(x))
        assert high == fact[1] and (fact[0] is None or low == fact[0])


# Normal forms


def test_equal_structures_have_one_number():
    numbering = Numbering()
    assert numbering.number(x + 1) == numbering.number(x + 1)
    assert numbering.number(x + 1) != numbering.number(y + 1)
    effect = call_extern("int32", "next")
    assert numbering.number(effect) != numbering.number(effect)
    assert numbering.impure == 2


def test_atoms_are_interned(parts):
    a, b = parts.variable("a"), parts.variable("b")
    first, second = plus(a, b, 2), plus(times(b, 2), a)
    assert parts.table.number(first) == parts.table.number(second)
    assert parts.table.split(first, 4, 0) is parts.table.split(second, 4, 0)
    assert parts.table.product(
        [*a.terms, *b.terms], a.dtype
    ) is parts.table.product([*b.terms, *a.terms], a.dtype)  # fmt: skip


def test_sums_are_written_with_large_coefficients_first(parts):
    i, j = parts.variable("i"), parts.variable("j")
    assert parts.text(shifted(plus(j, i, 16), 3)) == "i * 16 + j + 3"
    assert parts.text(times(i, -1)) == "0 - i"


def test_like_terms_ask_for_digits(parts):
    class Digits:
        asked: list[tuple[int, int]] = []

        def digit(self, index: Sum, lower: int, upper: int) -> Sum:
            self.asked.append((lower, upper))
            return index

    parts.terms.digits = Digits()
    i = parts.variable("i")
    high, low = parts.table.split(i, 4, 0), parts.table.split(i, 1, 4)
    joined = parts.terms.combine(plus(times(of_atom(high), 4), of_atom(low)))
    assert joined.terms == i.terms and joined.const == 0
    assert Digits.asked == [(1, 0)]


def test_division(parts):
    i, j = parts.variable("i"), parts.variable("j", 0, 15)
    quotient, rest = parts.divider.divide(plus(times(i, 16), j), 16)
    assert (quotient.terms, rest.terms) == (i.terms, j.terms)
    size = parts.variable("n")
    product = parts.terms.multiply(i, size)
    assert parts.divider.symbolic_divide(product, size)[0].terms == i.terms


@pytest.mark.parametrize(("kind", "expected"), [(Min, "a"), (Max, "a + 4")])
def test_extremes(parts, kind, expected):
    a = parts.variable("a")
    assert parts.text(parts.extremes.extreme(kind, [shifted(a, 4), a])) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((x * 16 + 3) // 16, "x"),
        (x * 2 - x, "x"),
        ((x + y) * 4 % 8, "(x + y) % 2 * 4"),
        (Select(x < y, x, x) * 2, "T.Select(x < y, x, x) * 2"),
    ],
)
def test_normal_forms(parts, normalizer, expr, expected):
    assert parts.text(normalizer.normal(expr)) == expected


# Questions about sums


def test_bounds_of_sums(parts):
    i, j = parts.variable("i", 0, 7), parts.variable("j", 0, 15)
    assert parts.bounds.of(plus(times(i, -2), j)) == (-14, 15)
    assert parts.bounds.of(of_atom(parts.table.split(j, 4, 0))) == (0, 3)
    assert parts.bounds.flows(plus(i, j))


def test_bounds_of_opaque_expressions_ask_for_normal_forms(parts, normalizer):
    choice = normalizer.normal(Select(x < y, const(3), const(5)))
    assert parts.bounds.of(choice) == (3, 5)
    assert parts.residues.of(choice) == (2, 1)


def test_residues_of_sums(parts):
    i = parts.variable("i")
    (atom,) = i.terms
    parts.facts.modular_facts[atom] = (4, 1)
    assert parts.residues.of(shifted(times(i, 2), 3)) == (8, 5)


def test_proofs_use_inequalities(parts):
    i, size = parts.variable("i"), parts.variable("n")
    room = plus(size, i, -1)
    assert not parts.prover.prove(room)
    parts.facts.add_inequality(shifted(room, -1))
    assert parts.prover.prove(room)
    rounded = times(of_atom(parts.table.split(shifted(size, 15), 16, 0)), 16)
    assert parts.prover.prove(plus(rounded, i, -1))


# Rewriting


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (LT(x * 16 + 3, x * 16 + 4), TRUE),
        (EQ(x * 2, y * 2 + 1), FALSE),
        (LT(x * 4, y * 4), LT(x, y)),
    ],
)
def test_comparisons(comparisons, condition, expected):
    assert str(comparisons.comparison(condition)) == str(expected)


@pytest.mark.parametrize(
    ("kind", "a", "b", "expected"),
    [
        (And, x < 5, x < 8, "x < 5"),
        (Or, x < 5, x < 8, "x < 8"),
        (And, LE(x, 3), LE(3, x), "x == 3"),
        (And, x < 5, LE(5, x), "T.bool(False)"),
    ],
)
def test_connectives(parts, normalizer, comparisons, kind, a, b, expected):
    connectives = Connectives(parts.facts, parts.numbering, parts.terms, normalizer, comparisons)
    assert str(connectives.joined(kind, kind(a, b), a, b)) == expected


def test_the_rewriter_and_vectors():
    engine = Engine()
    assert str(engine.rewriter.rewrite(Var("f", "float32") * const(1.0, "float32"))) == "f"
    doubled = Ramp(x, 1, 4) + Ramp(x, 1, 4)
    assert str(engine.vectors.rewrite(doubled)) == "T.Ramp(x * 2, 2, 4)"


@pytest.mark.parametrize("make", [Engine, lambda: Analyzer().engine])
def test_an_engine_is_freed_when_it_is_dropped(make: Any):
    engine = make()
    engine.rewriter.rewrite(Select(x < 3, x, y) // 2)
    alive = weakref.ref(engine.rewriter)
    del engine
    assert alive() is None


# Maps of iterators


@pytest.fixture
def maps() -> IterParts:
    made = IterParts(allow_padding=True, paddings={})
    for var, extent in ((x, 8), (y, 16)):
        made.iterators.add_iterator(var, Range(0, extent), simplify_trivial=True)
    return made


def test_sizes_are_computed(maps):
    assert maps.sizes.times(const(6), const(7)) is maps.sizes.plus(const(40), const(2))
    assert maps.sizes.divides(n, n * 4) and not maps.sizes.divides(n * 4, n)
    assert maps.sizes.number(n + n) == maps.sizes.number(n * 2)


def test_sums_join_equal_digits(maps):
    digits = maps.iterators.values[x]
    assert not maps.sums.add(digits, digits, -1).args
    (twice,) = maps.sums.add(digits, digits, 1).args
    assert maps.sizes.equal(twice.scale, const(2))


def test_sums_fuse_to_one_iterator(maps):
    (fused,) = maps.fuser.fuse(maps.rewriter.visit(x * 16 + y)).args
    assert maps.sizes.equal(fused.extent, const(128))
    with pytest.raises(NotAffine):
        maps.fuser.fuse(maps.rewriter.visit(x * 17 + y))


def test_digits_are_checked(maps):
    whole = [maps.fuser.fuse(maps.rewriter.visit(index)) for index in (x, y // 4, y % 4)]
    maps.checker.check(whole, IterMapLevel.Bijective)
    with pytest.raises(NotAffine):
        maps.checker.check(whole[:2], IterMapLevel.Bijective)


def test_predicates_cap_extents(maps):
    maps.predicates.add(x * 16 + y < 100)
    (fused,) = maps.fuser.fuse(maps.rewriter.visit(x * 16 + y)).args
    assert maps.sizes.equal(fused.extent, const(100))


def test_divisions_pad(maps):
    with pytest.raises(PaddingChanged):
        maps.rewriter.visit(y // 5)
    assert maps.rewriter.visit(y // 5).args
    ((_, left, end),) = maps.divider.padded
    assert (str(left), str(end)) == ("0", "16")
