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
