"""The helpers for tests, tested."""

from __future__ import annotations

import numpy as np
import pytest

import tilesmith as ts
from tilesmith import testing, tir


def test_arrays_are_compared():
    testing.assert_allclose(ts.nd.array(np.ones(3, "float32")), np.ones(3, "float32"))
    with pytest.raises(AssertionError):
        testing.assert_allclose(np.ones(3), np.ones(4))
    with pytest.raises(AssertionError):
        testing.assert_allclose(np.ones(3), np.ones(3) * 1.1)


def test_expressions_are_compared():
    n = tir.Var("n", "int32")
    testing.assert_prim_expr_equal(n + n, n * 2)
    with pytest.raises(AssertionError, match="cannot be proved"):
        testing.assert_prim_expr_equal(n + 1, n * 2)


def test_gradients_are_checked():
    x = np.array([1.0, 2.0, 3.0])
    testing.check_numerical_grads(lambda v: (v**2).sum(), [x], [2 * x])
    with pytest.raises(AssertionError, match="gradients"):
        testing.check_numerical_grads(lambda v: (v**2).sum(), [x], [3 * x])


def test_what_runs_here():
    assert testing.device_enabled("llvm") and not testing.device_enabled("nonsense")
    ((target, device),) = testing.enabled_targets()
    assert target == "llvm" and device.exist


def test_conditions_are_tried_for_all_values():
    n = ts.tir.Var("n", "int32")
    ranges = {n: ts.ir.Range(2, 9)}
    testing.check_bool_expr_is_true(n % 2 * (n % 2) <= n - 2, ranges, n > 2)
    with pytest.raises(AssertionError, match="'n': 2"):
        testing.check_bool_expr_is_true(n > 2, ranges)


def test_transformed_constraints_are_tried_both_ways():
    x, y = (ts.tir.Var(name, "int32") for name in "xy")
    k = ts.tir.Var("k", "int32")
    constraints = ts.arith.IntConstraints
    good = ts.arith.IntConstraintsTransform(
        constraints([x], {x: ts.ir.Range(0, 10)}, [ts.tir.EQ(x % 2, 0)]),
        constraints([k], {k: ts.ir.Range(0, 5)}, []),
        {x: k * 2},
        {k: x // 2},
    )
    testing.check_int_constraints_trans_consistency(good)
    bad = ts.arith.IntConstraintsTransform(
        good.src, constraints([k], {k: ts.ir.Range(0, 6)}, []), {x: k * 2}, {k: x // 2}
    )
    with pytest.raises(AssertionError, match="does not hold"):
        testing.check_int_constraints_trans_consistency(bad)


def test_small_helpers():
    assert testing.strtobool("Yes") and not testing.strtobool("off")
    with pytest.raises(ValueError, match="maybe"):
        testing.strtobool("maybe")
    assert testing.identity_after(3, 0) == 3
    assert testing.is_ampere_or_newer() in (True, False)
