"""What an analyzer, and the pass ``Simplify``, do beyond the usual when asked to."""

from __future__ import annotations

import pytest

from tilesmith import tir
from tilesmith.arith import Analyzer, ConstraintScope, Extension
from tilesmith.ir import EQ, NE, And, IRModule, Not, Or, PrimExpr, Range, Var, const
from tilesmith.ir.structural import assert_structural_equal, structural_equal
from tilesmith.ir.transform import PassContext
from tilesmith.script import tir as T

x, y, n = (Var(name, "int32") for name in "xyn")
p, q, r, s = (Var(name, "bool") for name in "pqrs")
BRANCHES = Extension.ApplyConstraintsToBooleanBranches
AND_OF_ORS = Extension.ConvertBooleanToAndOfOrs


@pytest.mark.parametrize(
    "flag, before, after",
    [
        (BRANCHES, And(EQ(x // 4, 2), x < 8), const(False, "bool")),
        (BRANCHES, And(EQ(x, 5), y < x), And(EQ(x, 5), y < 5)),
        (BRANCHES, Or(NE(x, 5), y < x), Or(NE(x, 5), y < 5)),
        (BRANCHES, And(EQ(x, 2), EQ(n // x, 3)), And(EQ(x, 2), EQ(n // 2, 3))),
        (AND_OF_ORS, Or(And(p, q), r), And(Or(p, r), Or(q, r))),
        (
            AND_OF_ORS,
            Or(And(p, q), And(r, s)),
            And(And(And(Or(p, r), Or(p, s)), Or(q, r)), Or(q, s)),
        ),
        (AND_OF_ORS, Or(And(p, q), Not(p)), Or(q, Not(p))),
    ],
)
def test_flags(flag: Extension, before: PrimExpr, after: PrimExpr) -> None:
    analyzer = Analyzer()
    assert not structural_equal(analyzer.simplify(before), after) or flag is AND_OF_ORS
    analyzer.enabled_extensions = flag
    assert analyzer.enabled_extensions == flag
    assert_structural_equal(analyzer.simplify(before), after)
    analyzer.enabled_extensions = Extension.NoExtensions
    assert analyzer.enabled_extensions == Extension.NoExtensions


def test_a_division_is_not_evaluated_before_its_guard() -> None:
    analyzer = Analyzer()
    analyzer.enabled_extensions = BRANCHES
    expr = And(EQ(n // x, 3), EQ(x, 0))
    assert analyzer.simplify(expr) is expr


def test_too_many_clauses_stay() -> None:
    analyzer = Analyzer()
    analyzer.enabled_extensions = AND_OF_ORS
    parts = [And(Var(f"a{k}", "bool"), Var(f"b{k}", "bool")) for k in range(12)]
    expr = parts[0]
    for part in parts[1:]:
        expr = Or(expr, part)
    assert analyzer.simplify(expr) is expr


def test_statistics() -> None:
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, 8))
    expr = x * 4 // 4
    with analyzer.constraint_scope(x < n):
        assert analyzer.simplify(expr) is x
        assert analyzer.simplify(expr) is x
        assert analyzer.simplify(expr, steps=0) is expr
        assert analyzer.simplify(x) is x
    found = analyzer.rewrite_simplify_stats
    assert (found.rewrites_attempted, found.rewrites_performed) == (3, 2)
    assert found.constraints_entered == 1 and found.nodes_visited > 0
    analyzer.reset_rewrite_simplify_stats()
    assert analyzer.rewrite_simplify_stats[:4] == (0, 0, 0, 0)


def test_a_scope_is_what_its_function_says() -> None:
    log: list[str] = []

    def enter():
        log.append("in")
        return lambda: log.append("out")

    with ConstraintScope(enter):
        assert log == ["in"]
    assert log == ["in", "out"]


@T.prim_func(private=True)
def branches(A: T.Buffer((64,), "int32"), c: T.bool, d: T.bool, e: T.bool):
    for i in range(64):
        if i // 4 == 2 and i < 8:
            A[i] = 1
        if (c and d) or e:
            A[i] = 2


@T.prim_func(private=True)
def converted(A: T.Buffer((64,), "int32"), c: T.bool, d: T.bool, e: T.bool):
    for i in range(64):
        if (c or e) and (d or e):
            A[i] = 2


def test_options_of_the_pass() -> None:
    config = {"apply_constraints_to_boolean_branches": True, "convert_boolean_to_and_of_ors": True}
    with PassContext(config={"tir.Simplify": config}):
        func = tir.transform.Simplify()(IRModule({"main": branches}))["main"]
    assert_structural_equal(func.without_attr("global_symbol"), converted)
