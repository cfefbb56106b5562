"""Helpers for tests: comparing arrays, asking what this machine can run."""

from tilesmith.testing.utils import (
    assert_allclose,
    assert_prim_expr_equal,
    check_numerical_grads,
    device_enabled,
    enabled_targets,
    main,
    requires_llvm,
    requires_package,
)

__all__ = [
    "assert_allclose", "assert_prim_expr_equal", "check_numerical_grads", "device_enabled",
    "enabled_targets", "main", "requires_llvm", "requires_package",
]  # fmt: skip
