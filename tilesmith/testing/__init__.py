"""Helps tests: compares arrays and programs, makes parameters, says what this machine can run."""

from typing import Any

from tilesmith.support.lazy import resolve

_WHERE = {
    "tilesmith.testing.compare": ("CompareBeforeAfter",),
    "tilesmith.testing.parametrization": (
        "exclude_targets", "fixture", "known_failing_targets", "parameter", "parameters",
        "parametrize_targets", "skip_parameterizations", "xfail_parameterizations",
    ),
    "tilesmith.testing.requirements": (
        "Feature", "IS_IN_CI", "SKIP_SLOW_TESTS", "requires_cuda_compute_version",
        "requires_nvcc_version", "requires_package", "skip_if_32bit",
        "skip_if_no_reference_system", "skip_if_wheel_test", "slow", "uses_gpu",
        "uses_multi_gpu",
    ),
    "tilesmith.testing.schedules": (
        "assert_structural_equal_ignore_global_symbol", "verify_trace_roundtrip",
    ),
    "tilesmith.testing.downloads": ("fetch_model_from_url", "install_request_hook"),
    "tilesmith.testing.packed_functions": (
        "ErrorTest", "FrontendTestModule", "device_test", "echo", "identity_cpp", "nop",
        "object_use_count", "run_check_signal", "test_check_eq_callback",
        "test_raise_error_callback", "test_wrap_callback",
    ),
    "tilesmith.testing.popen_pool": (
        "after_initializer", "call_cpp_ffi", "call_cpp_py_ffi", "call_py_ffi", "fast_summation",
        "initializer", "register_ffi", "slow_summation", "timeout_job",
    ),
    "tilesmith.testing.runner": ("local_run", "rpc_run"),
    "tilesmith.testing.span_filling": ("disable_span_filling", "enable_span_filling"),
    "tilesmith.testing.assertions": (
        "DEFAULT_TEST_TARGETS", "assert_allclose", "assert_prim_expr_equal",
        "check_bool_expr_is_true", "check_int_constraints_trans_consistency",
        "check_numerical_grads", "device_enabled", "enabled_targets", "identity_after",
        "is_ampere_or_newer", "main", "strtobool", "terminate_self",
    ),
}  # fmt: skip
_TABLE = {
    "aot": "tilesmith.testing.aot",
    "auto_scheduler": "tilesmith.testing.auto_scheduler",
    **{name: f"{module}:{name}" for module, names in _WHERE.items() for name in names},
}

__all__ = sorted(_TABLE)


def __getattr__(name: str) -> Any:
    """Look up a name at its first use: only some of them need pytest."""
    if name.startswith(("requires_", "skip_if_")) and name not in _TABLE:
        value = resolve(f"tilesmith.testing.requirements:{name}")
    elif name in _TABLE:
        value = resolve(_TABLE[name])
    else:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
