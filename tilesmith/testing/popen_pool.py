"""Defines functions that tests of worker processes run in them."""

from __future__ import annotations

import time
from typing import Any

from tilesmith.runtime import get_global_func, register_func
from tilesmith.testing.packed_functions import echo, identity_cpp

__all__ = [
    "TEST_GLOBAL_STATE_1", "TEST_GLOBAL_STATE_2", "TEST_GLOBAL_STATE_3", "after_initializer",
    "call_cpp_ffi", "call_cpp_py_ffi", "call_py_ffi", "fast_summation", "identity_py",
    "initializer", "register_ffi", "slow_summation", "timeout_job",
]  # fmt: skip

TEST_GLOBAL_STATE_1 = 0
TEST_GLOBAL_STATE_2 = 0
TEST_GLOBAL_STATE_3 = 0


def initializer(
    test_global_state_1: int, test_global_state_2: int, test_global_state_3: int
) -> None:
    """Set the global state of a worker."""
    global TEST_GLOBAL_STATE_1, TEST_GLOBAL_STATE_2, TEST_GLOBAL_STATE_3
    TEST_GLOBAL_STATE_1 = test_global_state_1
    TEST_GLOBAL_STATE_2 = test_global_state_2
    TEST_GLOBAL_STATE_3 = test_global_state_3


def after_initializer() -> tuple[int, int, int]:
    """Return the global state."""
    return TEST_GLOBAL_STATE_1, TEST_GLOBAL_STATE_2, TEST_GLOBAL_STATE_3


@register_func("testing.identity_py", override=True)
def identity_py(arg: Any) -> Any:
    """Return the argument."""
    return arg


def register_ffi() -> None:
    """Register the global function that `call_py_ffi` calls."""
    register_func("testing.nested_identity_py", identity_py, override=True)


def call_py_ffi(arg: Any) -> Any:
    """Call the function of `register_ffi` by its global name."""
    return get_global_func("testing.nested_identity_py")(arg)


def call_cpp_ffi(arg: Any) -> Any:
    """Call a packed function of the library."""
    return echo(arg)


def call_cpp_py_ffi(arg: Any) -> Any:
    """Call a packed function of the library that calls a global Python function."""
    return identity_cpp(arg)


def fast_summation(n: int) -> int:
    """Return the sum of the first n numbers, by the formula."""
    return n * (n + 1) // 2


def slow_summation(n: int) -> int:
    """Return the sum of the first n numbers, one by one."""
    total = 0
    for number in range(n + 1):
        total += number
    return total


def timeout_job(n: float) -> None:
    """Take one and a half times as long as a limit of n seconds allows."""
    time.sleep(n * 1.5)
