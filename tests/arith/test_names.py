"""The public names of ``arith``: there, with the arguments that users give."""

from __future__ import annotations

import inspect

import pytest

from tilesmith import arith
from tilesmith.arith import (
    ConstIntBound,
    Extension,
    IntSet,
    IterMapLevel,
    ModularSet,
    ProofStrength,
)
from tilesmith.ir import PrimExpr, Var, const

SIGNATURES = {
    "deduce_bound": "var, cond, hint_map, relax_map",
    "estimate_region_lower_bound": "region, var_dom, predicate",
    "estimate_region_strict_bound": "region, var_dom, predicate",
    "estimate_region_upper_bound": "region, var_dom, predicate",
    "pos_inf": "",
    "neg_inf": "",
    "union_lower_bound": "sets",
    "solve_linear_equations": "equations, variables, ranges",
    "solve_linear_inequalities": "equations, variables, ranges, deskew_range",
    "detect_iter_map": "indices, input_iters, predicate, check_level, simplify_trivial_iterators",
    "normalize_to_iter_sum": "index, input_iters",
    "iter_map_simplify": "indices, input_iters, predicate, check_level, simplify_trivial_iterators",
    "normalize_iter_map_to_expr": "expr",
    "subspace_divide":
        "bindings, input_iters, sub_iters, predicate, check_level, simplify_trivial_iterators",
    "inverse_affine_iter_map": "iter_map, outputs",
    "detect_linear_equation": "expr, var_list",
    "detect_clip_bound": "expr, var_list",
    "detect_common_subexpr": "expr, threshold",
    "domain_touched": "stmt, buffer, consider_loads, consider_stores",
    "ModularSet": "coeff, base",
    "ConstIntBound": "min_value, max_value",
    "ConstraintScope": "fenter",
    "IntervalSet": "min_value, max_value",
    "IntGroupBounds": "coef, lower, equal, upper",
    "IntConstraints": "variables, ranges, relations",
    "IntConstraintsTransform": "src, dst, src_to_dst, dst_to_src",
    "IterSplitExpr": "source, lower_factor, extent, scale",
    "IterSumExpr": "args, base",
    "Analyzer": "",
    "Analyzer.const_int_bound": "expr",
    "Analyzer.modular_set": "expr",
    "Analyzer.simplify": "expr, steps",
    "Analyzer.rewrite_simplify": "expr",
    "Analyzer.canonical_simplify": "expr",
    "Analyzer.reset_rewrite_simplify_stats": "",
    "Analyzer.int_set": "expr, dom_map",
    "Analyzer.can_prove": "expr, strength",
    "Analyzer.bind": "var, expr",
    "Analyzer.constraint_scope": "constraint",
    "Analyzer.update": "var, info, override",
    "Analyzer.can_prove_equal": "lhs, rhs",
    "IntSet.vector": "vec",
    "IntSet.single_point": "point",
    "IntSet.interval": "min_value, max_value",
    "IntGroupBounds.from_range": "rng",
    "IntGroupBounds.find_best_range": "",
    "IterMapLevel.from_str": "name",
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    owner, _, method = name.rpartition(".")
    target = getattr(getattr(arith, owner), method) if owner else getattr(arith, name)
    wanted = [part for part in SIGNATURES[name].split(", ") if part]
    found = [part for part in inspect.signature(target).parameters if part != "self"]
    assert found[: len(wanted)] == wanted
    for extra in found[len(wanted) :]:
        parameter = inspect.signature(target).parameters[extra]
        assert parameter.default is not inspect.Parameter.empty or parameter.kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        )


def test_kinds() -> None:
    assert [level.name for level in IterMapLevel] == ["Bijective", "Surjective", "NoCheck"]
    assert IterMapLevel.from_str("bijective") is IterMapLevel.Bijective
    assert (ProofStrength.DEFAULT, ProofStrength.SYMBOLIC_BOUND) == (0, 1)
    assert Extension.NoExtensions.value == 0 and Extension.ComparisonOfProductAndSum.value == 8
    assert issubclass(arith.PresburgerSet, IntSet) and issubclass(arith.IntervalSet, IntSet)
    assert issubclass(arith.IterSumExpr, arith.IterMapExpr)
    assert issubclass(arith.IterMapExpr, PrimExpr)
    mark = arith.IterMark(source=Var("i", "int32"), extent=const(8, "int32"))
    assert arith.IterSplitExpr(mark).extent is mark.extent
    assert (
        ConstIntBound.POS_INF == (1 << 63) - 1 and ConstIntBound.NEG_INF == -ConstIntBound.POS_INF
    )
    assert ModularSet(4, 1) == ModularSet(4, 1)
    analyzer = arith.Analyzer()
    assert analyzer.rewrite_simplify_stats.nodes_visited == 0
    assert analyzer.enabled_extensions == Extension.NoExtensions
    for name in ("is_nothing", "is_everything"):
        assert hasattr(arith.IntervalSet, name) and hasattr(arith.PresburgerSet, name)
