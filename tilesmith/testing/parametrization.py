"""Makes fixtures from the parameters of tests: ``parameter``, ``parameters``, ``fixture``, choice
of targets.

    size, dtype = tilesmith.testing.parameters((16, "float32"), (512, "float16"))
    layout = tilesmith.testing.parameter("NCHW", "NHWC")

    def test_conv(size, dtype, layout): ...

A test whose arguments are ``target`` and ``dev`` runs for each enabled target; for that the pytest
plugin ``tilesmith.testing.plugin`` has to be loaded (``-p tilesmith.testing.plugin``, or
``pytest_plugins`` in a ``conftest.py``).
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tilesmith.support.errors import MissingDependencyError, TypeMismatchError

__all__ = [
    "exclude_targets", "fixture", "known_failing_targets", "parameter", "parameters",
    "parametrize_targets", "skip_parameterizations", "xfail_parameterizations",
]  # fmt: skip

_numbers = itertools.count()


def _pytest() -> Any:
    try:
        import pytest
    except ImportError:
        raise MissingDependencyError("pytest", "dev") from None
    return pytest


def parameter(
    *values: Any,
    ids: Sequence[str] | Callable[[Any], str] | None = None,
    by_dict: dict[str, Any] | None = None,
) -> Any:
    """Return a fixture that takes each of the values in turn.

    ``ids`` are the texts shown for the values; ``by_dict`` gives both, text → value.
    """
    if by_dict is not None:
        if values or ids is not None:
            raise TypeMismatchError("parameter takes either values or by_dict, not both")
        ids, values = list(by_dict), tuple(by_dict.values())

    def give(*_instance: Any, request: Any) -> Any:
        return request.param

    return _pytest().fixture(params=values, ids=ids)(give)


def parameters(*value_sets: Sequence[Any], ids: Sequence[str] | None = None) -> list[Any]:
    """Return fixtures that vary together: one for each position of the sets.

    Unlike several ``parameter``s no product is made: a test runs once for each set. Raises
    TypeMismatchError for sets of different lengths.
    """
    lengths = {len(values) for values in value_sets}
    if len(lengths) != 1:
        raise TypeMismatchError(f"parameters takes sets of one length, got lengths {lengths}")
    pytest = _pytest()
    shared_name = f"_parameters_{next(_numbers)}"

    def give_all(*_instance: Any, request: Any) -> Any:
        return request.param

    # The fixture that varies has to be found where the others are: in the caller's namespace, which
    # is a module's or a class's.
    namespace = sys._getframe(1).f_locals
    namespace[shared_name] = pytest.fixture(params=value_sets, ids=ids, name=shared_name)(give_all)

    def one(position: int) -> Any:
        def give(*_instance: Any, **fixtures: Any) -> Any:
            return fixtures[shared_name][position]

        give.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter("_instance", inspect.Parameter.VAR_POSITIONAL),
                inspect.Parameter(shared_name, inspect.Parameter.KEYWORD_ONLY),
            ]
        )
        return pytest.fixture(give)

    return [one(position) for position in range(lengths.pop())]


def fixture(func: Callable[..., Any] | None = None, *, cache_return_value: bool = False) -> Any:
    """Make a fixture like ``pytest.fixture``; with ``cache_return_value`` the value is made once
    for equal inputs.

    Each test gets a deep copy of the cached value, so that tests stay independent.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        made = _cached(function) if cache_return_value else function
        return _pytest().fixture(made)

    return decorate if func is None else decorate(func)


def _cached(function: Callable[..., Any]) -> Callable[..., Any]:
    cache: dict[Any, Any] = {}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        key = (args, tuple(sorted(kwargs.items(), key=lambda item: item[0])))
        try:
            known = key in cache
        except TypeError:  # an argument that cannot be hashed
            known, key = repr(key) in cache, repr(key)
        if not known:
            cache[key] = function(*args, **kwargs)
        return copy.deepcopy(cache[key])

    return call


def _targets_of(arguments: Sequence[Any]) -> list[Any]:
    if len(arguments) == 1 and isinstance(arguments[0], (list, tuple)):
        return list(arguments[0])
    return list(arguments)


def _marking(mark: str, arguments: Sequence[Any]) -> Any:
    if len(arguments) == 1 and callable(arguments[0]):
        return arguments[0]  # the decorator without arguments: all enabled targets, as without it
    return getattr(_pytest().mark, mark)(*_targets_of(arguments))


def parametrize_targets(*args: Any) -> Any:
    """Run a test for those of these targets that are enabled, instead of all enabled ones."""
    return _marking("targets_wanted", args)


def exclude_targets(*args: Any) -> Any:
    """Do not run a test for these kinds of targets."""
    return _marking("targets_excluded", args)


def known_failing_targets(*args: Any) -> Any:
    """Expect a test to fail for these kinds of targets."""
    return _marking("targets_failing", args)


def xfail_parameterizations(*xfail_params: Any, reason: str) -> Any:
    """Expect a test to fail for the parameters with these texts (``ids``)."""
    return _by_text(xfail_params, "xfail", reason)


def skip_parameterizations(*skip_params: Any, reason: str) -> Any:
    """Skip a test for the parameters with these texts (``ids``)."""
    return _by_text(skip_params, "skip", reason)


def _by_text(texts: Sequence[Any], what: str, reason: str) -> Any:
    mark = getattr(_pytest().mark, f"{what}_by_text")
    return mark(tuple(str(text) for text in texts), reason)
