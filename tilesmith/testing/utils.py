"""The functions behind ``tilesmith.testing``."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith.arith import Analyzer
from tilesmith.ir import PrimExpr
from tilesmith.runtime.devices import Device, cpu, device
from tilesmith.support.errors import MissingDependencyError, TilesmithError
from tilesmith.target import Target

__all__ = [
    "assert_allclose", "assert_prim_expr_equal", "check_numerical_grads", "device_enabled",
    "enabled_targets", "main", "requires_llvm", "requires_package",
]  # fmt: skip


def _array(value: Any) -> numpy.ndarray:
    return value.numpy() if hasattr(value, "numpy") else numpy.asarray(value)


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Both arrays (numpy, NDArray) have one shape and are close. Raises AssertionError."""
    actual, desired = _array(actual), _array(desired)
    numpy.testing.assert_allclose(actual.shape, desired.shape)
    numpy.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)


def assert_prim_expr_equal(lhs: PrimExpr, rhs: PrimExpr) -> None:
    """Both expressions are provably equal. Raises AssertionError."""
    if not Analyzer().can_prove_equal(lhs, rhs):
        raise AssertionError(f"{lhs} and {rhs} cannot be proved equal")


def check_numerical_grads(
    function: Callable[..., float],
    input_values: Any,
    grad_values: Any,
    function_value: float | None = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
    acceptable_fail_percentage: float = 0.05,
) -> None:
    """Gradients agree with central differences of ``function``, element by element.

    ``input_values`` and ``grad_values`` are lists, or mappings by parameter name. Raises
    AssertionError when more than the acceptable share of elements differs.
    """
    names: Sequence[Any]
    if isinstance(input_values, dict):
        names = list(input_values)
    else:
        names = range(len(input_values))
        input_values, grad_values = dict(enumerate(input_values)), dict(enumerate(grad_values))
    values = {name: numpy.array(input_values[name], "float64") for name in names}

    def evaluate() -> float:
        if names and isinstance(names[0], str):
            return float(function(**values))
        return float(function(*[values[name] for name in names]))

    for name in names:
        wrong = 0
        given = numpy.asarray(grad_values[name])
        for index in numpy.ndindex(values[name].shape):
            middle = values[name][index]
            values[name][index] = middle + delta
            above = evaluate()
            values[name][index] = middle - delta
            below = evaluate()
            values[name][index] = middle
            expected = (above - below) / (2 * delta)
            wrong += abs(expected - given[index]) > atol + rtol * abs(expected)
        if wrong > acceptable_fail_percentage * given.size:
            raise AssertionError(f"{wrong} of {given.size} gradients of '{name}' differ")


def device_enabled(target: Any) -> bool:
    """Whether code for a target can be compiled and run on this machine."""
    try:
        kind = Target(target).kind.name
        return kind in ("llvm", "c") or bool(device(kind).exist)
    except TilesmithError:
        return False


def enabled_targets() -> list[tuple[str, Device]]:
    """Pairs of target and device that tests can use on this machine."""
    return [("llvm", cpu())]


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """A decorator for tests that need Python packages: skipped, with the reason, without them."""
    import pytest

    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def requires_llvm(function: Any = None) -> Any:
    """A decorator for tests that need the LLVM back end, which is always there."""
    return function if function is not None else (lambda decorated: decorated)


def main() -> None:
    """Run the tests of the calling file with pytest; for the last lines of a test file."""
    try:
        import pytest
    except ImportError:
        raise MissingDependencyError("pytest", "dev") from None
    caller = inspect.stack()[1].filename
    sys.exit(pytest.main([caller, *sys.argv[1:]]))
