"""Asserts what tests claim: arrays and expressions are equal, gradients right, conditions true."""

from __future__ import annotations

import inspect
import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from tilesmith.arith import Analyzer
from tilesmith.ir import EQ, And, PrimExpr, const, is_const
from tilesmith.ir.queries import mentions
from tilesmith.runtime.devices import Device, cpu, device
from tilesmith.support.errors import MissingDependencyError, TilesmithError
from tilesmith.target import Target
from tilesmith.target.back_end import find_back_end
from tilesmith.tir.functor import substitute

__all__ = [
    "DEFAULT_TEST_TARGETS", "assert_allclose", "assert_prim_expr_equal", "check_bool_expr_is_true",
    "check_int_constraints_trans_consistency", "check_numerical_grads", "device_enabled",
    "enabled_targets", "identity_after", "is_ampere_or_newer", "main", "strtobool",
    "terminate_self",
]  # fmt: skip


def _array(value: Any) -> numpy.ndarray:
    return value.numpy() if hasattr(value, "numpy") else numpy.asarray(value)


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Assert that both arrays (numpy, NDArray) have one shape and are close."""
    actual, desired = _array(actual), _array(desired)
    numpy.testing.assert_allclose(actual.shape, desired.shape)
    numpy.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)


def assert_prim_expr_equal(lhs: PrimExpr, rhs: PrimExpr) -> None:
    """Assert that both expressions are provably equal."""
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
    """Assert that gradients agree with central differences of ``function``, element by element.

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
    """True if code for a target can be compiled and run on this machine."""
    try:
        chosen = Target(target)
        record = find_back_end(chosen)
        runs_on_host = record is not None and not record.is_device
        return runs_on_host or bool(device(chosen.kind.name).exist)
    except TilesmithError:
        return False


DEFAULT_TEST_TARGETS = ["llvm"]
"""The targets that tests run for unless they name others."""


def enabled_targets() -> list[tuple[str, Device]]:
    """Return pairs of target and device that tests can use on this machine."""
    return [(target, cpu()) for target in DEFAULT_TEST_TARGETS]


def check_bool_expr_is_true(
    bool_expr: PrimExpr, vranges: dict[Any, Any], cond: PrimExpr | None = None
) -> None:
    """Assert that a condition holds for all values of its variables (where ``cond`` holds), by
    trying them.

    ``vranges`` maps each variable to its Range, whose ends are constants. Raises AssertionError
    with the first values for which it does not hold.
    """
    variables = list(vranges)
    ranges = []
    for variable in variables:
        first = int(vranges[variable].min)
        ranges.append(range(first, first + int(vranges[variable].extent)))
    for values in itertools.product(*ranges):
        chosen = {v: const(value, v.dtype) for v, value in zip(variables, values)}
        if cond is not None and not is_const(Analyzer().simplify(substitute(cond, chosen)), 1):
            continue
        if not is_const(Analyzer().simplify(substitute(bool_expr, chosen)), 1):
            counterexample = {v.name: value for v, value in zip(variables, values)}
            raise AssertionError(f"{bool_expr} does not hold for {counterexample}")


def check_int_constraints_trans_consistency(
    constraints_trans: Any, vranges: dict[Any, Any] | None = None
) -> None:
    """Assert, by trying all values, that both directions of an ``arith.IntConstraintsTransform``
    are inverse to each other, and map solutions of the constraints of one side to solutions of the
    other.

    ``vranges`` holds ranges of variables that are not solved for. Raises AssertionError otherwise.
    """
    src, dst = constraints_trans.src, constraints_trans.dst
    to_dst, to_src = dict(constraints_trans.src_to_dst), dict(constraints_trans.dst_to_src)
    _check_direction(dst, src, to_dst, to_src, vranges or {})
    _check_direction(src, dst, to_src, to_dst, vranges or {})


def _check_direction(
    given: Any, other: Any, to_given: dict[Any, Any], to_other: dict[Any, Any], known: dict
) -> None:
    """Check all values of ``given``'s variables; ``to_given`` maps the other side's variables to
    expressions over them.
    """
    ranges = {**known, **dict(given.ranges)}
    fulfilled = _all(given.relations)
    wanted = [substitute(relation, to_given) for relation in other.relations]
    for variable, bounds in dict(other.ranges).items():
        value = substitute(variable, to_given)
        wanted += [value >= bounds.min, value < bounds.min + bounds.extent]
    for variable in given.variables:
        if variable in to_other:
            there_and_back = substitute(to_other[variable], to_given)
            wanted.append(EQ(there_and_back, variable))
    needed = {v: ranges[v] for v in ranges if mentions([fulfilled, *wanted], {v})}
    check_bool_expr_is_true(_all(wanted), needed, fulfilled)


def _all(conditions: Sequence[PrimExpr]) -> PrimExpr:
    result: PrimExpr = const(True, "bool")
    for condition in conditions:
        result = And(result, condition)
    return result


def identity_after(x: Any, sleep: float) -> Any:
    """Return ``x`` after some seconds; for tests of workers."""
    time.sleep(sleep)
    return x


def terminate_self() -> None:
    """End this process with an error code, at once; for tests of workers."""
    os._exit(-1)


def is_ampere_or_newer() -> bool:
    """True if there is a CUDA device of compute capability 8.0 or more."""
    found = device("cuda")
    return bool(found.exist) and float(found.compute_version) >= 8.0


def strtobool(val: str) -> bool:
    """Return the boolean that a text stands for: y, yes, t, true, on, 1 or n, no, f, false, off, 0.

    Raises ValueError for other texts.
    """
    text = val.lower()
    if text in ("y", "yes", "t", "true", "on", "1"):
        return True
    if text in ("n", "no", "f", "false", "off", "0"):
        return False
    raise ValueError(f"'{val}' is neither yes nor no")


def main() -> None:
    """Run the tests of the calling file with pytest; for the last lines of a test file."""
    try:
        import pytest
    except ImportError:
        raise MissingDependencyError("pytest", "dev") from None
    caller = inspect.stack()[1].filename
    sys.exit(pytest.main([caller, *sys.argv[1:]]))
